// The names, types and shapes in which programs store events in HDF5: e2vid, event_utils, MVSEC and others.
#include "eventio/hdf5_files.hpp"

#include <cmath>

#ifdef CUSIGHT_HAVE_HDF5

using namespace eventio_test;

namespace {

// Events whose times are whole microseconds around a day of the year 2017, as MVSEC's.
Events datedEvents(size_t n, std::mt19937_64 &random) {
    return randomEvents(n, random, 1504645177424598, 50000, 240, 180);
}

std::vector<double> seconds(const Events &e) {
    std::vector<double> t;
    for (const int64_t us : e.t)
        t.push_back(double(us) * 1e-6);
    return t;
}

void addSensor(hid_t file, int64_t height, int64_t width, hid_t type) {
    const hsize_t two = 2;
    const int64_t values[] = {height, width};
    const hid_t pair = H5Screate_simple(1, &two, nullptr),
                attribute = H5Acreate2(file, "sensor_resolution", type, pair, NO, NO);
    H5Awrite(attribute, H5T_NATIVE_INT64, values);
    H5Aclose(attribute);
    H5Sclose(pair);
}

// What h5py makes of bool.
hid_t boolean() {
    const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
    const int8_t no = 0, yes = 1;
    H5Tenum_insert(type, "FALSE", &no);
    H5Tenum_insert(type, "TRUE", &yes);
    return type;
}

template<class T>
void add(hid_t group, const char *name, hid_t stored, hid_t given, const std::vector<T> &values, hsize_t chunk) {
    const hsize_t n = values.size(), most = chunk ? H5S_UNLIMITED : n;
    const hid_t how = chunk ? withLayout(H5D_CHUNKED, chunk) : contiguous(), space = H5Screate_simple(1, &n, &most);
    if (chunk)
        H5Pset_deflate(how, 1);
    const hid_t set = H5Dcreate2(group, name, stored, space, NO, how, NO);
    EXPECT_GE(H5Dwrite(set, given, H5S_ALL, H5S_ALL, NO, values.data()), 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(how);
}

// event_utils and e2vid: signed coordinates, times in seconds, polarity as a boolean.
TEST(EventHdf5Columns, E2vid) {
    Folder at;
    auto random = support::generator();
    for (const H5F_libver_t oldest : {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST})
        for (const hsize_t chunk : {0, 333}) {
            const Events e = datedEvents(3000, random);
            const hid_t file = createHdf5(at / "r.h5", oldest), group = H5Gcreate2(file, "events", NO, NO, NO),
                        truth = boolean();
            addSensor(file, 180, 240, H5T_STD_I64LE);
            add(group, "xs", H5T_STD_I16LE, H5T_NATIVE_UINT16, e.x, chunk);
            add(group, "ys", H5T_STD_I16LE, H5T_NATIVE_UINT16, e.y, chunk);
            add(group, "ts", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, seconds(e), chunk);
            add(group, "ps", truth, truth, e.p, chunk);
            H5Tclose(truth);
            H5Gclose(group);
            H5Fclose(file);
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            EXPECT_EQ(r.info.format, CUS_EVENTS_HDF5);
            EXPECT_STREQ(cusEventFormatName(r.info.format), "HDF5");
            EXPECT_EQ(r.info.width, 240);
            EXPECT_EQ(r.info.height, 180);
            EXPECT_EQ(r.info.first_time, e.t.front());
            ASSERT_EQ(r.all(777), e) << chunk;
            checkPiecesAndSeeks(r, e, random);
        }
}

// MVSEC: rows of four floats, in chunks of any number of columns.
TEST(EventHdf5Columns, Mvsec) {
    Folder at;
    auto random = support::generator();
    const Events e = datedEvents(3000, random);
    std::vector<double> rows;
    for (size_t i = 0; i < e.size(); ++i)
        rows.insert(rows.end(), {double(e.x[i]), double(e.y[i]), double(e.t[i]) * 1e-6, e.p[i] ? 1. : -1.});
    for (const char *camera : {"left", "right"})
        for (const hsize_t columns : {0, 1, 2, 3, 4})
            for (const bool grows : {false, true}) {
                const hid_t file = createHdf5(at / "r.h5", grows ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST);
                const hid_t davis = H5Gcreate2(file, "davis", NO, NO, NO), group = H5Gcreate2(davis, camera, NO, NO, NO);
                const hsize_t shape[] = {e.size(), 4}, chunk[] = {170, columns};
                const hsize_t most[] = {grows ? H5S_UNLIMITED : shape[0], grows && columns < 3 ? H5S_UNLIMITED : 4};
                const hid_t how = contiguous(), space = H5Screate_simple(2, shape, columns ? most : nullptr);
                if (columns) {
                    H5Pset_chunk(how, 2, chunk);
                    H5Pset_shuffle(how);
                    H5Pset_deflate(how, 1);
                }
                const hid_t set = H5Dcreate2(group, "events", H5T_IEEE_F64LE, space, NO, how, NO);
                EXPECT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, NO, rows.data()), 0);
                H5Dclose(set);
                H5Sclose(space);
                H5Pclose(how);
                H5Gclose(group);
                H5Gclose(davis);
                H5Fclose(file);
                Reader r(at / "r.h5");
                ASSERT_EQ(r.opened, CUS_OK) << columns << cusLastError();
                EXPECT_EQ(r.info.format, CUS_EVENTS_MVSEC);
                EXPECT_STREQ(r.info.camera, camera);
                EXPECT_EQ(r.info.width, 346);
                EXPECT_EQ(r.info.height, 260);
                ASSERT_EQ(r.all(777), e) << columns << grows;
                checkPiecesAndSeeks(r, e, random);
            }
}

// Each name that is known, and each type in which a column may be.
TEST(EventHdf5Columns, NamesAndTypes) {
    Folder at;
    auto random = support::generator();
    const std::vector<std::vector<const char *>> names = {
        {"x", "xs"}, {"y", "ys"}, {"p", "ps", "pol", "polarity"}, {"t", "ts", "time", "timestamp"}};
    const Events e = randomEvents(500, random, 0, 50000, 240, 180);
    for (const hid_t type :
         {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_STD_I32BE, H5T_STD_U64LE}) {
        const auto name = [&](int k) { return names[size_t(k)][random() % names[size_t(k)].size()]; };
        const std::string x = name(0), y = name(1), p = name(2), t = name(3);
        const hid_t file = createHdf5(at / "r.h5"), group = H5Gcreate2(file, "events", NO, NO, NO);
        add(group, x.c_str(), type, H5T_NATIVE_UINT16, e.x, 70);
        add(group, y.c_str(), type, H5T_NATIVE_UINT16, e.y, 0);
        add(group, p.c_str(), type, H5T_NATIVE_UINT8, e.p, 70);
        if (H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) == 8)
            add(group, t.c_str(), type, H5T_NATIVE_DOUBLE, seconds(e), 50);
        else
            add(group, t.c_str(), H5T_STD_U32LE, H5T_NATIVE_INT64, e.t, 50);
        H5Gclose(group);
        H5Fclose(file);
        Reader r(at / "r.h5");
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
        EXPECT_EQ(r.info.format, x + y + p + t == "xypt" ? CUS_EVENTS_DSEC : CUS_EVENTS_HDF5);
        ASSERT_EQ(r.all(99), e) << x << y << p << t;
    }
}

// Halves are frames' alone: too few numbers for pixels.
TEST(EventHdf5Columns, HalvesAreRefused) {
    Folder at;
    const hid_t half = H5Tcopy(H5T_IEEE_F32LE), file = createHdf5(at / "r.h5"),
                group = H5Gcreate2(file, "events", NO, NO, NO);
    H5Tset_fields(half, 15, 10, 5, 0, 10);
    H5Tset_size(half, 2);
    H5Tset_ebias(half, 15);
    for (const char *name : {"x", "y", "p", "t"})
        add(group, name, *name == 'y' ? half : H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, std::vector<double>(10, 1.), 0);
    H5Tclose(half);
    H5Gclose(group);
    H5Fclose(file);
    Reader r(at / "r.h5");
    EXPECT_EQ(r.opened, CUS_ERROR_FORMAT);
    EXPECT_NE(std::string(cusLastError()).find("has numbers of 16 bits in 2 bytes"), std::string::npos) << cusLastError();
}

// Floats that are no pixel, polarity or time.
TEST(EventHdf5Columns, FloatsOutOfRange) {
    Folder at;
    const double infinity = INFINITY, none = NAN;
    for (const double bad : {none, infinity, -infinity, 1e300, -1e300, 9.3e18, -2., 70000.})
        for (const char *column : {"x", "p", "t"})
            for (const hsize_t chunk : {0, 4}) {
                const hid_t file = createHdf5(at / "r.h5"), group = H5Gcreate2(file, "events", NO, NO, NO);
                for (const char *name : {"x", "y", "p", "t"}) {
                    std::vector<double> values(10, 1.);
                    values[5] = std::string(name) == column ? bad : 1.;
                    add(group, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values, chunk);
                }
                H5Gclose(group);
                H5Fclose(file);
                Reader r(at / "r.h5");
                ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
                cusStatus status = CUS_OK;
                const size_t got = r.all(100, &status).size();
                CUS_EXPECT_OK(cusEventReaderSeekIndex(r.reader, 0)); // the same in pieces, whatever the chunks
                cusStatus again = CUS_OK;
                EXPECT_EQ(r.all(3, &again).size(), got) << bad << column;
                EXPECT_EQ(again, status);
                if (bad == 70000. && std::string(column) == "t") { // less than a day
                    EXPECT_EQ(status, CUS_ERROR_FORMAT);           // the next event is earlier
                    EXPECT_EQ(got, 6u);
                } else {
                    EXPECT_EQ(status, CUS_ERROR_FORMAT) << bad << column;
                    EXPECT_EQ(got, 5u) << bad << column;
                }
            }
}

// Values that are not numbers, and tables of another shape.
TEST(EventHdf5Columns, OtherTypes) {
    Folder at;
    const auto openedWith = [&](const char *path, hid_t type, int rank, std::vector<hsize_t> shape) {
        const hid_t file = createHdf5(at / "r.h5"), links = H5Pcreate(H5P_LINK_CREATE);
        H5Pset_create_intermediate_group(links, 1);
        const hid_t space = H5Screate_simple(rank, shape.data(), nullptr);
        H5Dclose(H5Dcreate2(file, path, type, space, links, NO, NO));
        H5Sclose(space);
        H5Pclose(links);
        H5Fclose(file);
        return Reader(at / "r.h5").opened;
    };
    CUS_REJECTS(openedWith("events/xs", H5T_C_S1, 1, {9}), FORMAT, "dataset xs is not of a numeric type");
    CUS_REJECTS(openedWith("events/xs", H5T_IEEE_F64LE, 2, {9, 4}), FORMAT, "dataset xs is not one-dimensional");
    CUS_REJECTS(openedWith("events/xs", H5T_IEEE_F64LE, 1, {9}), FORMAT, "has no dataset /events/y");
    CUS_REJECTS(openedWith("davis/left/events", H5T_IEEE_F64LE, 2, {9, 5}), FORMAT, "nor of the shape events x 4");
    CUS_REJECTS(openedWith("davis/left/events", H5T_IEEE_F64LE, 3, {9, 4, 1}), FORMAT, "nor of the shape events x 4");
    CUS_REJECTS(openedWith("davis/middle/events", H5T_IEEE_F64LE, 2, {9, 4}), FORMAT, "nor /davis/left/events");
    const hid_t bits = H5Tcopy(H5T_STD_U16LE);
    H5Tset_precision(bits, 11);
    CUS_REJECTS(openedWith("events/xs", bits, 1, {9}), FORMAT, "dataset xs has numbers of 11 bits in 2 bytes");
    H5Tclose(bits);
}

} // namespace

#endif

// Recordings made with libhdf5, stored in every way that it has.
#pragma once

#include "eventio/support.hpp"

#include <functional>

#ifdef CUSIGHT_HAVE_HDF5

namespace eventio_test {

constexpr hsize_t N = 1000;
inline const hid_t NO = H5P_DEFAULT;

inline hid_t typeOf(const std::string &name) {
    return name == "p"                                                 ? H5T_STD_U8LE
           : name == "t" || name == "t_offset" || name == "resolution" ? H5T_STD_I64LE
                                                                       : H5T_STD_U16LE;
}

// The n values of a dataset in its type.
inline Bytes valuesOf(const std::string &name, size_t n) {
    Bytes bytes;
    for (size_t i = 0; i < n; ++i)
        reference::append(bytes,
                          name == "t"            ? i
                          : name == "p"          ? i % 2
                          : name == "resolution" ? 600 + i
                                                 : i % 400,
                          H5Tget_size(typeOf(name)));
    return bytes;
}

// Makes a dataset; how: a creation property list, which it closes.
inline hid_t addDataset(hid_t group, const std::string &name, hid_t how, hsize_t n = N, bool write = true) {
    const hsize_t most = H5Pget_layout(how) == H5D_CHUNKED ? H5S_UNLIMITED : n; // a chunk may be larger than the dataset
    const hid_t space = H5Screate_simple(1, &n, &most);
    const hid_t set = H5Dcreate2(group, name.c_str(), typeOf(name), space, NO, how, NO);
    if (write && set > 0)
        H5Dwrite(set, typeOf(name), H5S_ALL, H5S_ALL, NO, valuesOf(name, n).data());
    H5Sclose(space);
    H5Pclose(how);
    return set;
}
inline hid_t contiguous() {
    return H5Pcreate(H5P_DATASET_CREATE);
}
inline hid_t withLayout(H5D_layout_t layout, hsize_t chunk = N) {
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(how, layout);
    if (layout == H5D_CHUNKED)
        H5Pset_chunk(how, 1, &chunk);
    return how;
}

inline void writeChunk(hid_t set, hsize_t first, uint32_t skipped_filters, const Bytes &bytes) {
    EXPECT_GE(H5Dwrite_chunk(set, NO, skipped_filters, &first, bytes.size(), bytes.data()), 0);
}

// Writes other bytes for a chunk that a dataset has. Another length comes first: libhdf5 keeps the filters of a chunk whose length stays.
inline void overwriteChunk(const std::string &path, const char *name, hsize_t first, uint32_t skipped_filters,
                           const Bytes &bytes) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, NO), set = H5Dopen2(file, name, NO);
    writeChunk(set, first, skipped_filters, Bytes(bytes.size() + 4099));
    writeChunk(set, first, skipped_filters, bytes);
    H5Dclose(set);
    H5Fclose(file);
}

using Maker = std::function<void(hid_t group, const std::string &name, hsize_t n)>;
inline void plain(hid_t group, const std::string &name, hsize_t n) {
    H5Dclose(addDataset(group, name, contiguous(), n));
}

// A recording, in which `make` makes the dataset `special`.
inline void writeRecording(const std::string &path, bool dsec, const std::string &special, const Maker &make) {
    const hid_t file = createHdf5(path);
    const hid_t top = H5Gcreate2(file, dsec ? "events" : "prophesee", NO, NO, NO);
    const hid_t group = dsec ? H5Gopen2(file, "events", NO) : H5Gcreate2(top, "left", NO, NO, NO);
    for (const char *name : {"x", "y", "p", "t"})
        (special == name ? make : Maker(plain))(group, name, N);
    if (special == "t_offset")
        make(file, special, 1);
    if (special == "resolution") {
        const hid_t calib = H5Gcreate2(group, "calib", NO, NO, NO);
        make(calib, special, 2);
        H5Gclose(calib);
    }
    if (special == "ms_map_idx")
        make(group, special, 5);
    H5Gclose(group);
    H5Gclose(top);
    H5Fclose(file);
}

// A recording of DSEC whose four columns `make` makes.
inline void writeDsec(const std::string &path, const Maker &make, hsize_t n = N,
                      H5F_libver_t oldest = H5F_LIBVER_EARLIEST) {
    const hid_t file = createHdf5(path, oldest), group = H5Gcreate2(file, "events", NO, NO, NO);
    for (const char *name : {"x", "y", "p", "t"})
        make(group, name, n);
    H5Gclose(group);
    H5Fclose(file);
}

// Chunks with these filters, in this order, with the options of each.
inline Maker filtered(std::vector<int> filters, hsize_t chunk) {
    return [filters, chunk](hid_t group, const std::string &name, hsize_t n) {
        const hid_t how = withLayout(H5D_CHUNKED, chunk);
        for (const int filter : filters) {
            const unsigned level = 9;
            H5Pset_filter(how, filter, H5Z_FLAG_OPTIONAL, filter == H5Z_FILTER_DEFLATE, &level);
        }
        H5Dclose(addDataset(group, name, how, n));
    };
}

} // namespace eventio_test

#endif

/* Opening an HDF5 recording: the groups of M3ED and DSEC, their datasets, and how these are stored. The HDF5 lock is held
 * throughout. */
#ifdef CUSI_WITH_HDF5
#include "check.h"
#include "eventio_codec.h"
#include "eventio_hdf5_reader.h"

#include <string.h>

/* Limits on what a file may claim, since libhdf5 would allocate memory for it. */
enum {
    ACCEPTED_CHUNK = 64 << 20, /* bytes: smaller chunks are accepted in a file of any size */
    MAX_RATIO = 1100           /* no filter used here compresses events more */
};

/* Whether `name` is an object of this type. Soft and external links are not followed: a recording must not open other files. */
static int contains(hid_t parent, const char *name, H5O_type_t type) {
    H5L_info_t link;
    if (H5Lexists(parent, name, H5P_DEFAULT) <= 0 || H5Lget_info(parent, name, &link, H5P_DEFAULT) < 0 ||
        link.type != H5L_TYPE_HARD)
        return 0;
    H5O_info_t about;
    return H5Oget_info_by_name(parent, name, &about, H5P_DEFAULT) >= 0 && about.type == type;
}

/* Reads n integers from a small dataset. 0: it is missing or has another type or size. */
static int readNumbers(hid_t parent, const char *name, int n, int64_t *values) {
    if (!contains(parent, name, H5O_TYPE_DATASET))
        return 0;
    const hid_t dataset = H5Dopen2(parent, name, H5P_DEFAULT), space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    const int good = H5Tget_class(type) == H5T_INTEGER && H5Sget_simple_extent_npoints(space) == n &&
                     H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
    return good;
}

static const char *packageOf(int filter) {
    switch (filter) {
    case EVENTIO_FILTER_LZF:
        return "LZF: Debian's hdf5-plugin-lzf";
    case EVENTIO_FILTER_BLOSC:
        return "Blosc: Debian's hdf5-filter-plugin-blosc-serial";
    case 307:
    case 32004:
    case 32008:
        return "BZip2, LZ4 and Bitshuffle: Debian's hdf5-filter-plugin";
    case 32013:
        return "ZFP: Debian's hdf5-filter-plugin-zfp-serial";
    case 32015:
    case 32026:
        return "Zstandard and Blosc2: Python's hdf5plugin, with its folder in HDF5_PLUGIN_PATH";
    default:
        return "registered at portal.hdfgroup.org; put its folder into HDF5_PLUGIN_PATH";
    }
}

/* Which filters were applied to the chunks. c->chunk becomes 0 if libhdf5 has to decode them. */
static cusStatus inspectFilters(Column *c, hid_t properties) {
    const int n = H5Pget_nfilters(properties);
    int decodable = n <= EVENTIO_MAX_FILTERS, missing = 0;
    for (int k = 0; k < n; ++k) {
        unsigned flags, values[16];
        size_t value_count = 16;
        const int filter = H5Pget_filter2(properties, (unsigned)k, &flags, &value_count, values, 0, NULL, NULL);
        const int known = filter == H5Z_FILTER_SHUFFLE || filter == EVENTIO_FILTER_LZF ||
                          (filter == EVENTIO_FILTER_BLOSC && eventio_bloscDecode(NULL, 0, NULL, 0) >= 0);
        decodable = decodable && known;
        if (k < EVENTIO_MAX_FILTERS)
            c->filters[k] = filter;
        if (!missing && !known && (filter < 0 || H5Zfilter_avail(filter) <= 0))
            missing = filter;
    }
    c->filter_count = n;
    if (!decodable) {
        for (int k = 0; !missing && k < n && k < EVENTIO_MAX_FILTERS; ++k)
            if (H5Zfilter_avail(c->filters[k]) <= 0)
                missing = c->filters[k];
        CUSI_REQUIRE(!missing, CUS_ERROR_UNSUPPORTED,
                     "cusEventReaderOpen: %s is stored with HDF5 filter %d, which is not installed (%s)",
                     eventio_columnName[c->which], missing, packageOf(missing));
        c->chunk = 0;
    }
    return CUS_OK;
}

/* How the chunks of a column are stored: whether the reader can decode them, and whether their size is credible. */
static cusStatus inspectChunks(const Hdf5Reader *h, Column *c, hid_t properties, int is_little_endian) {
    hsize_t chunk = 0;
    if (H5Pget_layout(properties) != H5D_CHUNKED || H5Pget_chunk(properties, 1, &chunk) != 1)
        return CUS_OK;
    const int right_size =
        c->which == EVENTIO_T ? c->element == 8 || c->element == 4 : c->element == eventio_deliveredSize[c->which];
    const int right_sign = c->which == EVENTIO_P || c->which == EVENTIO_T || !c->is_signed;
    const uint64_t bytes = (uint64_t)chunk * c->element, file_bytes = h->source.source->size;
    c->chunk = is_little_endian && right_size && right_sign ? (size_t)chunk : 0;
    CUS_TRY(inspectFilters(c, properties));
    CUSI_REQUIRE(bytes <= ACCEPTED_CHUNK || bytes / MAX_RATIO <= file_bytes, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s has chunks of %llu bytes in a file of %llu bytes", eventio_columnName[c->which],
                 (unsigned long long)bytes, (unsigned long long)file_bytes);
    return CUS_OK;
}

static cusStatus inspectColumn(const Hdf5Reader *h, Column *c) {
    const hid_t space = H5Dget_space(c->dataset), type = H5Dget_type(c->dataset),
                properties = H5Dget_create_plist(c->dataset);
    const int rank = H5Sget_simple_extent_ndims(space), integer = H5Tget_class(type) == H5T_INTEGER;
    hsize_t length = 0;
    if (rank == 1)
        H5Sget_simple_extent_dims(space, &length, NULL);
    c->length = length;
    c->element = H5Tget_size(type);
    c->is_signed = H5Tget_sign(type) == H5T_SGN_2;
    const int elsewhere = H5Pget_layout(properties) == H5D_VIRTUAL || H5Pget_external_count(properties) > 0;
    const cusStatus status =
        rank == 1 && integer && !elsewhere
            ? inspectChunks(h, c, properties, H5Tget_order(type) == H5T_ORDER_LE)
            : cusi_fail(CUS_ERROR_FORMAT,
                        "cusEventReaderOpen: dataset %s is %s, expected one dimension of integers within the file",
                        eventio_columnName[c->which],
                        rank != 1  ? "not one-dimensional"
                        : !integer ? "not of an integer type"
                                   : "stored in another file");
    H5Pclose(properties);
    H5Tclose(type);
    H5Sclose(space);
    return status;
}

static cusStatus openColumns(Hdf5Reader *h, hid_t group, const char *path) {
    h->count = UINT64_MAX;
    for (int k = 0; k < EVENTIO_COLUMNS; ++k) {
        Column *c = &h->column[k];
        c->which = k;
        CUSI_REQUIRE(contains(group, eventio_columnName[k], H5O_TYPE_DATASET), CUS_ERROR_FORMAT,
                     "cusEventReaderOpen: the HDF5 file has no dataset %s/%s", path, eventio_columnName[k]);
        c->dataset = H5Dopen2(group, eventio_columnName[k], H5P_DEFAULT);
        CUSI_REQUIRE(c->dataset > 0, CUS_ERROR_FORMAT, "cusEventReaderOpen: HDF5 cannot open %s/%s", path,
                     eventio_columnName[k]);
        CUS_TRY(inspectColumn(h, c));
        h->count = c->length < h->count ? c->length : h->count;
    }
    /* An event has 13 bytes; more events than this cannot be in the file, however well they compress. */
    CUSI_REQUIRE(h->count / MAX_RATIO <= h->source.source->size / 8, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s claims %llu events in a file of %llu bytes", path, (unsigned long long)h->count,
                 (unsigned long long)h->source.source->size);
    return CUS_OK;
}

static cusStatus openM3ed(cusEventReader *reader, Hdf5Reader *h, hid_t group) {
    const char *requested = reader->options.camera;
    const char *camera = requested ? requested : contains(group, "left", H5O_TYPE_GROUP) ? "left" : "right";
    CUSI_REQUIRE(contains(group, camera, H5O_TYPE_GROUP), CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the HDF5 file has /prophesee, but no camera \"%s\" in it", camera);
    const hid_t recording = H5Gopen2(group, camera, H5P_DEFAULT);
    int64_t size[2];
    reader->info.width = 1280;
    reader->info.height = 720;
    if (contains(recording, "calib", H5O_TYPE_GROUP)) {
        const hid_t calib = H5Gopen2(recording, "calib", H5P_DEFAULT);
        if (readNumbers(calib, "resolution", 2, size) && size[0] > 0 && size[0] <= 65536 && size[1] > 0 &&
            size[1] <= 65536) {
            reader->info.width = (int)size[0];
            reader->info.height = (int)size[1];
        }
        H5Gclose(calib);
    }
    strncpy(reader->info.camera, camera, sizeof reader->info.camera - 1);
    char path[64] = "/prophesee/";
    strncat(path, camera, 31);
    const cusStatus status = openColumns(h, recording, path);
    H5Gclose(recording);
    return status;
}

static cusStatus openDsec(cusEventReader *reader, Hdf5Reader *h, hid_t group) {
    reader->info.width = 640;
    reader->info.height = 480;
    readNumbers(h->file, "t_offset", 1, &h->time_offset);
    return openColumns(h, group, "/events");
}

static cusStatus openGroup(cusEventReader *reader, Hdf5Reader *h, const char *name, cusEventFormat format) {
    reader->info.format = format;
    const hid_t group = H5Gopen2(h->file, name, H5P_DEFAULT);
    const cusStatus status = format == CUS_EVENTS_M3ED ? openM3ed(reader, h, group) : openDsec(reader, h, group);
    H5Gclose(group);
    return status;
}

cusStatus eventio_openDatasets(cusEventReader *reader, Hdf5Reader *h) {
    Hdf5Source *source = &h->source;
    h->driver = eventio_hdf5Driver();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_driver(access, h->driver, &source);
    h->file = H5Fopen("recording", H5F_ACC_RDONLY, access);
    H5Pclose(access);
    const cusStatus broken = source->past_end ? CUS_ERROR_TRUNCATED : CUS_ERROR_FORMAT;
    CUSI_REQUIRE(h->file > 0, broken, "cusEventReaderOpen: HDF5 cannot open the file: %s",
                 broken == CUS_ERROR_TRUNCATED ? "it ends within its header" : "its header is damaged");
    cusStatus status = CUS_OK;
    if (contains(h->file, "prophesee", H5O_TYPE_GROUP))
        status = openGroup(reader, h, "prophesee", CUS_EVENTS_M3ED);
    else if (contains(h->file, "events", H5O_TYPE_GROUP))
        status = openGroup(reader, h, "events", CUS_EVENTS_DSEC);
    else
        status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: the HDF5 file has neither /prophesee nor /events, so it "
                                             "is not a recording of M3ED or DSEC");
    CUSI_REQUIRE(status != CUS_ERROR_FORMAT || !source->past_end, CUS_ERROR_TRUNCATED,
                 "cusEventReaderOpen: the HDF5 file ends at byte %llu, before the description of its datasets at byte %llu",
                 (unsigned long long)reader->source.size, (unsigned long long)source->past_end);
    return status;
}
#else
typedef int eventio_hdf5_open_is_empty;
#endif

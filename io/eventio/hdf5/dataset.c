/* Finds a dataset of an HDF5 recording and how it is stored. Opens nothing outside the file, and checks what the file
 * claims before libhdf5 acts on it. The caller holds the HDF5 lock. */
#include "check.h"
#ifdef CUSI_WITH_HDF5
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/columns.h"
#include "eventio/hdf5/guard.h"

#include <errno.h>
#include <string.h>

cusStatus eventio_findObject(Hdf5Reader *h, hid_t parent, const char *name, H5O_type_t type, ObjectPlace *place) {
    H5L_info_t link;
    H5O_info_t about;
    *place = OBJECT_MISSING;
    eventio_beginHdf5(&h->source);
    const htri_t exists = H5Lexists(parent, name, H5P_DEFAULT);
    herr_t done = exists > 0 ? H5Lget_info(parent, name, &link, H5P_DEFAULT) : (herr_t)exists;
    if (exists > 0 && done >= 0 && link.type != H5L_TYPE_HARD) {
        *place = OBJECT_LINKED;
        return CUS_OK;
    }
    /* Ask for the basic facts only: the others make libhdf5 walk through the index of all chunks. */
    if (exists > 0 && done >= 0)
        done = H5Oget_info_by_name2(parent, name, &about, H5O_INFO_BASIC, H5P_DEFAULT);
    if (done < 0)
        CUS_TRY(eventio_hdf5Failure(&h->source, "cusEventReaderOpen"));
    CUSI_REQUIRE(done >= 0 || !h->source.metadata_refused, CUS_ERROR_CAPACITY,
                 "cusEventReaderOpen: HDF5 has to read more than %d bytes of metadata to find %s", EVENTIO_METADATA_BYTES,
                 name);
    CUSI_REQUIRE(done >= 0, CUS_ERROR_FORMAT, "cusEventReaderOpen: HDF5 cannot look for %s", name);
    if (exists > 0 && type == H5O_TYPE_DATASET && about.type == type) {
        const int good = eventio_datasetIsGood(h->source.source, eventio_hdf5Base(&h->source), about.addr);
        CUSI_REQUIRE(good >= 0, CUS_ERROR_IO, "cusEventReaderOpen: the file cannot be read: %s", strerror(errno));
        CUSI_REQUIRE(good, CUS_ERROR_FORMAT,
                     "cusEventReaderOpen: dataset %s has chunks without an extent in each dimension", name);
    }
    if (exists > 0)
        *place = about.type == type ? OBJECT_FOUND : OBJECT_OF_OTHER_TYPE;
    return CUS_OK;
}

/* Reports a failed query: its answer is unknown, not "absent". */
static cusStatus checkQuery(const Hdf5Reader *h, int result, const char *what, const char *name) {
    if (result >= 0)
        return CUS_OK;
    CUS_TRY(eventio_hdf5Failure(&h->source, "cusEventReaderOpen"));
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: HDF5 cannot read the %s of %s", what, name);
}

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

static const char *packageOf(int filter) {
    switch (filter) {
    case EVENTIO_FILTER_LZF:
        return "LZF: Debian's hdf5-plugin-lzf";
    case EVENTIO_FILTER_BLOSC:
        return "Blosc: Debian's hdf5-filter-plugin-blosc-serial";
    case H5Z_FILTER_SZIP:
    case H5Z_FILTER_NBIT:
    case H5Z_FILTER_SCALEOFFSET:
        return "part of libhdf5, if it was built with it";
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

static int isCompression(int filter) {
    return filter == EVENTIO_FILTER_DEFLATE || filter == EVENTIO_FILTER_LZF || filter == EVENTIO_FILTER_BLOSC;
}

/* Whether this reader decodes the filter. */
static int isDecodable(int filter) {
    return filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_FLETCHER32 || filter == EVENTIO_FILTER_LZF ||
           (filter == EVENTIO_FILTER_BLOSC && eventio_bloscDecode(NULL, 0, NULL, 0) >= 0) ||
           (filter == EVENTIO_FILTER_DEFLATE && eventio_deflateDecode((const uint8_t *)"", 0, (uint8_t[1]){0}, 1) != -1);
}

/* Finds the filters of the chunks. Those decoded here may occur once each, with one compression, so that no step gives more
 * than a chunk. Other filters need a caller who trusts the file. */
static cusStatus inspectFilters(const Hdf5Reader *h, Column *c, hid_t properties) {
    const int n = H5Pget_nfilters(properties);
    const char *name = eventio_columnName[c->which];
    CUS_TRY(checkQuery(h, n, "filters", name));
    int compressions = 0, repeated = 0, foreign = 0;
    c->filter_count = 0;
    for (int k = 0; k < n; ++k) {
        unsigned flags, values[1];
        size_t value_count = 1;
        const int filter = H5Pget_filter2(properties, (unsigned)k, &flags, &value_count, values, 0, NULL, NULL);
        CUS_TRY(checkQuery(h, filter, "filters", name));
        compressions += isCompression(filter);
        for (int j = 0; j < c->filter_count; ++j)
            repeated = repeated || c->filters[j] == filter;
        if (!isDecodable(filter) && !foreign)
            foreign = filter;
        if (c->filter_count < EVENTIO_MAX_FILTERS)
            c->filters[c->filter_count++] = filter;
        if (h->plugins)
            CUSI_REQUIRE(isDecodable(filter) || H5Zfilter_avail(filter) > 0, CUS_ERROR_UNSUPPORTED,
                         "cusEventReaderOpen: %s is stored with HDF5 filter %d, which is not installed (%s)", name, filter,
                         packageOf(filter));
    }
    const int bounded = !foreign && !repeated && compressions <= 1 && n <= EVENTIO_MAX_FILTERS;
    if (h->plugins) {
        for (int k = 0; !bounded && k < c->filter_count; ++k)
            CUSI_REQUIRE(H5Zfilter_avail(c->filters[k]) > 0, CUS_ERROR_UNSUPPORTED,
                         "cusEventReaderOpen: %s is stored with HDF5 filter %d, which is not installed (%s)", name,
                         c->filters[k], packageOf(c->filters[k]));
        c->storage = bounded ? STORED_IN_CHUNKS : STORED_FOR_LIBHDF5;
        return CUS_OK;
    }
    CUSI_REQUIRE(
        !foreign, CUS_ERROR_UNSUPPORTED,
        "cusEventReaderOpen: %s is stored with HDF5 filter %d, which needs the option plugins and the filter installed "
        "(%s)",
        name, foreign, packageOf(foreign));
    CUSI_REQUIRE(bounded, CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderOpen: %s is stored with %d HDF5 filters, %d of them compression, expected at most one of "
                 "deflate, LZF and Blosc, one shuffle and one fletcher32",
                 name, n, compressions);
    c->storage = STORED_IN_CHUNKS;
    return CUS_OK;
}

/* ---- Layout -------------------------------------------------------------------------------------------------------- */

/* Call it before asking for the dataspace: for a virtual dataset, H5Dget_space opens the files that it names. */
static cusStatus checkWithinFile(const Hdf5Reader *h, hid_t properties, const char *name, H5D_layout_t *layout) {
    *layout = H5Pget_layout(properties);
    CUS_TRY(checkQuery(h, *layout, "layout", name));
    const int external = H5Pget_external_count(properties);
    CUS_TRY(checkQuery(h, external, "layout", name));
    CUSI_REQUIRE(*layout != H5D_VIRTUAL && external == 0, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s is %s, expected it within the file", name,
                 *layout == H5D_VIRTUAL ? "virtual, made of datasets of other files" : "stored in another file");
    CUSI_REQUIRE(*layout == H5D_COMPACT || *layout == H5D_CONTIGUOUS || *layout == H5D_CHUNKED, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s has layout %d, expected compact, contiguous or chunked", name,
                 (int)*layout);
    return CUS_OK;
}

static cusStatus inspectChunks(const Hdf5Reader *h, Column *c, hid_t properties) {
    hsize_t chunk = 0;
    const char *name = eventio_columnName[c->which];
    CUSI_REQUIRE(H5Pget_chunk(properties, 1, &chunk) == 1 && chunk, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s has no valid chunks", name);
    CUSI_REQUIRE(chunk <= h->max_chunk / c->element, CUS_ERROR_CAPACITY,
                 "cusEventReaderOpen: %s has chunks of %llu bytes, but the option max_chunk is %zu", name,
                 (unsigned long long)chunk * c->element, h->max_chunk);
    c->chunk = (size_t)chunk;
    return inspectFilters(h, c, properties);
}

static cusStatus inspectType(const Hdf5Reader *h, Column *c, const char *name, hid_t type) {
    CUS_TRY(checkQuery(h, type > 0 ? H5Tget_class(type) : -1, "type", name));
    CUSI_REQUIRE(
        H5Tget_class(type) == H5T_INTEGER, CUS_ERROR_FORMAT,
        "cusEventReaderOpen: dataset %s is not of an integer type, expected one dimension of integers within the file",
        name);
    c->element = H5Tget_size(type);
    const H5T_sign_t sign = H5Tget_sign(type);
    CUS_TRY(checkQuery(h, sign, "type", name));
    c->is_signed = sign == H5T_SGN_2;
    c->is_big_endian = c->element > 1 && H5Tget_order(type) == H5T_ORDER_BE;
    CUSI_REQUIRE((c->element == 1 || c->element == 2 || c->element == 4 || c->element == 8) && H5Tget_offset(type) == 0 &&
                     H5Tget_precision(type) == 8 * c->element &&
                     (c->element == 1 || c->is_big_endian || H5Tget_order(type) == H5T_ORDER_LE),
                 CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s has integers of %zu bits in %zu bytes, expected 8, 16, 32 or 64 "
                 "bits without padding",
                 name, H5Tget_precision(type), c->element);
    return CUS_OK;
}

/* libhdf5 reads a compact dataset without asking how many bytes are there. */
static int isCompactWhole(hid_t dataset, uint64_t length, size_t element) {
    return length <= UINT16_MAX && H5Dget_storage_size(dataset) >= length * element;
}

static cusStatus inspectExtent(const Hdf5Reader *h, Column *c, const char *name, hid_t space) {
    const int rank = space > 0 ? H5Sget_simple_extent_ndims(space) : -1;
    CUS_TRY(checkQuery(h, rank, "extent", name));
    CUSI_REQUIRE(
        rank == 1, CUS_ERROR_FORMAT,
        "cusEventReaderOpen: dataset %s is not one-dimensional, expected one dimension of integers within the file", name);
    hsize_t length = 0;
    CUS_TRY(checkQuery(h, H5Sget_simple_extent_dims(space, &length, NULL), "extent", name));
    c->length = length;
    return CUS_OK;
}

/* *address is UINT64_MAX if the contiguous dataset was never written. */
static cusStatus inspectAddress(const Hdf5Reader *h, hid_t dataset, const char *name, uint64_t *address) {
    const haddr_t offset = H5Dget_offset(dataset);
    *address = offset == HADDR_UNDEF ? UINT64_MAX : (uint64_t)offset;
    if (offset != HADDR_UNDEF)
        return CUS_OK;
    H5D_space_status_t written = H5D_SPACE_STATUS_ERROR; /* the offset is the same after a failure */
    const int known = H5Dget_space_status(dataset, &written) >= 0 && written == H5D_SPACE_STATUS_NOT_ALLOCATED;
    return checkQuery(h, known ? 0 : -1, "address", name);
}

static cusStatus inspectColumn(Hdf5Reader *h, Column *c, hid_t properties) {
    const char *name = eventio_columnName[c->which];
    H5D_layout_t layout;
    CUS_TRY(checkWithinFile(h, properties, name, &layout));
    const hid_t space = H5Dget_space(c->dataset);
    cusStatus status = inspectExtent(h, c, name, space);
    H5Sclose(space);
    CUS_TRY(status);
    const hid_t type = H5Dget_type(c->dataset);
    status = inspectType(h, c, name, type);
    H5Tclose(type);
    CUS_TRY(status);
    if (layout == H5D_CHUNKED)
        return inspectChunks(h, c, properties);
    c->storage = layout == H5D_COMPACT ? STORED_FOR_LIBHDF5 : STORED_CONTIGUOUSLY;
    if (layout == H5D_CONTIGUOUS)
        return inspectAddress(h, c->dataset, name, &c->address);
    CUSI_REQUIRE(isCompactWhole(c->dataset, c->length, c->element), CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s holds fewer bytes than its %llu elements need", name,
                 (unsigned long long)c->length);
    return CUS_OK;
}

/* Gets the properties of a dataset, or reports why it could not be opened: call it right after H5Dopen2. */
static cusStatus getProperties(const Hdf5Reader *h, hid_t dataset, const char *path, const char *name, hid_t *properties) {
    *properties = dataset > 0 ? H5Dget_create_plist(dataset) : -1;
    if (*properties > 0)
        return CUS_OK;
    CUS_TRY(eventio_hdf5Failure(&h->source, "cusEventReaderOpen"));
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: HDF5 cannot open %s/%s", path, name);
}

cusStatus eventio_openColumn(Hdf5Reader *h, hid_t group, const char *path, Column *c) {
    const char *name = eventio_columnName[c->which];
    ObjectPlace place;
    CUS_TRY(eventio_findObject(h, group, name, H5O_TYPE_DATASET, &place));
    CUSI_REQUIRE(place != OBJECT_LINKED, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s/%s is a soft or external link, expected a dataset within the file", path, name);
    CUSI_REQUIRE(place == OBJECT_FOUND, CUS_ERROR_FORMAT, "cusEventReaderOpen: the HDF5 file has no dataset %s/%s", path,
                 name);
    eventio_beginHdf5(&h->source);
    c->dataset = H5Dopen2(group, name, H5P_DEFAULT);
    hid_t properties;
    CUS_TRY(getProperties(h, c->dataset, path, name, &properties));
    const cusStatus status = inspectColumn(h, c, properties);
    H5Pclose(properties);
    return status;
}

/* ---- Small datasets ------------------------------------------------------------------------------------------------ */

/* Reads the stored bytes of n elements; contiguous ones without libhdf5, whose buffer for them overflows in damaged
 * files. */
static cusStatus readSmall(Hdf5Reader *h, hid_t dataset, const char *name, H5D_layout_t layout, hid_t type, const Column *c,
                           uint64_t n, uint8_t *bytes) {
    const size_t size = (size_t)n * c->element;
    uint64_t address;
    eventio_beginHdf5(&h->source);
    if (layout == H5D_CONTIGUOUS) {
        CUS_TRY(inspectAddress(h, dataset, name, &address));
        const int64_t got = address == UINT64_MAX ? 0 : eventio_readAt(h->source.source, address, bytes, size);
        CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderOpen: the file cannot be read at byte %llu: %s",
                     (unsigned long long)address, strerror(errno));
        CUSI_REQUIRE((size_t)got == size, CUS_ERROR_TRUNCATED,
                     "cusEventReaderOpen: %s is not in the file, which ends at byte %llu", name,
                     (unsigned long long)h->source.source->size);
        return CUS_OK;
    }
    CUSI_REQUIRE(isCompactWhole(dataset, n, c->element), CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s holds fewer bytes than its %llu elements need", name,
                 (unsigned long long)n);
    return checkQuery(h, H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes), "values", name);
}

static cusStatus readOpened(Hdf5Reader *h, hid_t dataset, const char *name, int n, int64_t *values, int *found) {
    enum { MOST = 2 };
    hid_t properties;
    H5D_layout_t layout;
    Column c = {0};
    uint8_t bytes[8 * MOST];
    CUS_TRY(getProperties(h, dataset, "", name, &properties));
    cusStatus status = checkWithinFile(h, properties, name, &layout);
    H5Pclose(properties);
    CUS_TRY(status);
    CUSI_REQUIRE(layout != H5D_CHUNKED, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s is stored in chunks, expected contiguous or compact", name);
    const hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    const int fits = n <= MOST && H5Tget_class(type) == H5T_INTEGER && H5Sget_simple_extent_npoints(space) == n;
    H5Sclose(space);
    status =
        fits ? inspectType(h, &c, name, type)
             : cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: dataset %s has another type or size, expected %d integer%s",
                         name, n, n == 1 ? "" : "s");
    if (status == CUS_OK)
        status = readSmall(h, dataset, name, layout, type, &c, (uint64_t)n, bytes);
    H5Tclose(type);
    CUS_TRY(status);
    for (int i = 0; i < n; ++i) {
        int negative;
        const uint64_t value = eventio_loadElement(&c, bytes + (size_t)i * c.element, &negative);
        values[i] = !negative && value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
    *found = 1;
    return CUS_OK;
}

cusStatus eventio_readNumbers(Hdf5Reader *h, hid_t parent, const char *name, int n, int64_t *values, int *found) {
    ObjectPlace place;
    *found = 0;
    CUS_TRY(eventio_findObject(h, parent, name, H5O_TYPE_DATASET, &place));
    CUSI_REQUIRE(place != OBJECT_LINKED, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s is a soft or external link, expected a dataset within the file", name);
    if (place != OBJECT_FOUND)
        return CUS_OK;
    eventio_beginHdf5(&h->source);
    const hid_t dataset = H5Dopen2(parent, name, H5P_DEFAULT);
    const cusStatus status = readOpened(h, dataset, name, n, values, found);
    if (dataset > 0)
        H5Dclose(dataset);
    return status;
}
#endif

/* Finds a dataset of an HDF5 recording and how it is stored, and makes tables of it. Opens nothing outside the file. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/columns.h"

#include <errno.h>
#include <string.h>

cusStatus eventio_findObject(Hdf5Reader *h, uint64_t group, const char *path, Hdf5Kind *kind, uint64_t *address) {
    *kind = HDF5_GROUP;
    *address = group;
    for (const char *at = path; *at && *kind == HDF5_GROUP;) {
        char name[64] = "";
        const size_t n = strcspn(at, "/");
        memcpy(name, at, n < sizeof name ? n : sizeof name - 1);
        CUS_TRY(eventio_hdf5Find(&h->file, *address, name, kind, address));
        at += n;
        if (*at && *kind != HDF5_GROUP && *kind != HDF5_ELSEWHERE)
            *kind = HDF5_MISSING;
        at += *at == '/';
    }
    return CUS_OK;
}

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

static int isCompression(unsigned filter) {
    return filter == EVENTIO_FILTER_DEFLATE || filter == EVENTIO_FILTER_LZF || filter == EVENTIO_FILTER_BLOSC ||
           filter == EVENTIO_FILTER_LZ4 || filter == EVENTIO_FILTER_ZSTD || filter == EVENTIO_FILTER_ECF;
}

/* Returns the name of a filter that is not decoded. */
static const char *filterName(unsigned filter) {
    switch (filter) {
    case EVENTIO_FILTER_DEFLATE:
        return "deflate: this build lacks zlib";
    case EVENTIO_FILTER_BLOSC:
        return "Blosc: this build lacks libblosc";
    case EVENTIO_FILTER_LZ4:
        return "LZ4: this build lacks liblz4";
    case EVENTIO_FILTER_ZSTD:
        return "zstd: this build lacks libzstd";
    case EVENTIO_FILTER_ECF:
        return "ECF, of another type than Metavision's events";
    case 4:
        return "szip";
    case 5:
        return "n-bit";
    case 6:
        return "scale-offset";
    case 307:
        return "bzip2";
    case 32008:
        return "Bitshuffle";
    case 32013:
        return "ZFP";
    case 32026:
        return "Blosc2";
    default:
        return "registered at portal.hdfgroup.org";
    }
}

/* Returns whether rows are what ECF decodes to. */
static int isEcfRow(const Table *t) {
    static const uint32_t offsets[EVENTIO_COLUMNS] = {0, 2, 4, 8}, sizes[EVENTIO_COLUMNS] = {2, 2, 2, 8};
    int same = t->row == 16 && t->field_count == EVENTIO_COLUMNS;
    for (int k = 0; k < t->field_count && same; ++k) {
        const Hdf5Number *number = &t->field[k].number;
        same = t->field[k].offset == offsets[t->field[k].which] && number->class == HDF5_INTEGER &&
               number->size == sizes[t->field[k].which] && number->is_plain && !number->is_big_endian;
    }
    return same;
}

/* Returns whether this reader decodes the filter, and this build has the library for it. */
static int isDecodable(const Table *t, unsigned filter) {
    uint8_t none[1] = {0};
    switch (filter) {
    case EVENTIO_SHUFFLE:
    case EVENTIO_FLETCHER32:
    case EVENTIO_FILTER_LZF:
        return 1;
    case EVENTIO_FILTER_ECF:
        return isEcfRow(t);
    case EVENTIO_FILTER_DEFLATE:
        return eventio_deflateDecode(none, 0, none, 1) != -1;
    case EVENTIO_FILTER_BLOSC:
        return eventio_bloscDecode(none, 0, none, 1) != -1;
    case EVENTIO_FILTER_LZ4:
        return eventio_lz4Decode(none, 0, none, 1) != -1;
    case EVENTIO_FILTER_ZSTD:
        return eventio_zstdDecode(none, 0, none, 1) != -1;
    default:
        return 0;
    }
}

/* Finds the filters of the chunks. Each may occur once, with one compression, so that no step gives more than a chunk. */
static cusStatus inspectFilters(Table *t) {
    const unsigned n = t->set.filter_count;
    unsigned compressions = 0, repeated = 0, foreign = 0;
    for (unsigned k = 0; k < n; ++k) {
        const unsigned filter = t->set.filters[k].id;
        compressions += (unsigned)isCompression(filter);
        for (unsigned j = 0; j < k; ++j)
            repeated = repeated || t->set.filters[j].id == filter;
        if (!isDecodable(t, filter) && !foreign)
            foreign = filter;
        if (k < EVENTIO_MAX_FILTERS)
            t->filters[k] = (int)filter;
    }
    CUSI_REQUIRE(
        !foreign, CUS_ERROR_UNSUPPORTED,
        "cusEventReaderOpen: %s is stored with HDF5 filter %u (%s); `h5repack -f %s INPUT OUTPUT` rewrites the file, "
        "with that filter installed",
        t->name, foreign, filterName(foreign), isDecodable(t, EVENTIO_FILTER_DEFLATE) ? "GZIP=1" : "NONE");
    CUSI_REQUIRE(!repeated && compressions <= 1 && n <= EVENTIO_MAX_FILTERS, CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderOpen: %s is stored with %u HDF5 filters, %u of them compression, expected at most one of "
                 "deflate, LZF, Blosc, LZ4, zstd and ECF, one shuffle and one fletcher32",
                 t->name, n, compressions);
    t->filter_count = (int)n;
    return CUS_OK;
}

/* ---- Datasets -------------------------------------------------------------------------------------------------------- */

/* Reads what the file says about a dataset, which must be within the file. */
static cusStatus openDataset(Hdf5Reader *h, uint64_t address, const char *name, Hdf5Dataset *set) {
    CUS_TRY(eventio_hdf5Dataset(&h->file, address, name, set));
    CUSI_REQUIRE(set->storage != HDF5_VIRTUAL && !set->is_external, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s is %s, expected it within the file", name,
                 set->storage == HDF5_VIRTUAL ? "virtual, made of datasets of other files" : "stored in another file");
    return CUS_OK;
}

static cusStatus checkNumber(const char *name, const Hdf5Number *number) {
    CUSI_REQUIRE(number->class == HDF5_INTEGER || number->class == HDF5_FLOAT, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s is not of a numeric type, expected one dimension of integers or floats",
                 name);
    CUSI_REQUIRE(number->is_plain && (number->class == HDF5_INTEGER || number->size > 2), CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s has numbers of %u bits in %u bytes, expected integers of 8, 16, 32 or 64 "
                 "bits or floats of 32 or 64 bits, without padding",
                 name, number->bits, (unsigned)number->size);
    return CUS_OK;
}

/* Finds where the n elements of a dataset without chunks are in the source. *address is UINT64_MAX if they were never
 * written. The file may end before them. */
static cusStatus findElements(const Hdf5Reader *h, const Hdf5Dataset *set, const char *name, uint64_t n,
                              uint64_t *address) {
    const uint64_t size = set->type.number.size;
    *address = UINT64_MAX;
    if (set->address == hdf5_nowhere)
        return CUS_OK;
    CUSI_REQUIRE(n <= ((uint64_t)1 << 62) / size && (!set->bytes || set->bytes >= n * size), CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s holds fewer bytes than its %llu elements need", name,
                 (unsigned long long)n);
    const cusStatus status = eventio_hdf5Within(&h->file, set->address, n * size, name);
    if (status != CUS_OK && status != CUS_ERROR_TRUNCATED)
        return status;
    *address = h->file.base + set->address;
    return CUS_OK;
}

/* Sets the storage of a table whose type, shape and fields are known. */
static cusStatus inspectStorage(const Hdf5Reader *h, Table *t) {
    const Hdf5Dataset *set = &t->set;
    uint64_t others = 1; /* elements of the dataset in each row */
    for (unsigned i = 1; i < set->rank; ++i)
        others *= set->shape[i];
    t->length = set->shape[0];
    t->is_chunked = set->storage == HDF5_CHUNKED;
    if (!t->is_chunked) {
        CUSI_REQUIRE(t->length <= ((uint64_t)1 << 56), CUS_ERROR_FORMAT, "cusEventReaderOpen: %s claims %llu events",
                     t->name, (unsigned long long)t->length);
        return findElements(h, set, t->name, t->length * others, &t->address);
    }
    CUSI_REQUIRE(set->chunk_bytes <= h->max_chunk, CUS_ERROR_CAPACITY,
                 "cusEventReaderOpen: %s has chunks of %llu bytes, but the option max_chunk is %zu", t->name,
                 (unsigned long long)set->chunk_bytes, h->max_chunk);
    t->chunk = (size_t)set->chunk[0];
    return inspectFilters(t);
}

static Table *newTable(Hdf5Reader *h, const char *name) {
    Table *t = &h->table[h->table_count++];
    t->name = name;
    return t;
}

/* Names that programs give the columns; those of M3ED and DSEC first. */
enum { MAX_NAMES = 4 };
typedef const char *ColumnNames[EVENTIO_COLUMNS][MAX_NAMES];
static const ColumnNames column_names = {
    {"x", "xs"}, {"y", "ys"}, {"p", "ps", "pol", "polarity"}, {"t", "ts", "time", "timestamp"}};
static const ColumnNames trigger_names = {{"id"}, {NULL}, {"p"}, {"t"}}; /* no y */

cusStatus eventio_addColumn(Hdf5Reader *h, uint64_t group, const char *path, int which) {
    Hdf5Kind kind = HDF5_MISSING;
    uint64_t address = 0;
    const char *name = column_names[which][0];
    for (int i = 0; i < MAX_NAMES && column_names[which][i] && kind != HDF5_DATASET; ++i) {
        name = column_names[which][i];
        CUS_TRY(eventio_findObject(h, group, name, &kind, &address));
        CUSI_REQUIRE(kind != HDF5_ELSEWHERE, CUS_ERROR_FORMAT,
                     "cusEventReaderOpen: %s/%s is a soft or external link, expected a dataset within the file", path,
                     name);
    }
    CUSI_REQUIRE(kind == HDF5_DATASET, CUS_ERROR_FORMAT, "cusEventReaderOpen: the HDF5 file has no dataset %s/%s", path,
                 column_names[which][0]);
    Table *t = newTable(h, name);
    CUS_TRY(openDataset(h, address, name, &t->set));
    CUSI_REQUIRE(
        t->set.rank == 1 && !t->set.is_null, CUS_ERROR_FORMAT,
        "cusEventReaderOpen: dataset %s is not one-dimensional, expected one dimension of integers within the file", name);
    CUS_TRY(checkNumber(name, &t->set.type.number));
    t->row = t->set.type.number.size;
    t->field_count = 1;
    t->field[0] = (Field){which, 0, t->set.type.number};
    return inspectStorage(h, t);
}

static const Hdf5Member *findMember(const Hdf5Type *type, const char *name) {
    for (unsigned k = 0; k < type->member_count; ++k)
        if (strcmp(type->member[k].name, name) == 0)
            return &type->member[k];
    return NULL;
}

/* Adds a compound with a member for each column that has a name. */
static cusStatus addCompound(Hdf5Reader *h, Table *t, const ColumnNames *all) {
    const Hdf5Type *type = &t->set.type;
    CUSI_REQUIRE(
        t->set.rank == 1 && type->number.class == HDF5_COMPOUND, CUS_ERROR_FORMAT,
        "cusEventReaderOpen: dataset %s is neither one dimension of compounds of numbers nor of the shape events x 4",
        t->name);
    t->row = type->number.size;
    CUSI_REQUIRE(t->row <= 4096, CUS_ERROR_FORMAT, "cusEventReaderOpen: dataset %s has compounds of %zu bytes", t->name,
                 t->row);
    for (int which = 0; which < EVENTIO_COLUMNS; ++which) {
        const char *const *names = (*all)[which];
        const Hdf5Member *member = NULL;
        if (!names[0])
            continue;
        for (int i = 0; i < MAX_NAMES && names[i] && !member; ++i)
            member = findMember(type, names[i]);
        CUSI_REQUIRE(member, CUS_ERROR_FORMAT, "cusEventReaderOpen: dataset %s has no member %s", t->name, names[0]);
        CUS_TRY(checkNumber(t->name, &member->number));
        t->field[t->field_count++] = (Field){which, member->offset, member->number};
    }
    return inspectStorage(h, t);
}

/* Adds a table for the columns of each chunk of a two-dimensional dataset. */
static cusStatus addPlane(Hdf5Reader *h, Table *t) {
    static const int order[EVENTIO_COLUMNS] = {EVENTIO_X, EVENTIO_Y, EVENTIO_T, EVENTIO_P};
    const Hdf5Dataset set = t->set;
    const Hdf5Number number = set.type.number;
    CUS_TRY(checkNumber(t->name, &number));
    const uint64_t width = set.storage == HDF5_CHUNKED ? set.chunk[1] : EVENTIO_COLUMNS;
    CUSI_REQUIRE(width <= EVENTIO_COLUMNS, CUS_ERROR_FORMAT, "cusEventReaderOpen: dataset %s has chunks of %llu columns",
                 t->name, (unsigned long long)width);
    for (unsigned first = 0; first < EVENTIO_COLUMNS; first += (unsigned)width) {
        if (first) {
            Table *next = newTable(h, t->name);
            next->set = set;
            t = next;
        }
        t->row = width * number.size;
        t->chunk_column = first / width;
        for (unsigned k = first; k < first + width && k < EVENTIO_COLUMNS; ++k)
            t->field[t->field_count++] = (Field){order[k], (k - first) * number.size, number};
        CUS_TRY(inspectStorage(h, t));
    }
    return CUS_OK;
}

cusStatus eventio_addRows(Hdf5Reader *h, uint64_t dataset, const char *name) {
    Table *t = newTable(h, name);
    CUS_TRY(openDataset(h, dataset, name, &t->set));
    CUSI_REQUIRE(!t->set.is_null, CUS_ERROR_FORMAT, "cusEventReaderOpen: dataset %s has no elements", name);
    return t->set.rank == 2 && t->set.shape[1] == EVENTIO_COLUMNS ? addPlane(h, t) : addCompound(h, t, &column_names);
}

cusStatus eventio_addTriggers(Hdf5Reader *h, uint64_t dataset, const char *name) {
    Table *t = newTable(h, name);
    CUS_TRY(openDataset(h, dataset, name, &t->set));
    CUSI_REQUIRE(!t->set.is_null, CUS_ERROR_FORMAT, "cusEventReaderOpen: dataset %s has no elements", name);
    return addCompound(h, t, &trigger_names);
}

/* ---- Small datasets ------------------------------------------------------------------------------------------------ */

static cusStatus readSmall(Hdf5Reader *h, const Hdf5Dataset *set, const char *name, uint64_t n, uint8_t *bytes) {
    const size_t size = (size_t)n * set->type.number.size;
    uint64_t address;
    CUS_TRY(findElements(h, set, name, n, &address));
    const int64_t got = address == UINT64_MAX ? 0 : eventio_readAt(h->file.source, address, bytes, size);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderOpen: the file cannot be read at byte %llu: %s",
                 (unsigned long long)address, strerror(errno));
    CUSI_REQUIRE((size_t)got == size, CUS_ERROR_TRUNCATED,
                 "cusEventReaderOpen: %s is not in the file, which ends at byte %llu", name,
                 (unsigned long long)h->file.source->size);
    return CUS_OK;
}

cusStatus eventio_readNumbers(Hdf5Reader *h, uint64_t group, const char *name, int n, int64_t *values, int *found) {
    enum { MAX_ELEMENTS = 2 };
    Hdf5Kind kind;
    uint64_t address;
    Hdf5Dataset set;
    uint8_t bytes[8 * MAX_ELEMENTS];
    *found = 0;
    CUS_TRY(eventio_findObject(h, group, name, &kind, &address));
    CUSI_REQUIRE(kind != HDF5_ELSEWHERE, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s is a soft or external link, expected a dataset within the file", name);
    if (kind != HDF5_DATASET)
        return CUS_OK;
    CUS_TRY(openDataset(h, address, name, &set));
    CUSI_REQUIRE(set.storage != HDF5_CHUNKED, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: dataset %s is stored in chunks, expected contiguous or compact", name);
    const Hdf5Number *number = &set.type.number;
    const uint64_t elements = set.is_null ? 0 : set.rank == 0 ? 1 : set.rank == 1 ? set.shape[0] : UINT64_MAX;
    CUSI_REQUIRE(n <= MAX_ELEMENTS && elements == (uint64_t)n && number->class == HDF5_INTEGER && number->is_plain,
                 CUS_ERROR_FORMAT, "cusEventReaderOpen: dataset %s has another type or size, expected %d integer%s", name,
                 n, n == 1 ? "" : "s");
    CUS_TRY(readSmall(h, &set, name, elements, bytes));
    for (int i = 0; i < n; ++i) {
        int negative;
        const uint64_t value = eventio_loadInteger(number, bytes + (size_t)i * number->size, &negative);
        values[i] = !negative && value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
    *found = 1;
    return CUS_OK;
}

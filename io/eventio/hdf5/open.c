/* Opens an HDF5 recording: the groups of M3ED and DSEC, their datasets, the resolution and the time offset. The caller holds
 * the HDF5 lock. */
#include "check.h"
#ifdef CUSI_WITH_HDF5
#include "eventio/hdf5/columns.h"

#include <stdlib.h>
#include <string.h>

/* The greatest compression ratio of events. No filter used here exceeds it, so greater claims are false. */
enum { MAX_RATIO = 1100 };

static cusStatus openColumns(Hdf5Reader *h, hid_t group, const char *path) {
    h->count = UINT64_MAX;
    for (int k = 0; k < EVENTIO_COLUMNS; ++k) {
        Column *c = &h->column[k];
        c->which = k;
        CUS_TRY(eventio_openColumn(h, group, path, c));
        h->count = c->length < h->count ? c->length : h->count;
    }
    /* An event has 13 bytes; the file cannot hold more events than this, however well they compress. */
    CUSI_REQUIRE(h->count / MAX_RATIO <= h->source.source->size / 8, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s claims %llu events in a file of %llu bytes", path, (unsigned long long)h->count,
                 (unsigned long long)h->source.source->size);
    return CUS_OK;
}

/* *group is -1 if there is no such group within the file. */
static cusStatus openGroup(Hdf5Reader *h, hid_t parent, const char *name, hid_t *group) {
    ObjectPlace place;
    *group = -1;
    CUS_TRY(eventio_findObject(h, parent, name, H5O_TYPE_GROUP, &place));
    CUSI_REQUIRE(place != OBJECT_LINKED, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the group %s is a soft or external link, expected a group within the file", name);
    if (place != OBJECT_FOUND)
        return CUS_OK;
    eventio_beginHdf5(&h->source);
    *group = H5Gopen2(parent, name, H5P_DEFAULT);
    if (*group > 0)
        return CUS_OK;
    CUS_TRY(eventio_hdf5Failure(&h->source, "cusEventReaderOpen"));
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderOpen: HDF5 cannot open the group %s", name);
}

/* Reads calib/resolution and uses it if it is a possible sensor. */
static cusStatus readResolution(cusEventReader *reader, Hdf5Reader *h, hid_t recording) {
    hid_t calib;
    int found;
    int64_t size[2];
    CUS_TRY(openGroup(h, recording, "calib", &calib));
    if (calib < 0)
        return CUS_OK;
    const cusStatus status = eventio_readNumbers(h, calib, "resolution", 2, size, &found);
    H5Gclose(calib);
    if (status == CUS_OK && found && size[0] > 0 && size[0] <= 65536 && size[1] > 0 && size[1] <= 65536) {
        reader->info.width = (int)size[0];
        reader->info.height = (int)size[1];
    }
    return status;
}

static cusStatus openM3ed(cusEventReader *reader, Hdf5Reader *h, hid_t group) {
    const char *requested = reader->options.camera;
    const char *camera = requested ? requested : "left";
    hid_t recording;
    CUS_TRY(openGroup(h, group, camera, &recording));
    if (recording < 0 && !requested) {
        camera = "right";
        CUS_TRY(openGroup(h, group, camera, &recording));
    }
    CUSI_REQUIRE(recording > 0, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the HDF5 file has /prophesee, but no camera \"%s\" in it",
                 requested ? requested : "left\" or \"right");
    reader->info.format = CUS_EVENTS_M3ED;
    reader->info.width = 1280;
    reader->info.height = 720;
    strncpy(reader->info.camera, camera, sizeof reader->info.camera - 1);
    char path[64] = "/prophesee/";
    strncat(path, camera, 31);
    cusStatus status = readResolution(reader, h, recording);
    if (status == CUS_OK)
        status = openColumns(h, recording, path);
    H5Gclose(recording);
    return status;
}

static cusStatus openDsec(cusEventReader *reader, Hdf5Reader *h, hid_t group) {
    int found;
    reader->info.format = CUS_EVENTS_DSEC;
    reader->info.width = 640;
    reader->info.height = 480;
    CUS_TRY(eventio_readNumbers(h, h->file, "t_offset", 1, &h->time_offset, &found));
    return openColumns(h, group, "/events");
}

/* Rejects Metavision's own HDF5, whose compression only its plugin decodes. */
static cusStatus refuseMetavision(Hdf5Reader *h) {
    hid_t group;
    CUS_TRY(openGroup(h, h->file, "CD", &group));
    if (group < 0)
        return CUS_OK;
    H5Gclose(group);
    return cusi_fail(CUS_ERROR_UNSUPPORTED,
                     "cusEventReaderOpen: the HDF5 file is Metavision's (/CD, compressed with ECF), expected M3ED or DSEC; "
                     "convert it with metavision_file_to_dat -i FILE or metavision_file_to_csv -i FILE");
}

static cusStatus openRecording(cusEventReader *reader, Hdf5Reader *h) {
    hid_t group;
    CUS_TRY(openGroup(h, h->file, "prophesee", &group));
    const int is_m3ed = group > 0;
    if (!is_m3ed)
        CUS_TRY(openGroup(h, h->file, "events", &group));
    if (group < 0)
        CUS_TRY(refuseMetavision(h));
    CUSI_REQUIRE(
        group > 0, CUS_ERROR_FORMAT,
        "cusEventReaderOpen: the HDF5 file has neither /prophesee nor /events, so it is not a recording of M3ED or "
        "DSEC");
    const cusStatus status = is_m3ed ? openM3ed(reader, h, group) : openDsec(reader, h, group);
    H5Gclose(group);
    return status;
}

/* Makes the properties to open the file with: the driver, a small cache of metadata, and libhdf5's permission (as h5clear
 * uses it) to open a file that is shorter than its header says, since the events before its end can be read. Negative:
 * failed. */
static hid_t accessProperties(Hdf5Reader *h, Hdf5Source *const *source) {
    enum { CACHE_BYTES = 4 << 20 };
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    size_t size = 0;
    const hbool_t skip = 1;
    if (H5Pset_driver(access, h->driver, source) < 0) { /* without it, libhdf5 would look for a file of that name */
        H5Pclose(access);
        return -1;
    }
    if (H5Pget_mdc_config(access, &cache) >= 0) {
        cache.max_size = CACHE_BYTES;
        cache.initial_size = cache.initial_size < CACHE_BYTES ? cache.initial_size : CACHE_BYTES;
        H5Pset_mdc_config(access, &cache);
    }
    if (H5Pexist(access, "skip_eof_check") > 0 && H5Pget_size(access, "skip_eof_check", &size) >= 0 && size == sizeof skip)
        H5Pset(access, "skip_eof_check", &skip);
    return access;
}

/* H5Fopen of libhdf5 1.10 crashes if its cache cannot be allocated, so ask first. */
static int hasMemoryToOpen(void) {
    enum { NEEDED = 4 << 20 };
    void *volatile probe = malloc(NEEDED);
    free(probe);
    return probe != NULL;
}

/* Whether the superblock, if it is at the start of the file, has one of the versions that exist, or the file ends before it. */
static int versionIsKnown(const EventSource *source) {
    enum { AT = 8, NEWEST = 3 };
    uint8_t version;
    return eventio_readAt(source, AT, &version, 1) != 1 || version <= NEWEST;
}

cusStatus eventio_openDatasets(cusEventReader *reader, Hdf5Reader *h) {
    Hdf5Source *source = &h->source;
    CUSI_REQUIRE(hasMemoryToOpen(), CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    h->driver = eventio_hdf5Driver();
    const hid_t access = accessProperties(h, &source);
    CUSI_REQUIRE(access > 0, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory in libhdf5");
    eventio_beginHdf5(source);
    h->file = H5Fopen("recording", H5F_ACC_RDONLY, access);
    cusStatus status = h->file > 0 ? CUS_OK : eventio_hdf5Failure(source, "cusEventReaderOpen");
    H5Pclose(access);
    CUS_TRY(status);
    /* libhdf5 1.14 asks for a whole superblock before it looks at the version. */
    const int is_cut = eventio_hdf5PastEnd(source) && versionIsKnown(source->source);
    const cusStatus broken = is_cut ? CUS_ERROR_TRUNCATED : CUS_ERROR_FORMAT;
    CUSI_REQUIRE(h->file > 0, broken, "cusEventReaderOpen: HDF5 cannot open the file: %s",
                 broken == CUS_ERROR_TRUNCATED ? "it ends within its header" : "its header is damaged");
    status = openRecording(reader, h);
    CUSI_REQUIRE(status != CUS_ERROR_FORMAT || !eventio_hdf5PastEnd(source), CUS_ERROR_TRUNCATED,
                 "cusEventReaderOpen: the HDF5 file ends at byte %llu of %llu, before the description of its datasets",
                 (unsigned long long)reader->source.size, (unsigned long long)eventio_hdf5PastEnd(source));
    return status;
}
#endif

/* Opens an HDF5 recording: the groups of M3ED and DSEC, their datasets, the resolution and the time offset. */
#include "check.h"
#include "eventio/hdf5/columns.h"

#include <stdlib.h>
#include <string.h>

/* The greatest compression ratio of events. No filter used here exceeds it, so greater claims are false. */
enum { MAX_RATIO = 1100 };

/* Sets the number of events, that of the shortest table. */
static cusStatus setCount(Hdf5Reader *h, const char *path) {
    h->count = UINT64_MAX;
    for (int k = 0; k < h->table_count; ++k)
        h->count = h->table[k].length < h->count ? h->table[k].length : h->count;
    /* An event has 13 bytes; the file cannot hold more events than this, however well they compress. */
    CUSI_REQUIRE(h->count / MAX_RATIO <= h->file.source->size / 8, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: %s claims %llu events in a file of %llu bytes", path, (unsigned long long)h->count,
                 (unsigned long long)h->file.source->size);
    return CUS_OK;
}

static cusStatus openColumns(Hdf5Reader *h, uint64_t group, const char *path) {
    for (int k = 0; k < EVENTIO_COLUMNS; ++k)
        CUS_TRY(eventio_addColumn(h, group, path, eventio_columnName[k], k));
    return setCount(h, path);
}

/* *found 0: there is no such group within the file. */
static cusStatus openGroup(Hdf5Reader *h, uint64_t parent, const char *name, uint64_t *group, int *found) {
    Hdf5Kind kind;
    CUS_TRY(eventio_findObject(h, parent, name, &kind, group));
    CUSI_REQUIRE(kind != HDF5_ELSEWHERE, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the group %s is a soft or external link, expected a group within the file", name);
    *found = kind == HDF5_GROUP;
    return CUS_OK;
}

/* Reads calib/resolution and uses it if it is a possible sensor. */
static cusStatus readResolution(cusEventReader *reader, Hdf5Reader *h, uint64_t recording) {
    uint64_t calib;
    int found;
    int64_t size[2];
    CUS_TRY(openGroup(h, recording, "calib", &calib, &found));
    if (!found)
        return CUS_OK;
    CUS_TRY(eventio_readNumbers(h, calib, "resolution", 2, size, &found));
    if (found && size[0] > 0 && size[0] <= 65536 && size[1] > 0 && size[1] <= 65536) {
        reader->info.width = (int)size[0];
        reader->info.height = (int)size[1];
    }
    return CUS_OK;
}

static cusStatus openM3ed(cusEventReader *reader, Hdf5Reader *h, uint64_t group) {
    const char *requested = reader->options.camera;
    const char *camera = requested ? requested : "left";
    uint64_t recording;
    int found;
    CUS_TRY(openGroup(h, group, camera, &recording, &found));
    if (!found && !requested) {
        camera = "right";
        CUS_TRY(openGroup(h, group, camera, &recording, &found));
    }
    CUSI_REQUIRE(found, CUS_ERROR_FORMAT, "cusEventReaderOpen: the HDF5 file has /prophesee, but no camera \"%s\" in it",
                 requested ? requested : "left\" or \"right");
    reader->info.format = CUS_EVENTS_M3ED;
    reader->info.width = 1280;
    reader->info.height = 720;
    strncpy(reader->info.camera, camera, sizeof reader->info.camera - 1);
    char path[64] = "/prophesee/";
    strncat(path, camera, 31);
    CUS_TRY(readResolution(reader, h, recording));
    return openColumns(h, recording, path);
}

static cusStatus openDsec(cusEventReader *reader, Hdf5Reader *h, uint64_t group) {
    static const int64_t most = (int64_t)1 << 62;
    int found;
    reader->info.format = CUS_EVENTS_DSEC;
    reader->info.width = 640;
    reader->info.height = 480;
    CUS_TRY(eventio_readNumbers(h, h->file.root, "t_offset", 1, &h->time_offset, &found));
    CUSI_REQUIRE(h->time_offset > -most && h->time_offset < most, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: t_offset is %lld us, expected less than 2^62", (long long)h->time_offset);
    return openColumns(h, group, "/events");
}

/* Rejects Metavision's own HDF5, whose compression only its plugin decodes. */
static cusStatus refuseMetavision(Hdf5Reader *h) {
    uint64_t group;
    int found;
    CUS_TRY(openGroup(h, h->file.root, "CD", &group, &found));
    return found
               ? cusi_fail(CUS_ERROR_UNSUPPORTED,
                           "cusEventReaderOpen: the HDF5 file is Metavision's (/CD, compressed with ECF), expected M3ED or "
                           "DSEC; convert it with metavision_file_to_dat -i FILE or metavision_file_to_csv -i FILE")
               : CUS_OK;
}

cusStatus eventio_openDatasets(cusEventReader *reader, Hdf5Reader *h) {
    uint64_t group;
    int found;
    CUS_TRY(openGroup(h, h->file.root, "prophesee", &group, &found));
    if (found)
        return openM3ed(reader, h, group);
    CUS_TRY(openGroup(h, h->file.root, "events", &group, &found));
    if (found)
        return openDsec(reader, h, group);
    CUS_TRY(refuseMetavision(h));
    return cusi_fail(
        CUS_ERROR_FORMAT,
        "cusEventReaderOpen: the HDF5 file has neither /prophesee nor /events, so it is not a recording of M3ED "
        "or DSEC");
}

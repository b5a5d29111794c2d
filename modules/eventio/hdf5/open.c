/* Opens an HDF5 recording: the groups and datasets of each layout, the sensor's size and the time offset. */
#include "check.h"
#include "eventio/hdf5/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The greatest compression ratio of events. No filter used here exceeds it, so greater claims are false. */
enum { MAX_RATIO = 1100 };

/* Sets the number of events to that of the shortest table. */
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
        CUS_TRY(eventio_addColumn(h, group, path, k));
    return setCount(h, path);
}

/* Opens a group. *found 0: there is none within the file. */
static cusStatus openGroup(Hdf5Reader *h, uint64_t parent, const char *name, uint64_t *group, int *found) {
    Hdf5Kind kind;
    CUS_TRY(eventio_findObject(h, parent, name, &kind, group));
    CUSI_REQUIRE(kind != HDF5_ELSEWHERE, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the group %s is a soft or external link, expected a group within the file", name);
    *found = kind == HDF5_GROUP;
    return CUS_OK;
}

/* Opens a dataset. *found 0: there is none within the file. */
static cusStatus openDataset(Hdf5Reader *h, const char *path, uint64_t *dataset, int *found) {
    Hdf5Kind kind;
    CUS_TRY(eventio_findObject(h, h->file.root, path, &kind, dataset));
    CUSI_REQUIRE(kind != HDF5_ELSEWHERE, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the dataset /%s is a soft or external link, expected a dataset within the file",
                 path);
    *found = kind == HDF5_DATASET;
    return CUS_OK;
}

/* Uses a size if it is that of a possible sensor. */
static void setSize(cusEventReader *reader, int64_t width, int64_t height) {
    if (width > 0 && width <= 65536 && height > 0 && height <= 65536) {
        reader->info.width = (int)width;
        reader->info.height = (int)height;
    }
}

static cusStatus readResolution(cusEventReader *reader, Hdf5Reader *h, uint64_t recording) {
    uint64_t calib;
    int found;
    int64_t size[2];
    CUS_TRY(openGroup(h, recording, "calib", &calib, &found));
    if (!found)
        return CUS_OK;
    CUS_TRY(eventio_readNumbers(h, calib, "resolution", 2, size, &found));
    if (found)
        setSize(reader, size[0], size[1]);
    return CUS_OK;
}

/* Reads the file's attribute sensor_resolution: height and width. */
static cusStatus readSensorResolution(cusEventReader *reader, Hdf5Reader *h) {
    uint8_t values[32];
    Hdf5Number number;
    unsigned count;
    int negative[2];
    CUS_TRY(eventio_hdf5Integers(&h->file, h->file.root, "sensor_resolution", values, sizeof values, &number, &count));
    if (count < 2)
        return CUS_OK;
    const uint64_t height = eventio_loadInteger(&number, values, &negative[0]),
                   width = eventio_loadInteger(&number, values + number.size, &negative[1]);
    if (height <= 65536 && width <= 65536)
        setSize(reader, (int64_t)width, (int64_t)height);
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
    setSize(reader, 1280, 720);
    strncpy(reader->info.camera, camera, sizeof reader->info.camera - 1);
    char path[64] = "/prophesee/";
    strncat(path, camera, 31);
    CUS_TRY(readResolution(reader, h, recording));
    return openColumns(h, recording, path);
}

/* Opens DSEC, if the datasets are x, y, p and t; other names are those of e2vid and others. */
static cusStatus openEvents(cusEventReader *reader, Hdf5Reader *h, uint64_t group) {
    static const int64_t most = (int64_t)1 << 62;
    int found;
    CUS_TRY(eventio_readNumbers(h, h->file.root, "t_offset", 1, &h->time_offset, &found));
    CUSI_REQUIRE(h->time_offset > -most && h->time_offset < most, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: t_offset is %lld us, expected less than 2^62", (long long)h->time_offset);
    CUS_TRY(openColumns(h, group, "/events"));
    int is_dsec = 1;
    for (int k = 0; k < EVENTIO_COLUMNS; ++k)
        is_dsec = is_dsec && strcmp(h->table[k].name, eventio_columnName[k]) == 0;
    reader->info.format = is_dsec ? CUS_EVENTS_DSEC : CUS_EVENTS_HDF5;
    if (is_dsec)
        setSize(reader, 640, 480);
    return readSensorResolution(reader, h);
}

/* Opens MVSEC: rows of x, y, t, p as floats. */
static cusStatus openMvsec(cusEventReader *reader, Hdf5Reader *h, const char *camera, uint64_t dataset) {
    reader->info.format = CUS_EVENTS_MVSEC;
    setSize(reader, 346, 260);
    strncpy(reader->info.camera, camera, sizeof reader->info.camera - 1);
    CUS_TRY(eventio_addRows(h, dataset, "/davis"));
    return setCount(h, "/davis");
}

/* Tries MVSEC. *found 0: it is not, or has no such camera. */
static cusStatus tryMvsec(cusEventReader *reader, Hdf5Reader *h, int *found) {
    static const char *const cameras[] = {"left", "right"};
    const char *requested = reader->options.camera;
    uint64_t dataset;
    *found = 0;
    for (int k = 0; k < 2; ++k) {
        char path[64];
        snprintf(path, sizeof path, "davis/%.31s/events", requested ? requested : cameras[k]);
        CUS_TRY(openDataset(h, path, &dataset, found));
        if (*found)
            return openMvsec(reader, h, requested ? requested : cameras[k], dataset);
    }
    return CUS_OK;
}

/* Opens Metavision's own HDF5: /CD/events has x, y, p and t in one compound type; the file's attribute geometry is
 * "1280x720". */
static cusStatus openMetavision(cusEventReader *reader, Hdf5Reader *h, uint64_t dataset) {
    char geometry[32], *rest;
    int found;
    reader->info.format = CUS_EVENTS_METAVISION;
    CUS_TRY(eventio_hdf5Text(&h->file, h->file.root, "geometry", geometry, sizeof geometry, &found));
    const long width = strtol(geometry, &rest, 10);
    if (*rest == 'x')
        setSize(reader, width, strtol(rest + 1, NULL, 10));
    CUS_TRY(eventio_addRows(h, dataset, "/CD/events"));
    return setCount(h, "/CD/events");
}

cusStatus eventio_openTriggerDataset(Hdf5Reader *h, int *found) {
    uint64_t dataset;
    CUS_TRY(openDataset(h, "EXT_TRIGGER/events", &dataset, found));
    if (!*found)
        return CUS_OK;
    CUS_TRY(eventio_addTriggers(h, dataset, "/EXT_TRIGGER/events"));
    return setCount(h, "/EXT_TRIGGER/events");
}

cusStatus eventio_openDatasets(cusEventReader *reader, Hdf5Reader *h) {
    const char *camera = reader->options.camera;
    uint64_t group, dataset;
    int found;
    CUSI_REQUIRE(!camera || !strchr(camera, '/'), CUS_ERROR_VALUE,
                 "cusEventReaderOpen: camera is \"%s\", expected a name without '/' for HDF5", camera);
    CUS_TRY(openGroup(h, h->file.root, "prophesee", &group, &found));
    if (found)
        return openM3ed(reader, h, group);
    CUS_TRY(openGroup(h, h->file.root, "events", &group, &found));
    if (found)
        return openEvents(reader, h, group);
    CUS_TRY(openDataset(h, "CD/events", &dataset, &found));
    if (found)
        return openMetavision(reader, h, dataset);
    CUS_TRY(tryMvsec(reader, h, &found));
    CUSI_REQUIRE(
        found, CUS_ERROR_FORMAT,
        "cusEventReaderOpen: the HDF5 file has neither /prophesee nor /events nor /CD/events nor /davis/%s/events, so "
        "it is not a recording of M3ED, DSEC, Metavision or MVSEC",
        reader->options.camera ? reader->options.camera : "left");
    return CUS_OK;
}

/* Checks of the reader's options, of the format found and of decoded events. */
#include "eventio/validate.h"
#include "check.h"

#include <string.h>

/* ---- Options and format -------------------------------------------------------------------------------------------- */

enum { MIN_MEMORY = 64 << 20 }; /* smallest value of the option max_memory */

cusEventReaderOptions cusEventReaderDefaults(void) {
    return (cusEventReaderOptions){
        .bad_events = CUS_BAD_EVENTS_STOP, .max_memory = (size_t)1 << 30, .max_chunk = (size_t)64 << 20};
}

cusStatus eventio_checkOptions(const cusEventReaderOptions *options) {
    CUS_TRY(cusi_checkReserved("cusEventReaderOpen", "options->", options->reserved));
    CUSI_REQUIRE((options->width == 0 && options->height == 0) ||
                     (options->width >= 1 && options->width <= 65536 && options->height >= 1 && options->height <= 65536),
                 CUS_ERROR_VALUE, "cusEventReaderOpen: sensor is %d x %d (width x height), expected 0 x 0 or 1..65536 each",
                 options->width, options->height);
    CUSI_REQUIRE(options->format >= CUS_EVENTS_ANY && options->format <= CUS_EVENTS_MCAP, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: format is %d, expected a cusEventFormat", (int)options->format);
    CUSI_REQUIRE(options->bad_events == CUS_BAD_EVENTS_STOP || options->bad_events == CUS_BAD_EVENTS_SKIP, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: bad_events is %d, expected a cusBadEvents", (int)options->bad_events);
    CUSI_REQUIRE(options->threads >= 0 && options->threads <= 1024, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: threads is %d, expected 0..1024", options->threads);
    CUSI_REQUIRE(options->max_memory == 0 || options->max_memory >= MIN_MEMORY, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: max_memory is %zu, expected 0 or %d or more", options->max_memory, MIN_MEMORY);
    CUSI_REQUIRE(options->pin_file == 0 || options->pin_file == 1, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: pin_file is %d, expected 0 or 1", options->pin_file);
    CUSI_REQUIRE(options->max_chunk <= UINT32_MAX, CUS_ERROR_VALUE, "cusEventReaderOpen: max_chunk is %zu, expected 0..%lu",
                 options->max_chunk, (unsigned long)UINT32_MAX);
    CUSI_REQUIRE(options->plugins == 0, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: plugins is %d, expected 0: HDF5 filters are no longer decoded by plugins; "
                 "`h5repack -f GZIP=1 INPUT OUTPUT` rewrites the file, with the filter installed",
                 options->plugins);
    CUSI_REQUIRE(!options->camera || (options->camera[0] && strlen(options->camera) < 32), CUS_ERROR_VALUE,
                 "cusEventReaderOpen: camera is \"%.40s\", expected a name of 1 to 31 characters", options->camera);
    return CUS_OK;
}

cusStatus eventio_checkFormat(const cusEventReader *reader) {
    const cusEventFormat requested = reader->options.format;
    CUSI_REQUIRE(requested == CUS_EVENTS_ANY || requested == reader->info.format, CUS_ERROR_FORMAT,
                 "cusEventReaderOpen: the file is %s, expected %s", cusEventFormatName(reader->info.format),
                 cusEventFormatName(requested));
    return CUS_OK;
}

/* ---- Events -------------------------------------------------------------------------------------------------------- */

cusStatus eventio_checkEvents(cusEventReader *reader, CusiEvents e, size_t count, size_t *kept) {
    const cusEventInfo *info = &reader->info;
    const CusiSensor sensor = cusi_sensorOf(info->format, info->width, info->height);
    const int64_t before = reader->last_time > 0 ? reader->last_time : 0;
    const size_t good = cusi_countGoodEvents(e, count, sensor, before);
    *kept = good;
    if (good == count)
        return CUS_OK;
    const int64_t last = good ? e.t[good - 1] : before;
    if (reader->options.bad_events == CUS_BAD_EVENTS_STOP) {
        uint64_t detail[6];
        cusi_describeBadEvent(e, good, sensor, last, reader->index + good, detail);
        return cusi_failBadEvent("cusEventReaderRead", detail);
    }
    *kept = cusi_dropBadEvents(e, good, count, sensor, last, &reader->counts);
    return CUS_OK;
}

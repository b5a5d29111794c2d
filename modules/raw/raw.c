/* Entry points of raw, for both backends. */
#include "check.h"
#include "raw/backend.h"

#include <stdlib.h>
#include <string.h>

const char *cusEventFormatName(cusEventFormat format) {
    static const char *const names[] = {"any",        "M3ED", "DSEC",  "EVT2", "EVT3",   "DAT", "text", "EVT2.1",
                                        "Metavision", "HDF5", "MVSEC", "EVT4", "AEDAT4", "bag", "MCAP"};
    return (unsigned)format < sizeof names / sizeof *names ? names[format] : "unknown";
}

static int isDecoded(cusEventFormat format) {
    return format == CUS_EVENTS_EVT2 || format == CUS_EVENTS_EVT21 || format == CUS_EVENTS_EVT3 ||
           format == CUS_EVENTS_EVT4 || format == CUS_EVENTS_DAT || raw_magicOf(format);
}

cusEventDecoderState raw_start(void) {
    return (cusEventDecoderState){.time_high = -1, .time = -1, .last_time = -1};
}

cusEventDecoded raw_nothing(void) {
    return (cusEventDecoded){.first_time = -1, .last_time = -1};
}

/* ---- Creating -------------------------------------------------------------------------------------------------------- */

cusEventDecoderOptions cusEventDecoderDefaults(void) {
    return (cusEventDecoderOptions){
        .format = CUS_EVENTS_ANY, .bad_events = CUS_BAD_EVENTS_STOP, .space = CUS_HOST, .max_bytes = RAW_DEFAULT_BYTES};
}

static cusStatus checkOptions(const char *function, const cusEventDecoderOptions *o) {
    CUS_TRY(cusi_checkReserved(function, "options->", o->reserved));
    CUSI_REQUIRE(isDecoded(o->format), CUS_ERROR_VALUE,
                 "%s: format is %d (%s), expected EVT2, EVT2.1, EVT3, EVT4, DAT, Metavision or HDF5", function,
                 (int)o->format, cusEventFormatName(o->format));
    CUSI_REQUIRE(o->legacy == 0 || (o->legacy == 1 && o->format == CUS_EVENTS_EVT21), CUS_ERROR_VALUE,
                 "%s: legacy is %d, expected 0, or 1 with EVT2.1", function, o->legacy);
    CUSI_REQUIRE((o->width == 0 && o->height == 0) ||
                     (o->width >= 1 && o->width <= 65536 && o->height >= 1 && o->height <= 65536),
                 CUS_ERROR_VALUE, "%s: sensor is %d x %d (width x height), expected 0 x 0 or 1..65536 each", function,
                 o->width, o->height);
    CUSI_REQUIRE(o->bad_events == CUS_BAD_EVENTS_STOP || o->bad_events == CUS_BAD_EVENTS_SKIP, CUS_ERROR_VALUE,
                 "%s: bad_events is %d, expected a cusBadEvents", function, (int)o->bad_events);
    CUS_TRY(cusi_checkSpace(function, o->space));
    CUSI_REQUIRE(
        o->space == CUS_DEVICE || !raw_magicOf(o->format), CUS_ERROR_UNSUPPORTED,
        "%s: chunks of %s are decoded on the device alone, expected space CUS_DEVICE; cusEventReaderRead reads their "
        "events on the host",
        function, cusEventFormatName(o->format));
    CUSI_REQUIRE(o->unchecked == 0 || (o->unchecked == 1 && o->space == CUS_HOST), CUS_ERROR_VALUE,
                 "%s: unchecked is %d, expected 0, or 1 on the host", function, o->unchecked);
    CUSI_REQUIRE(o->space == CUS_HOST || o->max_bytes <= RAW_MAX_BYTES, CUS_ERROR_VALUE,
                 "%s: max_bytes is %zu, expected 0..%d", function, o->max_bytes, RAW_MAX_BYTES);
    return CUS_OK;
}

static const RawMethods *methodsOf(const cusEventDecoderOptions *options) {
#ifdef CUSI_WITH_CUDA
    if (options->space == CUS_DEVICE)
        return raw_magicOf(options->format) ? &raw_cudaFrames : &raw_cudaWords;
#endif
    (void)options;
    return &raw_host;
}

cusStatus cusEventDecoderCreate(cusEventDecoder **decoder, const cusEventDecoderOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventDecoderCreate";
    CUSI_NOT_NULL(function, decoder);
    CUSI_NOT_NULL(function, options);
    CUS_TRY(checkOptions(function, options));
    CUS_TRY(CUSI_BACKEND(function, options->space, CUS_OK, CUS_OK));
    cusEventDecoder *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    made->methods = methodsOf(options);
    made->options = *options;
    if (!made->options.max_bytes)
        made->options.max_bytes = RAW_DEFAULT_BYTES;
    made->sensor = cusi_sensorOf(options->format, options->width, options->height);
    const cusEventDecoderState start = raw_start();
    cusStatus status = made->methods->create(function, made);
    if (status == CUS_OK)
        status = made->methods->setState(function, made, &start);
    if (status == CUS_OK)
        status = cusi_guardCreate(function, &made->guard, options->space);
    if (status != CUS_OK) {
        cusEventDecoderDestroy(made);
        return status;
    }
    *decoder = made;
    return CUS_OK;
}

void cusEventDecoderDestroy(cusEventDecoder *decoder) {
    CUSI_TRACE;
    if (!decoder)
        return;
    decoder->methods->destroy(decoder);
    cusi_guardRelease(&decoder->guard);
    free(decoder);
}

/* ---- Running --------------------------------------------------------------------------------------------------------- */

cusStatus raw_report(const char *function, cusEventFormat format, const cusEventDecoded *decoded) {
    const uint64_t *detail = decoded->detail;
    if (decoded->status == CUS_OK)
        return CUS_OK;
    if (decoded->status == CUS_ERROR_CANCELLED)
        return cusi_fail(CUS_ERROR_CANCELLED, "%s: cancelled after %llu bytes of the piece; pass the rest again", function,
                         (unsigned long long)decoded->used);
    switch (detail[0]) {
    case RAW_BAD_WORD:
        return cusi_fail(CUS_ERROR_FORMAT, "%s: byte %llu: word of type %x, which %s does not define", function,
                         (unsigned long long)detail[1], (unsigned)detail[2], cusEventFormatName(format));
    case RAW_BAD_CHUNK:
    case RAW_BAD_FRAME:
        return cusi_fail(CUS_ERROR_FORMAT, "%s: byte %llu: %s", function, (unsigned long long)detail[1],
                         detail[0] == RAW_BAD_FRAME ? "no header of a frame"
                         : format == CUS_EVENTS_HDF5
                             ? "chunk whose columns are not what LZF defines, or have fewer events than its frame says"
                             : "chunk that is not what ECF defines, or has fewer events than its frame says");
    case RAW_EVENTS_FULL:
    case RAW_TRIGGERS_FULL:
        return cusi_fail(CUS_ERROR_CAPACITY, "%s: %s of %llu are full after %llu bytes of the piece; pass the rest again",
                         function,
                         detail[0] == RAW_EVENTS_FULL ? "arrays with a capacity" : "triggers with a trigger_capacity",
                         (unsigned long long)detail[1], (unsigned long long)decoded->used);
    default:
        return cusi_failBadEvent(function, detail);
    }
}

static cusStatus checkArray(const char *function, cusSpace space, const char *name, const void *array, size_t unit) {
    if (!array)
        return CUS_OK;
    CUSI_REQUIRE((uintptr_t)array % unit == 0, CUS_ERROR_VALUE, "%s: events' %s is at %p, expected a multiple of %zu",
                 function, name, array, unit);
    return space == CUS_DEVICE ? cusi_checkDeviceMemory(function, name, array) : CUS_OK;
}

static cusStatus checkRun(const char *function, const cusEventDecoder *decoder, const void *bytes, size_t size,
                          const cusEventBuffers *events) {
    const cusSpace space = decoder->options.space;
    CUSI_REQUIRE(bytes || !size, CUS_ERROR_NULL, "%s: bytes is NULL and size %zu", function, size);
    CUSI_NOT_NULL(function, events);
    CUSI_REQUIRE(space == CUS_HOST || size <= decoder->options.max_bytes, CUS_ERROR_VALUE,
                 "%s: size is %zu, expected up to %zu, the decoder's max_bytes", function, size,
                 decoder->options.max_bytes);
    if (space == CUS_DEVICE && bytes)
        CUS_TRY(cusi_checkDeviceMemory(function, "bytes", bytes));
    CUS_TRY(checkArray(function, space, "x", events->x, sizeof *events->x));
    CUS_TRY(checkArray(function, space, "y", events->y, sizeof *events->y));
    CUS_TRY(checkArray(function, space, "p", events->p, sizeof *events->p));
    CUS_TRY(checkArray(function, space, "t", events->t, sizeof *events->t));
    return checkArray(function, space, "triggers", events->triggers, _Alignof(cusEventTrigger));
}

static cusStatus runDecoder(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                            const cusEventBuffers *events, cusEventDecoded *decoded, cusStream stream) {
    cusEventDecoded done;
    CUS_TRY(checkRun(function, decoder, bytes, size, events));
    CUS_TRY(decoder->methods->run(function, decoder, bytes, size, events, decoded, stream));
    if (decoder->options.space == CUS_DEVICE)
        return CUS_OK;
    CUS_TRY(decoder->methods->check(function, decoder, &done, stream));
    if (decoded)
        *decoded = done;
    return raw_report(function, decoder->options.format, &done);
}

cusStatus cusEventDecoderRun(cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events,
                             cusEventDecoded *decoded, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusEventDecoderRun";
    CUSI_GUARDED(function, decoder, stream,
                 CUSI_LONG(function, runDecoder(function, decoder, bytes, size, events, decoded, stream)));
}

cusStatus cusi_decodePacket(cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events,
                            cusEventDecoded *decoded, const CusiPacketSums *sums, cusStream stream) {
    static const char function[] = "cusEventDecoderRun";
    CUSI_GUARDED(function, decoder, stream,
                 decoder->methods->runPacket(function, decoder, bytes, size, events, decoded, sums, stream));
}

/* ---- Waiting --------------------------------------------------------------------------------------------------------- */

static cusStatus waitFor(const char *function, cusEventDecoder *decoder, cusEventDecoded *done, cusStream stream) {
    if (decoder->options.space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(function, stream, "the call waits for it"));
    return decoder->methods->check(function, decoder, done, stream);
}

static cusStatus check(const char *function, cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream) {
    cusEventDecoded done;
    CUS_TRY(waitFor(function, decoder, &done, stream));
    if (decoded)
        *decoded = done;
    return raw_report(function, decoder->options.format, &done);
}

cusStatus cusEventDecoderCheck(cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusEventDecoderCheck";
    CUSI_GUARDED(function, decoder, stream, CUSI_LONG(function, check(function, decoder, decoded, stream)));
}

static cusStatus finish(const char *function, cusEventDecoder *decoder, cusStream stream) {
    cusEventDecoded done;
    cusEventDecoderState state = {0};
    CUS_TRY(waitFor(function, decoder, &done, stream));
    CUS_TRY(decoder->methods->getState(function, decoder, &state));
    const cusEventDecoderState start = raw_start();
    CUS_TRY(decoder->methods->setState(function, decoder, &start));
    CUSI_REQUIRE(!state.carried || done.status == CUS_ERROR_FORMAT, CUS_ERROR_TRUNCATED,
                 "%s: the recording ends at byte %llu, within a %s of %s that starts at byte %llu", function,
                 (unsigned long long)(state.offset + state.carried), raw_isFrames(decoder) ? "frame" : "word",
                 cusEventFormatName(decoder->options.format), (unsigned long long)state.offset);
    return CUS_OK;
}

cusStatus cusEventDecoderFinish(cusEventDecoder *decoder, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusEventDecoderFinish";
    CUSI_GUARDED(function, decoder, stream, CUSI_LONG(function, finish(function, decoder, stream)));
}

/* ---- State ----------------------------------------------------------------------------------------------------------- */

static cusStatus getPlace(const char *function, cusEventDecoder *decoder, cusEventDecoderState *state) {
    cusEventDecoded done;
    CUSI_NOT_NULL(function, state);
    CUS_TRY(waitFor(function, decoder, &done, NULL));
    if (done.status == CUS_ERROR_FORMAT)
        return raw_report(function, decoder->options.format, &done);
    return decoder->methods->getState(function, decoder, state);
}

cusStatus cusEventDecoderGetState(cusEventDecoder *decoder, cusEventDecoderState *state) {
    CUSI_TRACE;
    static const char function[] = "cusEventDecoderGetState";
    CUSI_GUARDED(function, decoder, NULL, CUSI_LONG(function, getPlace(function, decoder, state)));
}

/* Returns whether the carried bytes are fewer than a word. The caller passes those of frames again. */
static int isCarry(cusEventFormat format, const cusEventDecoderState *s) {
    if (raw_magicOf(format))
        return 1;
    if (format == CUS_EVENTS_EVT4 && s->carried >= 4)
        return s->carried < 8 && s->carry[3] >> 5 == 6;
    return s->carried < (format == CUS_EVENTS_EVT3 ? 2u : format == CUS_EVENTS_EVT2 || format == CUS_EVENTS_EVT4 ? 4u : 8u);
}

/* Returns whether the format's decoder can leave this vector and its position. */
static int isVector(cusEventFormat format, const cusEventDecoderState *s) {
    if (format == CUS_EVENTS_EVT3)
        return (s->vector_size == 0 || s->vector_size == 8 || s->vector_size == 12) && s->vector >> s->vector_size == 0 &&
               s->vector_x <= CUSI_EVT3_MAX_X + 12 && (!s->vector || s->vector_x >= s->vector_size);
    if (format == CUS_EVENTS_EVT21 || format == CUS_EVENTS_EVT4)
        return s->vector_size == 0 && s->vector_x < 2048;
    if (raw_magicOf(format))
        return s->vector_size == 0 && s->vector_x == 0 && s->vector <= CUSI_CHUNK_MAX_EVENTS && s->line < CUSI_FRAME_CHUNKS;
    return s->vector_size == 0 && !s->vector && s->vector_x == 0;
}

static cusStatus setPlace(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state) {
    const cusEventFormat format = decoder->options.format;
    CUSI_NOT_NULL(function, state);
    const int64_t most = (int64_t)1 << 48; /* keeps times far from overflow */
    const int is_time = state->time_high >= -1 && state->time_high < most && state->time >= -1 && state->last_time >= -1;
    const int is_row = state->time_low < 4096 && state->y < 2048 && state->vector_p <= 1;
    CUSI_REQUIRE(is_time && is_row && isVector(format, state) && isCarry(format, state) &&
                     (raw_isFrames(decoder) || !(state->vector && (state->carried || state->time_high < 0))),
                 CUS_ERROR_VALUE, "%s: state is not one of %s", function, cusEventFormatName(format));
    CUSI_REQUIRE(!state->vector || decoder->options.space == CUS_HOST || raw_isFrames(decoder), CUS_ERROR_VALUE,
                 "%s: state has a vector that is delivered in part, expected none on the device", function);
    return decoder->methods->setState(function, decoder, state);
}

cusStatus cusEventDecoderSetState(cusEventDecoder *decoder, const cusEventDecoderState *state) {
    CUSI_TRACE;
    static const char function[] = "cusEventDecoderSetState";
    CUSI_GUARDED(function, decoder, NULL, setPlace(function, decoder, state));
}

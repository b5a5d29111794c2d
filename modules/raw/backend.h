/* What the entry points and the backends of raw share. */
#ifndef CUSI_RAW_BACKEND_H
#define CUSI_RAW_BACKEND_H

#include "cusight/raw.h"
#include "event_checks.h"
#include "guard.h"
#include "event_words.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RAW_MAX_BYTES = 64 << 20, RAW_MOST_BYTES = 1 << 29 }; /* max_bytes: default and limit */

struct cusEventDecoder {
    cusEventDecoderOptions options; /* checked; max_bytes is set */
    CusiSensor sensor;              /* what coordinates are checked against: 65536 x 65536 if the options give none */
    CusiGuard guard;
    void *state; /* owned by the backend */
};

/* The kinds of cusEventDecoded.detail[0], after those of event_checks.h, whose further fields cusi_describeBadEvent() gives. 0:
 * no error. */
enum {
    RAW_BAD_WORD = 4,      /* [1]: its byte in the recording, [2]: its type */
    RAW_EVENTS_FULL = 5,   /* [1]: the arrays' capacity */
    RAW_TRIGGERS_FULL = 6, /* [1]: the triggers' capacity */
    RAW_BAD_CHUNK = 7,     /* [1]: its byte in the stream */
    RAW_BAD_FRAME = 8      /* [1]: its byte in the stream */
};

/* Whether the bytes are frames of ECF chunks, not words. */
static inline int raw_isFrames(const cusEventDecoder *decoder) {
    return decoder->options.format == CUS_EVENTS_METAVISION;
}

/* The state at the start of a recording. */
cusEventDecoderState raw_start(void);

/* Nothing has been decoded. */
cusEventDecoded raw_nothing(void);

/* raw.c: decoded->status, with the message that it and its details give. */
cusStatus raw_report(const char *function, cusEventFormat format, const cusEventDecoded *decoded);

/* ---- The backends ------------------------------------------------------------------------------------------------------
 * Arguments have been checked. A failed create leaves what destroy accepts; setState comes after it and starts the decoder.
 *
 *   run        events->triggers NULL: triggers are only counted. host: *decoded is always set. cuda: queued; decoded may be
 *              NULL
 *   check      waits; *decoded: what the last run has done, or raw_nothing(). After CAPACITY the next run decodes again
 *   getState   waits; whatever the status of the last run
 *   setState   waits; counts start at 0, what the last run has done becomes raw_nothing() */

cusStatus raw_host_create(const char *function, cusEventDecoder *decoder);
void raw_host_destroy(cusEventDecoder *decoder);
cusStatus raw_host_run(cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events);
cusStatus raw_host_check(cusEventDecoder *decoder, cusEventDecoded *decoded);
cusStatus raw_host_getState(cusEventDecoder *decoder, cusEventDecoderState *state);
cusStatus raw_host_setState(cusEventDecoder *decoder, const cusEventDecoderState *state);

/* cpu/frames.c: those of the host backend for frames. */
cusStatus raw_frames_create(const char *function, cusEventDecoder *decoder);
void raw_frames_destroy(cusEventDecoder *decoder);
cusStatus raw_frames_run(cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events);
cusStatus raw_frames_check(cusEventDecoder *decoder, cusEventDecoded *decoded);
cusStatus raw_frames_getState(cusEventDecoder *decoder, cusEventDecoderState *state);
cusStatus raw_frames_setState(cusEventDecoder *decoder, const cusEventDecoderState *state);

cusStatus raw_cuda_create(const char *function, cusEventDecoder *decoder);
void raw_cuda_destroy(cusEventDecoder *decoder);
cusStatus raw_cuda_run(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                       const cusEventBuffers *events, cusEventDecoded *decoded, cusStream stream);
cusStatus raw_cuda_check(const char *function, cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream);
cusStatus raw_cuda_getState(const char *function, cusEventDecoder *decoder, cusEventDecoderState *state);
cusStatus raw_cuda_setState(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state);

/* cuda/frames.cu: those of the device backend for frames. */
cusStatus raw_cuda_frames_create(const char *function, cusEventDecoder *decoder);
void raw_cuda_frames_destroy(cusEventDecoder *decoder);
cusStatus raw_cuda_frames_run(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                              const cusEventBuffers *events, cusEventDecoded *decoded, cusStream stream);
cusStatus raw_cuda_frames_check(const char *function, cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream);
cusStatus raw_cuda_frames_getState(const char *function, cusEventDecoder *decoder, cusEventDecoderState *state);
cusStatus raw_cuda_frames_setState(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state);

#ifdef __cplusplus
}
#endif

#endif

/* Declarations that the entry points and the backends of raw share. */
#ifndef CUSI_RAW_BACKEND_H
#define CUSI_RAW_BACKEND_H

#include "cusight/raw.h"
#include "event_checks.h"
#include "event_packets.h"
#include "frames.h"
#include "guard.h"
#include "progress.h"
#include "event_words.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RAW_DEFAULT_BYTES = 64 << 20, RAW_MAX_BYTES = 1 << 29 };

struct cusEventDecoder {
    const struct RawMethods *methods;
    cusEventDecoderOptions options; /* checked; max_bytes is set */
    CusiSensor sensor;              /* coordinates must lie on it; 65536 x 65536 if the options give none */
    CusiGuard guard;
    void *state; /* owned by the backend */
};

/* Kinds in cusEventDecoded.detail[0] beside CUSI_BAD_... (event_checks.h), for which cusi_describeBadEvent() gives the
 * other fields. 0: no error. */
enum {
    RAW_BAD_WORD = 4,      /* [1]: its byte in the whole input, [2]: its type */
    RAW_EVENTS_FULL = 5,   /* [1]: the arrays' capacity */
    RAW_TRIGGERS_FULL = 6, /* [1]: the triggers' capacity */
    RAW_BAD_CHUNK = 7,     /* [1]: its byte in the whole input */
    RAW_BAD_FRAME = 8      /* [1]: its byte in the stream */
};

/* Returns the first word of a frame; 0 if the format has words instead. */
static inline uint32_t raw_magicOf(cusEventFormat format) {
    return format == CUS_EVENTS_METAVISION ? CUSI_FRAME_ECF : format == CUS_EVENTS_HDF5 ? CUSI_FRAME_LZF : 0;
}
static inline int raw_isFrames(const cusEventDecoder *decoder) {
    return raw_magicOf(decoder->options.format) != 0;
}

/* Returns the state at the start of a recording. */
cusEventDecoderState raw_start(void);

/* Returns the record of a run that decoded nothing. */
cusEventDecoded raw_nothing(void);

/* Returns decoded->status and sets the message that describes it. */
cusStatus raw_report(const char *function, cusEventFormat format, const cusEventDecoded *decoded);

/* ---- The backends ------------------------------------------------------------------------------------------------------
 * Arguments have been checked. destroy accepts what a failed create leaves. setState follows create and starts the decoder.
 *
 *   run        if events->triggers is NULL, triggers are only counted. Host: ignores decoded and stream. CUDA: queues its
 *              work; decoded may be NULL
 *   check      waits; *decoded: what the last run did, or raw_nothing(). After CAPACITY the next run decodes again
 *   getState   waits; succeeds whatever the status of the last run
 *   setState   waits; resets the counts, and what the last run did to raw_nothing()
 *   runPacket  CUDA, EVT2 and EVT3: cusi_decodePacket() of event_packets.h. NULL if there are no words or no device */

typedef struct RawMethods {
    cusStatus (*create)(const char *function, cusEventDecoder *decoder);
    void (*destroy)(cusEventDecoder *decoder);
    cusStatus (*run)(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                     const cusEventBuffers *events, cusEventDecoded *decoded, cusStream stream);
    cusStatus (*check)(const char *function, cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream);
    cusStatus (*getState)(const char *function, cusEventDecoder *decoder, cusEventDecoderState *state);
    cusStatus (*setState)(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state);
    cusStatus (*runPacket)(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                           const cusEventBuffers *events, cusEventDecoded *decoded, const CusiPacketSums *sums,
                           cusStream stream);
} RawMethods;

extern const RawMethods raw_host, raw_cudaWords, raw_cudaFrames;

#ifdef __cplusplus
}
#endif

#endif

/* Packets of raw bytes that a pipeline with `low_latency` has decoded by one kernel, which adds the events to the sums of
 * two windows meanwhile: modules/raw adds, modules/events makes the frames. For formats EVT2 and EVT3 on the device. */
#ifndef CUSI_EVENT_PACKETS_H
#define CUSI_EVENT_PACKETS_H

#include "cusight/raw.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSI_PACKET_BYTES = 4 << 20 };

/* What a pixel sums: events by polarity, positive minus negative ones (32 bits each), or the latest time of each polarity
 * plus 1 (64 bits). */
typedef enum CusiSumsKind { CUSI_SUMS_NONE, CUSI_SUMS_COUNTS, CUSI_SUMS_DIFFERENCE, CUSI_SUMS_TIMES } CusiSumsKind;

/* What a packet did. All fields are 0 before it. */
typedef struct CusiPacketDone {
    uint64_t events;    /* decoded */
    uint64_t in_first;  /* events up to the last one of the first window */
    uint64_t newest[2]; /* for each window: time of its latest event in the packet plus 1, if the sums are times */
    uint64_t outside[2];
    uint64_t spoiled; /* the sums are useless: a bad event or word, more than fits, or an event in neither window */
} CusiPacketDone;

/* Two windows, one after the other. */
typedef struct CusiPacketSums {
    CusiSumsKind kind;
    uint32_t rows, cols, row_sums; /* of a frame; sums of a row, with its padding */
    uint32_t swap;                 /* 1: negative first */
    void *sums[2];                 /* of each window, rows x row_sums */
    CusiPacketDone *done;          /* device memory */
    int by_duration;
    int64_t begin;       /* of the first window: its time, or its first event's index in the packet */
    uint64_t lengths[2]; /* in microseconds, or in events; the second one less, so that it does not end in the packet */
} CusiPacketSums;

/* Does what cusEventDecoderRun does, with up to CUSI_PACKET_BYTES of device or page-locked memory. */
cusStatus cusi_decodePacket(cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events,
                            cusEventDecoded *decoded, const CusiPacketSums *sums, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif

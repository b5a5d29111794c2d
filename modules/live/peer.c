/* The sender's end of one connection. A slow viewer holds up only what is here: an output buffer of fixed size, and the sum
 * of the differences that did not fit (values are modulo 256, so a sum of differences is a difference). */
#include "check.h"
#include "guard.h"
#include "live/compress.h"
#include "live/wire.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_MESSAGES = 64, /* from the viewer, between two frames */
    /* Frames that may wait, a quarter of a second at 60 Hz. More add delay; fewer lose frames in a short stall. */
    MAX_QUEUED = 16,
    CHECKSUM_MESSAGE_BYTES = CUS_WIRE_HEADER_BYTES + LIVE_CHECKSUM_BYTES
};

/* The checksum of a whole picture. */
typedef struct Checksum {
    int known, error_bound;
    uint32_t crc;
} Checksum;

struct cusPeer {
    CusiGuard guard;
    LiveShape shape;
    uint32_t rate_millihertz;
    LiveCompressor *compressor;

    uint8_t in[CUS_WIRE_HEADER_BYTES]; /* a message of a viewer is only a header */
    size_t in_bytes;
    int messages; /* received since the last frame was offered */

    uint8_t *out; /* bytes [out_start, out_end) wait to be sent; room for "bye" is reserved */
    size_t out_start, out_end, out_capacity;
    uint64_t appended, sent;   /* bytes, over the whole connection */
    uint64_t ends[MAX_QUEUED]; /* `appended` after each of the last frames */
    unsigned next_end;

    uint8_t *backlog; /* a mask, followed by the sum of the differences since `sequence` */
    uint64_t backlog_frames, backlog_sequence;
    Checksum backlog_checksum;

    int connected, wants_key_frame, wants_checksums, disconnected, finishing, said_bye;
    uint64_t sequence, coalesced, offered; /* `offered`: number of the last frame offered */
    cusStatus failure;
    char message[256];
};

cusStatus cusPeerCreate(cusPeer **peer, int rows, int cols, int type, uint32_t rate_millihertz) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusPeerCreate", peer);
    LiveShape shape;
    CUS_TRY(live_shape("cusPeerCreate", rows, cols, type, &shape));
    cusPeer *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusPeerCreate: out of host memory");
    made->shape = shape;
    made->rate_millihertz = rate_millihertz;
    made->out_capacity = 2 * (CUS_WIRE_HEADER_BYTES + shape.max_raw_bytes + CHECKSUM_MESSAGE_BYTES) +
                         2 * CUS_WIRE_HEADER_BYTES + LIVE_HELLO_BYTES;
    made->out = malloc(made->out_capacity);
    made->backlog = malloc(shape.max_raw_bytes);
    cusStatus status = made->out && made->backlog
                           ? live_compressorCreate("cusPeerCreate", 1, 1, shape.max_raw_bytes, &made->compressor)
                           : cusi_fail(CUS_ERROR_NO_MEMORY, "cusPeerCreate: out of host memory");
    if (status != CUS_OK) {
        cusPeerDestroy(made);
        return status;
    }
    *peer = made;
    return CUS_OK;
}

void cusPeerDestroy(cusPeer *peer) {
    CUSI_TRACE;
    if (!peer)
        return;
    live_compressorDestroy(peer->compressor);
    free(peer->out);
    free(peer->backlog);
    free(peer);
}

/* Repeats the error that the connection failed with. */
static cusStatus failAgain(const cusPeer *peer) {
    return cusi_fail(peer->failure, "%s", peer->message);
}

/* Every later call returns this error with the thread's current message. */
static cusStatus keepFailure(cusPeer *peer, cusStatus status) {
    peer->failure = status;
    strncpy(peer->message, cusLastError(), sizeof peer->message - 1);
    return status;
}

static int hasRoom(const cusPeer *peer, size_t bytes) {
    const size_t waiting = peer->out_end - peer->out_start;
    return peer->ends[peer->next_end % MAX_QUEUED] <= peer->sent && /* fewer than MAX_QUEUED frames wait */
           bytes + CHECKSUM_MESSAGE_BYTES <= peer->out_capacity - waiting - CUS_WIRE_HEADER_BYTES;
}

/* Returns where the next `bytes` bytes go; the caller has checked that they fit. */
static uint8_t *reserve(cusPeer *peer, size_t bytes) {
    if (peer->out_capacity - peer->out_end < bytes) {
        memmove(peer->out, peer->out + peer->out_start, peer->out_end - peer->out_start);
        peer->out_end -= peer->out_start;
        peer->out_start = 0;
    }
    return peer->out + peer->out_end;
}

static void append(cusPeer *peer, const uint8_t *message, size_t bytes) {
    memcpy(reserve(peer, bytes), message, bytes);
    peer->out_end += bytes;
    peer->appended += bytes;
}

static Checksum checksumOf(const cusSentFrame *frame) {
    return (Checksum){.known = frame->has_checksum, .error_bound = frame->error_bound, .crc = frame->checksum};
}

/* Follows the frame that has just been appended. */
static void appendChecksum(cusPeer *peer, Checksum checksum) {
    if (!checksum.known || !peer->wants_checksums)
        return;
    uint8_t message[CHECKSUM_MESSAGE_BYTES], *const payload = message + CUS_WIRE_HEADER_BYTES;
    live_store(payload, checksum.crc, 4);
    live_store(payload + 4, (uint64_t)checksum.error_bound, 4);
    cusWireHeader header = live_header(CUS_WIRE_CHECKSUM, NULL);
    header.payload_bytes = header.raw_bytes = LIVE_CHECKSUM_BYTES;
    header.sequence = peer->sequence;
    (void)cusWirePack(&header, payload, message);
    append(peer, message, sizeof message);
}

static void appendFrame(cusPeer *peer, const cusSentFrame *frame, const uint8_t *message, size_t bytes) {
    append(peer, message, bytes);
    peer->ends[peer->next_end++ % MAX_QUEUED] = peer->appended;
    peer->sequence = frame->sequence;
    appendChecksum(peer, checksumOf(frame));
}

static void appendHello(cusPeer *peer) {
    uint8_t message[CUS_WIRE_HEADER_BYTES + LIVE_HELLO_BYTES], *const payload = message + CUS_WIRE_HEADER_BYTES;
    live_store(payload, peer->rate_millihertz, 4);
    live_store(payload + 4, LIVE_OFFERS_CHECKSUMS, 4);
    cusWireHeader hello = live_header(CUS_WIRE_HELLO, &peer->shape);
    hello.payload_bytes = hello.raw_bytes = LIVE_HELLO_BYTES;
    (void)cusWirePack(&hello, payload, message);
    append(peer, message, sizeof message);
}

/* Handles a complete message of the viewer. */
static cusStatus receive(cusPeer *peer) {
    cusWireHeader header;
    CUS_TRY(cusWireParse(peer->in, &header));
    CUSI_REQUIRE(header.payload_bytes == 0, CUS_ERROR_FORMAT,
                 "live: a viewer's message has a payload of %u bytes, expected none", header.payload_bytes);
    CUSI_REQUIRE(live_checksumMatches(peer->in, NULL, 0), CUS_ERROR_FORMAT,
                 "live: a message was damaged in transit (checksum)");
    CUSI_REQUIRE(++peer->messages <= MAX_MESSAGES, CUS_ERROR_FORMAT, "live: the viewer floods the sender with messages");
    CUSI_REQUIRE((header.type == CUS_WIRE_HELLO && header.width == 0) != peer->connected, CUS_ERROR_FORMAT,
                 "live: expected one hello, as the viewer's first message");
    switch (header.type) {
    case CUS_WIRE_HELLO:
        peer->connected = peer->wants_key_frame = 1;
        appendHello(peer);
        return CUS_OK;
    case CUS_WIRE_REQUEST_KEY_FRAME:
        peer->wants_key_frame = 1;
        peer->backlog_frames = 0;
        return CUS_OK;
    case CUS_WIRE_REQUEST_CHECKSUMS:
        peer->wants_checksums = 1;
        return CUS_OK;
    case CUS_WIRE_BYE:
        peer->disconnected = 1;
        return CUS_OK;
    default:
        return cusi_fail(CUS_ERROR_FORMAT, "live: a viewer must not send messages of type %d", (int)header.type);
    }
}

static cusStatus peerInput(cusPeer *peer, const void *data, size_t bytes) {
    CUSI_REQUIRE(data || bytes == 0, CUS_ERROR_NULL, "cusPeerInput: data is NULL");
    if (peer->failure != CUS_OK)
        return failAgain(peer);
    for (const uint8_t *at = data; bytes > 0 && !peer->disconnected;) {
        const size_t missing = CUS_WIRE_HEADER_BYTES - peer->in_bytes, n = bytes < missing ? bytes : missing;
        memcpy(peer->in + peer->in_bytes, at, n);
        at += n;
        bytes -= n;
        peer->in_bytes += n;
        if (peer->in_bytes < CUS_WIRE_HEADER_BYTES)
            break;
        peer->in_bytes = 0;
        const cusStatus status = receive(peer);
        if (status != CUS_OK)
            return keepFailure(peer, status);
    }
    return CUS_OK;
}

cusStatus cusPeerInput(cusPeer *peer, const void *data, size_t bytes) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPeerInput", peer, NULL, peerInput(peer, data, bytes));
}

/* Turns the sums of the backlog into mask and values, in place: no value is written past the sum being read. Returns the
 * number of values. */
static size_t sparsifyBacklog(cusPeer *peer) {
    const LiveShape *s = &peer->shape;
    uint8_t *mask = peer->backlog, *const values = peer->backlog + s->mask_bytes;
    const uint8_t *sum = values;
    size_t count = 0;
    memset(mask, 0, s->mask_bytes);
    for (int y = 0; y < s->rows; ++y, mask += s->mask_row_bytes, sum += s->row_bytes)
        for (size_t x = 0; x < s->row_bytes;) {
            uint64_t eight;
            if (s->row_bytes - x >= 8 && (memcpy(&eight, sum + x, 8), eight == 0)) {
                x += 8;
                continue;
            }
            for (const size_t end = s->row_bytes - x < 8 ? s->row_bytes : x + 8; x < end; ++x)
                if (sum[x]) {
                    mask[x / 8] |= (uint8_t)(1 << (x % 8));
                    values[count++] = sum[x];
                }
        }
    return count;
}

/* Moves the backlog to the output as one difference, once the output is empty. */
static void flushBacklog(cusPeer *peer) {
    if (peer->backlog_frames == 0 || peer->out_end > peer->out_start)
        return;
    const LiveShape *s = &peer->shape;
    const size_t count = sparsifyBacklog(peer);
    cusWireHeader header = live_header(CUS_WIRE_DIFFERENCE, s);
    header.sequence = peer->backlog_sequence;
    header.base = peer->sequence;
    peer->out_start = 0;
    peer->out_end =
        live_packMessage(peer->compressor, header, peer->backlog, s->mask_bytes, s->mask_bytes + count, peer->out);
    peer->appended += peer->out_end;
    peer->ends[peer->next_end++ % MAX_QUEUED] = peer->appended;
    peer->sequence = peer->backlog_sequence;
    peer->coalesced += peer->backlog_frames;
    peer->backlog_frames = 0;
    appendChecksum(peer, peer->backlog_checksum);
}

static void addToBacklog(cusPeer *peer, const cusSentFrame *frame) {
    const LiveShape *s = &peer->shape;
    if (peer->backlog_frames == 0)
        memset(peer->backlog + s->mask_bytes, 0, s->frame_bytes);
    live_addValues(s, frame->mask, frame->values, peer->backlog + s->mask_bytes);
    peer->backlog_sequence = frame->sequence;
    peer->backlog_checksum = checksumOf(frame);
    ++peer->backlog_frames;
}

static void appendBye(cusPeer *peer) {
    cusWireHeader bye = live_header(CUS_WIRE_BYE, NULL);
    bye.sequence = peer->sequence;
    uint8_t message[CUS_WIRE_HEADER_BYTES];
    (void)cusWirePack(&bye, NULL, message);
    append(peer, message, sizeof message);
    peer->said_bye = 1;
}

static cusStatus peerOffer(cusPeer *peer, const cusSentFrame *frame) {
    CUSI_NOT_NULL("cusPeerOffer", frame);
    CUS_TRY(cusi_checkReserved("cusPeerOffer", "frame->", frame->reserved));
    CUSI_REQUIRE(frame->message && frame->mask && (frame->values || frame->count == 0), CUS_ERROR_NULL,
                 "cusPeerOffer: frame is empty");
    if (peer->failure != CUS_OK)
        return failAgain(peer);
    CUSI_REQUIRE(frame->sequence > peer->offered, CUS_ERROR_VALUE,
                 "cusPeerOffer: frame has sequence number %llu, expected more than %llu",
                 (unsigned long long)frame->sequence, (unsigned long long)peer->offered);
    const int gap = frame->sequence != peer->offered + 1; /* differences do not apply after a gap */
    peer->offered = frame->sequence;
    peer->messages = 0;
    if (!peer->connected || peer->disconnected || peer->finishing)
        return CUS_OK;
    if (gap && !peer->wants_key_frame) {
        peer->wants_key_frame = 1;
        peer->backlog_frames = 0;
    }
    if (peer->wants_key_frame) {
        if (frame->key_frame && hasRoom(peer, frame->key_frame_bytes)) {
            appendFrame(peer, frame, frame->key_frame, frame->key_frame_bytes);
            peer->wants_key_frame = 0;
        }
        return CUS_OK;
    }
    flushBacklog(peer);
    if (peer->backlog_frames == 0 && hasRoom(peer, frame->message_bytes)) {
        appendFrame(peer, frame, frame->message, frame->message_bytes);
        return CUS_OK;
    }
    addToBacklog(peer, frame);
    return CUS_OK;
}

cusStatus cusPeerOffer(cusPeer *peer, const cusSentFrame *frame) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPeerOffer", peer, NULL, peerOffer(peer, frame));
}

static cusStatus peerOutput(cusPeer *peer, const uint8_t **data, size_t *bytes) {
    CUSI_NOT_NULL("cusPeerOutput", data);
    CUSI_NOT_NULL("cusPeerOutput", bytes);
    if (peer->failure != CUS_OK)
        return failAgain(peer);
    flushBacklog(peer);
    if (peer->finishing && !peer->said_bye && peer->backlog_frames == 0)
        appendBye(peer);
    *data = peer->out + peer->out_start;
    *bytes = peer->out_end - peer->out_start;
    return CUS_OK;
}

cusStatus cusPeerOutput(cusPeer *peer, const uint8_t **data, size_t *bytes) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPeerOutput", peer, NULL, peerOutput(peer, data, bytes));
}

static cusStatus peerSent(cusPeer *peer, size_t bytes) {
    CUSI_REQUIRE(bytes <= peer->out_end - peer->out_start, CUS_ERROR_VALUE,
                 "cusPeerSent: bytes is %zu, expected at most %zu", bytes, peer->out_end - peer->out_start);
    peer->out_start += bytes;
    peer->sent += bytes;
    if (peer->out_start == peer->out_end)
        peer->out_start = peer->out_end = 0;
    return CUS_OK;
}

cusStatus cusPeerSent(cusPeer *peer, size_t bytes) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPeerSent", peer, NULL, peerSent(peer, bytes));
}

static cusStatus peerFinish(cusPeer *peer) {
    if (peer->failure != CUS_OK)
        return failAgain(peer);
    peer->finishing = 1;
    return CUS_OK;
}

cusStatus cusPeerFinish(cusPeer *peer) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPeerFinish", peer, NULL, peerFinish(peer));
}

static cusStatus peerQuery(const cusPeer *peer, cusPeerInfo *info) {
    CUSI_NOT_NULL("cusPeerQuery", info);
    *info = (cusPeerInfo){.connected = peer->connected,
                          .wants_key_frame = peer->wants_key_frame,
                          .behind = peer->backlog_frames > 0,
                          .disconnected = peer->disconnected,
                          .sequence = peer->sequence,
                          .coalesced = peer->coalesced};
    return CUS_OK;
}

cusStatus cusPeerQuery(const cusPeer *peer, cusPeerInfo *info) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPeerQuery", peer, NULL, peerQuery(peer, info));
}

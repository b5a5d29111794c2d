/* cusight/live.h: live video as sparse differences, as bytes that can be sent.
 *
 * Three objects, none of which knows a socket: they turn frames into bytes and bytes into frames, and a program carries the
 * bytes as it likes.
 *   cusSender  one for a video:   frames in, messages out (sparse difference, packed; key frames where wanted).
 *   cusPeer    one for a viewer:  the sender's end of one connection: handshake, what that viewer gets next, its backlog.
 *   cusViewer  one for a viewer:  the other end: bytes in, the picture out.
 * The wire format is described in docs/wire-format.md. After every message the viewer's picture equals the sender's
 * reference of that sequence number exactly (framediff.h says how far that is from the camera's frame).
 *
 * Frames are 8UC1, 8UC3 or 8UC4, each side 32768 or less, 2^30 bytes or less. One object is used by one thread at a time,
 * except as said for cusSenderRelease; different objects are independent. Every object needs libzstd: in a build without it
 * the Create functions return CUS_ERROR_UNSUPPORTED.
 *
 * What comes from the other end is not trusted: each field of a message is checked against the handshake and fixed caps
 * before anything is allocated or written, and a message is applied whole or not at all. A bad one makes the object fail:
 * that call and all later ones return its error, and the connection is of no use any more. The checksum finds damage, not
 * malice: authentication is the transport's work.
 */
#ifndef CUSIGHT_LIVE_H
#define CUSIGHT_LIVE_H

#include "framediff.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages -------------------------------------------------------------------------------------------------------- */

enum { CUS_WIRE_VERSION = 1, CUS_WIRE_HEADER_BYTES = 48, CUS_WIRE_MAX_SIDE = 32768, CUS_WIRE_MAX_FRAME_BYTES = 1 << 30 };

typedef enum cusWireType {
    CUS_WIRE_HELLO = 1,            /* viewer: "this version"; sender: size of the frames, rate */
    CUS_WIRE_KEY_FRAME = 2,        /* sender: the whole picture */
    CUS_WIRE_DIFFERENCE = 3,       /* sender: what changed since frame `base` */
    CUS_WIRE_BYE = 4,              /* either: the end, on purpose */
    CUS_WIRE_REQUEST_KEY_FRAME = 5 /* viewer: start anew, please */
} cusWireType;

typedef enum cusWireEncoding {
    CUS_WIRE_RAW = 0, /* the payload as it is */
    CUS_WIRE_ZSTD = 1 /* one or more Zstandard frames, one after the other */
} cusWireEncoding;

typedef struct cusWireHeader {
    cusWireType type;
    cusWireEncoding encoding;
    uint32_t payload_bytes;  /* that follow the header */
    uint32_t raw_bytes;      /* of the payload when decompressed */
    uint64_t sequence, base; /* number of the frame; of the frame that a difference applies to */
    uint32_t width, height;
    int channels;
    uint32_t crc; /* CRC-32C of the 44 bytes before it and the payload */
} cusWireHeader;

/* CRC-32C (Castagnoli). crc: 0, or the result for the bytes before these. SSE4.2 where the CPU has it. */
CUS_API uint32_t cusCrc32c(uint32_t crc, const void *data, size_t bytes);

/* Writes the header, with the checksum of header and payload, in front of a payload (NULL when payload_bytes is 0).
 * header->crc is not looked at. Errors: NULL. */
CUS_API cusStatus cusWirePack(const cusWireHeader *header, const void *payload, uint8_t out[CUS_WIRE_HEADER_BYTES]);

/* Reads a header and checks what can be checked without a handshake: magic, version, type, encoding, reserved bytes, sizes
 * against the caps and against each other. Errors: NULL; FORMAT; UNSUPPORTED for another version of the format. */
CUS_API cusStatus cusWireParse(const uint8_t in[CUS_WIRE_HEADER_BYTES], cusWireHeader *header);

/* ---- Sender: frames in, messages out --------------------------------------------------------------------------------- */

typedef struct cusSenderOptions {
    cusDiffOptions diff;
    int compression_level; /* of Zstandard, 1..19, default 1 */
    int max_in_flight;     /* frames submitted and not yet released, 2..64, default 4 */
} cusSenderOptions;

CUS_API cusSenderOptions cusSenderDefaults(void);

typedef struct cusSender cusSender;

/* One frame, packed. The pointers are valid until it is released. */
typedef struct cusSentFrame {
    uint64_t sequence;      /* 1, 2, 3, ... */
    const uint8_t *message; /* a difference from sequence - 1; a key frame for the first frame and where that is smaller */
    size_t message_bytes;
    const uint8_t
        *key_frame; /* a key frame of the same sequence number where one was asked for or is the message, or NULL */
    size_t key_frame_bytes;
    const uint8_t *mask; /* the difference itself: changed-byte mask, rows x ceil(cols * channels / 8), tight, as in
                            cusSparseDiff, and the changes in ascending order, modulo 256 */
    const uint8_t *values;
    uint32_t count;
    float encode_ms, pack_ms; /* submission to difference in host memory; compression and checksum */
} cusSentFrame;

/* space: where the difference is computed. Everything is allocated here: about 4.3 bytes of host memory for each byte of a
 * frame and frame in flight, page-locked for CUS_DEVICE, and there 3.2 of device memory. `options` NULL: defaults.
 * Errors: NULL, VALUE, TYPE, SIZE, NO_MEMORY, NO_CUDA, UNSUPPORTED. */
CUS_API cusStatus cusSenderCreate(cusSender **sender, int rows, int cols, int type, cusSpace space,
                                  const cusSenderOptions *options);
CUS_API void cusSenderDestroy(cusSender *sender);

/* Starts on a frame: a host frame for either space, or a device frame for CUS_DEVICE, which is read once the work queued in
 * `stream` so far is done. CUS_HOST: the difference is complete at return. CUS_DEVICE: upload, difference and download are
 * queued in streams of the sender's own and do not block if the frame is page-locked or in device memory; leave it
 * untouched until cusSenderFinish has returned it. The first frame becomes the reference as it is, without the threshold.
 * with_key_frame: the packed frame shall have a key frame too. Errors: NULL, TYPE, SIZE, SPACE, CUDA; CAPACITY when max_in_flight
 * frames are neither finished nor released. */
CUS_API cusStatus cusSenderSubmit(cusSender *sender, const cusMat *frame, int with_key_frame, cusStream stream);

/* Waits for the oldest frame that was submitted and packs it. The bytes depend on the frames and the options only, not on
 * space, threads or time. Compression runs on all cores in pieces of 64 KiB. Errors: NULL; VALUE when none was submitted;
 * CUDA. */
CUS_API cusStatus cusSenderFinish(cusSender *sender, cusSentFrame *packed);

/* Gives the oldest finished frame back. May run on another thread than Submit and Finish. Errors: NULL; VALUE when there is
 * none. */
CUS_API cusStatus cusSenderRelease(cusSender *sender);

/* A view of the encoder's reference: what viewers have after the last submitted frame. On the device: after the sender's
 * own work, so only when all that was submitted is finished. */
CUS_API cusStatus cusSenderReference(const cusSender *sender, cusMat *view);

/* ---- Peer: the sender's end of one connection ------------------------------------------------------------------------ */

typedef struct cusPeer cusPeer;

/* rate_mhz: frames in 1000 seconds, for the viewer to know; 0: not known. Allocates about 3.5 bytes for each byte of a
 * frame; no later call allocates. Errors: NULL, VALUE, TYPE, SIZE, NO_MEMORY, UNSUPPORTED. */
CUS_API cusStatus cusPeerCreate(cusPeer **peer, int rows, int cols, int type, uint32_t rate_mhz);
CUS_API void cusPeerDestroy(cusPeer *peer);

/* Bytes that came from the viewer. Errors: NULL; FORMAT or UNSUPPORTED: the connection is to be closed. */
CUS_API cusStatus cusPeerInput(cusPeer *peer, const void *data, size_t bytes);

/* One frame of the video, each in its turn. The peer copies what its viewer needs: nothing before the handshake; the key
 * frame if the viewer waits for one (and this frame has one); the message while fewer than 16 frames wait in the output and
 * it has room (two pictures); otherwise the difference is added to the backlog, which leaves as a single difference when
 * the output has drained. It never blocks and never grows. Errors: NULL, VALUE (sequence not after the last one); the
 * peer's own failure. */
CUS_API cusStatus cusPeerOffer(cusPeer *peer, const cusSentFrame *frame);

/* What waits to be sent, and how much of it has been. *bytes is 0 when there is nothing. */
CUS_API cusStatus cusPeerOutput(cusPeer *peer, const uint8_t **data, size_t *bytes);
CUS_API cusStatus cusPeerSent(cusPeer *peer, size_t bytes);

/* No frame follows: once the backlog is out, "bye" is. */
CUS_API cusStatus cusPeerFinish(cusPeer *peer);

typedef struct cusPeerInfo {
    int greeted;         /* the handshake is done */
    int wants_key_frame; /* the next frame should come with a key frame */
    int behind;          /* frames have gone to the backlog */
    int left;            /* the viewer said bye */
    uint64_t sequence;   /* of the last frame put out */
    uint64_t coalesced;  /* frames that left as part of a single difference, so far */
} cusPeerInfo;

CUS_API cusStatus cusPeerQuery(const cusPeer *peer, cusPeerInfo *info);

/* ---- Viewer: bytes in, the picture out ------------------------------------------------------------------------------- */

typedef struct cusViewerOptions {
    size_t max_frame_bytes; /* a larger picture is refused before anything is allocated; default 2^28 (8K with 4 channels
                               has 133 million bytes) */
} cusViewerOptions;

CUS_API cusViewerOptions cusViewerDefaults(void);

typedef enum cusViewerUpdate {
    CUS_VIEWER_NOTHING = 0,   /* all input is used, nothing to report */
    CUS_VIEWER_CONNECTED = 1, /* size and rate are known */
    CUS_VIEWER_FRAME = 2,     /* the picture is that of the next frame */
    CUS_VIEWER_MISSING = 3,   /* a difference that does not fit the picture was left out, a key frame was requested */
    CUS_VIEWER_ENDED = 4      /* the sender said bye */
} cusViewerUpdate;

typedef struct cusViewerInfo {
    int rows, cols, type;
    uint32_t rate_mhz;
    uint64_t sequence;    /* of the picture; 0 before the first */
    int is_key_frame;     /* it came as a key frame */
    uint32_t changed;     /* bytes that the last difference changed */
    size_t message_bytes; /* of the last frame, header and payload */
} cusViewerInfo;

typedef struct cusViewer cusViewer;

/* `options` NULL: defaults. Errors: NULL, VALUE, NO_MEMORY, UNSUPPORTED. */
CUS_API cusStatus cusViewerCreate(cusViewer **viewer, const cusViewerOptions *options);
CUS_API void cusViewerDestroy(cusViewer *viewer);

/* A new connection: the handshake and a key frame are needed again, a failure is forgotten. The picture stays. */
CUS_API cusStatus cusViewerReconnect(cusViewer *viewer);

/* Bytes that came from the sender. Stops after each event, so call again with the rest until *used is all of it. The first
 * connection allocates (about 3.3 bytes for each byte of a frame), and so does one of another size. Errors: NULL; FORMAT,
 * UNSUPPORTED, SIZE, NO_MEMORY: the connection is to be closed; the picture is that of the last good frame. */
CUS_API cusStatus cusViewerInput(cusViewer *viewer, const void *data, size_t bytes, size_t *used, cusViewerUpdate *event);

/* What waits to be sent, and how much of it has been. */
CUS_API cusStatus cusViewerOutput(cusViewer *viewer, const uint8_t **data, size_t *bytes);
CUS_API cusStatus cusViewerSent(cusViewer *viewer, size_t bytes);

/* Says "bye". */
CUS_API cusStatus cusViewerFinish(cusViewer *viewer);

/* The picture, in host memory: valid until the next event; unspecified before the first frame. Errors: NULL, VALUE (not
 * connected yet). */
CUS_API cusStatus cusViewerPicture(const cusViewer *viewer, cusMat *view);
CUS_API cusStatus cusViewerQuery(const cusViewer *viewer, cusViewerInfo *info);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_LIVE_H */

/* cusight/live.h: live video as sparse differences, in messages that any transport can carry.
 *
 * Three objects turn frames into bytes and bytes into frames. They have no sockets, threads or files; the program moves the
 * bytes.
 *   cusSender  one for each video:   frames in, messages out (sparse differences, compressed; key frames on request).
 *   cusPeer    one for each viewer:  the sender's end of one connection: handshake, what this viewer gets next, its
 *   cusViewer  backlog. one for each viewer:  the receiving end: bytes in, frames out.
 * docs/wire-format.md defines the wire format. After every message the viewer's frame equals the sender's reference of that
 * sequence number exactly (framediff.h says how far that is from the camera's frame).
 *
 * Frames are 8UC1, 8UC3 or 8UC4, each side at most 32768, at most 2^30 bytes. One call at a time may use an object (else
 * BUSY), except as noted at cusSenderRelease; different objects are independent. Every object needs libzstd: in a build
 * without it the Create functions return CUS_ERROR_UNSUPPORTED.
 *
 * The other end is not trusted. Each field of a message is checked against the handshake and fixed limits before anything
 * is allocated or written, and a message is applied completely or not at all. After a bad message the object has failed:
 * that call and all later ones return its error, and the connection should be closed. The checksum detects damage, not
 * forgery: authentication is the transport's task.
 */
#ifndef CUSIGHT_LIVE_H
#define CUSIGHT_LIVE_H

#include "framediff.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages ------------------------------------------------------------------------------------------------------ */

enum { CUS_WIRE_VERSION = 1, CUS_WIRE_HEADER_BYTES = 48, CUS_WIRE_MAX_SIDE = 32768, CUS_WIRE_MAX_FRAME_BYTES = 1 << 30 };

/* What a message is. */
typedef enum cusWireType {
    CUS_WIRE_HELLO = 1,             /* viewer: the version; sender: size and rate of the frames */
    CUS_WIRE_KEY_FRAME = 2,         /* sender: a whole frame */
    CUS_WIRE_DIFFERENCE = 3,        /* sender: what changed since frame `base` */
    CUS_WIRE_BYE = 4,               /* either: an orderly end */
    CUS_WIRE_REQUEST_KEY_FRAME = 5, /* viewer: it lacks the frame that a difference applies to */
    CUS_WIRE_CHECKSUM = 6,          /* sender, on request: checksum of the whole picture after frame `sequence` */
    CUS_WIRE_REQUEST_CHECKSUMS = 7  /* viewer: it wants these; only if the sender's hello offers them */
} cusWireType;

/* How a message's payload is stored. */
typedef enum cusWireEncoding {
    CUS_WIRE_RAW = 0, /* not compressed */
    CUS_WIRE_ZSTD = 1 /* one or more consecutive Zstandard frames (RFC 8878), no skippable ones */
} cusWireEncoding;

/* The header of a message. */
typedef struct cusWireHeader {
    cusWireType type;         /* what the message is */
    cusWireEncoding encoding; /* how the payload is stored */
    uint32_t payload_bytes;   /* size of the payload that follows */
    uint32_t raw_bytes;       /* size of the decompressed payload */
    uint64_t sequence, base;  /* number of the frame; of the frame that a difference applies to */
    uint32_t width, height;   /* frame size in pixels */
    int channels;             /* 1, 3 or 4 */
    uint32_t crc;             /* CRC-32C of the 44 bytes before it and the payload */
} cusWireHeader;

/* CRC-32C (Castagnoli). crc: 0, or the result for the preceding bytes. Uses the processor's
 * instruction (SSE4.2, ARMv8 CRC32) where there is one, and of 4 MiB or more all threads. */
CUS_API uint32_t cusCrc32c(uint32_t crc, const void *data, size_t bytes);

/* Writes the header of a payload (NULL if payload_bytes is 0), including the checksum of both. header->crc is ignored.
 * Errors: NULL. */
CUS_API cusStatus cusWirePack(const cusWireHeader *header, const void *payload, uint8_t out[CUS_WIRE_HEADER_BYTES]);

/* Reads a header and checks what can be checked without a handshake: magic, version, type, encoding, reserved bytes, and
 * sizes against the limits and each other. Errors: NULL; FORMAT; UNSUPPORTED for another version of the format. */
CUS_API cusStatus cusWireParse(const uint8_t in[CUS_WIRE_HEADER_BYTES], cusWireHeader *header);

/* ---- Sender: frames in, messages out ------------------------------------------------------------------------------- */

/* What a sender does with each frame. */
typedef struct cusSenderOptions {
    cusDiffOptions diff;   /* threshold and noise filter */
    int compression_level; /* Zstandard level, 1..19, default 1 */
    int max_in_flight;     /* frames submitted but not released, 2..64, default 4 */
    uint64_t reserved[8];  /* 0: for later options */
} cusSenderOptions;

/* Returns these defaults. */
CUS_API cusSenderOptions cusSenderDefaults(void);

/* One video: differences and packs its frames. */
typedef struct cusSender cusSender;

/* One packed frame. The pointers are valid until it is released. */
typedef struct cusSentFrame {
    uint64_t sequence; /* 1, 2, 3, ... */
    /* A difference from sequence - 1, or a key frame: for the first frame, and where that is smaller. */
    const uint8_t *message;
    size_t message_bytes; /* header and payload */
    /* A key frame of the same sequence number if one was requested or is the message, else NULL. */
    const uint8_t *key_frame;
    size_t key_frame_bytes; /* header and payload; 0 without a key frame */
    const uint8_t *mask; /* the difference itself: changed-byte mask, rows x ceil(cols * channels / 8), rows not padded, as
                            in cusSparseDiff; and the changes in ascending order of position, modulo 256 */
    const uint8_t *values;    /* see mask */
    uint32_t count;           /* number of values */
    float encode_ms, pack_ms; /* from submission to the difference in host memory; compression and checksum */
    int has_checksum;         /* for frames with a key frame, and every hundredth: the next two fields are set */
    uint32_t checksum;        /* CRC-32C of the reference after this frame: its rows in order, without padding */
    int error_bound;          /* no byte of the reference differs from the camera's by more, 0..255 */
    uint64_t reserved[8];     /* 0: for later fields */
} cusSentFrame;

/* Creates a sender, which computes differences in `space`. Allocates everything: about 4.3 bytes of host memory for each
 * byte of a frame and each frame in flight, page-locked for CUS_DEVICE, which also takes 3.2 bytes of device memory.
 * `options` NULL: defaults. Errors: NULL, VALUE, TYPE, SIZE, NO_MEMORY, NO_CUDA, UNSUPPORTED. */
CUS_API cusStatus cusSenderCreate(cusSender **sender, int rows, int cols, int type, cusSpace space,
                                  const cusSenderOptions *options);
/* Safe on NULL. */
CUS_API void cusSenderDestroy(cusSender *sender);

/* Starts to process a frame: a host frame for either space, or a device frame for CUS_DEVICE, which is read after the work
 * queued in `stream` so far. CUS_HOST: the difference is complete on return. CUS_DEVICE: upload, difference and download
 * are queued in the sender's own streams and do not block if the frame is page-locked or in device memory; do not change it
 * until cusSenderFinish has returned it. The first frame becomes the reference unchanged, without the threshold.
 * with_key_frame: also pack a key frame. Errors: NULL, TYPE, SIZE, SPACE, CUDA; CAPACITY if max_in_flight frames are not
 * released. */
CUS_API cusStatus cusSenderSubmit(cusSender *sender, const cusMat *frame, int with_key_frame, cusStream stream);

/* Waits for the oldest submitted frame and packs it. The bytes depend only on the frames and the options, not on space,
 * threads or timing. Compression runs on all cores in blocks of 64 KiB. Errors: NULL; VALUE if no submitted frame is left;
 * CUDA. */
CUS_API cusStatus cusSenderFinish(cusSender *sender, cusSentFrame *packed);

/* Releases the oldest finished frame. May run on another thread than Submit and Finish. Errors: NULL; VALUE if no finished
 * frame is left. */
CUS_API cusStatus cusSenderRelease(cusSender *sender);

/* Returns a view of the encoder's reference: what viewers have after the last submitted frame. On the device it is ready
 * once all submitted frames are finished. */
CUS_API cusStatus cusSenderReference(const cusSender *sender, cusMat *view);

/* ---- Peer: the sender's end of one connection ---------------------------------------------------------------------- */

/* One viewer's connection, seen from the sender. */
typedef struct cusPeer cusPeer;

/* Creates a peer. rate_millihertz: the frame rate that the viewer is told, 25000 for 25 frames per second; 0: unknown.
 * Allocates about 3.5 bytes for each byte of a frame; no later call allocates. Errors: NULL, VALUE, TYPE, SIZE, NO_MEMORY,
 * UNSUPPORTED. */
CUS_API cusStatus cusPeerCreate(cusPeer **peer, int rows, int cols, int type, uint32_t rate_millihertz);
/* Safe on NULL. */
CUS_API void cusPeerDestroy(cusPeer *peer);

/* Takes bytes received from the viewer. Errors: NULL; FORMAT or UNSUPPORTED: close the connection. */
CUS_API cusStatus cusPeerInput(cusPeer *peer, const void *data, size_t bytes);

/* Offers the next frame of the video; call it for every frame, in order. The peer copies what its viewer needs: nothing
 * before the handshake; the key frame if the viewer waits for one (and this frame has one); the message while fewer than 16
 * frames wait in the output buffer and it has room (two frames). Otherwise the difference is added to the backlog, which is
 * sent as a single difference once the output buffer is empty. Never blocks and never allocates. Errors: NULL; VALUE if the
 * sequence number does not increase; the error that the peer has failed with. */
CUS_API cusStatus cusPeerOffer(cusPeer *peer, const cusSentFrame *frame);

/* Returns the bytes that wait to be sent; *bytes is 0 if there are none. */
CUS_API cusStatus cusPeerOutput(cusPeer *peer, const uint8_t **data, size_t *bytes);
/* Says how many of them have been sent. Errors: NULL, VALUE (more than wait). */
CUS_API cusStatus cusPeerSent(cusPeer *peer, size_t bytes);

/* Ends the video: no more frames follow, and a bye is sent after the backlog. */
CUS_API cusStatus cusPeerFinish(cusPeer *peer);

/* The state of a connection. */
typedef struct cusPeerInfo {
    int connected;        /* the handshake is complete */
    int wants_key_frame;  /* the next frame should come with a key frame */
    int behind;           /* there is a backlog */
    int disconnected;     /* the viewer said bye */
    uint64_t sequence;    /* last frame put into the output */
    uint64_t coalesced;   /* frames sent as part of a single difference, so far */
    uint64_t reserved[8]; /* 0: for later fields */
} cusPeerInfo;

/* Returns the state of the connection. Errors: NULL, BUSY. */
CUS_API cusStatus cusPeerQuery(const cusPeer *peer, cusPeerInfo *info);

/* ---- Viewer: bytes in, frames out ---------------------------------------------------------------------------------- */

/* What a viewer accepts. */
typedef struct cusViewerOptions {
    size_t max_frame_bytes; /* larger frames are refused before anything is allocated; 1..2^30, default 2^28 (8K with 4
                               channels has 133 million bytes) */
    int checksums;          /* 1: ask the sender for checksums of its pictures, if it offers them; default 0 */
    uint64_t reserved[8];   /* 0: for later options */
} cusViewerOptions;

/* Returns this default. */
CUS_API cusViewerOptions cusViewerDefaults(void);

/* The result of an input. */
typedef enum cusViewerUpdate {
    CUS_VIEWER_NOTHING = 0,   /* all input is used, nothing to report */
    CUS_VIEWER_CONNECTED = 1, /* size and rate are known */
    CUS_VIEWER_FRAME = 2,     /* a new frame is available */
    /* A difference whose base is not the current frame was skipped; a key frame is requested. */
    CUS_VIEWER_BASE_MISSING = 3,
    CUS_VIEWER_ENDED = 4,  /* the sender said bye */
    CUS_VIEWER_CHECKED = 5 /* the checksum of the current frame has come: cusViewerInfo.exact */
} cusViewerUpdate;

/* The video, and its current frame. */
typedef struct cusViewerInfo {
    int rows, cols, type;     /* frame shape */
    uint32_t rate_millihertz; /* 0: unknown */
    uint64_t sequence;        /* current frame; 0 before the first */
    int is_key_frame;         /* it came as a key frame */
    uint32_t changed;         /* bytes changed by the last difference */
    size_t message_bytes;     /* message of the current frame: header and payload */
    uint64_t checked;         /* the last frame that was compared with the sender's checksum; 0: none */
    int exact;                /* that frame is the sender's reference, as far as a CRC-32C can tell */
    int error_bound;          /* no byte of that frame differs from the camera's by more, if it is exact */
    uint64_t reserved[8];     /* 0: for later fields */
} cusViewerInfo;

/* The receiving end. */
typedef struct cusViewer cusViewer;

/* Creates a viewer. `options` NULL: defaults. Errors: NULL, VALUE, NO_MEMORY, UNSUPPORTED. */
CUS_API cusStatus cusViewerCreate(cusViewer **viewer, const cusViewerOptions *options);
/* Safe on NULL. */
CUS_API void cusViewerDestroy(cusViewer *viewer);

/* Prepares for a new connection: handshake and key frame are required again, a failure is cleared, the frame is kept. */
CUS_API cusStatus cusViewerReconnect(cusViewer *viewer);

/* Takes bytes received from the sender. Returns at each update, with the number of bytes used in *used: call it again with
 * the rest. The first connection allocates (about 3.3 bytes for each byte of a frame), and so does one with another frame
 * size. Errors: NULL; FORMAT, UNSUPPORTED, SIZE, NO_MEMORY: close the connection; the last good frame is kept. */
CUS_API cusStatus cusViewerInput(cusViewer *viewer, const void *data, size_t bytes, size_t *used, cusViewerUpdate *update);

/* Returns the bytes that wait to be sent; *bytes is 0 if there are none. */
CUS_API cusStatus cusViewerOutput(cusViewer *viewer, const uint8_t **data, size_t *bytes);
/* Says how many of them have been sent. Errors: NULL, VALUE (more than wait). */
CUS_API cusStatus cusViewerSent(cusViewer *viewer, size_t bytes);

/* Queues a bye. */
CUS_API cusStatus cusViewerFinish(cusViewer *viewer);

/* Returns a view of the current frame, in host memory, valid until the next input. It is unspecified before the first
 * frame. Errors: NULL, BUSY; VALUE before a connection. */
CUS_API cusStatus cusViewerFrame(const cusViewer *viewer, cusMat *view);
/* Returns the video's properties and the current frame's. Errors: NULL, BUSY. */
CUS_API cusStatus cusViewerQuery(const cusViewer *viewer, cusViewerInfo *info);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_LIVE_H */

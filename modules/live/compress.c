/* Compresses payloads with Zstandard. A payload is cut into blocks that are compressed independently, as consecutive
 * Zstandard frames: threads share the work, and the bytes do not depend on their number. Mask and values never share a
 * block, since their statistics differ. */
#include "live/compress.h"
#include "check.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>

#ifdef CUSI_WITH_ZSTD

#include <zstd.h>

/* Larger blocks hardly compress better, and fewer threads can share a frame (docs/internals/live.md). */
enum { BLOCK_BYTES = 64 * 1024 };

struct LiveCompressor {
    int threads;
    size_t max_blocks, bound; /* `bound`: the most bytes of a compressed block */
    size_t *sizes;            /* sizes of the compressed blocks */
    uint8_t *scratch;         /* the compressed blocks, `bound` bytes apart */
    ZSTD_CCtx *contexts[];
};

cusStatus live_compressorCreate(const char *function, int compression_level, int threads, size_t max_bytes,
                                LiveCompressor **compressor) {
    const size_t blocks = (max_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES + 1;
    const size_t block_bytes = max_bytes < BLOCK_BYTES ? max_bytes : BLOCK_BYTES;
    if ((size_t)threads > blocks)
        threads = (int)blocks;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the contexts are pointers */
    LiveCompressor *made = calloc(1, sizeof *made + (size_t)threads * sizeof *made->contexts);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    made->threads = threads;
    made->max_blocks = blocks;
    made->bound = ZSTD_compressBound(block_bytes);
    made->sizes = calloc(blocks, sizeof *made->sizes);
    made->scratch = malloc(blocks * made->bound);
    uint8_t *zeros = calloc(1, block_bytes);
    int complete = made->sizes && made->scratch && zeros;
    for (int i = 0; i < threads && complete; ++i) {
        made->contexts[i] = ZSTD_createCCtx();
        /* A context allocates its tables at its first use: do that now. */
        complete = made->contexts[i] &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(made->contexts[i], ZSTD_c_compressionLevel, compression_level)) &&
                   !ZSTD_isError(ZSTD_compress2(made->contexts[i], made->scratch, made->bound, zeros, block_bytes));
    }
    free(zeros);
    if (!complete) {
        live_compressorDestroy(made);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    }
    *compressor = made;
    return CUS_OK;
}

void live_compressorDestroy(LiveCompressor *compressor) {
    if (!compressor)
        return;
    for (int i = 0; i < compressor->threads; ++i)
        ZSTD_freeCCtx(compressor->contexts[i]);
    free(compressor->sizes);
    free(compressor->scratch);
    free(compressor);
}

/* Compresses `bytes`, the first mask_bytes of which are a mask. Returns the compressed size, or 0 if that is not
 * smaller. */
static size_t compressBlocks(LiveCompressor *compressor, const uint8_t *raw, size_t mask_bytes, size_t bytes,
                             uint8_t *out) {
    const size_t mask_blocks = (mask_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    const size_t blocks = mask_blocks + (bytes - mask_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    if (blocks > compressor->max_blocks)
        return 0;
    const int threads = (size_t)compressor->threads < blocks ? compressor->threads : (int)blocks;
    (void)threads;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < blocks; ++i) {
        const size_t start = i < mask_blocks ? i * BLOCK_BYTES : mask_bytes + (i - mask_blocks) * BLOCK_BYTES;
        const size_t end = i < mask_blocks ? mask_bytes : bytes;
        const size_t n = end - start < BLOCK_BYTES ? end - start : BLOCK_BYTES;
        ZSTD_CCtx *const context = compressor->contexts[cusi_threadNumber()];
        const size_t size =
            ZSTD_compress2(context, compressor->scratch + i * compressor->bound, compressor->bound, raw + start, n);
        compressor->sizes[i] = ZSTD_isError(size) ? SIZE_MAX / 2 : size;
    }
    size_t total = 0;
    for (size_t i = 0; i < blocks; ++i)
        if (compressor->sizes[i] >= bytes || (total += compressor->sizes[i]) >= bytes)
            return 0;
    for (size_t i = 0; i < blocks; ++i) {
        memcpy(out, compressor->scratch + i * compressor->bound, compressor->sizes[i]);
        out += compressor->sizes[i];
    }
    return total;
}

struct LiveDecompressor {
    ZSTD_DCtx *context;
};

cusStatus live_decompressorCreate(const char *function, LiveDecompressor **decompressor) {
    LiveDecompressor *made = calloc(1, sizeof *made);
    if (made)
        made->context = ZSTD_createDCtx();
    if (!made || !made->context) {
        free(made);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    }
    *decompressor = made;
    return CUS_OK;
}

void live_decompressorDestroy(LiveDecompressor *decompressor) {
    if (!decompressor)
        return;
    ZSTD_freeDCtx(decompressor->context);
    free(decompressor);
}

/* Returns whether a current Zstandard frame begins here. libzstd also skips frames with application data, and some
 * builds read frames of versions before 1.0 with decoders that hardly anyone tests. */
static int beginsFrame(const uint8_t *payload, size_t bytes) {
    return bytes >= 4 && (payload[0] | (uint32_t)payload[1] << 8 | (uint32_t)payload[2] << 16 |
                          (uint32_t)payload[3] << 24) == ZSTD_MAGICNUMBER;
}

int live_decompress(LiveDecompressor *decompressor, const uint8_t *payload, size_t bytes, uint8_t *raw, size_t raw_bytes) {
    while (bytes > 0) {
        const size_t frame = beginsFrame(payload, bytes) ? ZSTD_findFrameCompressedSize(payload, bytes) : 0;
        if (frame == 0 || ZSTD_isError(frame))
            return 0;
        const size_t written = ZSTD_decompressDCtx(decompressor->context, raw, raw_bytes, payload, frame);
        if (ZSTD_isError(written))
            return 0;
        payload += frame;
        bytes -= frame;
        raw += written;
        raw_bytes -= written;
    }
    return raw_bytes == 0;
}

#else /* no libzstd */

cusStatus live_compressorCreate(const char *function, int compression_level, int threads, size_t max_bytes,
                                LiveCompressor **compressor) {
    (void)compression_level, (void)threads, (void)max_bytes, (void)compressor;
    return cusi_fail(CUS_ERROR_UNSUPPORTED, "%s: this build of cusight has no libzstd", function);
}
void live_compressorDestroy(LiveCompressor *compressor) {
    (void)compressor;
}
static size_t compressBlocks(LiveCompressor *compressor, const uint8_t *raw, size_t mask_bytes, size_t bytes,
                             uint8_t *out) {
    (void)compressor, (void)raw, (void)mask_bytes, (void)bytes, (void)out;
    return 0;
}
cusStatus live_decompressorCreate(const char *function, LiveDecompressor **decompressor) {
    (void)decompressor;
    return cusi_fail(CUS_ERROR_UNSUPPORTED, "%s: this build of cusight has no libzstd", function);
}
void live_decompressorDestroy(LiveDecompressor *decompressor) {
    (void)decompressor;
}
int live_decompress(LiveDecompressor *decompressor, const uint8_t *payload, size_t bytes, uint8_t *raw, size_t raw_bytes) {
    (void)decompressor, (void)payload, (void)bytes, (void)raw, (void)raw_bytes;
    return 0;
}

#endif

size_t live_packMessage(LiveCompressor *compressor, cusWireHeader header, const uint8_t *raw, size_t mask_bytes,
                        size_t raw_bytes, uint8_t *out) {
    uint8_t *const payload = out + CUS_WIRE_HEADER_BYTES;
    size_t bytes = compressBlocks(compressor, raw, mask_bytes, raw_bytes, payload);
    header.encoding = bytes ? CUS_WIRE_ZSTD : CUS_WIRE_RAW;
    if (!bytes) {
        memcpy(payload, raw, raw_bytes);
        bytes = raw_bytes;
    }
    header.raw_bytes = (uint32_t)raw_bytes;
    header.payload_bytes = (uint32_t)bytes;
    (void)cusWirePack(&header, payload, out);
    return CUS_WIRE_HEADER_BYTES + bytes;
}

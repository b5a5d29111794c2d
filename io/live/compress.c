/* Zstandard, behind four functions. A payload is cut into pieces that are compressed independently, so that threads can
 * share the work and yet the bytes do not depend on their number; the Zstandard format allows frames one after the other.
 * Masks and values are never in one piece: their statistics have nothing in common. */
#include "host.h"
#include "live_internal.h"

#include <stdlib.h>
#include <string.h>

#ifdef CUSI_WITH_ZSTD

#include <zstd.h>

/* vtest.avi, threshold 20, mean kB a frame: 32 KiB 29.87, 64 29.78, 128 29.72, 256 29.73, 512 29.76. The smaller, the more
 * threads can share a frame. */
enum { PIECE = 64 * 1024 };

struct LiveCompressor {
    int level, threads;
    size_t pieces, bound; /* of one compressed piece */
    size_t *sizes;
    uint8_t *scratch;
    ZSTD_CCtx *contexts[];
};

cusStatus livei_compressorCreate(const char *function, int level, int threads, size_t max_bytes,
                                 LiveCompressor **compressor) {
    const size_t pieces = (max_bytes + PIECE - 1) / PIECE + 1, piece = max_bytes < PIECE ? max_bytes : PIECE;
    if ((size_t)threads > pieces)
        threads = (int)pieces;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the contexts are pointers */
    LiveCompressor *made = calloc(1, sizeof *made + (size_t)threads * sizeof *made->contexts);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    made->level = level;
    made->threads = threads;
    made->pieces = pieces;
    made->bound = ZSTD_compressBound(piece);
    made->sizes = calloc(pieces, sizeof *made->sizes);
    made->scratch = malloc(pieces * made->bound);
    uint8_t *black = calloc(1, piece);
    int complete = made->sizes && made->scratch && black;
    for (int i = 0; i < threads && complete; ++i) {
        made->contexts[i] = ZSTD_createCCtx();
        /* A context allocates its tables when it is first used: let that be now. */
        complete = made->contexts[i] &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(made->contexts[i], ZSTD_c_compressionLevel, level)) &&
                   !ZSTD_isError(ZSTD_compress2(made->contexts[i], made->scratch, made->bound, black, piece));
    }
    free(black);
    if (!complete) {
        livei_compressorDestroy(made);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    }
    *compressor = made;
    return CUS_OK;
}

void livei_compressorDestroy(LiveCompressor *compressor) {
    if (!compressor)
        return;
    for (int i = 0; i < compressor->threads; ++i)
        ZSTD_freeCCtx(compressor->contexts[i]);
    free(compressor->sizes);
    free(compressor->scratch);
    free(compressor);
}

size_t livei_compress(LiveCompressor *compressor, const uint8_t *raw, size_t mask_bytes, size_t bytes, uint8_t *out) {
    const size_t mask_pieces = (mask_bytes + PIECE - 1) / PIECE;
    const size_t pieces = mask_pieces + (bytes - mask_bytes + PIECE - 1) / PIECE;
    if (pieces > compressor->pieces)
        return 0;
    const int threads = (size_t)compressor->threads < pieces ? compressor->threads : (int)pieces;
    (void)threads; /* without OpenMP */
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (size_t i = 0; i < pieces; ++i) {
        const size_t start = i < mask_pieces ? i * PIECE : mask_bytes + (i - mask_pieces) * PIECE;
        const size_t end = i < mask_pieces ? mask_bytes : bytes, n = end - start < PIECE ? end - start : PIECE;
#ifdef _OPENMP
        ZSTD_CCtx *const context = compressor->contexts[omp_get_thread_num()];
#else
        ZSTD_CCtx *const context = compressor->contexts[0];
#endif
        const size_t size =
            ZSTD_compress2(context, compressor->scratch + i * compressor->bound, compressor->bound, raw + start, n);
        compressor->sizes[i] = ZSTD_isError(size) ? SIZE_MAX / 2 : size;
    }
    size_t total = 0;
    for (size_t i = 0; i < pieces; ++i)
        if (compressor->sizes[i] >= bytes || (total += compressor->sizes[i]) >= bytes)
            return 0;
    for (size_t i = 0; i < pieces; ++i) {
        memcpy(out, compressor->scratch + i * compressor->bound, compressor->sizes[i]);
        out += compressor->sizes[i];
    }
    return total;
}

struct LiveDecompressor {
    ZSTD_DCtx *context;
};

cusStatus livei_decompressorCreate(const char *function, LiveDecompressor **decompressor) {
    LiveDecompressor *made = calloc(1, sizeof *made);
    if (made)
        made->context = ZSTD_createDCtx();
    if (!made || !made->context) {
        free(made);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    }
    *decompressor = made;
    return CUS_OK;
}

void livei_decompressorDestroy(LiveDecompressor *decompressor) {
    if (!decompressor)
        return;
    ZSTD_freeDCtx(decompressor->context);
    free(decompressor);
}

int livei_decompress(LiveDecompressor *decompressor, const uint8_t *payload, size_t bytes, uint8_t *raw, size_t raw_bytes) {
    return ZSTD_decompressDCtx(decompressor->context, raw, raw_bytes, payload, bytes) == raw_bytes;
}

#else /* no libzstd */

cusStatus livei_compressorCreate(const char *function, int level, int threads, size_t max_bytes,
                                 LiveCompressor **compressor) {
    (void)level, (void)threads, (void)max_bytes, (void)compressor;
    return cusi_fail(CUS_ERROR_UNSUPPORTED, "%s: this build of cusight has no libzstd", function);
}
void livei_compressorDestroy(LiveCompressor *compressor) {
    (void)compressor;
}
size_t livei_compress(LiveCompressor *compressor, const uint8_t *raw, size_t mask_bytes, size_t bytes, uint8_t *out) {
    (void)compressor, (void)raw, (void)mask_bytes, (void)bytes, (void)out;
    return 0;
}
cusStatus livei_decompressorCreate(const char *function, LiveDecompressor **decompressor) {
    (void)decompressor;
    return cusi_fail(CUS_ERROR_UNSUPPORTED, "%s: this build of cusight has no libzstd", function);
}
void livei_decompressorDestroy(LiveDecompressor *decompressor) {
    (void)decompressor;
}
int livei_decompress(LiveDecompressor *decompressor, const uint8_t *payload, size_t bytes, uint8_t *raw, size_t raw_bytes) {
    (void)decompressor, (void)payload, (void)bytes, (void)raw, (void)raw_bytes;
    return 0;
}

#endif

size_t livei_packMessage(LiveCompressor *compressor, cusWireHeader header, const uint8_t *raw, size_t mask_bytes,
                         size_t raw_bytes, uint8_t *out) {
    uint8_t *const payload = out + CUS_WIRE_HEADER_BYTES;
    size_t bytes = livei_compress(compressor, raw, mask_bytes, raw_bytes, payload);
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

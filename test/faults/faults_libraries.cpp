// libzstd, libblosc, zlib, LZ4 and bzip2.
#include "interpose.hpp"

using namespace faults;

// To the end, as macros without semicolons confuse clang-format.
// clang-format off
#ifdef CUSIGHT_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

static size_t zstdFailure() {
    return static_cast<size_t>(-ZSTD_error_memory_allocation);
}
static ZSTD_CCtx *createCompressor() {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    take(CONTEXT, reinterpret_cast<uintptr_t>(context));
    return context;
}
static ZSTD_DCtx *createDecompressor() {
    ZSTD_DCtx *context = ZSTD_createDCtx();
    take(CONTEXT, reinterpret_cast<uintptr_t>(context));
    return context;
}
INTERPOSE_WITH(ZSTD_createCCtx, &createCompressor, ZSTD, nullptr, 0, false)
INTERPOSE_WITH(ZSTD_createDCtx, &createDecompressor, ZSTD, nullptr, 0, false)
INTERPOSE(ZSTD_CCtx_setParameter, ZSTD, zstdFailure())
INTERPOSE(ZSTD_compress, ZSTD, zstdFailure())
INTERPOSE(ZSTD_compress2, ZSTD, zstdFailure())
INTERPOSE(ZSTD_decompress, ZSTD, zstdFailure())
INTERPOSE(ZSTD_decompressDCtx, ZSTD, zstdFailure())
extern "C" size_t faulty_ZSTD_freeCCtx(ZSTD_CCtx *context) {
    if (context)
        give(CONTEXT, reinterpret_cast<uintptr_t>(context));
    return ZSTD_freeCCtx(context);
}
extern "C" size_t faulty_ZSTD_freeDCtx(ZSTD_DCtx *context) {
    if (context)
        give(CONTEXT, reinterpret_cast<uintptr_t>(context));
    return ZSTD_freeDCtx(context);
}
#endif

#ifdef CUSIGHT_HAVE_BLOSC
#include <blosc.h>
INTERPOSE(blosc_cbuffer_validate, BLOSC, -1)
INTERPOSE(blosc_decompress_ctx, BLOSC, -1)
#endif

#ifdef CUSIGHT_HAVE_ZLIB
#include <zlib.h>
INTERPOSE(uncompress, MEMORY, Z_MEM_ERROR) // both allocate their state
INTERPOSE(compress2, MEMORY, Z_MEM_ERROR)
#endif

#ifdef CUSIGHT_HAVE_LZ4
#define LZ4F_STATIC_LINKING_ONLY // its error codes
#include <lz4frame.h>

static size_t lz4Failure() {
    return static_cast<size_t>(-LZ4F_ERROR_allocation_failed);
}
static LZ4F_errorCode_t createLz4(LZ4F_dctx **context, unsigned version) {
    const LZ4F_errorCode_t error = LZ4F_createDecompressionContext(context, version);
    take(CONTEXT, reinterpret_cast<uintptr_t>(*context));
    return error;
}
INTERPOSE_WITH(LZ4F_createDecompressionContext, &createLz4, MEMORY, lz4Failure(), 0, false)
INTERPOSE(LZ4F_decompress, MEMORY, lz4Failure())
INTERPOSE(LZ4F_compressFrame, MEMORY, lz4Failure())
extern "C" size_t faulty_LZ4F_freeDecompressionContext(LZ4F_dctx *context) {
    if (context)
        give(CONTEXT, reinterpret_cast<uintptr_t>(context));
    return LZ4F_freeDecompressionContext(context);
}
#endif

#ifdef CUSIGHT_HAVE_BZIP2
#include <bzlib.h>
INTERPOSE(BZ2_bzDecompressInit, MEMORY, BZ_MEM_ERROR)
INTERPOSE(BZ2_bzDecompress, MEMORY, BZ_MEM_ERROR)
#endif

// libhdf5, libzstd, libblosc, zlib, LZ4 and bzip2.
#include "interpose.hpp"

using namespace faults;

#ifdef CUSIGHT_HAVE_HDF5
#include <hdf5.h>

// Every identifier that is opened must be closed, even those that libhdf5 would close with the file.
template<class Type, Type F>
struct Opening;
template<class... A, hid_t (*F)(A...)>
struct Opening<hid_t (*)(A...), F> {
    static hid_t call(A... a) {
        const hid_t id = F(a...);
        if (id >= 0)
            take(HDF5_ID, static_cast<uintptr_t>(id));
        return id;
    }
};
template<herr_t (*F)(hid_t)>
static herr_t closing(hid_t id) {
    if (id >= 0)
        give(HDF5_ID, static_cast<uintptr_t>(id));
    return F(id);
}

#define H5(function)       INTERPOSE(function, HDF5, -1)
#define H5_OPEN(function)  INTERPOSE_WITH(function, (&Opening<decltype(&::function), &::function>::call), HDF5, -1, 0, false)
#define H5_CLOSE(function) INTERPOSE_WITH(function, (&closing<&::function>), HDF5, -1, 0, true)
// To the end, as macros without semicolons confuse clang-format.
// clang-format off
H5_OPEN(H5Dcreate_anon) H5_OPEN(H5Fcreate) H5_OPEN(H5Pcreate) H5_OPEN(H5Screate_simple) H5_OPEN(H5Tcopy) H5_OPEN(H5Tcreate)
H5_CLOSE(H5Dclose) H5_CLOSE(H5Fclose) H5_CLOSE(H5Pclose) H5_CLOSE(H5Sclose) H5_CLOSE(H5Tclose) H5(H5Dread) H5(H5Dwrite_chunk)
H5(H5Pset_chunk) H5(H5Pset_chunk_cache) H5(H5Pset_fapl_core) H5(H5Pset_filter) H5(H5Zfilter_avail)
#endif

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

/* Decompresses one block: LZ4 and zstd frames, bzip2. Each call writes straight into the caller's buffer, so no stream
 * can make a library allocate a window of the size that it claims. */
#include "eventio/packets/codec.h"

#include <string.h>

#ifdef CUSI_FUZZ /* fuzzers do not find checksums, which are then not compared */
#define ZSTD_STATIC_LINKING_ONLY
#endif
#ifdef CUSI_WITH_LZ4
#include <lz4frame.h>
#endif
#ifdef CUSI_WITH_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef CUSI_WITH_BZIP2
#include <bzlib.h>
#endif

const char *eventio_codecName(PacketCodec codec) {
    static const char *const names[CODEC_COUNT] = {"none", "LZ4", "zstd", "bzip2"};
    return names[codec];
}

#ifdef CUSI_WITH_LZ4
static Unpacked unpackLz4(const uint8_t *in, size_t n, uint8_t *out, size_t capacity, size_t *size) {
    LZ4F_dctx *context;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return UNPACK_NO_MEMORY;
    LZ4F_decompressOptions_t options = {.stableDst = 1};
#ifdef CUSI_FUZZ
    options.skipChecksums = 1;
#endif
    size_t used = 0, hint = 1;
    *size = 0;
    while (hint) {
        size_t taken = n - used, given = capacity - *size;
        hint = LZ4F_decompress(context, out + *size, &given, in + used, &taken, &options);
        used += taken;
        *size += given;
        if (LZ4F_isError(hint) || (!taken && !given))
            break;
    }
    LZ4F_freeDecompressionContext(context);
    if (LZ4F_isError(hint))
        return strcmp(LZ4F_getErrorName(hint), "ERROR_allocation_failed") == 0 ? UNPACK_NO_MEMORY : UNPACK_BAD;
    if (!hint)
        return used == n ? UNPACK_DONE : UNPACK_BAD;
    return *size == capacity ? UNPACK_LARGE : UNPACK_SHORT;
}
#endif

#ifdef CUSI_WITH_ZSTD
static size_t decompressZstd(const uint8_t *in, size_t n, uint8_t *out, size_t capacity) {
#ifdef CUSI_FUZZ
    ZSTD_DCtx *context = ZSTD_createDCtx();
    (void)ZSTD_DCtx_setParameter(context, ZSTD_d_forceIgnoreChecksum, ZSTD_d_ignoreChecksum);
    const size_t size = ZSTD_decompressDCtx(context, out, capacity, in, n);
    ZSTD_freeDCtx(context);
    return size;
#else
    return ZSTD_decompress(out, capacity, in, n);
#endif
}

static Unpacked unpackZstd(const uint8_t *in, size_t n, uint8_t *out, size_t capacity, size_t *size) {
    static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    if (memcmp(in, magic, n < 4 ? n : 4) != 0)
        return UNPACK_BAD;
    const size_t whole = ZSTD_findFrameCompressedSize(in, n);
    if (ZSTD_isError(whole))
        return ZSTD_getErrorCode(whole) == ZSTD_error_srcSize_wrong ? UNPACK_SHORT : UNPACK_BAD;
    if (whole != n)
        return UNPACK_BAD;
    *size = decompressZstd(in, n, out, capacity);
    if (!ZSTD_isError(*size))
        return UNPACK_DONE;
    switch (ZSTD_getErrorCode(*size)) {
    case ZSTD_error_dstSize_tooSmall:
        return UNPACK_LARGE;
    case ZSTD_error_memory_allocation:
        return UNPACK_NO_MEMORY;
    default:
        return UNPACK_BAD;
    }
}
#endif

#ifdef CUSI_WITH_BZIP2
static Unpacked unpackBzip2(const uint8_t *in, size_t n, uint8_t *out, size_t capacity, size_t *size) {
    bz_stream stream = {0};
    if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK)
        return UNPACK_NO_MEMORY;
    const union {
        const uint8_t *bytes;
        char *next; /* only read */
    } from = {in};
    stream.next_in = from.next;
    stream.avail_in = (unsigned)n;
    stream.next_out = (char *)out;
    stream.avail_out = (unsigned)capacity;
    const int result = BZ2_bzDecompress(&stream);
    const int rest = stream.avail_in > 0, full = !stream.avail_out;
    *size = capacity - stream.avail_out;
    BZ2_bzDecompressEnd(&stream);
#ifdef CUSI_FUZZ
    if (result == BZ_DATA_ERROR && full) /* the checksum is compared only after the block has been delivered */
        return UNPACK_DONE;
#endif
    if (result == BZ_STREAM_END)
        return rest ? UNPACK_BAD : UNPACK_DONE;
    if (result == BZ_OK)
        return full ? UNPACK_LARGE : UNPACK_SHORT;
    return result == BZ_MEM_ERROR ? UNPACK_NO_MEMORY : UNPACK_BAD;
}
#endif

Unpacked eventio_unpack(PacketCodec codec, const uint8_t *in, size_t n, uint8_t *out, size_t capacity, size_t *size) {
    *size = 0;
    switch (codec) {
#ifdef CUSI_WITH_LZ4
    case CODEC_LZ4:
        return unpackLz4(in, n, out, capacity, size);
#endif
#ifdef CUSI_WITH_ZSTD
    case CODEC_ZSTD:
        return unpackZstd(in, n, out, capacity, size);
#endif
#ifdef CUSI_WITH_BZIP2
    case CODEC_BZIP2:
        return unpackBzip2(in, n, out, capacity, size);
#endif
    default:
        (void)in, (void)n, (void)out, (void)capacity;
        return UNPACK_ABSENT;
    }
}

// Narrow images with many rows: a copy of the frame without padding, which the encoder's kernels read as one long row. Where there
// is a noise filter or a mask, it is applied or written here, as both go by rows and pixels.
#include "framediff_units.cuh"

namespace framediff {
namespace {

constexpr int THREADS = 256;

// A thread copies four bytes. `joined` is padded to whole vectors.
__global__ void __launch_bounds__(THREADS) joinKernel(const EncodeParams params, Divisor row_bytes, uint32_t *joined) {
    cusi::startInOrder();
    const unsigned bytes = params.rows * row_bytes.d, first = 4 * (blockIdx.x * THREADS + threadIdx.x);
    if (first >= bytes)
        return;
    uint32_t word = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned at = min(first + i, bytes - 1), y = row_bytes.divide(at);
        word |= static_cast<uint32_t>(params.cur[y * params.cur_step + (at - y * row_bytes.d)]) << 8 * i;
    }
    joined[first / 4] = word;
}

// Up to MOST bytes from any address; the rest of 16 is 0. All loads are in flight together, as none is in a branch.
template<int MOST>
__device__ __forceinline__ uint4 loadBytes(const unsigned char *p, int bytes) {
    uint32_t b[16] = {}, w[4];
#pragma unroll
    for (int i = 0; i < MOST; ++i)
        cusi::loadByteIf(i < bytes, p + i, b[i]);
#pragma unroll
    for (int k = 0; k < 4; ++k)
        w[k] = __byte_perm(__byte_perm(b[4 * k], b[4 * k + 1], 0x0040), __byte_perm(b[4 * k + 2], b[4 * k + 3], 0x0040),
                           0x5410);
    return make_uint4(w[0], w[1], w[2], w[3]);
}

// A thread takes a unit of a row, of at most MOST bytes: those that are not to be sent become those of the reference.
// `joined` may be the frame itself: a thread writes only what it alone has read.
template<int MOST>
__global__ void __launch_bounds__(THREADS) joinFilteredKernel(const EncodeParams params, unsigned char *joined) {
    cusi::startInOrder();
    const unsigned unit = blockIdx.x * THREADS + threadIdx.x;
    if (unit >= params.units)
        return;
    const UnitLocation at = locate(params, unit);
    const int length = static_cast<int>(at.length);
    const size_t position = static_cast<size_t>(at.y) * params.row_bytes + at.x; // the reference has no padding, too
    const uint4 cur = loadBytes<MOST>(params.cur + static_cast<size_t>(at.y) * params.cur_step + at.x, length);
    const uint4 ref = loadBytes<MOST>(params.ref + position, length);
    const unsigned bits = bytesToSend<true>(params, unit, cur, ref);
    storeMask(params, unit, bits);
    cusi::store16(joined + position, blend(cur, ref, bits), min(length, MOST), false);
}

} // namespace

cusStatus launchJoin(const EncodeParams &encode, unsigned char *joined, cudaStream_t stream) {
    constexpr unsigned BYTES = 4 * THREADS;
    if (!encode.changed && !encode.mask)
        return cusi::launchOverlapped("cusDiffEncode", joinKernel, cusi::divUp(encode.rows * encode.row_bytes, BYTES),
                                      THREADS, 0, stream, encode, Divisor(encode.row_bytes),
                                      reinterpret_cast<uint32_t *>(joined));
    const auto kernel = encode.row_bytes <= 4 ? joinFilteredKernel<4> : joinFilteredKernel<16>;
    return cusi::launchOverlapped("cusDiffEncode", kernel, cusi::divUp(encode.units, static_cast<unsigned>(THREADS)),
                                  THREADS, 0, stream, encode, joined);
}

} // namespace framediff

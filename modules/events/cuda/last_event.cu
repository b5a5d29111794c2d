// Makes tiles of MDES and TENCODE, which follow from a pixel's last event.
//
// A pixel first holds the largest of its events' keys, 2 * (index in the window + 1) + polarity; 0: no event. The event
// with that key then replaces it by a code, which is all that the pixel's bytes depend on:
//   byte 0      how many channels of MDES the event reaches, 1 or more
//   byte 1      TENCODE's green
//   byte 2      MDES byte of its polarity ^ MDES byte of no event; its top bit says negative (0 ^ 128, 255 ^ 0)
//   bits 30, 31 CODE_MARK, which no key has, and CODE_POSITIVE
#include "events/cuda/tiles.cuh"

namespace cusi::events {

namespace {

constexpr unsigned PIXELS = 1u << tuning::INDEXED_TILE;
constexpr uint32_t CODE_POSITIVE = 1u << 31;

// Channels of MDES that a kernel is compiled for: the default, none, and a run-time number.
constexpr int DEFAULT_CHANNELS = 10, ANY_CHANNELS = -1;

// ---- Keys to codes -----------------------------------------------------------------------------------------------------

struct Encoder {
    uint32_t negative, positive;         // codes of an event that reaches channel 0 only
    uint32_t begin[EVENTS_MAX_CHANNELS]; // from channel 1 on: index of the first event that reaches the channel
    const uint32_t *green_begin;
};

template<int CHANNELS>
__device__ inline Encoder makeEncoder(const TileParams &params, unsigned n, const uint32_t *green_begin) {
    constexpr int K = CHANNELS == ANY_CHANNELS ? EVENTS_MAX_CHANNELS : CHANNELS;
    Encoder encoder;
    encoder.negative = CODE_MARK | (params.negative ^ params.none) << 16 | 1;
    encoder.positive = CODE_MARK | CODE_POSITIVE | (params.positive ^ params.none) << 16 | 1;
    encoder.green_begin = green_begin;
    uint32_t begin = 0;
#pragma unroll
    for (int k = 1; k < K; ++k) {
        begin += n >> k;
        encoder.begin[k] = CHANNELS == ANY_CHANNELS && k >= params.repr.channels ? ~0u : begin;
    }
    return encoder;
}

// Turns N keys into codes together, which hides the latency of the searches for green.
template<int CHANNELS, bool TENCODE, int N>
__device__ inline void encode(const Encoder &encoder, const uint32_t (&keys)[N], uint32_t (&codes)[N]) {
    constexpr int K = CHANNELS == ANY_CHANNELS ? EVENTS_MAX_CHANNELS : CHANNELS;
    uint32_t green[N];
#pragma unroll
    for (int i = 0; i < N; ++i)
        green[i] = 0;
    if (TENCODE) // the smallest g with green_begin[g] <= index
#pragma unroll
        for (int step = GREEN_LEVELS / 2; step > 0; step /= 2)
#pragma unroll
            for (int i = 0; i < N; ++i)
                green[i] += encoder.green_begin[green[i] + step - 1] > keys[i] / 2 - 1 ? step : 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        codes[i] = (keys[i] & 1 ? encoder.positive : encoder.negative) | green[i] << 8;
#pragma unroll
        for (int k = 1; k < K; ++k)
            codes[i] += encoder.begin[k] <= keys[i] / 2 - 1;
    }
}

// Turns keys in device memory into codes.
template<int CHANNELS, bool TENCODE>
__device__ __forceinline__ void codesFromKeys(const TileParams &params, unsigned tile, const Encoder &encoder,
                                              uint32_t *cells) {
    const Tiling &tiling = params.tiling;
    const unsigned row0 = tiling.firstRow(tile), col0 = tiling.firstCol(tile);
    for (unsigned i = threadIdx.x; i < PIXELS; i += THREADS) {
        const unsigned row = row0 + (i >> tiling.col_bits), col = col0 + (i & ((1u << tiling.col_bits) - 1));
        if (row >= tiling.bottom || col >= tiling.cols)
            continue;
        const uint32_t key[1] = {params.keys[static_cast<size_t>(row) * tiling.cols + col]};
        uint32_t code[1];
        encode<CHANNELS, TENCODE>(encoder, key, code);
        cells[i] = key[0] ? code[0] : 0;
    }
    __syncthreads();
}

// Finds the pixels' largest keys. The events with these keys then replace them by their codes.
template<int CHANNELS, bool TENCODE>
__device__ __forceinline__ void codesFromRecords(const TileParams &params, unsigned w, unsigned tile,
                                                 const Encoder &encoder, uint32_t *cells) {
    const volatile uint32_t *now = cells;
    forRecords(params, w, tile, [&](const uint32_t(&cell)[4], const uint32_t(&key)[4]) {
        uint32_t found[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = key[i] ? now[cell[i]] : ~0u;
#pragma unroll
        for (int i = 0; i < 4; ++i) // runs are read newest first, so most events of a crowded pixel need no atomic
            if (found[i] < key[i])
                atomicMax(cells + cell[i], key[i]);
    });
    __syncthreads();
    forRecords(params, w, tile, [&](const uint32_t(&cell)[4], const uint32_t(&key)[4]) {
        uint32_t found[4], code[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = key[i] ? now[cell[i]] : ~0u;
        encode<CHANNELS, TENCODE>(encoder, key, code);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (found[i] == key[i])
                atomicExch(cells + cell[i], code[i]);
    });
    __syncthreads();
}

// Leaves the codes of the tile's pixels in `cells`.
template<int CHANNELS, bool TENCODE>
__device__ void codesOfTile(const TileParams &params, unsigned w, unsigned tile, uint32_t *cells, uint32_t *green_begin) {
    const Window window = params.windows[w];
    const Encoder encoder = makeEncoder<CHANNELS>(params, static_cast<unsigned>(window.last - window.first), green_begin);
    if (TENCODE)
        for (unsigned g = threadIdx.x; g < GREEN_LEVELS; g += THREADS)
            green_begin[g] = params.sorted.green_begin[w * GREEN_LEVELS + g];
    clearShared(cells, PIXELS);
    if (params.keys)
        codesFromKeys<CHANNELS, TENCODE>(params, tile, encoder, cells);
    else
        codesFromRecords<CHANNELS, TENCODE>(params, w, tile, encoder, cells);
}

// ---- Codes to bytes ----------------------------------------------------------------------------------------------------

// Copies pixels of `bytes` bytes each, which the warp has left in shared memory, to the frame.
template<bool ALIGNED>
__device__ __forceinline__ void storeStrip(const uint32_t *strip, uint8_t *out, unsigned bytes, unsigned pixels) {
    const unsigned lane = threadIdx.x & 31;
    const uint4 *quads = reinterpret_cast<const uint4 *>(strip);
    __syncwarp();
    if constexpr (ALIGNED) {
#pragma unroll
        for (unsigned i = 0; i < divUp(STRIP * bytes, 512u); ++i)
            if (i * 32 + lane < pixels * bytes / 16)
                __stcs(reinterpret_cast<uint4 *>(out) + i * 32 + lane, quads[i * 32 + lane]);
    } else {
        storeUnaligned(
            out, pixels * bytes, lane, 32, [&](unsigned i) { return quads[i]; },
            [&](unsigned i) { return reinterpret_cast<const uint8_t *>(strip)[i]; });
    }
    __syncwarp();
}

// Byte k of a pixel changes if byte 0 of its code exceeds k; adding 127 - k then sets its top bit.
__device__ __forceinline__ uint32_t signMask(uint32_t reached_plus_limit) {
    return permute(reached_plus_limit, 0, 0xba98);
}

// Makes K channels of the lane's four pixels.
template<int K>
__device__ __forceinline__ void mdesBytes(const uint4 &four, uint32_t none, uint32_t *strip) {
    const unsigned lane = threadIdx.x & 31;
    const uint32_t code[4] = {four.x, four.y, four.z, four.w};
    uint32_t bytes[K];
#pragma unroll
    for (int j = 0; j < K; ++j)
        bytes[j] = none * 0x01010101;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t reached = __byte_perm(code[i], 0, 0x0000), change = __byte_perm(code[i], 0, 0x2222);
#pragma unroll
        for (int j = i * K / 4; j <= (i * K + K - 1) / 4; ++j) { // for all words with bytes of pixel i
            uint32_t limit = 0;
#pragma unroll
            for (int b = 0; b < 4; ++b)
                if (j * 4 + b >= i * K && j * 4 + b < (i + 1) * K)
                    limit |= static_cast<uint32_t>(127 - (j * 4 + b - i * K)) << (8 * b);
            bytes[j] ^= signMask(reached + limit) & change;
        }
    }
#pragma unroll
    for (int j = 0; j < K; ++j)
        strip[lane * K + j] = bytes[j];
}

// Makes any number of channels: a lane makes whole words of the strip, each from the pixels whose bytes it holds.
__device__ __forceinline__ void mdesBytesAny(const uint32_t *codes, unsigned channels, uint32_t none, uint32_t *strip) {
    const unsigned reciprocal = 65536 / channels + 1; // exact for the bytes of a strip
    for (unsigned word = threadIdx.x & 31; word < STRIP / 4 * channels; word += 32) {
        unsigned pixel = word * 4 * reciprocal >> 16;
        uint32_t bytes = none * 0x01010101;
        for (int begin = static_cast<int>(pixel * channels) - static_cast<int>(word * 4); begin < 4;
             begin += static_cast<int>(channels), ++pixel) { // begin: the pixel's channel 0, counted from the word's byte 0
            const uint32_t code = codes[pixel], reached = __byte_perm(code, 0, 0x0000),
                           change = __byte_perm(code, 0, 0x2222),
                           limit = 0x7c7d7e7fu + static_cast<uint32_t>(begin) * 0x01010101u,
                           here = begin > 0 ? ~0u << (8 * begin) : ~0u; // bytes of this pixel and later ones
            bytes ^= signMask(reached + limit) & change & here;
        }
        strip[word] = bytes;
    }
}

// TENCODE's first and third byte are the signs of byte 2 (negative) and of byte 3 (positive), or the reverse.
__device__ __forceinline__ void tencodeBytes(const uint4 &four, uint32_t first, uint32_t third, uint32_t *strip) {
    const unsigned lane = threadIdx.x & 31;
    strip[lane * 3] = permute(four.x, four.y, first | 1 << 4 | third << 8 | (first + 4) << 12);
    strip[lane * 3 + 1] = permute(four.y, four.z, 1 | third << 4 | (first + 4) << 8 | 5 << 12);
    strip[lane * 3 + 2] = permute(four.z, four.w, third | (first + 4) << 4 | 5 << 8 | (third + 4) << 12);
}

// Shared memory of lastEventKernel for codes, green levels and a strip per warp.
constexpr size_t sharedBytes(int channels) {
    return sizeof(uint32_t) * (PIXELS + GREEN_LEVELS) + static_cast<size_t>(THREADS / 32 * STRIP * (channels + 3));
}

// CHANNELS: number of channels of MDES with 8-bit values; 0: TENCODE alone.
template<int CHANNELS, bool TENCODE, bool ALIGNED>
__global__ void __launch_bounds__(THREADS) lastEventKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    const int channels = CHANNELS == ANY_CHANNELS ? static_cast<int>(params.repr.channels) : CHANNELS;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic), *green_begin = cells + PIXELS;
    uint32_t *mdes = green_begin + GREEN_LEVELS + threadIdx.x / 32 * (STRIP / 4 * (channels + 3)),
             *tencode = mdes + STRIP / 4 * channels;
    const unsigned w = blockIdx.y, tile = blockIdx.x, lane = threadIdx.x & 31;
    codesOfTile<CHANNELS, TENCODE>(params, w, tile, cells, green_begin);

    const Tiling &tiling = params.tiling;
    const unsigned row0 = tiling.firstRow(tile), col0 = tiling.firstCol(tile);
    const uint32_t first = params.swap ? 11 : 10, third = params.swap ? 10 : 11;
    for (unsigned s = threadIdx.x / 32; s < PIXELS / STRIP; s += THREADS / 32) {
        const unsigned row = row0 + (s * STRIP >> tiling.col_bits),
                       col = col0 + (s * STRIP & ((1u << tiling.col_bits) - 1));
        if (row >= tiling.bottom || col >= tiling.cols)
            continue;
        const unsigned pixels = min(static_cast<unsigned>(STRIP), tiling.cols - col);
        const size_t y = static_cast<size_t>(w) * tiling.rows + row;
        const uint4 four = reinterpret_cast<const uint4 *>(cells + s * STRIP)[lane];
        if constexpr (CHANNELS != 0) {
            if constexpr (CHANNELS == ANY_CHANNELS)
                mdesBytesAny(cells + s * STRIP, channels, params.none, mdes);
            else
                mdesBytes<CHANNELS>(four, params.none, mdes);
            storeStrip<ALIGNED>(mdes, params.mdes + y * params.mdes_step + static_cast<size_t>(col) * channels, channels,
                                pixels);
        }
        if (TENCODE) {
            tencodeBytes(four, first, third, tencode);
            storeStrip<ALIGNED>(tencode, params.tencode + y * params.tencode_step + static_cast<size_t>(col) * 3, 3,
                                pixels);
        }
    }
}

// Makes MDES with float values.
__global__ void __launch_bounds__(THREADS) mdesFloatsKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const unsigned w = blockIdx.y, tile = blockIdx.x;
    codesOfTile<EVENTS_MAX_CHANNELS, false>(params, w, tile, cells, nullptr);
    const Tiling &tiling = params.tiling;
    const unsigned row0 = tiling.firstRow(tile), col0 = tiling.firstCol(tile),
                   height = min(1u << tiling.row_bits, tiling.bottom - row0),
                   values = min(1u << tiling.col_bits, tiling.cols - col0) * params.repr.channels;
    for (unsigned i = threadIdx.x; i < values * height; i += THREADS) {
        const unsigned row = i / values, col = i % values / params.repr.channels,
                       channel = i % values % params.repr.channels;
        const uint32_t code = cells[row << tiling.col_bits | col];
        float *out = rowOf(static_cast<float *>(params.repr.frames), params.repr.step,
                           static_cast<size_t>(w) * tiling.rows + row0 + row);
        out[static_cast<size_t>(col0) * params.repr.channels + i % values] = (code & 255) <= channel ? 0.0f
                                                                             : code & CODE_POSITIVE  ? 1.0f
                                                                                                     : -1.0f;
    }
}

// ---- The host's side ---------------------------------------------------------------------------------------------------

template<bool ALIGNED>
TileKernel lastEventKernelFor(unsigned channels, bool tencode) {
    constexpr int ANY = ANY_CHANNELS, DEFAULT = DEFAULT_CHANNELS;
    if (channels == 0)
        return lastEventKernel<0, true, ALIGNED>;
    if (channels == DEFAULT)
        return tencode ? lastEventKernel<DEFAULT, true, ALIGNED> : lastEventKernel<DEFAULT, false, ALIGNED>;
    return tencode ? lastEventKernel<ANY, true, ALIGNED> : lastEventKernel<ANY, false, ALIGNED>;
}

TileKernel lastEventKernelFor(unsigned channels, bool tencode, bool aligned) {
    return (aligned ? lastEventKernelFor<true> : lastEventKernelFor<false>)(channels, tencode);
}

TilePass emptyPass() {
    TilePass pass = {nullptr, sharedBytes(0), tuning::INDEXED_TILE, tuning::INDEXED_TILE, {}};
    pass.params.none = 128;
    pass.params.positive = 255;
    return pass;
}

// Adds an MDES with 8-bit values or a TENCODE to a pass.
void addFrames(const Batch &batch, int index, TilePass *pass) {
    const cusRepresentation &r = batch.stacker->representations[index];
    const cusMat &mat = batch.frames[index];
    TileParams &params = pass->params;
    if (r.kind == CUS_REPR_TENCODE) {
        params.tencode = frameTop<uint8_t>(batch, mat);
        params.tencode_step = mat.step;
        params.swap = r.swap_channels != 0;
        return;
    }
    pass->shared = sharedBytes(r.channels);
    params.repr.channels = static_cast<unsigned>(r.channels);
    params.mdes = frameTop<uint8_t>(batch, mat);
    params.mdes_step = mat.step;
    params.none = r.depth == CUS_8U ? 128 : 0;
    params.positive = r.depth == CUS_8U ? 255 : 1;
    params.negative = r.depth == CUS_8U ? 0 : 255; // -1
}

} // namespace

// Allows shared memory past the default limit.
cusStatus createLastEvent(const cusEventStacker *stacker) {
    for (int i = 0; i < stacker->count; ++i) {
        const cusRepresentation &r = stacker->representations[i];
        if (r.kind != CUS_REPR_MDES || r.depth == CUS_32F)
            continue;
        const int channels = r.channels == DEFAULT_CHANNELS ? DEFAULT_CHANNELS : EVENTS_MAX_CHANNELS;
        for (bool tencode : {false, true})
            for (bool aligned : {false, true})
                CUSI_CUDA(CREATE,
                          cudaFuncSetAttribute(lastEventKernelFor(static_cast<unsigned>(r.channels), tencode, aligned),
                                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(sharedBytes(channels))));
    }
    return CUS_OK;
}

// The first MDES of 8-bit values and the first TENCODE share the last pass; all others have a pass each before it.
void addLastEventPasses(const Batch &batch, TilePasses *passes) {
    TilePass shared = emptyPass();
    bool all_aligned = true; // whether all frames of `shared` are
    for (int i = 0; i < batch.stacker->count; ++i) {
        const cusRepresentation &r = batch.stacker->representations[i];
        if (!eventsUsesLastEvent(r.kind))
            continue;
        const bool tencode = r.kind == CUS_REPR_TENCODE, floats = !tencode && r.depth == CUS_32F;
        passes->with_green |= tencode;
        if (!floats && !(tencode ? shared.params.tencode : shared.params.mdes)) {
            addFrames(batch, i, &shared);
            all_aligned &= rowsAligned(batch.frames[i]);
            continue;
        }
        TilePass &pass = passes->pass[passes->count++] = emptyPass();
        if (floats) {
            pass.kernel = mdesFloatsKernel;
            pass.params.repr = representationOf(batch, i);
        } else {
            addFrames(batch, i, &pass);
            pass.kernel = lastEventKernelFor(pass.params.repr.channels, tencode, rowsAligned(batch.frames[i]));
        }
    }
    if (shared.params.mdes || shared.params.tencode) {
        shared.kernel = lastEventKernelFor(shared.params.repr.channels, shared.params.tencode != nullptr, all_aligned);
        passes->pass[passes->count++] = shared;
    }
}

} // namespace cusi::events

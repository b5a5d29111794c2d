// The device half of a decoder of frames: its memory, its runs, and the kernels for good input, which list the chunks,
// decode them, and keep the bytes of a chunk that the piece cuts.
#include "arena.cuh"
#include "raw/cuda/decoder.cuh"
#include "raw/cuda/ecf.cuh"
#include "raw/cuda/lzf.cuh"

#include <algorithm>
#include <new>

namespace cusi::raw::frames {

namespace {

constexpr uint32_t MAX_BLOCKS = 2048, KEEP_BLOCKS = 128;

__global__ void __launch_bounds__(THREADS) listKernel(const __grid_constant__ Run run) {
    __shared__ Scans shared;
    startInOrder();
    Memory &memory = *run.memory;
    const bool idle = isIdle(memory);
    const Walk all = walk(run, shared, idle ? 0 : NONE, true);
    if (threadIdx.x == 0) {
        memory.walk = all;
        memory.bad_chunk = NONE;
    }
}

// Each block decodes a part of a chunk. The last part has the times.
template<class Codec>
__global__ void __launch_bounds__(THREADS, 4) decodeKernel(const __grid_constant__ Run run) {
    constexpr uint32_t PARTS = Codec::PARTS;
    __shared__ typename Codec::Shared shared;
    startInOrder();
    const Memory &memory = *run.memory;
    const Source s(run);
    const uint32_t parts = PARTS * memory.walk.chunks;
    if (blockIdx.x < parts)
        Codec::prepare(shared);
    for (uint32_t i = blockIdx.x; i < parts; i += gridDim.x) {
        const uint32_t c = i / PARTS, part = PARTS - 1 - i % PARTS; // the times take longest, so they begin first
        const Listed chunk = run.list[c];
        const uint32_t first = c == 0 ? min(memory.place.vector, chunk.events) : 0, count = chunk.events - first;
        if (part == PARTS - 1 && threadIdx.x == 0) {
            run.first_times[c] = INT64_MAX;
            run.last_times[c] = -1;
        }
        __syncthreads();
        const bool fits = static_cast<size_t>(chunk.base) + count <= run.events.capacity;
        const Target to = {&run.events, chunk.base, first, count, run.sensor, run.first_times + c, run.last_times + c};
        bool odd = false;
        const bool good = fits && Codec::decode(s, shared, chunk.at, chunk.size, to, static_cast<int>(part), odd);
        if (__syncthreads_or(odd || !good) && threadIdx.x == 0)
            atomicMin(&run.memory->bad_chunk, c);
    }
}

__global__ void __launch_bounds__(THREADS) keepKernel(const __grid_constant__ Run run) {
    startInOrder();
    const Keep keep = run.memory->keep;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < keep.header_bytes + keep.chunk_bytes;
         i += gridDim.x * THREADS) {
        const uint32_t from = i < keep.header_bytes ? keep.header + i : keep.chunk + (i - keep.header_bytes);
        if (from >= keep.held) // the others are kept already
            run.held[i] = run.bytes[from - keep.held];
    }
}

struct Decoder {
    Memory *memory = nullptr;
    Listed *list = nullptr;
    int64_t *first_times = nullptr, *last_times = nullptr;
    uint8_t *held = nullptr;
    cusEventBuffers scratch = {};
    Arena arena;
};

cusStatus create(const char *function, cusEventDecoder *decoder) {
    Decoder *made = new (std::nothrow) Decoder;
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    decoder->state = made;
    // A chunk takes at least CUSI_FRAME_UNIT bytes, and one may begin in an earlier piece.
    const size_t chunks = decoder->options.max_bytes / CUSI_FRAME_UNIT + 2;
    CUS_TRY(made->arena.allocate(function, 1, &made->memory));
    CUS_TRY(made->arena.allocate(function, chunks, &made->list));
    CUS_TRY(made->arena.allocate(function, chunks, &made->first_times));
    CUS_TRY(made->arena.allocate(function, chunks, &made->last_times));
    CUS_TRY(made->arena.allocate(function, MAX_HELD_BYTES, &made->held));
    cusEventBuffers &scratch = made->scratch;
    scratch.capacity = CUSI_CHUNK_MAX_EVENTS;
    CUS_TRY(made->arena.allocate(function, scratch.capacity, &scratch.x));
    CUS_TRY(made->arena.allocate(function, scratch.capacity, &scratch.y));
    CUS_TRY(made->arena.allocate(function, scratch.capacity, &scratch.p));
    return made->arena.allocate(function, scratch.capacity, &scratch.t);
}

void destroy(cusEventDecoder *decoder) {
    delete static_cast<Decoder *>(decoder->state);
}

cusStatus run(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events,
              cusEventDecoded *decoded, cusStream stream) {
    const Decoder *cuda = static_cast<const Decoder *>(decoder->state);
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const Run run = {cuda->memory,
                     cuda->list,
                     cuda->first_times,
                     cuda->last_times,
                     cuda->held,
                     cuda->scratch,
                     static_cast<const uint8_t *>(bytes),
                     static_cast<uint32_t>(size),
                     *events,
                     decoded,
                     decoder->sensor,
                     raw_magicOf(decoder->options.format),
                     decoder->options.bad_events == CUS_BAD_EVENTS_SKIP};
    // Chunks of cameras' recordings are larger than 4 KB, so further blocks would find no work.
    const auto blocks = static_cast<unsigned>(std::min<size_t>(size / 4096 + 1, MAX_BLOCKS));
    const auto decode = run.magic == CUSI_FRAME_ECF ? decodeKernel<ecf::Codec> : decodeKernel<lzf::Codec>;
    CUS_TRY(cusi::launchOverlapped(function, listKernel, 1, THREADS, 0, s, run));
    CUS_TRY(cusi::launchOverlapped(function, decode, blocks, THREADS, 0, s, run));
    CUS_TRY(launchRepair(function, run, s));
    return cusi::launchOverlapped(function, keepKernel, KEEP_BLOCKS, THREADS, 0, s, run);
}

cusStatus setState(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state) {
    cusEventDecoderState place = *state;
    place.carried = 0; // the caller passes these bytes again
    Memory made = {};
    made.bad_chunk = NONE;
    return remember(function, static_cast<Decoder *>(decoder->state)->memory, made, place);
}

} // namespace

} // namespace cusi::raw::frames

using namespace cusi::raw::frames;

extern "C" const RawMethods raw_cudaFrames = {
    create, destroy, run, cusi::raw::check<Decoder>, cusi::raw::getState<Decoder>, setState, nullptr};

// The device half of a decoder of words: its memory, runs and state.
#include "arena.cuh"
#include "raw/cuda/decoder.cuh"
#include "raw/cuda/stages.cuh"

#include <algorithm>
#include <new>

namespace cusi::raw {

namespace {

struct Decoder {
    Memory *memory = nullptr;
    TileSums<Evt3> *sums = nullptr, *groups = nullptr; // the largest of all formats
    uint8_t *runs = nullptr;
    int64_t *last_times = nullptr;
    Message<Evt3> *messages = nullptr; // of a packet's tiles
    unsigned long long packets = 0;
    Arena arena;
};

template<class Format>
cusStatus launchAll(const char *function, const Run &run, cudaStream_t stream) {
    if (std::is_same_v<Format, Evt4>)
        CUS_TRY(launchRuns(function, run, stream));
    CUS_TRY(launchSums<Format>(function, run, stream));
    CUS_TRY(launchEmit<Format>(function, run, stream));
    return launchFinish<Format>(function, run, stream);
}

Launch launchOf(const cusEventDecoderOptions &options) {
    switch (options.format) {
    case CUS_EVENTS_EVT2:
        return launchAll<Evt20>;
    case CUS_EVENTS_EVT21:
        return options.legacy ? launchAll<Evt21Legacy> : launchAll<Evt21>;
    case CUS_EVENTS_EVT3:
        return launchAll<Evt3>;
    case CUS_EVENTS_EVT4:
        return launchAll<Evt4>;
    default:
        return launchAll<Dat>;
    }
}

// Returns the most tiles of a piece together with the bytes carried from the one before.
size_t tilesFor(size_t size) {
    return cusi::divUp(size + sizeof(cusEventDecoderState::carry), static_cast<size_t>(TILE));
}

cusStatus create(const char *function, cusEventDecoder *decoder) {
    Decoder *made = new (std::nothrow) Decoder;
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    decoder->state = made;
    const size_t tiles = tilesFor(decoder->options.max_bytes);
    CUS_TRY(made->arena.allocate(function, 1, &made->memory));
    CUS_TRY(made->arena.allocate(function, tiles + 1, &made->sums));
    CUS_TRY(made->arena.allocate(function, tiles / GROUP + 1, &made->groups));
    CUS_TRY(made->arena.allocate(function, tiles, &made->last_times));
    if (decoder->options.format == CUS_EVENTS_EVT4)
        CUS_TRY(made->arena.allocate(function, tiles, &made->runs));
    if (decoder->options.format == CUS_EVENTS_EVT2 || decoder->options.format == CUS_EVENTS_EVT3)
        CUS_TRY(made->arena.allocateZeros(function, tilesFor(CUSI_PACKET_BYTES), &made->messages, nullptr));
    return CUS_OK;
}

void destroy(cusEventDecoder *decoder) {
    delete static_cast<Decoder *>(decoder->state);
}

Run runOf(const cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events,
          cusEventDecoded *decoded) {
    const Decoder *cuda = static_cast<const Decoder *>(decoder->state);
    return {cuda->memory,
            cuda->sums,
            cuda->groups,
            cuda->runs,
            cuda->last_times,
            static_cast<const uint8_t *>(bytes),
            size,
            static_cast<uint32_t>(tilesFor(size)),
            *events,
            decoded,
            decoder->sensor,
            decoder->options.bad_events == CUS_BAD_EVENTS_SKIP,
            reinterpret_cast<uintptr_t>(events->x) % 8 == 0 && reinterpret_cast<uintptr_t>(events->y) % 8 == 0 &&
                reinterpret_cast<uintptr_t>(events->p) % 4 == 0 && reinterpret_cast<uintptr_t>(events->t) % 16 == 0};
}

cusStatus run(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size, const cusEventBuffers *events,
              cusEventDecoded *decoded, cusStream stream) {
    const Run run = runOf(decoder, bytes, size, events, decoded);
    return launchOf(decoder->options)(function, run, static_cast<cudaStream_t>(stream));
}

cusStatus runPacket(const char *function, cusEventDecoder *decoder, const void *bytes, size_t size,
                    const cusEventBuffers *events, cusEventDecoded *decoded, const CusiPacketSums *sums, cusStream stream) {
    Decoder *cuda = static_cast<Decoder *>(decoder->state);
    const Run run = runOf(decoder, bytes, size, events, decoded);
    const Packet packet = {cuda->messages, ++cuda->packets, *sums};
    return (decoder->options.format == CUS_EVENTS_EVT2
                ? launchPacket<Evt20>
                : launchPacket<Evt3>)(function, run, packet, static_cast<cudaStream_t>(stream));
}

cusStatus setState(const char *function, cusEventDecoder *decoder, const cusEventDecoderState *state) {
    Memory made = {};
    made.bad_tile = NO_TILE;
    made.first_time = -1;
    return remember(function, static_cast<Decoder *>(decoder->state)->memory, made, *state);
}

} // namespace

} // namespace cusi::raw

using namespace cusi::raw;

extern "C" const RawMethods raw_cudaWords = {create, destroy, run, check<Decoder>, getState<Decoder>, setState, runPacket};

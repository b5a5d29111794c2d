// Code that the decoders of words and of frames share.
#ifndef CUSI_RAW_CUDA_DECODER_CUH
#define CUSI_RAW_CUDA_DECODER_CUH

#include "cuda.cuh"
#include "device.h"
#include "event_checks.h"
#include "raw/backend.h"

namespace cusi::raw {

// ---- Calls that wait. A Decoder has `memory`, in which `place` is the state and `last` says what the last run did.

inline cusStatus copy(const char *function, void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                      cudaStream_t stream) {
    if (kind == cudaMemcpyDeviceToHost)
        CUS_TRY(cusi_deviceWaitToDownload(function, to, stream));
    CUSI_CUDA(function, cudaMemcpyAsync(to, from, bytes, kind, stream));
    return cudaStatus(cudaStreamSynchronize(stream), function, "cudaStreamSynchronize");
}

template<class Decoder>
cusStatus check(const char *function, cusEventDecoder *decoder, cusEventDecoded *decoded, cusStream stream) {
    auto *memory = static_cast<Decoder *>(decoder->state)->memory;
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    CUS_TRY(copy(function, decoded, &memory->last, sizeof *decoded, cudaMemcpyDeviceToHost, s));
    return decoded->status == CUS_ERROR_CAPACITY
               ? cudaStatus(cudaMemsetAsync(&memory->is_full, 0, sizeof memory->is_full, s), function, "cudaMemsetAsync")
               : CUS_OK;
}

template<class Decoder>
cusStatus getState(const char *function, cusEventDecoder *decoder, cusEventDecoderState *state) {
    const auto *memory = static_cast<const Decoder *>(decoder->state)->memory;
    return copy(function, state, &memory->place, sizeof *state, cudaMemcpyDeviceToHost, nullptr);
}

// Makes `state` the decoder's state. `made` gives the initial values of all other fields of its memory.
template<class Memory>
cusStatus remember(const char *function, Memory *memory, Memory made, const cusEventDecoderState &state) {
    made.place = state;
    made.last = raw_nothing();
    made.last.index = state.index;
    return copy(function, memory, &made, sizeof made, cudaMemcpyHostToDevice, nullptr);
}

// ---- Events that are examined again

// Returns why an event is bad, CUSI_BAD_...; 0 if it is good. `last`: the latest time of the events before.
__device__ __forceinline__ uint32_t badnessOf(CusiSensor sensor, uint32_t x, uint32_t y, uint32_t p, int64_t t,
                                              int64_t last) {
    return x >= sensor.width || y >= sensor.height ? CUSI_BAD_COORDINATES
           : p > 1                                 ? CUSI_BAD_POLARITY
           : t < last                              ? CUSI_BAD_TIME
                                                   : 0;
}

__device__ __forceinline__ void putEvent(const cusEventBuffers &to, size_t i, uint32_t x, uint32_t y, uint32_t p,
                                         int64_t t) {
    if (to.x)
        to.x[i] = static_cast<uint16_t>(x);
    if (to.y)
        to.y[i] = static_cast<uint16_t>(y);
    if (to.p)
        to.p[i] = static_cast<uint8_t>(p);
    if (to.t)
        to.t[i] = t;
}

} // namespace cusi::raw

#endif

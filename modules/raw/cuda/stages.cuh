// The kernels of a run, in order. decoder.cu launches them.
#ifndef CUSI_RAW_CUDA_STAGES_CUH
#define CUSI_RAW_CUDA_STAGES_CUH

#include "raw/cuda/tiles.cuh"

namespace cusi::raw {

// Launches the kernels of one format.
using Launch = cusStatus (*)(const char *function, const Run &run, cudaStream_t stream);

cusStatus launchRuns(const char *function, const Run &run, cudaStream_t stream); // sums.cu: EVT4
template<class Format>
cusStatus launchSums(const char *function, const Run &run, cudaStream_t stream); // sums.cu
template<class Format>
cusStatus launchEmit(const char *function, const Run &run, cudaStream_t stream); // emit.cu
template<class Format>
cusStatus launchFinish(const char *function, const Run &run, cudaStream_t stream); // finish.cu
// emit.cu: all kernels of a packet, for Evt20 and Evt3.
template<class Format>
cusStatus launchPacket(const char *function, const Run &run, const Packet &packet, cudaStream_t stream);

#define RAW_FOR_EACH_FORMAT(DO) DO(Evt20) DO(Evt21) DO(Evt21Legacy) DO(Evt3) DO(Evt4) DO(Dat)

} // namespace cusi::raw

#endif

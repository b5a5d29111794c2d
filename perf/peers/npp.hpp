// Shared by all NPP peers: the stream context of the current device, error checks.
#pragma once

#ifdef CUSIGHT_HAVE_NPP

#include "cusight/core.h"

#include <cuda_runtime.h>
#include <npp.h>

#include <stdexcept>
#include <string>

namespace peers {

inline NppStreamContext nppContext(cusStream stream) {
    NppStreamContext context = {};
    cudaDeviceProp properties = {};
    if (cudaGetDevice(&context.nCudaDeviceId) != cudaSuccess ||
        cudaGetDeviceProperties(&properties, context.nCudaDeviceId) != cudaSuccess)
        throw std::runtime_error("no device for NPP");
    context.nMultiProcessorCount = properties.multiProcessorCount;
    context.nMaxThreadsPerMultiProcessor = properties.maxThreadsPerMultiProcessor;
    context.nMaxThreadsPerBlock = properties.maxThreadsPerBlock;
    context.nSharedMemPerBlock = properties.sharedMemPerBlock;
    context.nCudaDevAttrComputeCapabilityMajor = properties.major;
    context.nCudaDevAttrComputeCapabilityMinor = properties.minor;
    context.hStream = stream;
    return context;
}

inline void checkNpp(NppStatus status) {
    if (status != NPP_SUCCESS)
        throw std::runtime_error("NPP status " + std::to_string(static_cast<int>(status)));
}

} // namespace peers

#endif

// Shared by all peers from cv::cuda, used as fast as OpenCV allows: in the stream that is timed, not the null stream, with its
// buffer pool on, so that temporaries are not allocated at every call.
#pragma once

#ifdef CUSIGHT_HAVE_OPENCV_CUDA

#include "cusight/core.h"

#include <opencv2/core.hpp>
#include <opencv2/core/cuda.hpp>
#include <opencv2/core/cuda_stream_accessor.hpp>

#include <stdexcept>

namespace peers {

// OpenCV's object for the harness's stream, which is the same for all rows. Never destroyed: it would wait for the stream.
inline cv::cuda::Stream &opencvStream(cusStream stream) {
    struct Wrapped {
        cusStream from;
        cv::cuda::Stream stream;
    };
    static Wrapped *const wrapped = [stream] {
        cv::cuda::setBufferPoolUsage(true);
        cv::cuda::setBufferPoolConfig(cv::cuda::getDevice(), size_t(2800) << 20, 1); // before any stream exists
        return new Wrapped{stream, cv::cuda::StreamAccessor::wrapStream(stream)};
    }();
    if (wrapped->from != stream)
        throw std::logic_error("the harness times in another stream than before");
    return wrapped->stream;
}

inline cv::cuda::GpuMat gpuMat(const cusMat &m) {
    return cv::cuda::GpuMat(m.rows, m.cols, m.type, m.data, m.step);
}

} // namespace peers

#endif

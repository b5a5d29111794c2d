// Shared by all cv::cuda peers. Used as fast as OpenCV allows: in the timed stream, not the null stream, with the buffer
// pool on, so that calls do not allocate temporaries.
#pragma once

#ifdef CUSIGHT_HAVE_OPENCV_CUDA

#include "cusight/core.h"

#include <opencv2/core.hpp>
#include <opencv2/core/cuda.hpp>
#include <opencv2/core/cuda_stream_accessor.hpp>

#include <stdexcept>

namespace peers {

// OpenCV's object for the harness's stream, shared by all rows. Never destroyed: that would wait for the stream.
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
    return cv::cuda::GpuMat(m.rows, m.cols, CV_MAKETYPE(CUS_DEPTH(m.type), CUS_CHANNELS(m.type)), m.data, m.step);
}

} // namespace peers

#endif

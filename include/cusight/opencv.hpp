// cusight/opencv.hpp: cv::Mat, cv::cuda::GpuMat and cv::cuda::Stream in and out, without copying.
//
//   cv::Mat prev, cur, map(cur.size(), CV_8UC3);
//   cusMat p = cusight::view(prev), c = cusight::view(cur), m = cusight::view(map);
//   cusight::check(cusHeatmap(&p, &c, &m, nullptr, nullptr));
//
// A view owns nothing: keep the OpenCV matrix alive while it is used, and never release the view's memory.
// cv::Mat corresponds to host matrices, cv::cuda::GpuMat to device matrices; types and steps have the same values in both.
#ifndef CUSIGHT_OPENCV_HPP
#define CUSIGHT_OPENCV_HPP

#include "core.h"

#include <opencv2/core.hpp>
#include <opencv2/core/cuda.hpp>
#ifdef CUSIGHT_OPENCV_STREAMS // set by the build where OpenCV really exports StreamAccessor, that is, was built with CUDA
#include <opencv2/core/cuda_stream_accessor.hpp>
#endif

#include <stdexcept>
#include <string>

namespace cusight {

// What check() throws: the status and the library's message.
class Error : public std::runtime_error {
  public:
    explicit Error(cusStatus status)
        : std::runtime_error(std::string(cusStatusName(status)) + ": " + cusLastError()), status_(status) {}
    cusStatus status() const noexcept { return status_; }

  private:
    cusStatus status_;
};

inline void check(cusStatus status) {
    if (status != CUS_OK)
        throw Error(status);
}

// A matrix of at most two dimensions as a cusMat. An empty matrix gives an empty view; a function that gets it as an output
// allocates it, and the caller releases it with cusMatRelease.
inline cusMat view(const cv::Mat &mat) {
    CV_Assert(mat.dims <= 2);
    cusMat m = CUS_MAT_INIT;
    if (!mat.empty())
        check(cusMatWrap(&m, mat.rows, mat.cols, mat.type(), CUS_HOST, mat.data, mat.rows > 1 ? mat.step[0] : 0));
    return m;
}

inline cusMat view(const cv::cuda::GpuMat &mat) {
    cusMat m = CUS_MAT_INIT;
    m.space = CUS_DEVICE;
    if (!mat.empty())
        check(cusMatWrap(&m, mat.rows, mat.cols, mat.type(), CUS_DEVICE, mat.data, mat.rows > 1 ? mat.step : 0));
    return m;
}

// The other direction: OpenCV headers for cusight's memory; nothing is copied.
inline cv::Mat toMat(const cusMat &m) {
    CV_Assert(m.space == CUS_HOST);
    return m.data ? cv::Mat(m.rows, m.cols, m.type, m.data, m.step) : cv::Mat();
}

inline cv::cuda::GpuMat toGpuMat(const cusMat &m) {
    CV_Assert(m.space == CUS_DEVICE);
    return m.data ? cv::cuda::GpuMat(m.rows, m.cols, m.type, m.data, m.step) : cv::cuda::GpuMat();
}

#ifdef CUSIGHT_OPENCV_STREAMS
inline cusStream stream(const cv::cuda::Stream &s) {
    return cv::cuda::StreamAccessor::getStream(s);
}
inline cv::cuda::Stream toStream(cusStream s) {
    return cv::cuda::StreamAccessor::wrapStream(s);
}
#endif

} // namespace cusight

#endif // CUSIGHT_OPENCV_HPP

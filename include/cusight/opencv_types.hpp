// cusight/opencv_types.hpp: views of cv::Mat and cv::cuda::GpuMat, and both as arguments of the classes. Included by
// opencv.hpp.
#ifndef CUSIGHT_OPENCV_TYPES_HPP
#define CUSIGHT_OPENCV_TYPES_HPP

#include "cusight.hpp"

#include <opencv2/core.hpp>
#include <opencv2/core/cuda.hpp>
#ifdef CUSIGHT_OPENCV_STREAMS // set by the build if OpenCV exports StreamAccessor, that is, was built with CUDA
#include <opencv2/core/cuda_stream_accessor.hpp>
#endif

namespace cusight {

// Returns the library's type of OpenCV's. The numbers are the same up to OpenCV 4; 5 has more depths and fewer
// channels, which begin two bits higher.
inline int fromCvType(int type) {
    if (CV_MAT_DEPTH(type) > CUS_16F)
        throw Error(CUS_ERROR_TYPE,
                    "a matrix has type " + cv::typeToString(type) + ", expected a depth of CV_8U to CV_16F");
    return CUS_MAKETYPE(CV_MAT_DEPTH(type), CV_MAT_CN(type));
}
// Returns OpenCV's type of the library's.
inline int toCvType(int type) {
    if (CUS_CHANNELS(type) > CV_CN_MAX)
        throw Error(CUS_ERROR_TYPE, "a matrix has " + std::to_string(CUS_CHANNELS(type)) + " channels, expected at most " +
                                        std::to_string(CV_CN_MAX) + ", as OpenCV");
    return CV_MAKETYPE(CUS_DEPTH(type), CUS_CHANNELS(type));
}

// A view of a matrix of at most two dimensions as a cusMat. An empty matrix gives an empty view; a function that gets it as
// an output allocates it, and the caller releases it with cusMatRelease.
inline cusMat view(const cv::Mat &mat) {
    CV_Assert(mat.dims <= 2);
    cusMat m = CUS_MAT_INIT;
    if (!mat.empty())
        check(
            cusMatWrap(&m, mat.rows, mat.cols, fromCvType(mat.type()), CUS_HOST, mat.data, mat.rows > 1 ? mat.step[0] : 0));
    return m;
}

// Returns a view in device memory.
inline cusMat view(const cv::cuda::GpuMat &mat) {
    cusMat m = CUS_MAT_INIT;
    m.space = CUS_DEVICE;
    if (!mat.empty())
        check(
            cusMatWrap(&m, mat.rows, mat.cols, fromCvType(mat.type()), CUS_DEVICE, mat.data, mat.rows > 1 ? mat.step : 0));
    return m;
}

// Returns an OpenCV header for cusight's memory; copies nothing.
inline cv::Mat toMat(const cusMat &m) {
    CV_Assert(m.space == CUS_HOST);
    return m.data ? cv::Mat(m.rows, m.cols, toCvType(m.type), m.data, m.step) : cv::Mat();
}

// Returns an OpenCV header for cusight's device memory; copies nothing.
inline cv::cuda::GpuMat toGpuMat(const cusMat &m) {
    CV_Assert(m.space == CUS_DEVICE);
    return m.data ? cv::cuda::GpuMat(m.rows, m.cols, toCvType(m.type), m.data, m.step) : cv::cuda::GpuMat();
}

// Returns the cudaStream_t of OpenCV's stream.
inline cusStream stream(const cv::cuda::Stream &s) {
    return static_cast<cusStream>(s.cudaPtr());
}
#ifdef CUSIGHT_OPENCV_STREAMS
// Returns OpenCV's stream for a cudaStream_t, which stays its owner's.
inline cv::cuda::Stream toStream(cusStream s) {
    return cv::cuda::StreamAccessor::wrapStream(s);
}
#endif

// ---- OpenCV's types as arguments of the classes ------------------------------------------------------------------------

template<>
struct MatrixTraits<cv::Mat> {
    static cusMat view(const cv::Mat &mat) { return cusight::view(mat); }
    static void create(cv::Mat &mat, int rows, int cols, int type, cusSpace space) {
        if (space != CUS_HOST)
            throw Error(CUS_ERROR_SPACE,
                        "an output is a cv::Mat (host memory), expected a cv::cuda::GpuMat like the input");
        mat.create(rows, cols, toCvType(type));
    }
};

template<class T>
struct MatrixTraits<cv::Mat_<T>> {
    static cusMat view(const cv::Mat_<T> &mat) { return cusight::view(mat); }
    static void create(cv::Mat_<T> &mat, int rows, int cols, int type, cusSpace space) {
        if (toCvType(type) != cv::traits::Type<T>::value)
            throw Error(CUS_ERROR_TYPE, "an output is a cv::Mat_ of " + cv::typeToString(cv::traits::Type<T>::value) +
                                            ", expected " + cv::typeToString(toCvType(type)));
        MatrixTraits<cv::Mat>::create(mat, rows, cols, type, space);
    }
};

template<>
struct MatrixTraits<cv::cuda::GpuMat> {
    static cusMat view(const cv::cuda::GpuMat &mat) { return cusight::view(mat); }
    static void create(cv::cuda::GpuMat &mat, int rows, int cols, int type, cusSpace space) {
        if (space != CUS_DEVICE)
            throw Error(CUS_ERROR_SPACE,
                        "an output is a cv::cuda::GpuMat (device memory), expected a cv::Mat like the input");
        if (mat.rows != rows || mat.cols != cols || mat.type() != toCvType(type) || !mat.data)
            mat.create(rows, cols,
                       toCvType(type)); // not called if it fits, since it throws even then without CUDA in OpenCV
    }
};

template<>
struct StreamTraits<cv::cuda::Stream> {
    static cusStream get(const cv::cuda::Stream &s) { return cusight::stream(s); }
};

} // namespace cusight

#endif // CUSIGHT_OPENCV_TYPES_HPP

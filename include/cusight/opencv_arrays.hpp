// cusight/opencv_arrays.hpp: cv::InputArray, cv::OutputArray and cv::Exception for opencv_cuda.hpp; nothing to call.
#ifndef CUSIGHT_OPENCV_ARRAYS_HPP
#define CUSIGHT_OPENCV_ARRAYS_HPP

#include "opencv_types.hpp"

namespace cusight {
namespace cuda {
namespace detail {

// Outputs of unknown kind; OpenCV creates them.
struct Array {
    explicit Array(cv::OutputArray output) : out(output) {
        if (isDevice())
            device = *static_cast<const cv::cuda::GpuMat *>(out.getObj());
        else if (out.needed() && !out.empty())
            host = out.getMat();
    }
    bool isDevice() const { return out.kind() == cv::_InputArray::CUDA_GPU_MAT; }

    const cv::_OutputArray &out;
    cv::Mat host;
    cv::cuda::GpuMat device;
};

// An input of unknown kind. Holds the memory, in case the output is the same matrix and gets new memory.
class ArrayView {
  public:
    explicit ArrayView(cv::InputArray array) {
        // Not getGpuMat(), which fails where OpenCV was built without CUDA.
        if (array.kind() == cv::_InputArray::CUDA_GPU_MAT) {
            device_ = *static_cast<const cv::cuda::GpuMat *>(array.getObj());
            view_ = cusight::view(device_);
        } else if (!array.empty()) {
            host_ = array.getMat();
            view_ = cusight::view(host_);
        }
    }
    operator Input() const { return Input(view_); }
    const cusMat *get() const { return &view_; }
    const cusMat *operator->() const { return &view_; }

  private:
    cv::Mat host_;
    cv::cuda::GpuMat device_;
    cusMat view_ = CUS_MAT_INIT;
};

inline cv::Error::Code errorCode(cusStatus status) {
    switch (status) {
    case CUS_ERROR_NULL:
        return cv::Error::StsNullPtr;
    case CUS_ERROR_VALUE:
        return cv::Error::StsOutOfRange;
    case CUS_ERROR_TYPE:
        return cv::Error::StsUnsupportedFormat;
    case CUS_ERROR_SIZE:
    case CUS_ERROR_CAPACITY:
        return cv::Error::StsBadSize;
    case CUS_ERROR_ALIAS:
        return cv::Error::StsInplaceNotSupported;
    case CUS_ERROR_NO_MEMORY:
        return cv::Error::StsNoMem;
    case CUS_ERROR_NO_CUDA:
        return cv::Error::GpuNotSupported;
    case CUS_ERROR_CUDA:
        return cv::Error::GpuApiCallError;
    case CUS_ERROR_UNSUPPORTED:
        return cv::Error::StsNotImplemented;
    default:
        return cv::Error::StsBadArg;
    }
}

// Runs `work` and turns cusight::Error into cv::Exception, by cv::error, so that cv::redirectError sees it.
template<class F>
auto translated(const char *function, F &&work) -> decltype(work()) {
    cv::Error::Code code = cv::Error::StsError; // OpenCV 5 takes no other numbers
    std::string message;
    try {
        return work();
    } catch (const Error &e) {
        code = errorCode(e.status());
        message = e.message();
    }
    cv::error(cv::Exception(code, message, function, __FILE__, __LINE__));
    throw std::logic_error(message); // cv::error does not return
}

} // namespace detail
} // namespace cuda

template<>
struct MatrixTraits<cuda::detail::Array> {
    static cusMat view(const cuda::detail::Array &a) {
        return a.isDevice() ? cusight::view(a.device) : cusight::view(a.host);
    }
    static void create(cuda::detail::Array &a, int rows, int cols, int type, cusSpace space) {
        if (a.isDevice()) {
            auto &target = *static_cast<cv::cuda::GpuMat *>(a.out.getObj());
            MatrixTraits<cv::cuda::GpuMat>::create(target, rows, cols, type, space);
            a.device = target;
        } else {
            if (space != CUS_HOST)
                MatrixTraits<cv::Mat>::create(a.host, rows, cols, type, space); // throws
            a.out.create(rows, cols, toCvType(type));
            a.host = a.out.getMat();
        }
    }
};

namespace cuda {
namespace detail {

class ArrayOutput {
  public:
    explicit ArrayOutput(cv::OutputArray output) : array_(output), output_(array_) {}
    ArrayOutput(const ArrayOutput &) = delete;
    ArrayOutput &operator=(const ArrayOutput &) = delete;
    cusMat *create(int rows, int cols, int type, cusSpace space) { return output_.create(rows, cols, type, space); }
    operator Output() const { return output_; }

  private:
    Array array_;
    Output output_;
};

inline bool isTableSource(const ArrayView &src) {
    const int depth = CUS_DEPTH(src->type);
    return src->data && (depth == CUS_8U || depth == CUS_32F) && CUS_CHANNELS(src->type) <= 4;
}

} // namespace detail

} // namespace cuda
} // namespace cusight

#endif // CUSIGHT_OPENCV_ARRAYS_HPP

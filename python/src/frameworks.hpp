// The frameworks that the user has imported; none is imported here.
#pragma once

#include "arrays.hpp"

#include <string>

namespace cuspy {

std::string shapeText(const Shape &shape);

// Attribute names as Python strings, made once.
struct Names {
    nb::object get_device, is_cuda, dtype, shape, stride, strides, data_ptr, is_neg, data, device, id, ptr;
    static const Names &get();

  private:
    Names();
};

// Finds torch.Tensor and cupy.ndarray in sys.modules when they first appear. Lives as long as the process.
class Frameworks {
  public:
    static Frameworks &get();
    bool isNumpy(nb::handle object) { return is(object, numpy_array_, "numpy", "ndarray"); }
    bool isTorch(nb::handle object) { return is(object, torch_tensor_, "torch", "Tensor"); }
    bool isCupy(nb::handle object) { return is(object, cupy_array_, "cupy", "ndarray"); }
    int torchDtype(PyObject *dtype);
    nb::object numpyDtype(int dtype);
    nb::object numpyEmpty(const Shape &shape, const nb::object &dtype);
    cusStream torchStream(int device);
    cusStream cupyStream();
    // A new array of PyTorch or CuPy; device -1 is the CPU.
    nb::object empty(Framework framework, const Shape &shape, int dtype, int device);

  private:
    Frameworks() = default;
    static bool is(nb::handle object, nb::object &type, const char *module, const char *name);

    // A function of cusight._frameworks, looked up once.
    static const nb::object &function(nb::object &known, const char *name);

    nb::object numpy_array_, numpy_empty_, torch_tensor_, cupy_array_, torch_stream_, cupy_stream_, torch_empty_,
        cupy_empty_;
    PyObject *torch_dtypes_[16] = {}; // borrowed: PyTorch keeps its types for ever
    bool torch_dtypes_known_ = false;
    nb::object numpy_dtypes_[16];
};

} // namespace cuspy

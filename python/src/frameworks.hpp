// The frameworks that the user has imported. None is imported here.
#pragma once

#include "arrays.hpp"
#include "dlpack.hpp"

#include <string>

namespace cuspy {

std::string shapeText(const Shape &shape);

// Attribute names as Python strings, made once.
struct Names {
    nb::object get_device, is_cuda, dtype, shape, stride, strides, data_ptr, is_neg, requires_grad, data, device_id, ptr;
    static const Names &get();

  private:
    Names();
};

// What an array's type says about it.
struct ArrayType {
    Framework framework = Framework::Unknown;   // other than NumPy, PyTorch and CuPy
    const dlpack::Exchange *exchange = nullptr; // PyTorch from 2.10 on
};

// Finds torch.Tensor and cupy.ndarray in sys.modules when they first appear. Lives as long as the process.
class Frameworks {
  public:
    static Frameworks &get();
    ArrayType typeOf(nb::handle object);
    int torchDtype(PyObject *dtype);
    const nb::object &numpyDtype(int dtype);
    int numpyDtypeOf(nb::handle dtype); // UNKNOWN also for rarer objects of the same types
    nb::object numpyEmpty(const Shape &shape, const nb::object &dtype);
    // The framework's current stream; null except for PyTorch and CuPy.
    cusStream stream(Framework framework, const dlpack::Exchange *exchange, int device);
    // A new array of PyTorch or CuPy; device -1 is the CPU.
    nb::object empty(Framework framework, const Shape &shape, int dtype, int device);

  private:
    struct Known {
        nb::object type; // kept, so that no other type gets its address
        ArrayType what;
    };

    Frameworks() = default;
    static bool is(nb::handle object, nb::object &type, const char *module, const char *name);

    // A function of cusight._frameworks, looked up once.
    static const nb::object &function(nb::object &known, const char *name);

    Known types_[8]; // of recent arrays
    size_t next_type_ = 0;
    nb::object numpy_array_, numpy_empty_, torch_tensor_, cupy_array_, torch_stream_, cupy_stream_, torch_empty_,
        cupy_empty_;
    PyObject *torch_dtypes_[16] = {}; // borrowed: PyTorch keeps its types for ever
    bool torch_dtypes_known_ = false;
    nb::object numpy_dtypes_[16];
};

} // namespace cuspy

// Arrays of any framework as matrices of the library: what is accepted, its memory, the stream that orders it, and new
// arrays in the framework of the first argument. Everything here needs the GIL, except the body of Call::run.
#pragma once

#include "cusight/cusight.h"
#include "threads.hpp"

#include <nanobind/nanobind.h>
// Included here so that every file converts these types alike.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace nb = nanobind;

namespace cuspy {

namespace dlpack {
struct Exchange;
struct Tensor;
} // namespace dlpack

// Raises the exception of `status` (cusight.Error and the Python class that people expect) with this message.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(cusStatus status, const char *format, ...);

// Raises the library's own message unless the status is CUS_OK.
void check(cusStatus status);

// Element types: the library's depths, and those that only this package reads.
enum Dtype : int {
    U8 = CUS_8U,
    I8 = CUS_8S,
    U16 = CUS_16U,
    I16 = CUS_16S,
    I32 = CUS_32S,
    F32 = CUS_32F,
    F64 = CUS_64F,
    F16 = CUS_16F,
    U32 = 8,
    I64 = 9,
    U64 = 10,
    UNKNOWN = 15
};
size_t dtypeSize(int dtype);
const char *dtypeName(int dtype);

enum class Framework { Unknown, NumPy, Torch, CuPy, Other };

struct Device {
    cusSpace space = CUS_HOST;
    int index = -1; // of a GPU; -1: not given, so the current one
};

// "cpu", "cuda", "cuda:1"; raises ValueError for anything else.
Device parseDevice(const char *function, const char *text);
nb::object deviceName(const Device &device);

// The extents of an array or its strides, in place: each array of a call needs two.
class Shape {
  public:
    static constexpr size_t MAX_AXES = 8;
    Shape() = default;
    explicit Shape(size_t axes) : size_(axes) {}
    Shape(std::initializer_list<int64_t> values) : size_(values.size()) {
        std::copy(values.begin(), values.end(), values_);
    }
    size_t size() const { return size_; }
    void resize(size_t axes) { size_ = axes; }
    void push_back(int64_t value) { values_[size_++] = value; }
    int64_t &operator[](size_t axis) { return values_[axis]; }
    int64_t operator[](size_t axis) const { return values_[axis]; }
    const int64_t *begin() const { return values_; }
    const int64_t *end() const { return values_ + size_; }
    bool operator==(const Shape &other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

  private:
    int64_t values_[MAX_AXES] = {};
    size_t size_ = 0;
};

// One array argument. Keeps the memory alive while it exists.
class Array {
  public:
    Array() = default;
    Array(Array &&other) noexcept { swap(other); }
    Array &operator=(Array &&other) noexcept {
        swap(other);
        return *this;
    }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array();

    // A matrix: 2-D, or 3-D with 1 to 512 channels last. Rows may be padded. Raises ValueError for other arrays.
    cusMat matrix() const;
    // The matrix of an element of the first axis.
    cusMat image(int64_t index) const;
    // A stack of images (images, rows, columns, channels) without gaps, as one matrix of images * rows rows.
    cusMat stack() const;
    // A matrix with one column from a 1-D array without gaps.
    cusMat column() const;
    // The elements of a 1-D array without gaps. Raises TypeError unless it has one of two types.
    void *elements(int dtype, int other = -1) const;

    nb::object object; // the array itself: what a function returns
    const char *function = "", *argument = "";
    void *data = nullptr;
    Shape shape;
    Shape strides; // bytes
    int dtype = UNKNOWN;
    Device device;
    Framework framework = Framework::Unknown;
    bool readonly = false;

  private:
    friend class Call;
    void swap(Array &other) noexcept;
    void fromBuffer();
    bool fromExchange(const dlpack::Exchange *exchange, bool writable);
    void fromTorch(bool writable);
    void fromCupy();
    void fromDlpack(void *stream);
    bool fromTensor(const dlpack::Tensor &tensor);
    void setAxes(int64_t axes);
    void readShape(const nb::object &tuple);
    void readStrides(const nb::object &tuple, int64_t scale);
    void fromInterface(const nb::object &interface, cusStream stream);
    void requireDims(int64_t low, int64_t high, const char *expected) const;

    Py_buffer *buffer = nullptr;
    void *managed = nullptr; // a DLPack tensor
    bool versioned = false;
};

// One call of the library. The first array decides device, framework and stream; all others must be on the same device.
class Call {
  public:
    explicit Call(const char *function, nb::handle stream = nb::none()) : function_(function), given_(stream) {}
    ~Call();
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    // For an object that was created on a device: arrays must be on it.
    void expect(const Device &device, const char *why);

    Array in(nb::handle object, const char *argument) { return import(object, argument, false); }
    // Returns `given`, checked to be writable with this shape and type; for None, a new array like the first one.
    Array out(nb::handle given, const char *argument, const Shape &shape, int dtype);

    // Runs `work`, which returns a cusStatus, without the GIL, on the device of the arrays.
    template<class Work>
    void run(Work &&work) {
        cusStatus status;
        {
            const Released released;
            status = work();
        }
        check(status);
    }

    cusSpace space() const { return device_.space; }
    const Device &device() const { return device_; }
    Framework framework() const { return framework_; }
    cusStream stream() const { return stream_; }
    const char *function() const { return function_; }
    // For calls without an array: outputs use the named framework ("numpy", "torch", "cupy").
    void assume(const Device &device, Framework framework);

  private:
    Array import(nb::handle object, const char *argument, bool writable);
    void adopt(const Array &array, const char *argument, const dlpack::Exchange *exchange = nullptr);
    void start(const dlpack::Exchange *exchange = nullptr);
    void orderAfterProducer(Array &array) const;

    const char *function_;
    nb::handle given_;
    Device device_;
    bool known_ = false, started_ = false, other_stream_ = false;
    const char *first_ = nullptr; // the argument that decided the device, for messages
    Framework framework_ = Framework::Unknown;
    cusStream stream_ = nullptr;
    int restore_ = -1;
};

// An array argument that may be None, as a matrix: then nullptr.
class OptionalMatrix {
  public:
    OptionalMatrix(Call &call, nb::handle object, const char *argument) {
        if (object.is_none())
            return;
        array_ = call.in(object, argument);
        mat_ = array_.matrix();
    }
    operator const cusMat *() const { return array_.object.is_valid() ? &mat_ : nullptr; }
    Framework framework() const { return array_.framework; }

  private:
    Array array_;
    cusMat mat_ = CUS_MAT_INIT;
};

// An argument that is an image, or a batch: a list of images of one size and type, or an array of them with one axis more.
class Images {
  public:
    // batches: false for a function of one image.
    Images(Call &call, nb::handle object, const char *argument, bool batches = true);
    // Outputs of the same form: `shape` and `dtype` are those of one.
    Images outputs(Call &call, nb::handle given, const char *argument, const Shape &shape, int dtype) const;
    // Raises ValueError unless there are as many as in `first`.
    void requireCount(const Call &call, const Images &first) const;

    bool many() const { return form_ != Form::ONE; }
    int count() const { return many() ? static_cast<int>(mats_.size()) : 1; }
    const cusMat &image() const { return many() ? mats_[0] : mat_; }
    const cusMat *mats() const { return many() ? mats_.data() : &mat_; }
    cusMat *mats() { return many() ? mats_.data() : &mat_; }
    // The axes of one image, and the element type.
    size_t axes() const { return form_ == Form::STACK ? 3 : array_.shape.size(); }
    int dtype() const { return array_.dtype; }
    // The array, or the list of them.
    nb::object object() const { return form_ == Form::LIST ? list_ : array_.object; }

  private:
    enum class Form { ONE, LIST, STACK };
    Images() = default;
    void add(Array &&array); // to a list
    void split();            // a stack

    const char *argument_ = "";
    Form form_ = Form::ONE;
    Array array_; // LIST: the first one
    std::vector<Array> others_;
    cusMat mat_ = CUS_MAT_INIT; // ONE
    std::vector<cusMat> mats_;  // LIST, STACK
    nb::object list_;           // LIST, of outputs
};

// Structures as bytes; the caller gives them their type.
template<class T>
nb::bytearray bytesOf(const T *items, size_t count) {
    return nb::bytearray(reinterpret_cast<const char *>(items), count * sizeof(T));
}

// A new array of a framework on a device. For unknown frameworks the library allocates device memory, as an object with
// __cuda_array_interface__.
nb::object newArray(const Shape &shape, int dtype, Framework framework, const Device &device, cusStream stream);

// An array that views memory of the library. `owner` keeps it alive.
nb::object viewArray(const cusMat &mat, const Shape &shape, const nb::object &owner, Framework framework,
                     const Device &device, cusStream stream);

// The shape of a matrix: (rows, cols) or (rows, cols, channels).
Shape imageShape(const cusMat &mat);

// The framework of new arrays on a device: the named one, else NumPy on the host and what the user imported on the GPU.
Framework frameworkFor(const char *device, nb::handle name);

// cusight._frameworks, which does in Python what need not be fast.
nb::object frameworks();

// An argument that may be None.
inline auto none(const char *name) {
    return nb::arg(name).none();
}

} // namespace cuspy

// Accepted arguments: the buffer protocol, PyTorch, CuPy, DLPack, __cuda_array_interface__.
#include "arrays.hpp"
#include "dlpack.hpp"
#include "frameworks.hpp"

#include <climits>
#include <cstring>
#include <string>

namespace cuspy {

size_t dtypeSize(int dtype) {
    static const size_t sizes[16] = {1, 1, 2, 2, 4, 4, 8, 2, 4, 8, 8};
    return sizes[dtype & 15];
}

const char *dtypeName(int dtype) {
    static const char *const names[16] = {"uint8",   "int8",    "uint16", "int16", "int32", "float32",
                                          "float64", "float16", "uint32", "int64", "uint64"};
    return dtype >= 0 && dtype < 16 && names[dtype] ? names[dtype] : "unknown";
}

static bool isFloat(int dtype) {
    return dtype == F32 || dtype == F64 || dtype == F16;
}

static int dtypeOf(char kind, size_t size) {
    switch (kind) {
    case 'b':
        return size == 1 ? U8 : UNKNOWN; // bool: bytes 0 and 1
    case 'u':
        return size == 1 ? U8 : size == 2 ? U16 : size == 4 ? U32 : size == 8 ? U64 : UNKNOWN;
    case 'i':
        return size == 1 ? I8 : size == 2 ? I16 : size == 4 ? I32 : size == 8 ? I64 : UNKNOWN;
    case 'f':
        return size == 2 ? F16 : size == 4 ? F32 : size == 8 ? F64 : UNKNOWN;
    default:
        return UNKNOWN;
    }
}

// From a format of the struct module, such as "B" or "<i"; only native byte order.
static int dtypeOfFormat(const char *format, size_t size) {
    if (!format)
        return U8;
    if (*format == '@' || *format == '=' || *format == '<')
        ++format;
    else if ((*format == '>' || *format == '!') && size > 1)
        return UNKNOWN;
    else if (*format == '>' || *format == '!')
        ++format;
    if (!*format || format[1])
        return UNKNOWN;
    if (*format == '?')
        return U8;
    if (std::strchr("BHILQN", *format))
        return dtypeOf('u', size);
    if (std::strchr("bhilqn", *format))
        return dtypeOf('i', size);
    return std::strchr("efd", *format) ? dtypeOf('f', size) : UNKNOWN;
}

[[noreturn]] static void notAnArray(const Array &array) {
    const bool list = PyList_Check(array.object.ptr()) || PyTuple_Check(array.object.ptr());
    fail(CUS_ERROR_TYPE,
         "%s: %s is %s, expected an array (NumPy, PyTorch, CuPy, or an object with __dlpack__, "
         "__cuda_array_interface__ or the buffer protocol)%s",
         array.function, array.argument, array.object.is_none() ? "None" : nb::type_name(array.object.type()).c_str(),
         list ? "; numpy.asarray or numpy.stack makes one of a list, and a function of one image needs a call for each"
              : "");
}

// What to call for an array without gaps.
static std::string contiguous(const Array &array) {
    const std::string name = array.argument;
    return array.framework == Framework::Torch  ? name + ".contiguous()"
           : array.framework == Framework::CuPy ? "cupy.ascontiguousarray(" + name + ")"
                                                : "numpy.ascontiguousarray(" + name + ")";
}

void Array::setAxes(int64_t axes) {
    if (axes < 0 || axes > static_cast<int64_t>(Shape::MAX_AXES))
        fail(CUS_ERROR_SIZE, "%s: %s has %lld axes, expected at most %zu", function, argument, static_cast<long long>(axes),
             Shape::MAX_AXES);
    shape.resize(static_cast<size_t>(axes));
    strides.resize(static_cast<size_t>(axes));
}

Array::~Array() {
    if (buffer) {
        PyBuffer_Release(buffer);
        delete buffer;
    }
    if (managed && versioned) {
        auto *tensor = static_cast<dlpack::ManagedVersioned *>(managed);
        if (tensor->deleter)
            tensor->deleter(tensor);
    } else if (managed) {
        auto *tensor = static_cast<dlpack::Managed *>(managed);
        if (tensor->deleter)
            tensor->deleter(tensor);
    }
}

void Array::swap(Array &other) noexcept {
    std::swap(object, other.object);
    std::swap(function, other.function);
    std::swap(argument, other.argument);
    std::swap(data, other.data);
    std::swap(shape, other.shape);
    std::swap(strides, other.strides);
    std::swap(dtype, other.dtype);
    std::swap(device, other.device);
    std::swap(framework, other.framework);
    std::swap(readonly, other.readonly);
    std::swap(buffer, other.buffer);
    std::swap(managed, other.managed);
    std::swap(versioned, other.versioned);
}

// ---- The buffer protocol: NumPy, memoryview, bytearray ------------------------------------------------------------------

void Array::fromBuffer() {
    auto *view = new Py_buffer;
    if (PyObject_GetBuffer(object.ptr(), view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
        delete view;
        PyErr_Clear();
        notAnArray(*this);
    }
    buffer = view;
    data = view->buf;
    readonly = view->readonly;
    dtype = dtypeOfFormat(view->format, static_cast<size_t>(view->itemsize));
    if (dtype == UNKNOWN)
        fail(CUS_ERROR_TYPE, "%s: %s has elements of format '%s', expected integers or floats in native byte order",
             function, argument, view->format);
    setAxes(view->ndim);
    for (size_t i = 0; i < shape.size(); ++i) {
        shape[i] = view->shape[i];
        strides[i] = view->strides[i];
    }
    framework = Framework::NumPy;
}

// ---- PyTorch and CuPy: a table of C functions, else their attributes, which cost less than a capsule --------------------

static Py_ssize_t count(const nb::object &tuple) {
    const Py_ssize_t n = PyTuple_Size(tuple.ptr());
    if (n < 0)
        throw nb::python_error();
    return n;
}

static void readTuple(const nb::object &tuple, int64_t scale, Shape &values) {
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), static_cast<Py_ssize_t>(i))) * scale;
}

void Array::readShape(const nb::object &tuple) {
    setAxes(count(tuple));
    readTuple(tuple, 1, shape);
}

void Array::readStrides(const nb::object &tuple, int64_t scale) {
    const Py_ssize_t n = count(tuple);
    if (n != static_cast<Py_ssize_t>(strides.size()))
        fail(CUS_ERROR_SIZE, "%s: %s has %zd strides, expected %zu, one for each axis", function, argument, n,
             strides.size());
    readTuple(tuple, scale, strides);
}

// str(object). nb::str(object.attr(...)) would treat the attribute itself as a string.
static std::string asText(const nb::object &object) {
    const nb::object text = nb::steal(PyObject_Str(object.ptr()));
    if (!text.is_valid())
        throw nb::python_error();
    return nb::cast<std::string>(text);
}

// Uses the functions of the array's type. Returns false if there are none or they do not tell all; the attributes then give
// the rest and the error.
bool Array::fromExchange(const dlpack::Exchange *exchange, bool writable) {
    if (!exchange)
        return false;
    dlpack::Tensor tensor = {};
    if (exchange->tensor_of(object.ptr(), &tensor) != 0) {
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) // Ctrl-C
            throw nb::python_error();
        PyErr_Clear();
        return false;
    }
    if (tensor.device_type == dlpack::CUDA)
        device = {CUS_DEVICE, tensor.device_id};
    else if (tensor.device_type != dlpack::CPU)
        return false;
    if (!fromTensor(tensor))
        return false;
    if (framework == Framework::Torch && isFloat(dtype)) {
        const Names &names = Names::get();
        if (nb::cast<bool>(callPython(object.attr(names.is_neg))) ||
            (writable && nb::cast<bool>(object.attr(names.requires_grad))))
            return false;
    }
    return data || std::find(shape.begin(), shape.end(), 0) != shape.end();
}

void Array::fromTorch(bool writable) {
    const Names &names = Names::get();
    const int index = nb::cast<int>(callPython(object.attr(names.get_device)));
    if (index >= 0 && !nb::cast<bool>(object.attr(names.is_cuda)))
        fail(CUS_ERROR_SPACE, "%s: %s is on device %s, expected cpu or cuda", function, argument,
             asText(object.attr("device")).c_str());
    if (writable && nb::cast<bool>(object.attr(names.requires_grad)))
        fail(CUS_ERROR_VALUE, "%s: %s requires a gradient, expected a tensor that may be written", function, argument);
    device = index >= 0 ? Device{CUS_DEVICE, index} : Device{CUS_HOST, -1};
    dtype = Frameworks::get().torchDtype(object.attr(names.dtype).ptr());
    if (dtype == UNKNOWN)
        fail(CUS_ERROR_TYPE, "%s: %s has type %s, expected integers or floats of 8 to 64 bits", function, argument,
             asText(object.attr(names.dtype)).c_str());
    if (isFloat(dtype) && nb::cast<bool>(callPython(object.attr(names.is_neg))))
        fail(CUS_ERROR_VALUE,
             "%s: %s is a view that PyTorch negates when it reads, expected the values (call resolve_neg())", function,
             argument);
    readShape(nb::object(object.attr(names.shape)));
    bool dense = true;
    try {
        readStrides(callPython(object.attr(names.stride)), static_cast<int64_t>(dtypeSize(dtype)));
        data = reinterpret_cast<void *>(nb::cast<uintptr_t>(object.attr(names.data_ptr)()));
    } catch (nb::python_error &) { // for example, a sparse tensor
        dense = false;
    }
    if (!dense)
        fail(CUS_ERROR_TYPE, "%s: %s has layout %s, expected torch.strided", function, argument,
             asText(object.attr("layout")).c_str());
    if (!data && nb::cast<int64_t>(callPython(object.attr("numel"))) > 0)
        fail(CUS_ERROR_SPACE, "%s: %s is on device %s, which has no memory, expected cpu or cuda", function, argument,
             asText(object.attr("device")).c_str());
}

void Array::fromCupy() {
    const Names &names = Names::get();
    const nb::object memory = object.attr(names.data);
    device = {CUS_DEVICE, nb::cast<int>(memory.attr(names.device_id))};
    readShape(nb::object(object.attr(names.shape)));
    readStrides(nb::object(object.attr(names.strides)), 1);
    const nb::object type = object.attr(names.dtype);
    dtype = Frameworks::get().numpyDtypeOf(type);
    if (dtype == UNKNOWN) {
        const std::string format = nb::cast<std::string>(type.attr("char"));
        dtype = dtypeOfFormat(format.c_str(), nb::cast<size_t>(type.attr("itemsize")));
    }
    if (dtype == UNKNOWN)
        fail(CUS_ERROR_TYPE, "%s: %s has type %s, expected integers or floats of 8 to 64 bits", function, argument,
             asText(type).c_str());
    data = reinterpret_cast<void *>(nb::cast<uintptr_t>(memory.attr(names.ptr)));
}

// ---- DLPack ------------------------------------------------------------------------------------------------------------

// Returns false if the element type is unknown here.
bool Array::fromTensor(const dlpack::Tensor &tensor) {
    const char kind = tensor.code == dlpack::INT     ? 'i'
                      : tensor.code == dlpack::UINT  ? 'u'
                      : tensor.code == dlpack::FLOAT ? 'f'
                      : tensor.code == dlpack::BOOL  ? 'b'
                                                     : 'x';
    dtype = tensor.lanes == 1 ? dtypeOf(kind, tensor.bits / 8u) : UNKNOWN;
    if (dtype == UNKNOWN)
        return false;
    const auto size = static_cast<int64_t>(dtypeSize(dtype));
    setAxes(tensor.ndim);
    int64_t step = size;
    for (size_t i = shape.size(); i-- > 0; step *= shape[i]) {
        shape[i] = tensor.shape[i];
        strides[i] = tensor.strides ? tensor.strides[i] * size : step;
    }
    data = tensor.data ? static_cast<char *>(tensor.data) + tensor.byte_offset : nullptr;
    return true;
}

void Array::fromDlpack(void *stream) {
    nb::object capsule;
    nb::dict arguments;
    if (device.space == CUS_DEVICE) // 1 is the legacy default stream
        arguments["stream"] = stream ? static_cast<int64_t>(reinterpret_cast<uintptr_t>(stream)) : int64_t{1};
    arguments["max_version"] = nb::make_tuple(1, 0);
    const nb::object method = object.attr("__dlpack__");
    const auto call = [&] { return nb::steal(PyObject_Call(method.ptr(), nb::tuple().ptr(), arguments.ptr())); };
    capsule = callPython(call);
    if (!capsule.is_valid() && PyErr_ExceptionMatches(PyExc_TypeError)) { // a producer of the first DLPack version
        PyErr_Clear();
        nb::del(arguments["max_version"]);
        capsule = callPython(call);
    }
    if (!capsule.is_valid())
        throw nb::python_error();
    const dlpack::Tensor *tensor = nullptr;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        auto *whole = static_cast<dlpack::ManagedVersioned *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        if (whole->major != 1)
            fail(CUS_ERROR_UNSUPPORTED, "%s: %s comes as DLPack version %u, expected version 1", function, argument,
                 whole->major);
        PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
        managed = whole;
        versioned = true;
        readonly = whole->flags & 1;
        tensor = &whole->tensor;
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
        auto *whole = static_cast<dlpack::Managed *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
        PyCapsule_SetName(capsule.ptr(), "used_dltensor");
        managed = whole;
        tensor = &whole->tensor;
    } else {
        notAnArray(*this);
    }
    if (!fromTensor(*tensor))
        fail(CUS_ERROR_TYPE, "%s: %s has elements of %d bits (DLPack code %d), expected integers or floats of 8 to 64 bits",
             function, argument, tensor->bits, tensor->code);
}

// ---- __cuda_array_interface__: a dict that any object may offer ---------------------------------------------------------

// The value of a field; None if it is missing.
static nb::object fieldOf(const nb::dict &fields, const char *name) {
    return fields.contains(name) ? nb::object(fields[name]) : nb::none();
}

// Reads an integer; returns false if it is none or does not fit.
static bool readNumber(nb::handle object, bool is_signed, int64_t &value) {
    const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
    if (index.is_valid())
        value = is_signed ? PyLong_AsLongLong(index.ptr()) : static_cast<int64_t>(PyLong_AsUnsignedLongLong(index.ptr()));
    const bool valid = !PyErr_Occurred();
    PyErr_Clear();
    return valid;
}

static bool isTupleOfNumbers(const nb::object &object) {
    if (!PyTuple_Check(object.ptr()))
        return false;
    int64_t value = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(object.ptr()); ++i)
        if (!readNumber(PyTuple_GetItem(object.ptr(), i), true, value))
            return false;
    return true;
}

static void requireField(const Array &array, bool valid, const char *name, const char *expected) {
    if (!valid)
        fail(CUS_ERROR_TYPE, "%s: %s has a __cuda_array_interface__ with an invalid %s, expected %s", array.function,
             array.argument, name, expected);
}

void Array::fromInterface(const nb::object &interface, cusStream stream) {
    if (!PyDict_Check(interface.ptr()))
        fail(CUS_ERROR_TYPE, "%s: %s has a __cuda_array_interface__ of type %s, expected a dict", function, argument,
             nb::inst_name(interface).c_str());
    const nb::dict fields = nb::borrow<nb::dict>(interface);
    const nb::object typestr = fieldOf(fields, "typestr"), axes = fieldOf(fields, "shape"),
                     memory = fieldOf(fields, "data"), steps = fieldOf(fields, "strides"),
                     producer_stream = fieldOf(fields, "stream");
    requireField(*this, PyUnicode_Check(typestr.ptr()), "typestr", "a text such as '<f4'");
    requireField(*this, isTupleOfNumbers(axes), "shape", "a tuple of integers");
    requireField(*this, steps.is_none() || isTupleOfNumbers(steps), "strides", "a tuple of integers or None");
    int64_t address = 0, number = 0;
    requireField(*this,
                 PyTuple_Check(memory.ptr()) && PyTuple_Size(memory.ptr()) == 2 &&
                     readNumber(PyTuple_GetItem(memory.ptr(), 0), false, address),
                 "data", "a tuple of an address and whether it is read-only");
    requireField(*this, producer_stream.is_none() || readNumber(producer_stream, false, number), "stream",
                 "an integer or None");
    requireField(*this, fieldOf(fields, "mask").is_none(), "mask", "None");
    const std::string type = nb::cast<std::string>(typestr);
    readShape(axes);
    data = reinterpret_cast<void *>(address);
    readonly = PyObject_IsTrue(PyTuple_GetItem(memory.ptr(), 1)) != 0;
    PyErr_Clear(); // what has no truth is read-only
    const size_t size = type.size() == 3 ? static_cast<size_t>(type[2] - '0') : 0;
    dtype = type.size() == 3 && (type[0] != '>' || size == 1) ? dtypeOf(type[1], size) : UNKNOWN;
    if (dtype == UNKNOWN)
        fail(CUS_ERROR_TYPE, "%s: %s has type '%s', expected integers or floats of 8 to 64 bits", function, argument,
             type.c_str());
    if (!steps.is_none()) {
        readStrides(steps, 1);
    } else {
        uint64_t step = size; // of any shape; one that is too large is refused later
        for (size_t i = shape.size(); i-- > 0; step *= static_cast<uint64_t>(shape[i]))
            strides[i] = static_cast<int64_t>(step);
    }
    framework = Framework::Other;
    if (producer_stream.is_none())
        return;
    // 1 is the legacy default stream, 2 the per-thread one; CUDA knows both by these numbers.
    const auto producer = reinterpret_cast<cusStream>(number);
    if (producer == stream || (!stream && producer == reinterpret_cast<cusStream>(uintptr_t{1})))
        return;
    cusStreamEvent event = nullptr;
    check(cusStreamEventCreate(&event));
    cusStatus status = cusStreamEventRecord(event, producer);
    if (status == CUS_OK)
        status = cusStreamWaitEvent(stream, event);
    cusStreamEventDestroy(event);
    check(status);
}

// ---- Choosing one of them -----------------------------------------------------------------------------------------------

Array Call::import(nb::handle object, const char *argument, bool writable) {
    Array array;
    array.object = nb::borrow(object);
    array.function = function_;
    array.argument = argument;
    const ArrayType kind = Frameworks::get().typeOf(object);
    array.framework = kind.framework;
    if (kind.framework == Framework::Torch || kind.framework == Framework::CuPy) {
        if (!array.fromExchange(kind.exchange, writable))
            kind.framework == Framework::Torch ? array.fromTorch(writable) : array.fromCupy();
        adopt(array, argument, kind.exchange);
    } else if (kind.framework == Framework::NumPy || PyObject_CheckBuffer(object.ptr())) {
        array.fromBuffer();
        adopt(array, argument);
    } else if (nb::hasattr(object, "__dlpack_device__") && nb::hasattr(object, "__dlpack__")) {
        const nb::tuple device = nb::cast<nb::tuple>(callPython(object.attr("__dlpack_device__")));
        const int type = nb::cast<int>(device[0]);
        if (type == dlpack::CUDA || type == dlpack::CUDA_MANAGED)
            array.device = {CUS_DEVICE, nb::cast<int>(device[1])};
        else if (type != dlpack::CPU && type != dlpack::CUDA_HOST)
            fail(CUS_ERROR_SPACE, "%s: %s is on a device of DLPack type %d, expected cpu (1) or cuda (2)", function_,
                 argument, type);
        array.framework = Framework::Other;
        adopt(array, argument);
        array.fromDlpack(stream_);
    } else if (nb::hasattr(object, "__cuda_array_interface__")) {
        array.device = {CUS_DEVICE, -1};
        array.framework = Framework::Other;
        adopt(array, argument);
        array.fromInterface(nb::object(object.attr("__cuda_array_interface__")), stream_);
    } else {
        notAnArray(array);
    }
    if (other_stream_ && (array.framework == Framework::Torch || array.framework == Framework::CuPy))
        orderAfterProducer(array);
    for (const int64_t extent : array.shape)
        if (extent <= 0)
            array.data = nullptr;
    if (writable && array.readonly)
        fail(CUS_ERROR_VALUE, "%s: %s is read-only, expected an array that may be written", function_, argument);
    return array;
}

// ---- As matrices of the library -----------------------------------------------------------------------------------------

static std::string text(const Shape &shape) {
    std::string words = "(";
    for (size_t i = 0; i < shape.size(); ++i)
        words += (i ? ", " : "") + std::to_string(shape[i]);
    return words + (shape.size() == 1 ? ",)" : ")");
}

std::string shapeText(const Shape &shape) {
    return text(shape);
}

void Array::requireDims(int64_t low, int64_t high, const char *expected) const {
    const auto dims = static_cast<int64_t>(shape.size());
    if (dims < low || dims > high)
        fail(CUS_ERROR_SIZE, "%s: %s has shape %s, expected %s%s", function, argument, text(shape).c_str(), expected,
             high < 4 && dims == 4 ? "; several images need a call each" : "");
    for (const int64_t extent : shape)
        if (extent < 1 || extent > INT_MAX)
            fail(CUS_ERROR_SIZE, "%s: %s has shape %s, expected 1 to 2147483647 on each axis", function, argument,
                 text(shape).c_str());
    if (dtype > F16)
        fail(CUS_ERROR_TYPE, "%s: %s has type %s, expected %s", function, argument, dtypeName(dtype),
             nb::cast<std::string>(callPython(nb::module_::import_("cusight._advice").attr("taken"), function, argument))
                 .c_str());
}

cusMat Array::matrix() const {
    requireDims(2, 3, "(rows, columns) or (rows, columns, channels)");
    const auto size = static_cast<int64_t>(dtypeSize(dtype));
    const bool color = shape.size() == 3;
    const int64_t channels = color ? shape[2] : 1, pixel = channels * size;
    if (channels > 512)
        fail(CUS_ERROR_SIZE, "%s: %s has shape %s, expected at most 512 channels", function, argument, text(shape).c_str());
    if ((color && channels > 1 && strides[2] != size) || (shape[1] > 1 && strides[1] != pixel))
        fail(CUS_ERROR_SIZE,
             "%s: %s has strides %s, expected pixels without gaps in a row: %lld bytes apart (make it contiguous: %s)",
             function, argument, text(strides).c_str(), static_cast<long long>(pixel), contiguous(*this).c_str());
    const int64_t row_bytes = shape[1] * pixel;
    const int64_t step = shape[0] > 1 ? strides[0] : row_bytes;
    if (step < row_bytes)
        fail(CUS_ERROR_SIZE, "%s: %s has strides %s, expected rows at least %lld bytes apart (make it contiguous: %s)",
             function, argument, text(strides).c_str(), static_cast<long long>(row_bytes), contiguous(*this).c_str());
    cusMat mat = CUS_MAT_INIT;
    check(cusMatWrap(&mat, static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                     CUS_MAKETYPE(dtype, static_cast<int>(channels)), device.space, data, static_cast<size_t>(step)));
    return mat;
}

cusMat Array::image(int64_t index) const {
    Array one; // a view that owns nothing
    one.function = function;
    one.argument = argument;
    one.data = static_cast<char *>(data) + index * strides[0];
    one.dtype = dtype;
    one.device = device;
    one.framework = framework;
    for (size_t axis = 1; axis < shape.size(); ++axis) {
        one.shape.push_back(shape[axis]);
        one.strides.push_back(strides[axis]);
    }
    return one.matrix();
}

cusMat Array::stack() const {
    requireDims(4, 4, "(frames, rows, columns, channels)");
    int64_t step = static_cast<int64_t>(dtypeSize(dtype));
    for (size_t i = 4; i-- > 0; step *= shape[i])
        if (shape[i] > 1 && strides[i] != step)
            fail(CUS_ERROR_SIZE, "%s: %s has strides %s, expected an array without gaps", function, argument,
                 text(strides).c_str());
    const int64_t rows = shape[0] * shape[1];
    if (rows > INT_MAX || shape[3] > 512)
        fail(CUS_ERROR_SIZE, "%s: %s has shape %s, expected fewer than 2^31 rows in all and at most 512 channels", function,
             argument, text(shape).c_str());
    cusMat mat = CUS_MAT_INIT;
    check(cusMatWrap(&mat, static_cast<int>(rows), static_cast<int>(shape[2]),
                     CUS_MAKETYPE(dtype, static_cast<int>(shape[3])), device.space, data, 0));
    return mat;
}

cusMat Array::column() const {
    requireDims(1, 1, "one axis");
    const auto size = static_cast<int64_t>(dtypeSize(dtype));
    if (shape[0] > 1 && strides[0] != size)
        fail(CUS_ERROR_SIZE, "%s: %s has strides %s, expected an array without gaps", function, argument,
             text(strides).c_str());
    cusMat mat = CUS_MAT_INIT;
    check(cusMatWrap(&mat, static_cast<int>(shape[0]), 1, CUS_MAKETYPE(dtype, 1), device.space, data, 0));
    return mat;
}

void *Array::elements(int wanted, int other) const {
    if (shape.size() != 1)
        fail(CUS_ERROR_SIZE, "%s: %s has shape %s, expected one axis", function, argument, text(shape).c_str());
    if (dtype != wanted && dtype != other)
        fail(CUS_ERROR_TYPE, "%s: %s has type %s, expected %s", function, argument, dtypeName(dtype), dtypeName(wanted));
    if (shape[0] > 1 && strides[0] != static_cast<int64_t>(dtypeSize(dtype)))
        fail(CUS_ERROR_SIZE, "%s: %s has strides %s, expected an array without gaps (make it contiguous: %s)", function,
             argument, text(strides).c_str(), contiguous(*this).c_str());
    return data;
}

// ---- Batches ------------------------------------------------------------------------------------------------------------

static bool isList(nb::handle object) {
    return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr());
}

void Images::add(Array &&array) {
    mats_.push_back(array.matrix());
    if (list_.is_valid())
        nb::borrow<nb::list>(list_).append(array.object);
    if (mats_.size() == 1)
        array_ = std::move(array);
    else
        others_.push_back(std::move(array));
}

void Images::split() {
    for (int64_t i = 0; i < array_.shape[0]; ++i)
        mats_.push_back(array_.image(i));
}

Images::Images(Call &call, nb::handle object, const char *argument, bool batches) : argument_(argument) {
    if (batches && isList(object)) {
        form_ = Form::LIST;
        for (nb::handle one : object)
            add(call.in(one, argument));
    } else {
        array_ = call.in(object, argument);
        if (batches && array_.shape.size() == 4)
            form_ = Form::STACK;
        if (form_ == Form::STACK)
            split();
        else
            mat_ = array_.matrix();
    }
    if (count() < 1 || count() > CUS_MAX_BATCH)
        fail(CUS_ERROR_SIZE, "%s: %s has %d images, expected 1 to %d", call.function(), argument, count(), CUS_MAX_BATCH);
}

Images Images::outputs(Call &call, nb::handle given, const char *argument, const Shape &shape, int dtype) const {
    Images out;
    out.argument_ = argument;
    out.form_ = form_;
    if (form_ == Form::LIST) {
        if (!given.is_none() && (!isList(given) || static_cast<int>(nb::len(given)) != count()))
            fail(CUS_ERROR_SIZE, "%s: %s is no list of %d arrays, one for each of %s", call.function(), argument, count(),
                 argument_);
        out.list_ = nb::list();
        for (int i = 0; i < count(); ++i)
            out.add(call.out(given.is_none() ? given : nb::handle(nb::object(given[i])), argument, shape, dtype));
        return out;
    }
    Shape all = form_ == Form::STACK ? Shape{count()} : Shape();
    for (const int64_t extent : shape)
        all.push_back(extent);
    out.array_ = call.out(given, argument, all, dtype);
    if (form_ == Form::STACK)
        out.split();
    else
        out.mat_ = out.array_.matrix();
    return out;
}

void Images::requireCount(const Call &call, const Images &first) const {
    if (many() != first.many() || count() != first.count())
        fail(CUS_ERROR_SIZE, "%s: %s has %d image%s, expected %d like %s", call.function(), argument_, count(),
             count() == 1 ? "" : "s", first.count(), first.argument_);
}

} // namespace cuspy

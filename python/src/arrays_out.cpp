// Device, framework and stream of a call, and the arrays it returns.
#include "frameworks.hpp"

#include <nanobind/ndarray.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace cuspy {

// ---- Frameworks ---------------------------------------------------------------------------------------------------------

static nb::object interned(const char *name) {
    return nb::steal(PyUnicode_InternFromString(name));
}

Names::Names()
    : get_device(interned("get_device")), is_cuda(interned("is_cuda")), dtype(interned("dtype")), shape(interned("shape")),
      stride(interned("stride")), strides(interned("strides")), data_ptr(interned("data_ptr")), is_neg(interned("is_neg")),
      requires_grad(interned("requires_grad")), data(interned("data")), device_id(interned("device_id")),
      ptr(interned("ptr")) {}

const Names &Names::get() {
    static const Names *names = new Names; // never freed: Python may be gone when static objects are destroyed
    return *names;
}

Frameworks &Frameworks::get() {
    static auto *known = new Frameworks;
    return *known;
}

nb::object frameworks() {
    return nb::module_::import_("cusight._frameworks");
}

bool Frameworks::is(nb::handle object, nb::object &type, const char *module, const char *name) {
    if (!type.is_valid()) {
        PyObject *modules = PyImport_GetModuleDict();
        PyObject *imported = PyDict_GetItemString(modules, module);
        if (!imported || !nb::hasattr(imported, name)) // absent, or being imported
            return false;
        type = nb::getattr(imported, name);
    }
    return PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(object.type().ptr()),
                            reinterpret_cast<PyTypeObject *>(type.ptr()));
}

// A type's table, if its version is known here and it has all that is used here.
static const dlpack::Exchange *exchangeOf(nb::handle type) {
    const nb::object capsule = nb::steal(PyObject_GetAttrString(type.ptr(), dlpack::EXCHANGE_ATTRIBUTE));
    if (!capsule.is_valid())
        PyErr_Clear();
    if (!capsule.is_valid() || !PyCapsule_IsValid(capsule.ptr(), dlpack::EXCHANGE_CAPSULE))
        return nullptr;
    const auto *header =
        static_cast<const dlpack::ExchangeHeader *>(PyCapsule_GetPointer(capsule.ptr(), dlpack::EXCHANGE_CAPSULE));
    while (header && header->major > 1)
        header = header->older;
    if (!header || header->major != 1)
        return nullptr;
    const auto *exchange = reinterpret_cast<const dlpack::Exchange *>(header);
    return exchange->tensor_of && exchange->current_stream ? exchange : nullptr;
}

ArrayType Frameworks::typeOf(nb::handle object) {
    const nb::handle type = object.type();
    for (const Known &known : types_)
        if (known.type.is(type))
            return known.what;
    ArrayType what;
    if (is(object, numpy_array_, "numpy", "ndarray"))
        what.framework = Framework::NumPy;
    else if (is(object, torch_tensor_, "torch", "Tensor"))
        what = {Framework::Torch, exchangeOf(type)};
    else if (is(object, cupy_array_, "cupy", "ndarray"))
        what = {Framework::CuPy, exchangeOf(type)};
    else
        return what; // not kept: its framework may be being imported
    types_[next_type_++ % std::size(types_)] = {nb::borrow(type), what};
    return what;
}

int Frameworks::torchDtype(PyObject *dtype) {
    if (!torch_dtypes_known_) {
        const nb::module_ torch = nb::module_::import_("torch");
        for (int i = 0; i <= U64; ++i)
            if (nb::hasattr(torch, dtypeName(i)))
                torch_dtypes_[i] = torch.attr(dtypeName(i)).ptr();
        torch_dtypes_[UNKNOWN] = torch.attr("bool").ptr();
        torch_dtypes_known_ = true;
    }
    for (int i = 0; i < 16; ++i)
        if (torch_dtypes_[i] == dtype)
            return i == UNKNOWN ? static_cast<int>(U8) : i;
    return UNKNOWN;
}

const nb::object &Frameworks::numpyDtype(int dtype) {
    nb::object &known = numpy_dtypes_[dtype & 15];
    if (!known.is_valid())
        known = nb::module_::import_("numpy").attr("dtype")(dtypeName(dtype));
    return known;
}

int Frameworks::numpyDtypeOf(nb::handle dtype) {
    for (const int known : {U8, I8, U16, I16, I32, F32, F64, F16, U32, I64, U64})
        if (numpyDtype(known).is(dtype))
            return known;
    return UNKNOWN;
}

static nb::object tupleOf(const Shape &shape) {
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    for (size_t i = 0; i < shape.size(); ++i)
        PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
    return tuple;
}

nb::object Frameworks::numpyEmpty(const Shape &shape, const nb::object &dtype) {
    if (!numpy_empty_.is_valid())
        numpy_empty_ = nb::module_::import_("numpy").attr("empty");
    return numpy_empty_(tupleOf(shape), dtype);
}

const nb::object &Frameworks::function(nb::object &known, const char *name) {
    if (!known.is_valid())
        known = frameworks().attr(name);
    return known;
}

nb::object Frameworks::empty(Framework framework, const Shape &shape, int dtype, int device) {
    const nb::object &make =
        framework == Framework::Torch ? function(torch_empty_, "torch_empty") : function(cupy_empty_, "cupy_empty");
    return callPython(make, tupleOf(shape), dtypeName(dtype), device);
}

cusStream Frameworks::stream(Framework framework, const dlpack::Exchange *exchange, int device) {
    uintptr_t pointer = 0;
    if (exchange) {
        void *stream = nullptr;
        if (exchange->current_stream(dlpack::CUDA, device, &stream) != 0)
            throw nb::python_error();
        return static_cast<cusStream>(stream);
    }
    if (framework == Framework::Torch) {
        if (!torch_stream_.is_valid())
            torch_stream_ = callPython(frameworks().attr("torch_stream_function"));
        pointer = nb::cast<uintptr_t>(callPython(torch_stream_, device));
    } else if (framework == Framework::CuPy) {
        if (!cupy_stream_.is_valid())
            cupy_stream_ = nb::module_::import_("cupy").attr("cuda").attr("get_current_stream");
        pointer = nb::cast<uintptr_t>(callPython(cupy_stream_).attr(Names::get().ptr));
    }
    return reinterpret_cast<cusStream>(pointer);
}

// ---- Devices ------------------------------------------------------------------------------------------------------------

Device parseDevice(const char *function, const char *text) {
    if (!std::strcmp(text, "cpu"))
        return {CUS_HOST, -1};
    if (!std::strcmp(text, "cuda"))
        return {CUS_DEVICE, -1};
    if (!std::strncmp(text, "cuda:", 5) && text[5] >= '0' && text[5] <= '9') {
        char *end = nullptr;
        const long index = std::strtol(text + 5, &end, 10);
        if (!*end && index < 1024)
            return {CUS_DEVICE, static_cast<int>(index)};
    }
    fail(CUS_ERROR_VALUE, "%s: device is '%s', expected cpu, cuda or cuda:N", function, text);
}

nb::object deviceName(const Device &device) {
    if (device.space == CUS_HOST)
        return nb::str("cpu");
    return device.index < 0 ? nb::object(nb::str("cuda")) : nb::object(nb::str("cuda:{}").format(device.index));
}

Framework frameworkFor(const char *device, nb::handle given) {
    const auto name = nb::cast<std::string>(callPython(frameworks().attr("framework_of"), device, given));
    return name == "torch"   ? Framework::Torch
           : name == "cupy"  ? Framework::CuPy
           : name == "numpy" ? Framework::NumPy
                             : Framework::Other;
}

// ---- A call -------------------------------------------------------------------------------------------------------------

Call::~Call() {
    if (restore_ >= 0)
        cusDeviceSet(restore_);
}

void Call::expect(const Device &device, const char *why) {
    device_ = device;
    known_ = true;
    first_ = why;
}

void Call::assume(const Device &device, Framework framework) {
    expect(device, "device");
    framework_ = framework;
    start();
}

void Call::adopt(const Array &array, const char *argument, const dlpack::Exchange *exchange) {
    if (framework_ == Framework::Unknown)
        framework_ = array.framework;
    if (!known_) {
        device_ = array.device;
        known_ = true;
        first_ = argument;
    } else if (device_.space == CUS_DEVICE && array.device.space == CUS_DEVICE && device_.index < 0) {
        device_.index = array.device.index;
    } else if (device_.space != array.device.space ||
               (device_.index >= 0 && array.device.index >= 0 && device_.index != array.device.index)) {
        fail(CUS_ERROR_SPACE, "%s: %s is on %s, expected %s like %s", function_, argument,
             nb::cast<std::string>(deviceName(array.device)).c_str(), nb::cast<std::string>(deviceName(device_)).c_str(),
             first_);
    }
    start(exchange);
}

// A GPU that was found once stays.
static bool haveGpu() {
    static bool have = false;
    int gpus = 0;
    have = have || (cusDeviceCount(&gpus) == CUS_OK && gpus > 0);
    return have;
}

// Makes the device the thread's current one until the call ends, and looks up the stream: `stream`, else the framework's
// current stream, else the legacy default stream.
void Call::start(const dlpack::Exchange *exchange) {
    if (started_ || device_.space == CUS_HOST)
        return;
    started_ = true;
    int current = -1;
    if (device_.index >= 0 && cusDeviceGet(&current) == CUS_OK && current != device_.index) {
        check(cusDeviceSet(device_.index));
        restore_ = current;
    }
    cusStream framework_stream = nullptr;
    if (haveGpu()) // otherwise the library's own error follows
        framework_stream = Frameworks::get().stream(framework_, exchange, device_.index >= 0 ? device_.index : 0);
    stream_ = framework_stream;
    if (!given_.is_none()) {
        stream_ = reinterpret_cast<cusStream>(nb::cast<uintptr_t>(callPython(frameworks().attr("stream_pointer"), given_)));
        other_stream_ = stream_ != framework_stream;
    }
}

// The caller asked for another stream than the framework's current one. It waits for what the framework has queued, and the
// framework learns that it uses the array.
void Call::orderAfterProducer(Array &array) const {
    callPython(frameworks().attr(array.framework == Framework::Torch ? "torch_other_stream" : "cupy_other_stream"),
               array.object, reinterpret_cast<uintptr_t>(stream_));
}

Array Call::out(nb::handle given, const char *argument, const Shape &shape, int dtype) {
    if (!given.is_none()) {
        Array array = import(given, argument, true);
        if (!(array.shape == shape))
            fail(CUS_ERROR_SIZE, "%s: %s has shape %s, expected %s", function_, argument, shapeText(array.shape).c_str(),
                 shapeText(shape).c_str());
        if (array.dtype != dtype)
            fail(CUS_ERROR_TYPE, "%s: %s has type %s, expected %s", function_, argument, dtypeName(array.dtype),
                 dtypeName(dtype));
        return array;
    }
    const nb::object made = newArray(shape, dtype, framework_, device_, stream_);
    return import(made, argument, true);
}

// ---- Arrays that are returned -------------------------------------------------------------------------------------------

nb::object newArray(const Shape &shape, int dtype, Framework framework, const Device &device, cusStream stream) {
    Frameworks &known = Frameworks::get();
    if (framework == Framework::Torch || framework == Framework::CuPy)
        return known.empty(framework, shape, dtype, device.space == CUS_HOST ? -1 : device.index < 0 ? 0 : device.index);
    if (device.space == CUS_HOST)
        return known.numpyEmpty(shape, known.numpyDtype(dtype));
    int64_t bytes = static_cast<int64_t>(dtypeSize(dtype));
    for (const int64_t extent : shape)
        bytes *= extent;
    const int64_t row = int64_t{1} << 20; // cusMat counts rows and columns in int
    auto mat = std::make_unique<cusMat>();
    check(cusMatCreate(mat.get(), static_cast<int>((bytes + row - 1) / row + (bytes == 0)),
                       static_cast<int>(bytes < row ? (bytes > 0 ? bytes : 1) : row), CUS_8UC1, CUS_DEVICE));
    cusMat view = *mat;
    const nb::capsule owner(mat.release(), [](void *pointer) noexcept {
        cusMatRelease(static_cast<cusMat *>(pointer));
        delete static_cast<cusMat *>(pointer);
    });
    view.type = CUS_MAKETYPE(dtype, 1);
    view.step = 0;
    return viewArray(view, shape, owner, Framework::Other, device, stream);
}

nb::object viewArray(const cusMat &mat, const Shape &shape, const nb::object &owner, Framework framework,
                     const Device &device, cusStream stream) {
    const int depth = CUS_DEPTH(mat.type);
    const auto size = static_cast<int64_t>(dtypeSize(depth));
    Shape steps(shape.size()); // in elements
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0; step *= shape[i])
        steps[i] = i == 0 && mat.step && shape.size() >= 2 ? static_cast<int64_t>(mat.step) / size : step;
    if (mat.space == CUS_HOST) {
        const std::vector<size_t> extents(shape.begin(), shape.end());
        const nb::dlpack::dtype types[] = {nb::dtype<uint8_t>(), nb::dtype<int8_t>(),   nb::dtype<uint16_t>(),
                                           nb::dtype<int16_t>(), nb::dtype<int32_t>(),  nb::dtype<float>(),
                                           nb::dtype<double>(),  {dlpack::FLOAT, 16, 1}};
        const nb::ndarray<nb::numpy> array(mat.data, extents.size(), extents.data(), owner, steps.begin(), types[depth]);
        nb::object view = nb::cast(array);
        return framework == Framework::Torch ? callPython(frameworks().attr("torch_from_numpy"), view) : view;
    }
    const nb::object extents = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    const nb::object bytes = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    for (size_t i = 0; i < shape.size(); ++i) {
        PyTuple_SetItem(extents.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
        PyTuple_SetItem(bytes.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(steps[i] * size));
    }
    const char *name = framework == Framework::Torch ? "torch" : framework == Framework::CuPy ? "cupy" : "other";
    return callPython(frameworks().attr("device_view"), reinterpret_cast<uintptr_t>(mat.data), extents, bytes,
                      dtypeName(depth), owner, name, device.index < 0 ? 0 : device.index,
                      reinterpret_cast<uintptr_t>(stream));
}

Shape imageShape(const cusMat &mat) {
    Shape shape{mat.rows, mat.cols};
    if (CUS_CHANNELS(mat.type) > 1)
        shape.push_back(CUS_CHANNELS(mat.type));
    return shape;
}

} // namespace cuspy

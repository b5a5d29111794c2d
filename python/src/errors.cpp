// Python exceptions from the library's status codes.
#include "arrays.hpp"

#include <cstdarg>
#include <cstdio>

namespace cuspy {

[[noreturn]] static void raise(cusStatus status, const char *message) {
    const nb::object error =
        callPython(nb::module_::import_("cusight._errors").attr("make"), static_cast<int>(status), message);
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
}

void fail(cusStatus status, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    raise(status, message);
}

void check(cusStatus status) {
    raisePending();
    if (status != CUS_OK)
        raise(status, cusLastError());
}

} // namespace cuspy

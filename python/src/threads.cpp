// Releasing and acquiring the GIL, and what the library's long calls ask.
#include "threads.hpp"

#include "cusight/core.h"

#include <unistd.h>

namespace nb = nanobind;

namespace cuspy {

// Of this thread, while it does not have the GIL. Not PyGILState_Ensure, which looks for it in what the interpreter frees at its end.
static thread_local PyThreadState *released = nullptr;

// Of this thread: the function of cusight.progress, and the exception that ended a call.
static thread_local PyObject *asked = nullptr;
static thread_local PyObject *pending[3] = {};

void sleepForEver() {
    for (;;)
        pause();
}

static void acquire() {
    try {
        PyEval_RestoreThread(released);
    } catch (const abi::__forced_unwind &) {
        sleepForEver();
    }
}

// Whether the call goes on. A signal that comes at the end is left to the interpreter.
static bool goesOn(double done, double seconds_left) {
    if (done < 1 && PyErr_CheckSignals() != 0)
        return false;
    if (!asked)
        return true;
    const nb::object left = seconds_left < 0 ? nb::object(nb::none()) : nb::float_(seconds_left);
    const nb::object answer = callPython([&] { return nb::borrow(asked)(done, left); });
    return !answer.is(nb::bool_(false));
}

static int ask(void *, double done, double seconds_left) {
    static thread_local unsigned calls = 0;
    if (!asked && ++calls % 4 != 0) // signals can wait for 0.2 s, and taking the GIL may take a while
        return 0;
    const Acquired acquired;
    try {
        if (goesOn(done, seconds_left))
            return 0;
    } catch (nb::python_error &error) {
        error.restore();
    }
    if (PyErr_Occurred())
        PyErr_Fetch(&pending[0], &pending[1], &pending[2]);
    return 1;
}

void raisePending() {
    if (!pending[0])
        return;
    PyErr_Restore(pending[0], pending[1], pending[2]);
    pending[0] = pending[1] = pending[2] = nullptr;
    throw nb::python_error();
}

nb::object setProgress(nb::object function) {
    nb::object before = asked ? nb::steal(asked) : nb::none();
    asked = function.is_none() ? nullptr : function.release().ptr();
    return before;
}

// Python handles signals on the main thread only. Within another call, which asks already, nothing is set.
Released::Released() : asks_((asked || gettid() == getpid()) && cusSetProgress(&ask, nullptr) == CUS_OK) {
    released = PyEval_SaveThread();
}

Released::~Released() {
    acquire();
    if (asks_)
        (void)cusSetProgress(nullptr, nullptr);
}

Acquired::Acquired() {
    acquire();
}

Acquired::~Acquired() {
    released = PyEval_SaveThread();
}

} // namespace cuspy

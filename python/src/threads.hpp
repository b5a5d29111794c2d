// The GIL, and threads that outlive the interpreter: daemon threads that are in a call when it ends.
//
// Such a thread must not run Python code any more. CPython ends it when it asks for the GIL: from 3.14 on it sleeps for ever, before
// that pthread_exit unwinds its stack, which no destructor here survives, since the objects that it would release need the GIL. So it
// sleeps here too.
#pragma once

#include <nanobind/nanobind.h>

#include <cxxabi.h>
#include <utility>

namespace cuspy {

[[noreturn]] void sleepForEver();

// Releases the GIL while it exists, for one call of the library. A long one asks whether a signal has come and what the function of
// cusight.progress says: raisePending() then raises what ended it.
class Released {
  public:
    Released();
    ~Released();
    Released(const Released &) = delete;
    Released &operator=(const Released &) = delete;

  private:
    const bool asks_;
};
void raisePending();

// Sets this thread's function, or None; returns the one before.
nanobind::object setProgress(nanobind::object function);

// Has it again while it exists, in a function that the library calls on the thread of a Released.
class Acquired {
  public:
    Acquired();
    ~Acquired();
    Acquired(const Acquired &) = delete;
    Acquired &operator=(const Acquired &) = delete;
};

// Calls what is, or may be, written in Python, and so may have to wait for the GIL itself. Not for use in a catch block.
template<class Function, class... Arguments>
nanobind::object callPython(const Function &function, Arguments &&...arguments) {
    try {
        return function(std::forward<Arguments>(arguments)...);
    } catch (const abi::__forced_unwind &) {
        sleepForEver();
    }
}

} // namespace cuspy

// Releasing and acquiring the GIL.
#include "threads.hpp"

#include <unistd.h>

namespace cuspy {

// Of this thread, while it does not have the GIL. Not PyGILState_Ensure, which looks for it in what the interpreter frees at its end.
static thread_local PyThreadState *released = nullptr;

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

Released::Released() {
    released = PyEval_SaveThread();
}

Released::~Released() {
    acquire();
}

Acquired::Acquired() {
    acquire();
}

Acquired::~Acquired() {
    released = PyEval_SaveThread();
}

} // namespace cuspy

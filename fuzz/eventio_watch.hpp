// Runs one input of the event readers and watches what it allocates. What a reader allocates beyond its option max_memory, and an input
// that takes more than two seconds (-timeout=2), are findings.
#pragma once

#include "eventio_input.hpp"

#include <sanitizer/allocator_interface.h>
#include <sanitizer/asan_interface.h>

#include <atomic>

namespace fuzz {

inline std::atomic<size_t> most{0};
inline std::atomic<bool> watching{false};

inline void onAllocation(const volatile void *, size_t size) {
    if (watching && size > (size_t(1) << 16)) {
        const size_t now = __sanitizer_get_current_allocated_bytes();
        if (now > most)
            most = now;
    }
}
inline void onFree(const volatile void *) {}

inline void watchedInput(const uint8_t *data, size_t size) {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(onAllocation, onFree);
    require(installed > 0);
    const size_t before = __sanitizer_get_current_allocated_bytes();
    most = before;
    watching = true;
    eventInput(data, size);
    watching = false;
    require(most - before <= MAX_MEMORY + (size_t(1) << 23)); // and the arrays of the events read
}

} // namespace fuzz

extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options() {
    return "max_malloc_fill_size=0:allocator_may_return_null=1";
}

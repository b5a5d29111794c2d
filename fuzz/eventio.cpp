// Fuzzes the event readers and the codecs. What a reader allocates beyond its option max_memory, and an input that takes more than
// two seconds (-timeout=2), are findings.
#include "eventio_input.hpp"

#include <sanitizer/allocator_interface.h>
#include <sanitizer/asan_interface.h>

#include <atomic>

namespace {

std::atomic<size_t> most{0};
std::atomic<bool> watching{false};

void onAllocation(const volatile void *, size_t size) {
    // libhdf5 asks for as much as an object header claims (up to 4 GiB) before the driver refuses to read it. That memory is never
    // touched; what is touched counts for -rss_limit_mb=1024.
    if (watching && size > (size_t(1) << 16) && size <= fuzz::MAX_MEMORY) {
        const size_t now = __sanitizer_get_current_allocated_bytes();
        if (now > most)
            most = now;
    }
}
void onFree(const volatile void *) {}

} // namespace

extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options() {
    return "max_malloc_fill_size=0:allocator_may_return_null=1";
}

// libhdf5 leaks what it has parsed of a damaged header.
extern "C" const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions() {
    return "leak:libhdf5";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(onAllocation, onFree);
    fuzz::require(installed > 0);
    const size_t before = __sanitizer_get_current_allocated_bytes();
    most = before;
    watching = true;
    fuzz::eventInput(data, size);
    watching = false;
    fuzz::require(most - before <= fuzz::MAX_MEMORY + (size_t(1) << 23)); // and the arrays of the events read
    return 0;
}

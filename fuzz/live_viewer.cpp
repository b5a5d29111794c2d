// Fuzzes the viewer of live video.
#include "live_targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::viewer(data, size);
    return 0;
}

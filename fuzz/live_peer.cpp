// Fuzzes the peer of live video.
#include "live_targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::peer(data, size);
    return 0;
}

// Fuzzes the event readers and the codecs.
#include "eventio_watch.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::watchedInput(data, size);
    return 0;
}

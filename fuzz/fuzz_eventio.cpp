// Fuzzes the event readers and the codecs.
#include "eventio_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::eventInput(data, size);
    return 0;
}

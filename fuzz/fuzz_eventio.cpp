// Event recordings and their codecs, from any bytes.
#include "eventio_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::eventInput(data, size);
    return 0;
}

// Fuzzes the requests and WebSocket frames of browsers.
#include "web_targets.hpp"

#include "diffstream/web/files.hpp"

// The page itself is not needed.
const std::vector<diffstream::WebFile> &diffstream::webFiles() {
    static const std::vector<WebFile> files = {{"index.html", "text/html", "page"}};
    return files;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::web(data, size);
    return 0;
}

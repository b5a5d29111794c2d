// The page's files, compiled into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace diffstream {

struct WebFile {
    std::string_view name, type, content;
};
const std::vector<WebFile> &webFiles();

// Whether this build has the page; otherwise why not.
inline std::string webProblem() {
#ifdef CUSIGHT_WITHOUT_WEB
    return CUSIGHT_WITHOUT_WEB;
#else
    return "";
#endif
}

} // namespace diffstream

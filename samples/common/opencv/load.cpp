#include "common/opencv/opencv.hpp"

#include "common/app.hpp"

#include <cstring>
#include <filesystem>
#include <system_error>

#include <dlfcn.h>

namespace sample {

namespace {

const OpenCv *load() {
    static const std::string what = "OpenCV's libraries for pictures and windows cannot be loaded: ";
    std::error_code failed;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
    if (failed) // a relative path would name a file of whoever made the current folder
        throw Stop(FAILED, what + "/proc/self/exe: " + failed.message());
    const std::string path = program.parent_path() / CUSIGHT_SAMPLES_MODULE;
    void *const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto *const functions = module ? static_cast<const OpenCv *>(::dlsym(module, "cusight_opencv")) : nullptr;
    if (!functions)
        throw Stop(FAILED, what + ::dlerror());
    if (std::strcmp(functions->version, CUSIGHT_SAMPLES_VERSION) != 0) // replaced while the program runs
        throw Stop(FAILED, what + path + " is of version " + functions->version + ", expected " CUSIGHT_SAMPLES_VERSION);
    return functions;
}

} // namespace

const OpenCv &openCv() {
    static const OpenCv *const functions = load();
    return *functions;
}

} // namespace sample

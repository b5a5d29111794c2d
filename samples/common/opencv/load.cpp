#include "common/opencv/opencv.hpp"

#include "common/app.hpp"

#include <filesystem>
#include <system_error>

#include <dlfcn.h>

namespace sample {

namespace {

const OpenCv *load() {
    std::error_code failed;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
    const std::string path = program.parent_path() / CUSIGHT_SAMPLES_MODULE;
    void *const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const void *const functions = module ? ::dlsym(module, "cusight_opencv") : nullptr;
    if (!functions)
        throw Stop(FAILED, std::string("OpenCV's libraries for pictures and windows cannot be loaded: ") + ::dlerror());
    return static_cast<const OpenCv *>(functions);
}

} // namespace

const OpenCv &openCv() {
    static const OpenCv *const functions = load();
    return *functions;
}

} // namespace sample

// The module, and facts about devices.
#include "modules.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace cuspy {

static nb::dict deviceInfo(int device) {
    cusDeviceInfo info = {};
    check(cusDeviceQuery(device, &info));
    nb::dict fields;
    fields["name"] = info.name;
    fields["major"] = info.major;
    fields["minor"] = info.minor;
    fields["multiprocessors"] = info.multiprocessors;
    fields["l2_bytes"] = info.l2_bytes;
    fields["shared_bytes"] = info.shared_bytes;
    fields["memory_total"] = info.memory_total;
    fields["memory_free"] = info.memory_free;
    fields["driver_version"] = info.driver_version;
    fields["runtime_version"] = info.runtime_version;
    return fields;
}

// An array on a device: itself if it is there, else a copy of the framework that new arrays there have. Waits.
static nb::object moved(const std::string &function, const std::string &argument, nb::handle object,
                        const std::string &device_name) {
    const Device device = parseDevice(function.c_str(), device_name.c_str());
    Call from(function.c_str()), to(function.c_str());
    const Array array = from.in(object, argument.c_str());
    const bool on_gpu = device.space == CUS_DEVICE;
    if (array.device.space == device.space) {
        if (on_gpu && device.index >= 0 && array.device.index >= 0 && device.index != array.device.index)
            fail(CUS_ERROR_SPACE, "%s: %s is on cuda:%d, expected cpu or %s", function.c_str(), argument.c_str(),
                 array.device.index, device_name.c_str());
        return array.object;
    }
    to.assume(device, frameworkFor(device_name.c_str(), nb::none()));
    const cusMat source = array.matrix();
    const Array copy = to.out(nb::none(), argument.c_str(), array.shape, array.dtype);
    cusMat target = copy.matrix();
    cusStream stream = on_gpu ? to.stream() : from.stream();
    (on_gpu ? to : from).run([&] {
        CUS_TRY(on_gpu ? cusMatUpload(&source, &target, stream) : cusMatDownload(&source, &target, stream));
        return cusStreamSynchronize(stream);
    });
    return copy.object;
}

void addCore(nb::module_ &module) {
    module.def("version", [] { return cusVersion(); });
    module.def("build_information", [] { return cusBuildInformation(); });
    module.def(
        "status_name", [](int status) { return cusStatusName(static_cast<cusStatus>(status)); }, nb::arg("status"));
    module.def("device_count", [] {
        int count = 0;
        check(cusDeviceCount(&count));
        return count;
    });
    module.def("device_info", &deviceInfo, nb::arg("device"), nb::sig("def device_info(device: int) -> dict[str, object]"));
    module.def("set_progress", &setProgress, nb::arg("function").none(),
               nb::sig("def set_progress(function: object) -> object"));
    module.def("built_with", [] { return BUILT_WITH; });
    module.def("cuda_built_for", [] { return CUDA_BUILT_FOR; });
    module.def("cuda_missing", [] { return CUDA_MISSING; }); // why, in a build without CUDA
    module.def("host_fft", [] { return cusMatcherHostFft(); });
    module.def("moved", &moved, nb::arg("function"), nb::arg("argument"), nb::arg("array").none(), nb::arg("device"));
    // GNU's OpenMP hangs in a forked process whose parent has used it, unless the process keeps to one thread.
    module.def("after_fork", [] {
        forgetIdle();
#ifdef _OPENMP
        omp_set_num_threads(1);
#endif
    });
    module.def(
        "synchronize",
        [](nb::handle stream) {
            const auto pointer = nb::cast<uintptr_t>(callPython(frameworks().attr("stream_pointer"), stream));
            cusStatus status;
            {
                const Released released;
                status = cusStreamSynchronize(reinterpret_cast<cusStream>(pointer));
            }
            check(status);
        },
        nb::arg("stream").none(), nb::sig("def synchronize(stream: object) -> None"));
}

} // namespace cuspy

NB_MODULE(_core, module) {
    nb::set_leak_warnings(false); // what threads use that sleep at the interpreter's end (threads.hpp)
    module.doc() = "The C library as functions. Use the package cusight, which documents and names them.";
    cuspy::addCore(module);
    cuspy::addIntegral(module);
    cuspy::addMatch(module);
    cuspy::addMotion(module);
    cuspy::addPose(module);
    cuspy::addImages(module);
    cuspy::addFramediff(module);
    cuspy::addStereo(module);
    cuspy::addEvents(module);
    cuspy::addPipeline(module);
    cuspy::addEventio(module);
}

// The CUDA backend's entry points: workspace, choice of the launch. integral_stages.cuh lists the other files.
#include "device.h"
#include "integral_stages.cuh"
#include "integral_workspace.cuh"

#include <algorithm>

using namespace cusi::integral;

cusStatus integral_cuda_workspace(const char *, int rows, int cols, size_t *bytes) {
    const size_t height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
    *bytes = std::max({WorkspaceLayout<tuning::Small32, Sums32, NoTable>(height, width).maxBytes(),
                       WorkspaceLayout<tuning::Medium32, Sums32, NoTable>(height, width).maxBytes(),
                       WorkspaceLayout<tuning::Large32, Sums32, NoTable>(height, width).maxBytes(),
                       WorkspaceLayout<tuning::Small64, Sums64, Squares64>(height, width).maxBytes(),
                       WorkspaceLayout<tuning::Medium64, Sums64, Squares64>(height, width).maxBytes(),
                       WorkspaceLayout<tuning::Large64, Sums64, Squares64>(height, width).maxBytes(),
                       WorkspaceLayout<tuning::Float, Floats64, Floats64>(height, width).maxBytes()});
    return CUS_OK;
}

cusStatus integral_cuda_allocate(const char *function, size_t bytes, void **data, cusStream stream) {
    return cusi_deviceAllocateAsync(function, bytes, data, stream);
}

cusStatus integral_cuda_free(const char *function, void *data, cusStream stream) {
    return cusi_deviceFreeAsync(function, data, stream);
}

cusStatus integral_cuda_run(const char *function, const IntegralArgs *args, cusStream stream) {
    if (args->src->type != CUS_8UC1)
        return launchFloats(function, *args, stream);
    return args->sqsum ? launchSquares(function, *args, stream) : launchSums(function, *args, stream);
}

// Left-right check: an elevation stays where the pixel it maps to in the right image maps back to nearly the same place.
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

__global__ void __launch_bounds__(256)
    leftRightCheckKernel(uint16_t *elevation, size_t step, const uint16_t *right_elevation, int rows, int cols,
                         int direction, int max_difference, bool wrapped) {
    startInOrder();
    const int x = blockIdx.x * 256 + threadIdx.x;
    if (x >= cols)
        return;
    for (int y = blockIdx.y; y < rows; y += gridDim.y) {
        uint16_t *const row = rowOf(elevation, step, y);
        const int e = row[x];
        if (e == 0)
            continue;
        int right_x = x + direction * (e - 1);
        const bool inside = right_x >= 0 && right_x < cols;
        right_x = inside ? right_x : wrap(right_x, cols);
        const int back = inside || wrapped ? right_elevation[static_cast<size_t>(y) * cols + right_x] : 0;
        if (back == 0 || abs(back - e) > max_difference)
            row[x] = 0;
    }
}

} // namespace

cusStatus leftRightCheck(const char *function, cusMat &elevation, const uint16_t *right_elevation,
                         const cusStereoOptions &options, cudaStream_t stream) {
    const dim3 grid(divUp(elevation.cols, 256), std::min(elevation.rows, 65535));
    return launchOverlapped(function, leftRightCheckKernel, grid, 256, 0, stream, static_cast<uint16_t *>(elevation.data),
                            elevation.step, right_elevation, elevation.rows, elevation.cols, options.direction,
                            options.left_right_check, options.border == CUS_STEREO_WRAP);
}

} // namespace cusi::stereo

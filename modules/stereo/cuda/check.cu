// The left-right check: an elevation stays if the pixel it maps to in the right image maps back to nearly the same place.
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

struct CheckParameters {
    uint16_t *elevation;
    size_t step;
    const uint32_t *right_keys;
    int rows, cols, direction, most, bits; // most: the largest difference that stays
    bool wrapped, prefer_smaller;
    unsigned char *confidence;
    size_t confidence_step;
};

__global__ void __launch_bounds__(256) checkKernel(const CheckParameters p) {
    startInOrder();
    const int x = blockIdx.x * 256 + threadIdx.x;
    if (x >= p.cols)
        return;
    for (int y = blockIdx.y; y < p.rows; y += gridDim.y) {
        uint16_t *const row = rowOf(p.elevation, p.step, y);
        const int e = (row[x] + (1 << p.bits >> 1)) >> p.bits;
        if (e == 0)
            continue;
        int match = x + p.direction * (e - 1);
        const bool inside = match >= 0 && match < p.cols;
        match = inside ? match : wrap(match, p.cols);
        const unsigned key = inside || p.wrapped ? p.right_keys[static_cast<size_t>(y) * p.cols + match] : 0;
        const int back = elevationOfKey(key, p.prefer_smaller);
        if (back == 0 || abs(back - e) > p.most) {
            row[x] = 0;
            if (p.confidence)
                rowOf(p.confidence, p.confidence_step, y)[x] = 0;
        }
    }
}

} // namespace

cusStatus checkBothWays(const char *function, const cusMat &elevation, const cusMat *confidence, const uint32_t *right_keys,
                        const cusStereoOptions &options, cudaStream_t stream) {
    CheckParameters p = {};
    p.elevation = static_cast<uint16_t *>(elevation.data);
    p.step = elevation.step;
    p.right_keys = right_keys;
    p.rows = elevation.rows;
    p.cols = elevation.cols;
    p.direction = options.direction;
    p.most = options.left_right_check;
    p.bits = options.subpixel_bits;
    p.wrapped = options.border == CUS_STEREO_WRAP;
    p.prefer_smaller = options.prefer_smaller != 0;
    if (confidence) {
        p.confidence = static_cast<unsigned char *>(confidence->data);
        p.confidence_step = confidence->step;
    }
    const dim3 grid(divUp(p.cols, 256), std::min(p.rows, 65535));
    return launchOverlapped(function, checkKernel, grid, 256, 0, stream, p);
}

} // namespace cusi::stereo

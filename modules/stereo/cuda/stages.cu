// stereo on the GPU: features -> elevation -> fill -> median -> contours, one launch each.
#include "device.h"
#include "stereo/cuda/state.cuh"

namespace stages = cusi::stereo;

namespace {

stages::State *stateOf(const StereoScratch &scratch) {
    return static_cast<stages::State *>(scratch.block);
}

cusStatus clearState(const char *function, const StereoScratch &scratch, cudaStream_t stream) {
    CUSI_CUDA(function, cudaMemsetAsync(scratch.block, 0, sizeof(stages::State), stream));
    return CUS_OK;
}

// Elevation of the left image, with the left-right check if the options ask for it.
cusStatus elevation(const char *function, const cusMat &left, const cusMat &right, cusMat &elevation,
                    const cusStereoOptions &o, const StereoScratch &scratch, cudaStream_t stream) {
    uint32_t *const keys = static_cast<uint32_t *>(scratch.words);
    CUS_TRY(stages::elevation(function, left, right, static_cast<uint16_t *>(elevation.data), elevation.step, o.direction,
                              o, keys, stream));
    if (o.left_right_check < 0)
        return CUS_OK;
    const size_t step = sizeof(uint16_t) * static_cast<size_t>(left.cols);
    CUS_TRY(stages::elevation(function, right, left, scratch.right_elevation, step, -o.direction, o, keys, stream));
    return stages::leftRightCheck(function, elevation, scratch.right_elevation, o, stream);
}

} // namespace

cusStatus stereo_cuda_allocate(const char *function, void **block, size_t bytes, cusStream stream) {
    return cusi_deviceAllocateAsync(function, bytes, block, stream);
}

void stereo_cuda_free(void *block, cusStream stream) {
    (void)cusi_deviceFreeAsync(nullptr, block, stream);
}

cusStatus stereo_cuda_features(const cusMat *image, cusMat *out, int census, const cusStereoOptions *options,
                               cusStream stream) {
    return stages::features(census ? "cusStereoCensus" : "cusStereoEdges", &image, &out, 1, census != 0, *options, nullptr,
                            stream);
}

cusStatus stereo_cuda_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, const cusStereoOptions *options,
                                const StereoScratch *scratch, cusStream stream) {
    return ::elevation("cusStereoElevation", *left, *right, *elevation, *options, *scratch, stream);
}

cusStatus stereo_cuda_fill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options,
                           const StereoScratch *scratch, cusStream stream) {
    CUS_TRY(clearState("cusStereoFill", *scratch, stream));
    return stages::fill("cusStereoFill", *elevation, *filled, *options, *scratch, stream);
}

cusStatus stereo_cuda_median(const cusMat *elevation, cusMat *smoothed, int size, cusStream stream) {
    return stages::median("cusStereoMedian", *elevation, *smoothed, size, stream);
}

cusStatus stereo_cuda_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options,
                               const StereoScratch *scratch, cusStream stream) {
    static const char function[] = "cusStereoContours";
    CUS_TRY(clearState(function, *scratch, stream));
    CUS_TRY(stages::findRange(function, *elevation, stateOf(*scratch), stream));
    return stages::contours(function, *elevation, *contours, *options, stateOf(*scratch), stream);
}

cusStatus stereo_cuda_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture,
                              const StereoScratch *scratch, cusStream stream) {
    static const char function[] = "cusStereoPicture";
    CUS_TRY(clearState(function, *scratch, stream));
    CUS_TRY(stages::findRange(function, *elevation, stateOf(*scratch), stream));
    return stages::picture(function, *elevation, contours, *picture, stateOf(*scratch), stream);
}

cusStatus stereo_cuda_map(cusContourMapper *m, const cusMat *left, const cusMat *right, cusMat *elevation, cusMat *contours,
                          cusStream stream) {
    static const char function[] = "cusContourMap";
    const cusStereoOptions &o = m->options;
    stages::State *const state = stateOf(m->scratch);
    cusMat *const unfiltered = o.median ? &m->unfiltered : elevation;
    cusMat *const holes = o.fill != CUS_FILL_NONE ? &m->holes : unfiltered;
    const cusMat *images[2] = {left, right};
    cusMat *outs[2] = {&m->left, &m->right};
    CUS_TRY(stages::features(function, images, outs, 2, o.agreement == CUS_STEREO_CENSUS, o, state, stream));
    CUS_TRY(::elevation(function, m->left, m->right, *holes, o, m->scratch, stream));
    if (o.fill != CUS_FILL_NONE)
        CUS_TRY(stages::fill(function, *holes, *unfiltered, o, m->scratch, stream));
    if (o.median)
        CUS_TRY(stages::median(function, *unfiltered, *elevation, o.median, stream));
    if (!contours)
        return CUS_OK;
    const bool iterated = (o.fill == CUS_FILL_ONCE || o.fill == CUS_FILL_RELAX) && o.iterations > 0;
    if (o.median || !iterated) {
        if (iterated) // the fill has left the range of its own result
            CUS_TRY(clearState(function, m->scratch, stream));
        CUS_TRY(stages::findRange(function, *elevation, state, stream));
    }
    return stages::contours(function, *elevation, *contours, o, state, stream);
}

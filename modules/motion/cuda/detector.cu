// The CUDA backend of motion: the object, and the stages of a step.
#include "motion/cuda/stages.cuh"

#include "device.h"

#include <new>

using namespace cusi;
using namespace cusi::motion;

namespace {

template<class T>
cusStatus allocate(const char *function, size_t count, T **data) {
    void *memory = nullptr;
    CUS_TRY(cusi_deviceAllocate(function, count * sizeof(T), &memory));
    *data = static_cast<T *>(memory);
    return CUS_OK;
}

template<class T>
cusStatus allocateZeros(const char *function, size_t count, T **data) {
    CUS_TRY(allocate(function, count, data));
    CUSI_CUDA(function, cudaMemsetAsync(*data, 0, count * sizeof(T), nullptr));
    return CUS_OK;
}

cusStatus setNoise(const char *function, const Detector &d) {
    const int32_t unknown = -1;
    static_assert(sizeof unknown == 4, "all bits set");
    const size_t cameras = static_cast<size_t>(d.model.cameras);
    CUSI_CUDA(function, cudaMemset2DAsync(&d.cameras[0].noise, sizeof *d.cameras, 0xff, sizeof unknown, cameras, nullptr));
    CUSI_CUDA(function, cudaMemset2DAsync(&d.status[0].noise, sizeof *d.status, 0xff, sizeof unknown, cameras, nullptr));
    return CUS_OK;
}

const Detector &detectorOf(const cusMotionDetector *detector) {
    return *static_cast<const Detector *>(detector->state);
}

} // namespace

cusStatus motion_cuda_create(const char *function, cusMotionDetector *detector) {
    Detector *const d = new (std::nothrow) Detector();
    detector->state = d;
    CUSI_REQUIRE(d, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    d->model = detector->model;
    d->words = divUp(static_cast<unsigned>(d->model.cols), 32u);
    const dim3 grid = tiles(*d);
    const size_t tiles_of_camera = static_cast<size_t>(grid.x) * grid.y;
    d->slots = CUS_MOTION_MAX_COMPONENTS + tiles_of_camera * TILE_PARTS;
    d->most_joins = tiles_of_camera * TILE_JOINS;
    const size_t cameras = static_cast<size_t>(d->model.cameras), words = cameras * d->planeWords(),
                 boxes = cameras * static_cast<size_t>(d->model.options.max_boxes);
    Planes &p = d->planes;
    CUS_TRY(allocateZeros(function, words * 32, &p.background));
    CUS_TRY(allocate(function, words * 32, &p.differences));
    CUS_TRY(allocate(function, words, &p.watched));
    CUS_TRY(allocateZeros(function, words, &p.moving));
    CUS_TRY(allocate(function, words, &p.mask));
    CUS_TRY(allocate(function, words * NODES, &p.labels));
    CUS_TRY(allocateZeros(function, cameras, &d->cameras));
    CUS_TRY(allocateZeros(function, cameras, &d->times));
    CUS_TRY(allocate(function, cameras * LISTS, &d->counts));
    CUS_TRY(allocate(function, cameras * d->slots, &d->components));
    CUS_TRY(allocate(function, cameras * d->slots, &d->parents));
    CUS_TRY(allocate(function, cameras * d->most_joins, &d->joins));
    CUS_TRY(allocateZeros(function, cameras, &d->status));
    CUS_TRY(allocateZeros(function, boxes, &d->boxes));
    CUS_TRY(allocateZeros(function, boxes, &d->tracks));
    CUS_TRY(setNoise(function, *d));
    detector->results.status = d->status;
    detector->results.boxes = d->boxes;
    detector->results.tracks = d->tracks;
    CUS_TRY(watch(function, *d, 0, d->model.cameras, nullptr, nullptr));
    return cusi_deviceFinish(function, nullptr);
}

void motion_cuda_destroy(cusMotionDetector *detector) {
    Detector *const d = static_cast<Detector *>(detector->state);
    if (!d)
        return;
    const Planes &p = d->planes;
    for (void *memory :
         {static_cast<void *>(p.background), static_cast<void *>(p.differences), static_cast<void *>(p.watched),
          static_cast<void *>(p.moving), static_cast<void *>(p.mask), static_cast<void *>(p.labels),
          static_cast<void *>(d->cameras), static_cast<void *>(d->times), static_cast<void *>(d->counts),
          static_cast<void *>(d->components), static_cast<void *>(d->parents), static_cast<void *>(d->joins),
          static_cast<void *>(d->status), static_cast<void *>(d->boxes), static_cast<void *>(d->tracks)})
        cusi_deviceFree(memory);
    delete d;
}

cusStatus motion_cuda_watch(const char *function, cusMotionDetector *detector, int camera, int count, const cusMat *mask,
                            cusStream stream) {
    return watch(function, detectorOf(detector), camera, count, mask, stream);
}

cusStatus motion_cuda_run(const char *function, cusMotionDetector *detector, const MotionStep *step, cusStream stream) {
    const Detector &d = detectorOf(detector);
    CUS_TRY(update(function, d, *step, stream));
    CUS_TRY(findComponents(function, d, stream));
    return finish(function, d, stream);
}

cusStatus motion_cuda_mask(const char *function, const cusMotionDetector *detector, int camera, const cusMat *mask,
                           cusStream stream) {
    return writeMask(function, detectorOf(detector), camera, *mask, stream);
}

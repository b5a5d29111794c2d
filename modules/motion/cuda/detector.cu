// The CUDA backend of motion: the object, and the stages of a step.
#include "motion/cuda/stages.cuh"

#include "arena.cuh"

#include <new>

using namespace cusi;
using namespace cusi::motion;

namespace {

struct Owner {
    Detector detector = {};
    Arena memory;
};

cusStatus setNoise(const char *function, const Detector &d) {
    const int32_t unknown = -1;
    static_assert(sizeof unknown == 4, "all bits set");
    const size_t cameras = static_cast<size_t>(d.model.cameras);
    CUSI_CUDA(function, cudaMemset2DAsync(&d.cameras[0].noise, sizeof *d.cameras, 0xff, sizeof unknown, cameras, nullptr));
    CUSI_CUDA(function, cudaMemset2DAsync(&d.status[0].noise, sizeof *d.status, 0xff, sizeof unknown, cameras, nullptr));
    return CUS_OK;
}

const Detector &detectorOf(const cusMotionDetector *detector) {
    return static_cast<const Owner *>(detector->state)->detector;
}

} // namespace

cusStatus motion_cuda_create(const char *function, cusMotionDetector *detector) {
    Owner *const owner = new (std::nothrow) Owner;
    detector->state = owner;
    CUSI_REQUIRE(owner, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    Detector *const d = &owner->detector;
    Arena &memory = owner->memory;
    d->model = detector->model;
    d->words = divUp(static_cast<unsigned>(d->model.cols), 32u);
    const dim3 grid = tiles(*d);
    const size_t tiles_of_camera = static_cast<size_t>(grid.x) * grid.y;
    d->slots = CUS_MOTION_MAX_COMPONENTS + tiles_of_camera * TILE_PARTS;
    d->most_joins = tiles_of_camera * TILE_JOINS;
    const size_t cameras = static_cast<size_t>(d->model.cameras), words = cameras * d->planeWords(),
                 boxes = cameras * static_cast<size_t>(d->model.options.max_boxes);
    Planes &p = d->planes;
    CUS_TRY(memory.allocateZeros(function, words * 32, &p.background, nullptr));
    CUS_TRY(memory.allocate(function, words * 32, &p.differences));
    CUS_TRY(memory.allocate(function, words, &p.watched));
    CUS_TRY(memory.allocateZeros(function, words, &p.moving, nullptr));
    CUS_TRY(memory.allocate(function, words, &p.mask));
    CUS_TRY(memory.allocate(function, words * NODES, &p.labels));
    CUS_TRY(memory.allocateZeros(function, cameras, &d->cameras, nullptr));
    CUS_TRY(memory.allocateZeros(function, cameras, &d->times, nullptr));
    CUS_TRY(memory.allocate(function, cameras * LISTS, &d->counts));
    CUS_TRY(memory.allocate(function, cameras * d->slots, &d->components));
    CUS_TRY(memory.allocate(function, cameras * d->slots, &d->parents));
    CUS_TRY(memory.allocate(function, cameras * d->most_joins, &d->joins));
    CUS_TRY(memory.allocateZeros(function, cameras, &d->status, nullptr));
    CUS_TRY(memory.allocateZeros(function, boxes, &d->boxes, nullptr));
    CUS_TRY(memory.allocateZeros(function, boxes, &d->tracks, nullptr));
    CUS_TRY(setNoise(function, *d));
    detector->results.status = d->status;
    detector->results.boxes = d->boxes;
    detector->results.tracks = d->tracks;
    CUS_TRY(watch(function, *d, 0, d->model.cameras, nullptr, nullptr));
    return cusi_deviceFinish(function, nullptr);
}

void motion_cuda_destroy(cusMotionDetector *detector) {
    delete static_cast<Owner *>(detector->state);
}

cusStatus motion_cuda_watch(const char *function, cusMotionDetector *detector, int camera, int count, const cusMat *mask,
                            cusStream stream) {
    return watch(function, detectorOf(detector), camera, count, mask, stream);
}

cusStatus motion_cuda_run(const char *function, cusMotionDetector *detector, const MotionStep *step, cusStream stream) {
    const Detector &d = detectorOf(detector);
    CUS_TRY(update(function, d, *step, stream));
    if (d.model.options.shadows)
        CUS_TRY(dropShadows(function, d, *step, stream));
    CUS_TRY(findComponents(function, d, stream));
    CUS_TRY(finish(function, d, stream));
    return d.model.options.ghosts ? learnGhosts(function, d, *step, stream) : CUS_OK;
}

cusStatus motion_cuda_mask(const char *function, const cusMotionDetector *detector, int camera, const cusMat *mask,
                           cusStream stream) {
    return writeMask(function, detectorOf(detector), camera, *mask, stream);
}

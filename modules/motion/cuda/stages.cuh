// What the stages of motion on the GPU share. Masks are rows of 32-bit words, a bit a pixel, the lowest bit leftmost; the bits past
// the last column are 0. A camera's masks have rows * words words.
#ifndef CUSI_MOTION_CUDA_STAGES_CUH
#define CUSI_MOTION_CUDA_STAGES_CUH

#include "cuda.cuh"
#include "motion/backend.h"

namespace cusi::motion {

constexpr int THREADS = 256;
constexpr int TILE_WORDS = 8, TILE_ROWS = 32; // of a mask, a word a thread
static_assert(TILE_WORDS * TILE_ROWS == THREADS, "a word for each thread");

// Runs of set bits within a word are the nodes of the union-find. Runs of a word start at least two bits apart, so a word has 16
// places for nodes, and nodes have the order of their first pixels.
constexpr int NODES = 16;

struct Planes {
    uint16_t *background; // words * 32 values a row, cameras one after the other; so are the others
    uint8_t *differences; // the same, d / 256; valid in halves of words with a moving pixel
    uint32_t *watched, *moving, *mask;
    uint32_t *parents; // by node: of nodes that are runs, a node of the same component, at last its smallest, the root
    uint32_t *areas;   // by node: of the smallest node of a component, or of what is in a tile, its area
};

struct Detector {
    MotionModel model;
    unsigned words;
    Planes planes;
    MotionCamera *cameras;
    int64_t *times; // of each camera's current frame
    MotionComponent *components;
    cusMotionStatus *status;
    cusMotionBox *boxes;
    cusMotionTrack *tracks;

    __host__ __device__ size_t planeWords() const { return static_cast<size_t>(model.rows) * words; }
};

#ifdef __CUDACC__

// Whether components are wanted in this step of a camera. The same for all threads, in every kernel between update and finish.
__device__ __forceinline__ bool looks(const Detector &d, unsigned camera) {
    const MotionCamera &c = d.cameras[camera];
    return c.active && motionState(&d.model, &c) == CUS_MOTION_WATCHING;
}

// The bits of a word of a row that are pixels.
__device__ __forceinline__ uint32_t validBits(const Detector &d, unsigned word) {
    const unsigned rest = static_cast<unsigned>(d.model.cols) % 32;
    return rest && word == d.words - 1 ? (1u << rest) - 1 : ~0u;
}

#endif

// Each queues the work of all cameras in the stream. Each expects the work of those before it.
cusStatus update(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream);
cusStatus morph(const char *function, const Detector &d, cudaStream_t stream);
cusStatus label(const char *function, const Detector &d, cudaStream_t stream);
cusStatus finish(const char *function, const Detector &d, cudaStream_t stream);

// The watched pixels of `count` cameras; a camera's mask as bytes.
cusStatus watch(const char *function, const Detector &d, int first, int count, const cusMat *mask, cudaStream_t stream);
cusStatus writeMask(const char *function, const Detector &d, int camera, const cusMat &mask, cudaStream_t stream);

inline dim3 tiles(const Detector &d) {
    return dim3(divUp(d.words, static_cast<unsigned>(TILE_WORDS)),
                divUp(static_cast<unsigned>(d.model.rows), static_cast<unsigned>(TILE_ROWS)),
                static_cast<unsigned>(d.model.cameras));
}

} // namespace cusi::motion

#endif

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

// Most components that reach the border of a tile, since they do not touch; words there that have neighbors in other tiles.
constexpr int TILE_PARTS = TILE_WORDS * 32 + TILE_ROWS - 2, TILE_JOINS = TILE_WORDS + 2 * (TILE_ROWS - 1);

// Runs of set bits within a word are the nodes of the union-find. They start at least two bits apart, so a word has 16 places.
constexpr int NODES = 16;

struct Planes {
    uint16_t *background;              // words * 32 values a row, cameras one after the other; so are the others
    uint8_t *differences;              // the same, d / 256; valid in halves of words with a moving pixel
    uint32_t *watched, *moving, *mask; // mask: valid in states that have one
    uint32_t *labels;                  // by node: of runs at borders of tiles, the number of their part
};

// What a camera's tiles have listed in the current step. Whole components reach no other tile and have at least min_area pixels;
// parts of components reach another tile.
enum { WHOLE, PARTS, JOINS, LISTS };

struct Detector {
    MotionModel model;
    unsigned words;
    size_t slots, most_joins; // of a camera
    Planes planes;
    MotionCamera *cameras;
    int64_t *times;              // of each camera's current frame
    uint32_t *counts;            // LISTS of each camera
    MotionComponent *components; // `slots` of each camera: CUS_MOTION_MAX_COMPONENTS components, then parts, in any order
    uint32_t *parents;           // by slot: of a part, the number of one of the same component; of the root, its own
    uint32_t *joins;             // words whose runs are to be joined with those of other tiles
    cusMotionStatus *status;
    cusMotionBox *boxes;
    cusMotionTrack *tracks;

    __host__ __device__ size_t planeWords() const { return static_cast<size_t>(model.rows) * words; }
};

#ifdef __CUDACC__

// The bits of a word of a row that are pixels.
__device__ __forceinline__ uint32_t validBits(const Detector &d, unsigned word) {
    const unsigned rest = static_cast<unsigned>(d.model.cols) % 32;
    return rest && word == d.words - 1 ? (1u << rest) - 1 : ~0u;
}

#endif

// Each queues the work of all cameras in the stream. Each expects the work of those before it.
cusStatus update(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream);
cusStatus findComponents(const char *function, const Detector &d, cudaStream_t stream);
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

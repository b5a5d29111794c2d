// Declarations that the stages of motion on the GPU share. Masks are rows of 32-bit words with a bit for each pixel, the
// lowest bit leftmost; the bits past the last column are 0. A camera's masks have rows * words words.
#ifndef CUSI_MOTION_CUDA_STAGES_CUH
#define CUSI_MOTION_CUDA_STAGES_CUH

#include "cuda.cuh"
#include "motion/backend.h"

namespace cusi::motion {

constexpr int THREADS = 256;
constexpr int TILE_WORDS = 8, TILE_ROWS = 32; // of a mask, one word for each thread
static_assert(TILE_WORDS * TILE_ROWS == THREADS, "a word for each thread");

// The most components that reach the border of a tile, since they do not touch; and the most words there that have
// neighbors in other tiles.
constexpr int TILE_PARTS = TILE_WORDS * 32 + TILE_ROWS - 2, TILE_JOINS = TILE_WORDS + 2 * (TILE_ROWS - 1);

// Runs of set bits within a word are the nodes of the union-find. They start at least two bits apart, so a word has 16
// places.
constexpr int NODES = 16;

struct Planes {
    uint16_t *background;              // words * 32 values a row; as in all planes, cameras follow each other
    uint8_t *differences;              // the same size; d / 256, valid in halves of words with a moving pixel
    uint32_t *watched, *moving, *mask; // mask: valid in states that have one
    uint32_t *labels;                  // by node: the part number of a run at the border of a tile
};

// Lists that a camera's tiles make in the current step. Whole components reach no other tile and have at least min_area
// pixels; parts belong to components that reach another tile.
enum { WHOLE, PARTS, JOINS, LISTS };

struct Detector {
    MotionModel model;
    unsigned words;
    size_t slots, most_joins; // for each camera
    Planes planes;
    MotionCamera *cameras;
    int64_t *times;              // time of each camera's current frame
    uint32_t *counts;            // LISTS of each camera
    MotionComponent *components; // `slots` of each camera: CUS_MOTION_MAX_COMPONENTS components, then parts, in any order
    uint32_t *parents;           // by part: the number of a part of the same component; a root's is its own
    uint32_t *joins;             // words whose runs must be joined with those of other tiles
    cusMotionStatus *status;
    cusMotionBox *boxes;
    cusMotionTrack *tracks;

    __host__ __device__ size_t planeWords() const { return static_cast<size_t>(model.rows) * words; }
};

#ifdef __CUDACC__

// Returns the bits of a row's word that are pixels.
__device__ __forceinline__ uint32_t validBits(const Detector &d, unsigned word) {
    const unsigned rest = static_cast<unsigned>(d.model.cols) % 32;
    return rest && word == d.words - 1 ? (1u << rest) - 1 : ~0u;
}

// Returns the bits of word `word` that are columns left .. right.
__device__ __forceinline__ uint32_t columns(int word, int left, int right) {
    const int low = max(left - 32 * word, 0), high = min(right - 32 * word, 31);
    return low > high ? 0 : ~0u << low & ~0u >> (31 - high);
}

#endif

constexpr int LAUNCH_CAMERAS = 128; // cameras whose frames fit a launch's parameters

struct Frames {
    const uint8_t *data[LAUNCH_CAMERAS]; // NULL: no frame
    size_t step[LAUNCH_CAMERAS];
    int64_t time[LAUNCH_CAMERAS];
};
static_assert(sizeof(Frames) + sizeof(Detector) <= 4000, "parameters of a launch");

// Returns the frames of cameras from `first` on, how many cameras a launch takes, and whether loads of 16 bytes are
// aligned.
inline Frames framesOf(const Detector &d, const MotionStep &step, int first, int *count, bool *aligned) {
    *count = d.model.cameras - first < LAUNCH_CAMERAS ? d.model.cameras - first : LAUNCH_CAMERAS;
    *aligned = true;
    Frames frames = {};
    for (int i = 0; i < *count; ++i) {
        const cusMat &frame = step.frames[first + i];
        if (!frame.data)
            continue;
        frames.data[i] = static_cast<const uint8_t *>(frame.data);
        frames.step[i] = frame.step;
        frames.time[i] = step.times ? step.times[first + i] : 0;
        *aligned = *aligned && isAligned(frame, 16);
    }
    return frames;
}

// The steps for all cameras, in this order. Each queues its work in the stream.
cusStatus update(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream);
cusStatus dropShadows(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream);
cusStatus findComponents(const char *function, const Detector &d, cudaStream_t stream);
cusStatus finish(const char *function, const Detector &d, cudaStream_t stream);
cusStatus learnGhosts(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream);

// watch() sets the watched pixels of `count` cameras; writeMask() writes a camera's mask as bytes.
cusStatus watch(const char *function, const Detector &d, int first, int count, const cusMat *mask, cudaStream_t stream);
cusStatus writeMask(const char *function, const Detector &d, int camera, const cusMat &mask, cudaStream_t stream);

inline dim3 tiles(const Detector &d) {
    return dim3(divUp(d.words, static_cast<unsigned>(TILE_WORDS)),
                divUp(static_cast<unsigned>(d.model.rows), static_cast<unsigned>(TILE_ROWS)),
                static_cast<unsigned>(d.model.cameras));
}

} // namespace cusi::motion

#endif

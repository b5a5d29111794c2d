/* Declarations that the entry points and backends of stereo share: scratch, the mapper, and the stages. */
#ifndef CUSI_STEREO_STAGES_H
#define CUSI_STEREO_STAGES_H

#include "cusight/stereo.h"
#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    STEREO_ROUND = 16,        /* iterations of RELAX between checks of its tolerance */
    STEREO_GROUP = 32,        /* shifts per CUDA launch */
    STEREO_STATE_BYTES = 256, /* the head of a scratch block: range of the elevations, progress of the fill */
    STEREO_COLORS = 256,
    STEREO_OUTSIDE =
        4 /* agreement with what lies outside with PATHS, as of pixels that have nothing to do with each other */
};

/* The scratch of one call or of a mapper is one block: the state (STEREO_STATE_BYTES; on the host the buffers of the
 * threads), then `words`, then `right`. */
typedef struct StereoScratch {
    void *block;
    void *words; /* bytes a pixel: 4 for keys or the fill's second buffer, 8 for regions, or StereoPeaks; may be NULL */
    void
        *right; /* of the right image, for the left-right check: on the host elevations of 2 bytes a pixel, on a device keys
                    of 4; may be NULL */
    size_t bytes;
    int threads;        /* host: threads that have buffers */
    int cleared;        /* device: whether the state is all zero */
    const void *ranged; /* device: data of the map whose range the state holds, or NULL */
} StereoScratch;

struct cusContourMapper {
    int rows, cols, type;
    cusSpace space;
    cusStereoOptions options;
    cusMat left, right;       /* edges or census codes */
    cusMat holes, unfiltered; /* elevation before the fill and before the median; empty without that stage */
    cusMat memory;            /* holds the scratch */
    StereoScratch scratch;
    CusiGuard guard;
};

/* Stages that need scratch. */
typedef enum StereoStage { STEREO_ELEVATION = 1, STEREO_FILL = 2, STEREO_RANGE = 4, STEREO_SPECKLES = 8 } StereoStage;
size_t stereo_host_scratchBytes(int stages, int rows, int threads);
/* Scratch of PATHS, which lies where other elevations have buffers of threads or words. */
size_t stereo_host_pathBytes(int rows, int cols, const cusStereoOptions *options, int threads);

/* Options of PATHS, 0 replaced by the default. */
static inline int stereo_paths(const cusStereoOptions *o) {
    return o->paths ? o->paths : 4;
}
static inline int stereo_p1(const cusStereoOptions *o) {
    return o->p1 ? o->p1 : 3 * o->window * o->window;
}
static inline int stereo_p2(const cusStereoOptions *o) {
    const int usual = 7 * o->window * o->window, least = stereo_p1(o);
    return o->p2 ? o->p2 : usual > least ? usual : least;
}

/* A pixel of an 8UC1 or 32FC1 image. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
    float
    stereo_gray(const void *pixel, int type) {
    return type == CUS_8UC1 ? *(const uint8_t *)pixel : *(const float *)pixel;
}
/* P2 of a step between two pixels, in whose unit there are `white` gray levels: 1 for bytes, 255 for floats. NaN, which only a
 * device meets, counts 255. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
    int
    stereo_p2At(float a, float b, float white, int slope, int p1, int p2) {
    const float levels = white * (a < b ? b - a : a - b);
    const int less = p2 - slope * (levels < 255 ? (int)levels : 255);
    return less > p1 ? less : p1;
}

/* Colors from blue over green and yellow to red, as B | G << 8 | R << 16. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
        uint32_t
        stereo_color(uint32_t index) {
    if (index < 85)
        return (255 - 3 * index) | (3 * index) << 8;
    if (index < 170)
        return 255u << 8 | (3 * (index - 85)) << 16;
    return (255 - 3 * (index - 170)) << 8 | 255u << 16;
}

/* What the sum of a path exceeds nowhere, and by more than p2 where shifts are not tried. */
static inline int stereo_farSum(const cusStereoOptions *o) {
    return 8 * o->window * o->window + stereo_p2(o);
}
/* Bytes of a cost and of the sum of a path on a device: 1 if all that is computed fits, or 2. */
static inline size_t stereo_sumBytes(const cusStereoOptions *o) {
    return stereo_farSum(o) + stereo_p2(o) + stereo_p1(o) <= UINT8_MAX ? 1 : 2;
}
/* Shifts of a pixel in memory with PATHS: a multiple of STEREO_GROUP; on a device 96, 192, or a power of two of at least
 * 32. */
static inline int stereo_lanes(const cusStereoOptions *o) {
    return (o->shifts + STEREO_GROUP - 1) / STEREO_GROUP * STEREO_GROUP;
}
static inline int stereo_deviceLanes(const cusStereoOptions *o) {
    int lanes = STEREO_GROUP;
    while (lanes < o->shifts)
        lanes = lanes & (lanes - 1) ? lanes / 3 * 4 : lanes == 64 || lanes == 128 ? lanes / 2 * 3 : 2 * lanes;
    return lanes;
}
/* Words of PATHS on a device: costs, and the sums of each path. */
static inline size_t stereo_devicePathBytes(size_t pixels, const cusStereoOptions *o) {
    return pixels * (size_t)stereo_deviceLanes(o) * stereo_sumBytes(o) * (size_t)(1 + stereo_paths(o));
}

/* The scores around a pixel's best shift, from which a fraction and a confidence follow. */
typedef struct StereoPeak {
    uint16_t score, shift;
    uint16_t below, above;  /* the scores of shift - 1 and shift + 1, 0 if these are not tried */
    uint16_t second;        /* the largest score of the shifts that are not neighbors */
    uint16_t last, earlier; /* the score of the last shift seen so far; the largest score of all before it */
    uint16_t unused;
} StereoPeak;

/* Whether elevations need peaks. */
static inline int stereo_isRefined(const cusStereoOptions *o, const cusMat *confidence) {
    return o->subpixel_bits > 0 || o->min_confidence > 0 || confidence;
}

static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
        uint32_t
        stereo_confidence(const StereoPeak *k) {
    return k->score ? (uint32_t)(k->score - k->second) * 255 / k->score : 0;
}

/* The elevation of a peak with a positive score among `shifts`, in 1 / 2^bits pixel. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
        uint32_t
        stereo_elevationOf(const StereoPeak *k, int shifts, int bits) {
    const uint32_t whole = (1u + k->shift) << bits;
    const uint32_t lower = k->below, upper = k->above, slope = k->score - (lower < upper ? lower : upper);
    if (bits == 0 || k->shift == 0 || k->shift == shifts - 1 || slope == 0)
        return whole;
    const uint32_t difference = lower < upper ? upper - lower : lower - upper, most = (1u << (bits - 1)) - 1;
    const uint32_t rounded = ((difference << bits) + slope) / (2 * slope), offset = rounded < most ? rounded : most;
    return lower < upper ? whole + offset : whole - offset;
}

/* Whether neighbors belong to one region of the speckle filter: neither is a hole, and they differ by at most `unit`. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
    int
    stereo_isLinked(uint32_t a, uint32_t b, uint32_t unit) {
    return a != 0 && b != 0 && (a < b ? b - a : a - b) <= unit;
}

/* Whether a 32FC1 image on the host contains NaN. */
int stereo_host_hasNan(const cusMat *image);

/* The stages. The callers have checked all arguments and created all outputs. Host functions finish before they return;
 * CUDA functions queue their work in `stream`, and messages name the public function `function`. features: edges or census
 * codes of `count` images, 1 or 2. confidence: may be NULL. speckles: `filtered` may be `elevation`. paths: `image` is the left one, which p2_slope needs, or NULL. scratch: that of the
 * stages that follow, or NULL. */
cusStatus stereo_host_features(const cusMat *const *images, cusMat *const *features, int count, int census,
                               const cusStereoOptions *options, StereoScratch *scratch);
cusStatus stereo_host_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, cusMat *confidence,
                                const cusStereoOptions *options, StereoScratch *scratch);
cusStatus stereo_host_paths(const cusMat *left, const cusMat *right, const cusMat *image, cusMat *elevation,
                            cusMat *confidence, const cusStereoOptions *options, StereoScratch *scratch);
cusStatus stereo_host_speckles(const cusMat *elevation, cusMat *filtered, const cusStereoOptions *options,
                               StereoScratch *scratch);
cusStatus stereo_host_fill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options,
                           StereoScratch *scratch);
cusStatus stereo_host_median(const cusMat *elevation, cusMat *smoothed, int size);
cusStatus stereo_host_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options,
                               StereoScratch *scratch);
cusStatus stereo_host_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture, StereoScratch *scratch);

cusStatus stereo_cuda_features(const char *function, cusStream stream, const cusMat *const *images, cusMat *const *features,
                               int count, int census, const cusStereoOptions *options, StereoScratch *scratch);
cusStatus stereo_cuda_elevation(const char *function, cusStream stream, const cusMat *left, const cusMat *right,
                                cusMat *elevation, cusMat *confidence, const cusStereoOptions *options,
                                StereoScratch *scratch);
cusStatus stereo_cuda_paths(const char *function, cusStream stream, const cusMat *left, const cusMat *right,
                            const cusMat *image, cusMat *elevation, cusMat *confidence, const cusStereoOptions *options,
                            StereoScratch *scratch);
cusStatus stereo_cuda_speckles(const char *function, cusStream stream, const cusMat *elevation, cusMat *filtered,
                               const cusStereoOptions *options, StereoScratch *scratch);
cusStatus stereo_cuda_fill(const char *function, cusStream stream, const cusMat *elevation, cusMat *filled,
                           const cusStereoOptions *options, StereoScratch *scratch);
cusStatus stereo_cuda_median(const char *function, cusStream stream, const cusMat *elevation, cusMat *smoothed, int size);
cusStatus stereo_cuda_contours(const char *function, cusStream stream, const cusMat *elevation, cusMat *contours,
                               const cusStereoOptions *options, StereoScratch *scratch);
cusStatus stereo_cuda_picture(const char *function, cusStream stream, const cusMat *elevation, const cusMat *contours,
                              cusMat *picture, StereoScratch *scratch);

#ifdef __cplusplus
}
#endif

#endif

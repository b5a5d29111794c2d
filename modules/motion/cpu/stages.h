/* Declarations that the stages of motion on the CPU share. Masks are rows of 64-bit words with a bit for each pixel, the
 * lowest bit leftmost; the bits past the last column are 0. */
#ifndef CUSI_MOTION_CPU_STAGES_H
#define CUSI_MOTION_CPU_STAGES_H

#include "motion/backend.h"

/* The planes of one camera. */
typedef struct MotionPlanes {
    uint16_t *background; /* words * 64 values a row */
    uint8_t *differences; /* the same size; d / 256, valid in words with a moving pixel */
    uint64_t *watched, *moving, *mask;
} MotionPlanes;

/* A run of set bits in a row. */
typedef struct MotionRun {
    int32_t first, last; /* columns, inclusive */
    uint32_t parent;     /* a run of the same component, finally the smallest */
} MotionRun;

/* One thread's memory for labeling. */
typedef struct MotionWorkspace {
    uint64_t *rows;    /* one mask */
    uint8_t *set;      /* whether a row has a bit */
    MotionRun *runs;   /* runs of a frame, row by row */
    uint32_t *areas;   /* by smallest run: the area of its component, later the component's number + 1, or 0 */
    size_t *first_run; /* index of each row's first run; one more at the end */
    MotionComponent components[CUS_MOTION_MAX_COMPONENTS];
} MotionWorkspace;

static inline size_t motionWords(const MotionModel *model) {
    return ((size_t)model->cols + 63) / 64;
}

/* Returns the bits of word i of a row that are columns first .. end - 1. */
static inline uint64_t motionColumns(size_t i, int first, int end) {
    const int64_t low = first - (int64_t)(64 * i), high = end - (int64_t)(64 * i);
    if (low >= 64 || high <= 0)
        return 0;
    return (low > 0 ? UINT64_MAX << low : UINT64_MAX) & (high < 64 ? ((uint64_t)1 << high) - 1 : UINT64_MAX);
}

/* Updates the background of rows first .. end - 1 and finds moving pixels. Adds to *moving and *noise_sum. */
void motion_host_update(const MotionModel *model, const MotionPlanes *planes, const cusMat *frame, const MotionPlan *plan,
                        int starts, int first, int end, uint32_t *moving, uint64_t *noise_sum);

/* Removes shadow from the moving pixels. */
void motion_host_shadows(const MotionModel *model, const MotionPlanes *planes, const cusMat *frame);

/* Learns the places of boxes where something has left. */
void motion_host_ghosts(const MotionModel *model, const MotionPlanes *planes, const cusMat *frame,
                        const cusMotionBox *boxes, int count);

/* Makes the mask: erodes and dilates the moving pixels. */
void motion_host_morph(const MotionModel *model, const MotionPlanes *planes, MotionWorkspace *workspace);

/* Puts the components of the mask into the workspace, in order of their first pixels, and returns how many have min_area
 * pixels. If there are more than CUS_MOTION_MAX_COMPONENTS, only counts them. */
uint32_t motion_host_label(const MotionModel *model, const MotionPlanes *planes, MotionWorkspace *workspace);

/* Makes boxes and tracks from `count` components, which it sorts in place. */
void motion_host_boxes(const MotionModel *model, const MotionPlanes *planes, MotionCamera *camera,
                       MotionComponent *components, uint32_t count, int64_t time, cusMotionStatus *status,
                       cusMotionBox *boxes, cusMotionTrack *tracks);

/* Cuts boxes between things that stand side by side. Returns how many there are then. */
int motion_host_split(const MotionModel *model, const MotionPlanes *planes, cusMotionBox *boxes, int count);

#endif

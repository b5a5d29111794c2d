/* The rules of a step that both backends follow. cusight/motion.h has the definition. */
#ifndef CUSI_MOTION_STEP_H
#define CUSI_MOTION_STEP_H

#include "cusight/motion.h"

#ifdef __CUDACC__
#define MOTION_INLINE __host__ __device__ static inline
#else
#define MOTION_INLINE static inline
#endif

enum {
    MOTION_WEIGHT_BITS = 15,
    MOTION_MAX_NOISE = 8191, /* limit of a pixel's noise */
    MOTION_SHADOW_EDGE = 8,  /* gray levels by which shadow's neighbors may differ from the background in its light */
    MOTION_NOISE_BITS = 4    /* the noise estimate moves by 1/16 of the deviation a step */
};

typedef struct MotionModel {
    int rows, cols, type;
    int cameras;
    cusMotionOptions options;
} MotionModel;

/* What the detector keeps of a camera between steps, and what the current step has counted. */
typedef struct MotionCamera {
    int64_t time;       /* of the last frame */
    uint64_t noise_sum; /* current step */
    uint32_t steps;
    uint32_t age;        /* steps since the background began; 0: the current frame becomes the background */
    int32_t noise;       /* -1: not yet known */
    uint32_t tracks;     /* tracks begun so far */
    uint32_t watched;    /* number of watched pixels */
    uint32_t moving;     /* current step */
    uint32_t components; /* current step: of at least min_area pixels */
    int32_t active;      /* current step: whether the camera has a frame */
} MotionCamera;

/* How the current step updates the background and which pixels move. */
typedef struct MotionPlan {
    int32_t weight, threshold;
} MotionPlan;

/* A component of at least min_area pixels. */
typedef struct MotionComponent {
    uint64_t sum_x, sum_y;
    uint32_t first;                     /* column of its first pixel */
    int32_t top, left, right, bottom;   /* inclusive */
    uint32_t area, differences, moving; /* differences: sum of d / 256 over the moving pixels */
} MotionComponent;

/* The neutral component: absorbing it changes nothing. */
#define MOTION_NOTHING \
    { 0, 0, ~0u, INT32_MAX, INT32_MAX, 0, 0, 0, 0, 0 }

MOTION_INLINE int32_t motionLuma(uint32_t b, uint32_t g, uint32_t r) {
    return (int32_t)((29 * b + 150 * g + 77 * r + 128) >> 8);
}

/* Plans the step of a frame at `time`, which is not before the last frame's. */
MOTION_INLINE MotionPlan motionPlan(const MotionModel *model, const MotionCamera *camera, int64_t time) {
    const cusMotionOptions *const o = &model->options;
    const int32_t whole = 1 << MOTION_WEIGHT_BITS;
    int32_t weight = whole >> o->shift;
    if (o->learn_us > 0) {
        const uint64_t passed = (uint64_t)time - (uint64_t)camera->time;
        weight =
            passed >= (uint64_t)o->learn_us ? whole : (int32_t)((passed << MOTION_WEIGHT_BITS) / (uint64_t)o->learn_us);
        weight = weight > 1 ? weight : 1;
    }
    const int32_t mean = camera->age < 32768 ? whole / (int32_t)(camera->age + 1) : 1;
    int32_t threshold = 256 * o->threshold;
    if (o->noise_factor > 0 && camera->noise >= 0) {
        int32_t least = o->noise_factor * camera->noise;
        least = least < 255 * 256 ? least : 255 * 256;
        threshold = least > threshold ? least : threshold;
    }
    const MotionPlan plan = {weight > mean ? weight : mean, threshold};
    return plan;
}

/* Returns the background after a frame of luma `y`, and in *difference how far `y` was from the background before. */
MOTION_INLINE int32_t motionLearn(int32_t background, int32_t y, int32_t weight, int32_t *difference) {
    const int32_t signed_difference = 256 * y - background;
    *difference = signed_difference < 0 ? -signed_difference : signed_difference;
    return background + ((signed_difference * weight + (1 << (MOTION_WEIGHT_BITS - 1))) >> MOTION_WEIGHT_BITS);
}

/* Does motionLearn(), but learns at most `limit` of the difference. */
MOTION_INLINE int32_t motionLearnLittle(int32_t background, int32_t y, int32_t weight, int32_t limit, int32_t *difference) {
    int32_t learned = 256 * y - background;
    *difference = learned < 0 ? -learned : learned;
    learned = learned > limit ? limit : learned < -limit ? -limit : learned;
    return background + ((learned * weight + (1 << (MOTION_WEIGHT_BITS - 1))) >> MOTION_WEIGHT_BITS);
}

/* Returns a background in gray levels. */
MOTION_INLINE int32_t motionGray(uint16_t background) {
    return (background + 128) >> 8;
}

/* Whether a moving pixel of luma y may be shadow, before its neighbors are asked. */
MOTION_INLINE int motionDarker(int32_t y, int32_t background, int32_t percent) {
    return y < background && 100 * y >= percent * background;
}

/* Whether a neighbor is as dark as a pixel of shadow. */
MOTION_INLINE int motionKeepsEdge(int32_t y, int32_t background, int32_t next_y, int32_t next_background) {
    const int32_t difference = next_y * background - y * next_background;
    return (difference < 0 ? -difference : difference) <= MOTION_SHADOW_EDGE * background;
}

/* Returns the state once moving pixels are counted. CUS_MOTION_CROWDED follows later, from the components. */
MOTION_INLINE int motionState(const MotionModel *model, const MotionCamera *camera) {
    const cusMotionOptions *const o = &model->options;
    if ((uint64_t)camera->moving * 100 > (uint64_t)camera->watched * (uint64_t)o->sudden_percent)
        return CUS_MOTION_SUDDEN;
    return camera->age > (uint32_t)o->warmup ? CUS_MOTION_WATCHING : CUS_MOTION_LEARNING;
}

/* Ends the step once components are counted. Writes the status except boxes and tracks, and begins the next step. */
MOTION_INLINE void motionEnd(const MotionModel *model, MotionCamera *camera, int64_t time, cusMotionStatus *status) {
    int state = motionState(model, camera);
    if (state == CUS_MOTION_WATCHING && camera->components > CUS_MOTION_MAX_COMPONENTS)
        state = CUS_MOTION_CROWDED;
    status->time = time;
    status->state = state;
    status->moving = camera->moving;
    status->components = camera->components;
    status->threshold = motionPlan(model, camera, time).threshold;
    if (camera->age > 0 && state != CUS_MOTION_SUDDEN && camera->components == 0 && camera->watched > 0) {
        const int32_t mean = (int32_t)(camera->noise_sum / camera->watched);
        camera->noise =
            camera->noise < 0
                ? mean
                : camera->noise + ((mean - camera->noise + (1 << (MOTION_NOISE_BITS - 1))) >> MOTION_NOISE_BITS);
    }
    status->noise = camera->noise;
    status->steps = ++camera->steps;
    camera->time = time;
    if (state == CUS_MOTION_SUDDEN)
        camera->age = 0;
    else if (camera->age < UINT32_MAX)
        ++camera->age;
    camera->noise_sum = 0;
    camera->moving = camera->components = 0;
    camera->active = 0;
}

/* Whether component a comes before b. Two components never compare equal: their first pixels differ. */
MOTION_INLINE int motionBefore(const MotionComponent *a, const MotionComponent *b) {
    if (a->area != b->area)
        return a->area > b->area;
    if (a->top != b->top)
        return a->top < b->top;
    return a->left != b->left ? a->left < b->left : a->first < b->first;
}

MOTION_INLINE int motionOverlap(const MotionComponent *a, const MotionComponent *b) {
    return a->left <= b->right && b->left <= a->right && a->top <= b->bottom && b->top <= a->bottom;
}

/* Adds component `from` to `into`. */
MOTION_INLINE void motionAbsorb(MotionComponent *into, const MotionComponent *from) {
    if (from->top < into->top || (from->top == into->top && from->first < into->first))
        into->first = from->first;
    into->sum_x += from->sum_x;
    into->sum_y += from->sum_y;
    into->area += from->area;
    into->differences += from->differences;
    into->moving += from->moving;
    into->left = from->left < into->left ? from->left : into->left;
    into->top = from->top < into->top ? from->top : into->top;
    into->right = from->right > into->right ? from->right : into->right;
    into->bottom = from->bottom > into->bottom ? from->bottom : into->bottom;
}

MOTION_INLINE cusMotionBox motionBox(const MotionComponent *c) {
    cusMotionBox box;
    box.x = c->left;
    box.y = c->top;
    box.width = c->right - c->left + 1;
    box.height = c->bottom - c->top + 1;
    box.area = c->area;
    box.center_x = (int32_t)(256 * c->sum_x / c->area);
    box.center_y = (int32_t)(256 * c->sum_y / c->area);
    box.strength = (uint32_t)(256 * (uint64_t)c->differences / c->moving);
    box.track = 0;
    box.first = c->first;
    return box;
}

/* The columns of a box from the left on: the current run of full ones, and where the last core has ended. */
typedef struct MotionCores {
    int32_t most;       /* moving pixels of the fullest column */
    int32_t first, end; /* the run is columns first .. end - 1 */
    uint32_t area;      /* pixels of the mask in it */
    int32_t last;       /* the column after the last core; -1: there is none yet */
} MotionCores;

/* Whether a column with so many moving pixels may belong to a core. */
MOTION_INLINE int motionIsFull(const MotionModel *model, const MotionCores *cores, int32_t moving) {
    return 100 * moving >= model->options.split * cores->most;
}

/* Ends the current run. Returns the column before which the box is cut because of it, or -1. */
MOTION_INLINE int32_t motionEndRun(const MotionModel *model, MotionCores *cores) {
    int32_t cut = -1;
    if (10 * (cores->end - cores->first) >= cores->most && cores->area >= (uint32_t)model->options.min_area) {
        if (cores->last >= 0)
            cut = (cores->last + cores->first) / 2;
        cores->last = cores->end;
    }
    cores->area = 0;
    return cut;
}

/* Returns how many pixels a track's last box and a box share. */
MOTION_INLINE int64_t motionShared(const cusMotionTrack *track, const cusMotionBox *box) {
    const int32_t right = track->x + track->width < box->x + box->width ? track->x + track->width : box->x + box->width;
    const int32_t bottom =
        track->y + track->height < box->y + box->height ? track->y + track->height : box->y + box->height;
    const int32_t width = right - (track->x > box->x ? track->x : box->x);
    const int32_t height = bottom - (track->y > box->y ? track->y : box->y);
    return width > 0 && height > 0 ? (int64_t)width * height : 0;
}

/* Gives `track` box number `index`. */
MOTION_INLINE void motionFollow(cusMotionTrack *track, cusMotionBox *box, int index, int64_t time) {
    track->last = time;
    ++track->boxes;
    track->x = box->x;
    track->y = box->y;
    track->width = box->width;
    track->height = box->height;
    track->missed = 0;
    track->box = index;
    box->track = track->id;
}

/* Ends tracks, in place, and begins tracks for the boxes that are left, after tracks have taken their boxes (`box` is -1 if
 * a track has none). Returns the number of tracks. */
MOTION_INLINE int motionBeginTracks(const MotionModel *model, MotionCamera *camera, cusMotionTrack *tracks, int count,
                                    cusMotionBox *boxes, int box_count, int64_t time) {
    int lost = 0, kept = 0;
    for (int i = 0; i < count; ++i)
        lost += tracks[i].box < 0 && ++tracks[i].missed <= model->options.track_gap;
    int surplus = box_count + lost - model->options.max_boxes;
    for (int i = 0; i < count; ++i) {
        if (tracks[i].box < 0 && (tracks[i].missed > model->options.track_gap || surplus-- > 0))
            continue;
        if (kept != i)
            tracks[kept] = tracks[i];
        ++kept;
    }
    for (int i = 0; i < box_count; ++i)
        if (boxes[i].track == 0) {
            cusMotionTrack *const track = &tracks[kept++];
            track->first = time;
            track->id = ++camera->tracks;
            track->boxes = 0;
            motionFollow(track, &boxes[i], i, time);
        }
    return kept;
}

#endif

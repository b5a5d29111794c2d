/* Boxes and tracks on the CPU. */
#include "motion/cpu/stages.h"

#include <stdlib.h>

static int order(const void *a, const void *b) {
    return motionBefore(a, b) ? -1 : 1;
}

/* Merges components whose boxes overlap, until none do; the larger one comes first and absorbs the other. Returns how many
 * are left. */
static int merge(MotionComponent *c, int count) {
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < count; ++j) {
            if (j == i || !motionOverlap(&c[i], &c[j]))
                continue;
            const int into = i < j ? i : j, from = i < j ? j : i;
            motionAbsorb(&c[into], &c[from]);
            for (int k = from; k + 1 < count; ++k)
                c[k] = c[k + 1];
            --count;
            i = into - 1; /* compares the grown box with all again */
            break;
        }
    return count;
}

static void assign(cusMotionTrack *tracks, int track_count, cusMotionBox *boxes, int box_count, int64_t time) {
    for (int t = 0; t < track_count; ++t) {
        int64_t most = 0;
        int best = -1;
        for (int b = 0; b < box_count; ++b) {
            const int64_t shared = boxes[b].track ? 0 : motionShared(&tracks[t], &boxes[b]);
            if (shared > most) {
                most = shared;
                best = b;
            }
        }
        tracks[t].box = -1;
        if (best >= 0)
            motionFollow(&tracks[t], &boxes[best], best, time);
    }
}

void motion_host_boxes(const MotionModel *model, const MotionPlanes *planes, MotionCamera *camera,
                       MotionComponent *components, uint32_t count, int64_t time, cusMotionStatus *status,
                       cusMotionBox *boxes, cusMotionTrack *tracks) {
    if (count > 1)
        qsort(components, count, sizeof *components, order);
    int box_count = count < (uint32_t)model->options.max_boxes ? (int)count : model->options.max_boxes;
    if (model->options.merge) {
        box_count = merge(components, box_count);
        if (box_count > 1)
            qsort(components, (size_t)box_count, sizeof *components, order);
    }
    for (int i = 0; i < box_count; ++i)
        boxes[i] = motionBox(&components[i]);
    if (model->options.split)
        box_count = motion_host_split(model, planes, boxes, box_count);
    assign(tracks, status->tracks, boxes, box_count, time);
    status->boxes = box_count;
    status->tracks = motionBeginTracks(model, camera, tracks, status->tracks, boxes, box_count, time);
}

#include "filter.h"

#include <cusight/motion.h>

typedef cusMotionOptions Settings;

typedef struct CusMotion {
    CusFilter filter;
    cusMotionDetector *detector;
    cusMotionBox boxes[256]; /* of the last frame */
    int64_t time;
} CusMotion;

static const CusOption options[] = {
    CUS_OPTION(, shift, G_TYPE_INT, 0, 8, "The background learns at the rate 1 / 2^shift a frame; 0 compares two frames"),
    CUS_OPTION(, learn_us, G_TYPE_INT64, 0, 4294967296.0, "The background's time constant in us; 0: it learns by shift"),
    CUS_OPTION(, threshold, G_TYPE_INT, 1, 255, "Difference from the background in gray levels above which a pixel moves"),
    CUS_OPTION(, noise_factor, G_TYPE_INT, 0, 255, "The threshold is at least so many times the camera's mean noise"),
    CUS_OPTION(, erode, G_TYPE_INT, 0, 8, "Pixels by which what moves shrinks on each side, so that specks vanish"),
    CUS_OPTION(, dilate, G_TYPE_INT, 0, 8, "Pixels by which the rest of it grows on each side, so that parts join"),
    CUS_OPTION(, min_area, G_TYPE_INT, 1, G_MAXINT, "Least area of an object in pixels"),
    CUS_OPTION(, max_boxes, G_TYPE_INT, 1, 256, "Most boxes of a frame: those of the largest objects"),
    CUS_OPTION(, merge, G_TYPE_BOOLEAN, 0, 1, "Merge boxes that overlap"),
    CUS_OPTION(, sudden_percent, G_TYPE_INT, 1, 100, "If more percent move, the light has changed: no boxes, learn anew"),
    CUS_OPTION(, warmup, G_TYPE_INT, 0, 65535, "Frames after the first one that only teach the background"),
    CUS_OPTION(, track_gap, G_TYPE_INT, 0, 65535, "A track ends after more than so many frames without a box"),
    CUS_OPTION(, shadows, G_TYPE_INT, 0, 100, "Least percent of the background's light in shadow; 0: it moves, too"),
    CUS_OPTION(, ghosts, G_TYPE_BOOLEAN, 0, 1, "Learn at once where something has left, and little of what moves"),
    CUS_OPTION(, tight, G_TYPE_BOOLEAN, 0, 1, "Boxes of moving pixels, without the margin of dilation"),
    CUS_OPTION(, split, G_TYPE_INT, 0, 100, "Cut boxes at columns below this percent of the fullest one; 0: do not"),
    {0},
};
CUS_DEFAULTS(cusMotionDefaults())

static void stop(CusFilter *filter) {
    g_clear_pointer(&((CusMotion *)filter)->detector, cusMotionDetectorDestroy);
}

static gboolean start(CusFilter *filter) {
    CusMotion *self = (CusMotion *)filter;
    Settings *used = (Settings *)filter->used;
    used->space = filter->space;
    self->time = 0;
    return cus_check(filter, cusMotionDetectorCreate(&self->detector, 1, filter->rows, filter->cols, filter->type, used));
}

static int find(CusFilter *filter, const cusMat *frame, GstClockTime running_time) {
    static const char *const states[] = {"learning", "watching", "sudden", "crowded"};
    CusMotion *self = (CusMotion *)filter;
    cusMotionStatus status;
    if (GST_CLOCK_TIME_IS_VALID(running_time)) /* times never decrease */
        self->time = MAX(self->time, (int64_t)(running_time / GST_USECOND));
    if (!cus_check(filter, cusMotionDetectorRun(self->detector, frame, &self->time, NULL)) ||
        !cus_check(filter, cusMotionDetectorGet(self->detector, 0, 1, &status, self->boxes, NULL, NULL)))
        return -1;
    filter->state = states[status.state];
    return status.boxes;
}

static GstStructure *box(CusFilter *filter, int index, int rectangle[4], guint *id) {
    const cusMotionBox *found = &((CusMotion *)filter)->boxes[index];
    rectangle[0] = found->x, rectangle[1] = found->y, rectangle[2] = found->width, rectangle[3] = found->height;
    *id = found->track;
    return gst_structure_new("motion", "area", G_TYPE_UINT, found->area, "strength", G_TYPE_DOUBLE, found->strength / 256.0,
                             "center-x", G_TYPE_DOUBLE, found->center_x / 256.0, "center-y", G_TYPE_DOUBLE,
                             found->center_y / 256.0, NULL);
}

const CusElement cus_motion = {.name = "cusmotion",
                               .texts = {"Motion detector", "Filter/Analyzer/Video",
                                         "Finds what moves: boxes as metadata and messages, or as drawings (SVG)"},
                               .caps = {CUS_INPUT_CAPS(CUS_BOX_FORMATS), CUS_INPUT_CAPS(CUS_BOX_FORMATS) ";image/svg+xml"},
                               .instance = sizeof(CusMotion),
                               .options = options,
                               .defaults = defaults,
                               .start = start,
                               .stop = stop,
                               .find = find,
                               .box = box};

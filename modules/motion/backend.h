/* Declarations that the entry points and the backends of motion share. */
#ifndef CUSI_MOTION_BACKEND_H
#define CUSI_MOTION_BACKEND_H

#include "guard.h"
#include "motion/step.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cusMotionDetector {
    MotionModel model;
    int64_t *times;           /* time of each camera's last frame, if runs have times; for the entry points' checks */
    cusMotionResults results; /* arrays of the backend */
    void *state;              /* owned by the backend */
    CusiGuard guard;
};

/* The frames of a step; everything has been checked. */
typedef struct MotionStep {
    const cusMat *frames;
    const int64_t *times; /* NULL: a camera's time is its number of steps */
} MotionStep;

/* Allocates `state` and sets `results`. Destroy is safe after a failure. */
cusStatus motion_host_create(const char *function, cusMotionDetector *detector);
cusStatus motion_cuda_create(const char *function, cusMotionDetector *detector);
void motion_host_destroy(cusMotionDetector *detector);
void motion_cuda_destroy(cusMotionDetector *detector);

/* Sets the watched pixels; all of them if mask is NULL. */
cusStatus motion_host_watch(cusMotionDetector *detector, int camera, int count, const cusMat *mask);
cusStatus motion_cuda_watch(const char *function, cusMotionDetector *detector, int camera, int count, const cusMat *mask,
                            cusStream stream);

cusStatus motion_host_run(cusMotionDetector *detector, const MotionStep *step);
cusStatus motion_cuda_run(const char *function, cusMotionDetector *detector, const MotionStep *step, cusStream stream);

cusStatus motion_host_mask(const cusMotionDetector *detector, int camera, const cusMat *mask);
cusStatus motion_cuda_mask(const char *function, const cusMotionDetector *detector, int camera, const cusMat *mask,
                           cusStream stream);

#ifdef __cplusplus
}
#endif

#endif

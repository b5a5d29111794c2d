/* Seconds per call of the C library in a loop, for overhead.py and gpu.py, which compile this file against libcusight.
 * Device work is queued in the legacy default stream. */
#include <cusight/cusight.h>

#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Time since `start` per call. What is still queued on the device does not count, and is waited for. */
static double per_call(double start, int calls, cusSpace space) {
    const double took = (now() - start) / calls;
    return space == CUS_DEVICE && cusStreamSynchronize(NULL) != CUS_OK ? -1 : took;
}

/* fresh: a new table for each call, freed afterwards; otherwise `out` is reused. */
double time_integral(int space, void *src, int rows, int cols, int type, void *out, int fresh, int calls) {
    cusMat image = CUS_MAT_INIT, sum = CUS_MAT_INIT;
    if (cusMatWrap(&image, rows, cols, type, (cusSpace)space, src, 0) != CUS_OK)
        return -1;
    if (!fresh && cusMatWrap(&sum, rows + 1, cols + 1, CUS_32SC1, (cusSpace)space, out, 0) != CUS_OK)
        return -1;
    const double start = now();
    for (int i = 0; i < calls; ++i) {
        if (cusIntegral(&image, &sum, NULL, NULL, NULL) != CUS_OK)
            return -1;
        if (fresh)
            cusMatRelease(&sum);
    }
    return per_call(start, calls, (cusSpace)space);
}

double time_heatmap(int space, void *prev, void *cur, int rows, int cols, int type, void *out, int fresh, int calls) {
    cusMat before = CUS_MAT_INIT, after = CUS_MAT_INIT, map = CUS_MAT_INIT;
    if (cusMatWrap(&before, rows, cols, type, (cusSpace)space, prev, 0) != CUS_OK ||
        cusMatWrap(&after, rows, cols, type, (cusSpace)space, cur, 0) != CUS_OK)
        return -1;
    if (!fresh && cusMatWrap(&map, rows, cols, CUS_8UC3, (cusSpace)space, out, 0) != CUS_OK)
        return -1;
    const double start = now();
    for (int i = 0; i < calls; ++i) {
        if (cusHeatmap(&before, &after, &map, NULL, NULL) != CUS_OK)
            return -1;
        if (fresh)
            cusMatRelease(&map);
    }
    return per_call(start, calls, (cusSpace)space);
}

/* Histograms of all windows of `length` events, with a stacker that is made before; until they are finished, or `queued`. */
double time_histograms(int space, void *x, void *y, void *p, void *t, size_t count, int rows, int cols, size_t length,
                       void *out, int queued, int calls) {
    const cusEventArrays events = {x, y, p, t, count, (cusSpace)space};
    const cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    cusWindowing windowing = cusWindowingDefaults();
    windowing.length = length;
    size_t windows = count / length;
    cusEventWindow *list = malloc((windows + 1) * sizeof *list);
    cusEventStacker *stacker = NULL;
    cusMat frames = CUS_MAT_INIT;
    double took = -1;
    if (!list || cusEventStackerCreate(&stacker, rows, cols, (cusSpace)space, &histogram, 1) != CUS_OK ||
        cusMatWrap(&frames, (int)windows * rows, cols, CUS_8UC2, (cusSpace)space, out, 0) != CUS_OK)
        goto end;
    const double start = now();
    for (int i = 0; i < calls; ++i)
        if (cusEventWindows(&events, &windowing, list, windows + 1, &windows, NULL) != CUS_OK ||
            cusEventStack(stacker, &events, list, windows, &frames, NULL) != CUS_OK)
            goto end;
    took = per_call(start, calls, (cusSpace)space);
    if (took >= 0 && !queued)
        took = (now() - start) / calls;
end:
    cusEventStackerDestroy(stacker);
    free(list);
    return took;
}

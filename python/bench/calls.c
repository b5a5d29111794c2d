/* Seconds per call of the C library in a loop, for overhead.py, which compiles this file against libcusight. */
#include <cusight/cusight.h>

#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* fresh: a new table for each call, freed afterwards; otherwise `out` is reused. */
double time_integral(void *src, int rows, int cols, int type, void *out, int fresh, int calls) {
    cusMat image = CUS_MAT_INIT, sum = CUS_MAT_INIT;
    if (cusMatWrap(&image, rows, cols, type, CUS_HOST, src, 0) != CUS_OK)
        return -1;
    if (!fresh && cusMatWrap(&sum, rows + 1, cols + 1, CUS_32SC1, CUS_HOST, out, 0) != CUS_OK)
        return -1;
    const double start = now();
    for (int i = 0; i < calls; ++i) {
        if (cusIntegral(&image, &sum, NULL, NULL, NULL) != CUS_OK)
            return -1;
        if (fresh)
            cusMatRelease(&sum);
    }
    return (now() - start) / calls;
}

double time_heatmap(void *prev, void *cur, int rows, int cols, int type, void *out, int fresh, int calls) {
    cusMat before = CUS_MAT_INIT, after = CUS_MAT_INIT, map = CUS_MAT_INIT;
    if (cusMatWrap(&before, rows, cols, type, CUS_HOST, prev, 0) != CUS_OK ||
        cusMatWrap(&after, rows, cols, type, CUS_HOST, cur, 0) != CUS_OK)
        return -1;
    if (!fresh && cusMatWrap(&map, rows, cols, CUS_8UC3, CUS_HOST, out, 0) != CUS_OK)
        return -1;
    const double start = now();
    for (int i = 0; i < calls; ++i) {
        if (cusHeatmap(&before, &after, &map, NULL, NULL) != CUS_OK)
            return -1;
        if (fresh)
            cusMatRelease(&map);
    }
    return (now() - start) / calls;
}

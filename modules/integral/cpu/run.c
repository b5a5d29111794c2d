/* Entry points of the host backend. */
#include "integral/cpu/rows.h"

#include <math.h>
#include <string.h>

enum {
    PIXELS_PER_THREAD = 65536,
    BOXES_PER_THREAD = 4096,
    STREAM_BYTES = 4 << 20, /* tables of this size or more bypass the caches: they exceed the L2 caches of two cores */
    AMD_STREAM_BYTES =
        12 << 20, /* for 32S tables of bytes alone: an L3 cache of 16 MiB or more, as fast as L2 there, keeps them */
};

static int threadsFor(int rows, int cols) {
    const size_t useful = (size_t)rows * (size_t)cols / PIXELS_PER_THREAD + 1;
    const size_t threads = (size_t)cusi_maxThreads();
    return (int)(threads < useful ? threads : useful);
}

static size_t workspaceFor(int threads, int rows, int cols, int channels) {
    const size_t grid = integral_gridWorkspace(threads, (size_t)cols * (size_t)channels);
    if (channels > 1)
        return grid;
    const size_t bytes = integral_bytesWorkspace(threads, cols), floats = integral_floatsWorkspace(threads, rows, cols),
                 larger = bytes > floats ? bytes : floats;
    return larger > grid ? larger : grid;
}

cusStatus integral_host_workspace(const char *function, int rows, int cols, int channels, size_t *bytes) {
    (void)function;
    *bytes = workspaceFor(threadsFor(rows, cols * channels), rows, cols, channels);
    return CUS_OK;
}

bool integral_host_supports(IntegralHostPath path) {
#ifdef INTEGRAL_X86
    if (path == INTEGRAL_AVX512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    if (path == INTEGRAL_AVX2)
        return __builtin_cpu_supports("avx2");
#endif
    return path == INTEGRAL_AUTO || path == INTEGRAL_GENERIC;
}

static IntegralHostPath choosePath(const IntegralArgs *args) {
    if (args->path != INTEGRAL_AUTO)
        return args->path;
#ifdef INTEGRAL_X86
    cusMat *const tables[2] = {args->sum, args->sqsum};
    size_t bytes = 0;
    for (int k = 0; k < 2; ++k)
        bytes += tables[k] ? cusi_rowBytes(tables[k]) * (size_t)tables[k]->rows : 0;
    const bool of_bytes = args->src->type == CUS_8UC1 && !args->sqsum && args->sum && args->sum->type == CUS_32SC1;
    const size_t kept = of_bytes && __builtin_cpu_is("amd") ? AMD_STREAM_BYTES : STREAM_BYTES;
    if (bytes >= kept && integral_host_supports(INTEGRAL_AVX512))
        return INTEGRAL_AVX512;
#endif
    return integral_host_supports(INTEGRAL_AVX2) ? INTEGRAL_AVX2 : INTEGRAL_GENERIC;
}

static void runOne(const IntegralArgs *args) {
    const int rows = args->src->rows, cols = args->src->cols, channels = CUS_CHANNELS(args->src->type);
    if (args->sum)
        memset(args->sum->data, 0, cusi_rowBytes(args->sum));
    if (args->sqsum)
        memset(args->sqsum->data, 0, cusi_rowBytes(args->sqsum));
    /* OpenMP may offer more threads than when the workspace was allocated. */
    int threads = threadsFor(rows, cols * channels);
    while (threads > 1 && workspaceFor(threads, rows, cols, channels) > args->workspace_bytes)
        --threads;
    if (args->reproducible)
        integral_runGrid(args, choosePath(args), threads);
    else if (channels > 1)
        integral_runChannels(args, threads);
    else if (args->src->type == CUS_8UC1)
        integral_runBytes(args, choosePath(args), threads);
    else
        integral_runFloats(args, choosePath(args), threads);
}

cusStatus integral_host_run(const char *function, const IntegralArgs *args) {
    (void)function;
    IntegralArgs one = *args;
    for (int i = 0; i < args->count; ++i) {
        one.src = &args->src[i];
        one.sum = args->sum ? &args->sum[i] : NULL;
        one.sqsum = args->sqsum ? &args->sqsum[i] : NULL;
        runOne(&one);
    }
    return CUS_OK;
}

/* ---- Sums over rectangles: four reads each ----------------------------------------------------------------------- */

cusStatus integral_host_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums) {
    const int64_t rows = table->rows - 1, cols = table->cols - 1;
    const int channels = CUS_CHANNELS(table->type);
    const int useful = boxes->rows / BOXES_PER_THREAD + 1;
    const int threads = useful < cusi_maxThreads() ? useful : cusi_maxThreads();
    (void)threads;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int k = 0; k < boxes->rows; ++k) {
        const int32_t *box = INTEGRAL_ROW(const int32_t, boxes, k);
        const int32_t x = box[0], y = box[1], width = box[2], height = box[3];
        double *sum = INTEGRAL_ROW(double, sums, k);
        const bool inside =
            x >= 0 && y >= 0 && width >= 0 && height >= 0 && (int64_t)x + width <= cols && (int64_t)y + height <= rows;
        for (int c = 0; c < channels; ++c)
            if (!inside)
                sum[c] = (double)NAN;
            else if (CUS_DEPTH(table->type) == CUS_32S)
                sum[c] = cusBoxSum32S(table->data, table->step, x * channels + c, y, width * channels, height);
            else
                sum[c] = cusBoxSum64F(table->data, table->step, x * channels + c, y, width * channels, height);
    }
    return CUS_OK;
}

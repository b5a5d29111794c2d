/* ranges COUNTER: the ranges that a profiler sees. Without COUNTER: what a range costs when nobody looks. */
#include "cusight/cusight.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int failures;

static void expect(const char *what, int found, int expected) {
    if (found == expected)
        return;
    ++failures;
    fprintf(stderr, "%s: %d, expected %d\n", what, found, expected);
}

/* A call that does nothing but its range. */
static void measure(void) {
    enum { CALLS = 20000000 };
    struct timespec start, end;
    cusMatRelease(NULL);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < CALLS; ++i)
        cusMatRelease(NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double ns = 1e9 * (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec);
    printf("cusMatRelease(NULL): %.2f ns\n", ns / CALLS);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        measure();
        return 0;
    }
    setenv("NVTX_INJECTION64_PATH", argv[1], 1); /* before the first call */
    unsigned char pixels[6] = {1, 2, 3, 4, 5, 6};
    cusMat src = CUS_MAT_INIT, sum = CUS_MAT_INIT;
    expect("cusMatWrap", cusMatWrap(&src, 2, 3, CUS_8UC1, CUS_HOST, pixels, 0), CUS_OK);
    for (int i = 0; i < 3; ++i)
        expect("cusIntegral", cusIntegral(&src, &sum, NULL, NULL, NULL), CUS_OK);
    expect("cusIntegral of nothing", cusIntegral(NULL, &sum, NULL, NULL, NULL), CUS_ERROR_NULL);
    cusMatcherOptions options = cusMatcherDefaults();
    cusMatcher *matcher = NULL;
    cusMat region = CUS_MAT_INIT;
    expect("cusMatRegion", cusMatRegion(&src, 0, 0, 2, 1, &region), CUS_OK);
    expect("cusMatcherCreate", cusMatcherCreate(&matcher, &region, 1, 2, 3, &options, NULL), CUS_OK);
    expect("cusMatcherRun", cusMatcherRun(matcher, &src, NULL, NULL), CUS_OK);
    cusMatcherDestroy(matcher);
    cusMatRelease(&sum);

    void *const counter = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
    if (!counter) {
        fprintf(stderr, "the library has loaded no profiler: %s\n", dlerror());
        return 1;
    }
    int (*of)(const char *) = NULL, (*left)(void) = NULL, (*foreign)(void) = NULL;
    *(void **)&of = dlsym(counter, "counterOf");
    *(void **)&left = dlsym(counter, "counterOpen");
    *(void **)&foreign = dlsym(counter, "counterForeign");
    expect("ranges cusIntegral", of("cusIntegral"), 4);
    expect("ranges cusMatcherCreate", of("cusMatcherCreate"), 1);
    expect("ranges cusMatcherRun", of("cusMatcherRun"), 1);
    expect("ranges cusMatcherDestroy", of("cusMatcherDestroy"), 1);
    expect("ranges cusMatWrap", of("cusMatWrap") > 0, 1);
    expect("ranges cusHeatmap", of("cusHeatmap"), 0);
    expect("ranges that have not ended", left(), 0);
    expect("ranges of another domain", foreign(), 0);
    if (!failures)
        printf("the profiler saw the ranges\n");
    return failures != 0;
}

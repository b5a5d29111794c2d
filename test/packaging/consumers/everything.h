/* What the consumer projects share: functions of every header, so that a link with the static library needs all that it needs. */
#include <cusight/cusight.h>
#include <stdio.h>
#include <string.h>

static int everything(void) {
    const struct {
        const char *name;
        void (*function)(void);
    } linked[] = {
        {"integral", (void (*)(void))cusIntegral},
        {"match", (void (*)(void))cusMatcherCreate},
        {"hsv", (void (*)(void))cusHsvCount},
        {"framediff", (void (*)(void))cusHeatmap},
        {"stereo", (void (*)(void))cusContourMap},
        {"events", (void (*)(void))cusEventStackerCreate},
        {"motion", (void (*)(void))cusMotionDetectorRun},
        {"eventgen", (void (*)(void))cusEventGeneratorRun},
        {"eventio", (void (*)(void))cusEventReaderOpen},
        {"live", (void (*)(void))cusSenderCreate},
    };
    cusMat image = CUS_MAT_INIT, sum = CUS_MAT_INIT;
    int value = 0;
    unsigned i;
    for (i = 0; i < sizeof linked / sizeof *linked; ++i)
        if (!linked[i].function)
            return printf("%s is not linked\n", linked[i].name), 1;
    if (cusMatCreate(&image, 30, 40, CUS_8UC1, CUS_HOST) != CUS_OK)
        return printf("%s\n", cusLastError()), 1;
    memset(image.data, 1, 30 * image.step);
    if (cusIntegral(&image, &sum, NULL, NULL, NULL) != CUS_OK)
        return printf("%s\n", cusLastError()), 1;
    memcpy(&value, (const char *)sum.data + (size_t)(sum.rows - 1) * sum.step + (size_t)(sum.cols - 1) * 4, 4);
    cusMatRelease(&image);
    cusMatRelease(&sum);
    if (value != 30 * 40)
        return printf("the sum of %d ones is %d\n", 30 * 40, value), 1;
    if (CUSIGHT_VERSION_MAJOR != 0 ||
        strncmp(cusBuildInformation() + strlen("cusight "), cusVersion(), strlen(cusVersion())))
        return printf("cusVersion() is %s, cusBuildInformation() %s\n", cusVersion(), cusBuildInformation()), 1;
    return 0;
}

/* A program that links cusight.dll through its import library. The thread is of Windows' own, so it ends, and with it the library's
 * threads for it, while the loader is locked. */
#include "everything.h"

#include <windows.h>

static DWORD WINAPI sumMany(void *failed) {
    cusMat image = CUS_MAT_INIT, sum = CUS_MAT_INIT;
    *(int *)failed = cusMatCreate(&image, 3000, 3000, CUS_8UC1, CUS_HOST) != CUS_OK;
    if (!*(int *)failed) {
        memset(image.data, 1, 3000 * image.step);
        *(int *)failed = cusIntegral(&image, &sum, NULL, NULL, NULL) != CUS_OK;
    }
    cusMatRelease(&image);
    cusMatRelease(&sum);
    return 0;
}

int main(void) {
    int failed = 1;
    const HANDLE thread = CreateThread(NULL, 0, sumMany, &failed, 0, NULL);
    if (WaitForSingleObject(thread, 20000) != WAIT_OBJECT_0)
        return printf("the thread does not end\n"), 1;
    return failed || everything();
}

/* How many threads the CPU backends use. */
#include "host.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Quotas of control groups ---------------------------------------------------------------------------------------- */

/* Reads the beginning of a small file. Returns 0 if it cannot. */
static int readText(const char *path, char *text, size_t size) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = file >= 0 ? read(file, text, size - 1) : -1;
    if (file >= 0)
        close(file);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static int readNumber(const char *folder, const char *name, double *number) {
    char path[PATH_MAX], text[64], *end;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX || !readText(path, text, sizeof text))
        return 0;
    *number = strtod(text, &end);
    return end > text;
}

/* Returns how many processors a group may use. Version 2's "cpu.max" is "QUOTA PERIOD" or "max PERIOD"; version 1 has two
 * files, and -1 for no quota. */
static double quotaOf(const char *folder) {
    char path[PATH_MAX], text[64], *end;
    double quota = 0, period = 0;
    if (snprintf(path, sizeof path, "%s/cpu.max", folder) < PATH_MAX && readText(path, text, sizeof text)) {
        quota = strtod(text, &end);
        period = end > text ? strtod(end, NULL) : 0;
    } else if (!readNumber(folder, "cpu.cfs_quota_us", &quota) || !readNumber(folder, "cpu.cfs_period_us", &period)) {
        return INT_MAX;
    }
    return quota > 0 && period > 0 ? quota / period : INT_MAX;
}

/* Returns the least quota of a group and those above it. In a container the path may be the host's, of which only the root
 * exists. */
static double leastQuota(const char *root, const char *group) {
    char folder[PATH_MAX];
    double least = INT_MAX;
    const size_t top = strlen(root);
    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= PATH_MAX)
        return least;
    for (size_t length = strlen(folder); length >= top; --length) {
        if (length > top && folder[length] != '/' && folder[length] != 0)
            continue;
        folder[length] = 0;
        const double quota = quotaOf(folder);
        least = quota < least ? quota : least;
    }
    return least;
}

int cusi_quotaOf(const char *list, const char *root) {
    char text[4096], cpu[PATH_MAX], *rest = NULL;
    double least = INT_MAX;
    if (!readText(list, text, sizeof text) || snprintf(cpu, sizeof cpu, "%s/cpu", root) >= PATH_MAX)
        return 0;
    /* Lines are NUMBER:CONTROLLERS:PATH. Version 2 has no controllers. */
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *const controllers = strchr(line, ':'), *const path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path = 0;
        char *others = NULL;
        int of_cpu = controllers + 1 == path;
        const char *const at = of_cpu ? root : cpu;
        for (char *name = strtok_r(controllers + 1, ",", &others); name; name = strtok_r(NULL, ",", &others))
            of_cpu |= strcmp(name, "cpu") == 0;
        const double quota = of_cpu ? leastQuota(at, path + 1) : INT_MAX;
        least = quota < least ? quota : least;
    }
    return least < INT_MAX ? (int)(least + 0.999) : 0;
}

/* ---- Numbers of threads ---------------------------------------------------------------------------------------------- */

#ifdef _OPENMP
static int quota;      /* 0: none */
static int at_loading; /* what OpenMP offers by default */

static void readQuota(void) {
    quota = cusi_quotaOf("/proc/self/cgroup", "/sys/fs/cgroup");
}

/* With a tool for measuring or checking (OMPT), LLVM's runtime reads the record of the first thread that used OpenMP in
 * every critical section, even after that thread has ended. So the thread that loads the library uses it first. */
__attribute__((constructor)) static void noteDefault(void) {
    const int offered = omp_get_max_threads();
    at_loading = getenv("OMP_NUM_THREADS") ? 0 : offered;
}

int cusi_maxThreads(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int offered = omp_get_max_threads();
    if (offered != at_loading || offered == 1)
        return offered;
    pthread_once(&once, readQuota);
    const int processors = omp_get_num_procs(), most = quota && quota < processors ? quota : processors;
    return most < offered ? most : offered;
}

#endif

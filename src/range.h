/* CUSI_RANGE; is the first line of every public function that does work. A profiler (NVTX) then shows the call as a range with
 * the function's name, in the domain "cusight". */
#ifndef CUSI_RANGE_H
#define CUSI_RANGE_H

#ifdef CUSI_WITH_NVTX

#ifdef __cplusplus
extern "C" {
#endif

/* Whether cusi_rangeEnd has anything to end. */
int cusi_rangeBegin(const char *name);
void cusi_rangeEnd(const int *begun);

#ifdef __cplusplus
}

struct cusi_Range {
    const int begun;
    explicit cusi_Range(const char *name) : begun(cusi_rangeBegin(name)) {}
    ~cusi_Range() { cusi_rangeEnd(&begun); }
    cusi_Range(const cusi_Range &) = delete;
    cusi_Range &operator=(const cusi_Range &) = delete;
};
#define CUSI_RANGE const cusi_Range cusi_range(__func__)
#else
#define CUSI_RANGE const int cusi_range __attribute__((cleanup(cusi_rangeEnd), unused)) = cusi_rangeBegin(__func__)
#endif

#else
#define CUSI_RANGE (void)0
#endif

#endif

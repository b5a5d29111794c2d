/* CUSI_TRACE; is the first line of every public function that does work. A profiler (NVTX) then shows the call as a range
 * with the function's name in the domain "cusight". */
#ifndef CUSI_TRACE_H
#define CUSI_TRACE_H

#ifdef CUSI_WITH_NVTX

#ifdef __cplusplus
extern "C" {
#endif

/* Begins a range. Returns whether cusi_traceEnd() has one to end. */
int cusi_traceBegin(const char *name);
void cusi_traceEnd(const int *begun);

#ifdef __cplusplus
}

struct cusi_Trace {
    const int begun;
    explicit cusi_Trace(const char *name) : begun(cusi_traceBegin(name)) {}
    ~cusi_Trace() { cusi_traceEnd(&begun); }
    cusi_Trace(const cusi_Trace &) = delete;
    cusi_Trace &operator=(const cusi_Trace &) = delete;
};
#define CUSI_TRACE const cusi_Trace cusi_trace(__func__)
#else
#define CUSI_TRACE const int cusi_trace __attribute__((cleanup(cusi_traceEnd), unused)) = cusi_traceBegin(__func__)
#endif

#else
#define CUSI_TRACE (void)0
#endif

#endif

/* Guards against misuse that would end in wrong results, a kernel that never returns or a lost CUDA context: an object in
 * two calls at once, in a second stream before the first has passed it, or on another device than the current one; a device
 * matrix or a stream that belongs to another device; a call that waits in a stream that is being captured.
 *
 * How a second stream waits. An event recorded after every call would order all streams, but it costs about as much as a
 * launch and keeps the next call's kernel from being scheduled early. So a call records an event only while the object is
 * new to its stream, for CUSI_SETTLED calls; after that the former stream is only an id to compare with. When an object
 * that has settled changes its stream, the event is recorded for all work of the context (cuCtxRecordEvent): the former
 * stream may have been destroyed, so its handle is never used again. Either way the new stream waits on the device, not the
 * host. */
#ifndef CUSI_GUARD_H
#define CUSI_GUARD_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSI_SETTLED = 16 };

/* A guard is all zero for an object on the host. */
typedef struct CusiGuard {
    int busy;         /* 1 during a call; atomic */
    int device;       /* device of an object on a device */
    int calls;        /* calls in the last stream, up to CUSI_SETTLED; 0: never used */
    uint64_t stream;  /* id of the stream of the last call that was not captured */
    uint64_t capture; /* id of the last capture, and of its stream */
    uint64_t captured_in;
    uint64_t now, now_capture; /* stream and capture of the current call */
    cusStreamEvent passed;     /* the last call's work; NULL on the host */
    cusStreamEvent captured;   /* the same within a capture */
} CusiGuard;

/* Prepares the guard of an object that is created in `space`, on the current device. */
cusStatus cusi_guardCreate(const char *function, CusiGuard *guard, cusSpace space);
void cusi_guardRelease(CusiGuard *guard);

/* Begins a call that uses `object` (a name for messages), and makes `stream` wait for the object's earlier work. If it
 * succeeds, cusi_leave() must follow. */
cusStatus cusi_enter(const char *function, const char *object, CusiGuard *guard, cusStream stream);
/* The same for another object of a call that has entered with the guard `first`, without asking CUDA again. */
cusStatus cusi_enterNext(const char *function, const char *object, CusiGuard *guard, cusStream stream,
                         const CusiGuard *first);
/* Ends the call; returns `status`, or the error of recording its end. */
cusStatus cusi_leave(const char *function, CusiGuard *guard, cusStream stream, cusStatus status);

/* Returns the status of `call`, made between enter and leave. Messages name `object` as it is written. The call writes the
 * object's guard even if it only reads the object. */
#define CUSI_GUARDED(function, object, stream, call)                         \
    do {                                                                     \
        CUSI_NOT_NULL(function, object);                                     \
        CusiGuard *const guard_of_object = (CusiGuard *)&(object)->guard;    \
        CUS_TRY(cusi_enter((function), #object, guard_of_object, (stream))); \
        return cusi_leave((function), guard_of_object, (stream), (call));    \
    } while (0)

/* Fails with CUS_ERROR_UNSUPPORTED if `stream` is being captured. `why` completes the message: "the call waits for it". */
cusStatus cusi_refuseCapture(const char *function, cusStream stream, const char *why);

/* Checks that `data`, of an argument in CUS_DEVICE, is not memory of a device other than the current one. */
cusStatus cusi_checkDeviceMemory(const char *function, const char *argument, const void *data);

/* Checks, for a call in `space`, that `stream` does not belong to a device other than the current one. cusi_enter() does so
 * too. */
cusStatus cusi_checkStream(const char *function, cusSpace space, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif

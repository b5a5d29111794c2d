/* Files that are written under a hidden name and renamed when they are complete. */
#ifndef CUSI_EVENTIO_OUTPUT_H
#define CUSI_EVENTIO_OUTPUT_H

#include "cusight/core.h"

#include <stddef.h>
#include <stdint.h>

#ifndef CUSI_SEPARATORS /* A system with others defines it. */
#define CUSI_SEPARATORS "/"
#endif

/* The file `part` is in the folder of `path` and has a random name until it is finished. */
typedef struct EventOutput {
    char *path, *part;
    int fd; /* -1: none */
} EventOutput;

/* Creates `part`. Errors: NO_MEMORY; IO, also if a file cannot replace `path`. Then there is nothing to discard. */
cusStatus eventio_outputCreate(EventOutput *output, const char *path, const char *function);

/* Writes n bytes from byte `at` of the file on. */
cusStatus eventio_outputWrite(EventOutput *output, uint64_t at, const void *bytes, size_t n, const char *function);
/* Does the same for any file. Returns 0 on failure, see errno. */
int eventio_writeAt(int fd, uint64_t at, const void *bytes, size_t n);

/* Returns CUS_ERROR_IO, or NO_MEMORY: the file cannot be written, with the reason in errno unless that is 0. */
cusStatus eventio_outputFail(const EventOutput *output, const char *function);

/* Close the file and free what belongs to it. Finish stores and renames the file if `status` is CUS_OK, otherwise it
 * removes the file; it returns `status` or the new error. Discard accepts what was never created (fd -1). */
cusStatus eventio_outputFinish(EventOutput *output, cusStatus status, const char *function);
void eventio_outputDiscard(EventOutput *output);

#endif

/* The bytes of a recording: a regular file or memory. */
#ifndef CUSI_EVENTIO_SOURCE_H
#define CUSI_EVENTIO_SOURCE_H

#include "cusight/core.h"

#include <stddef.h>
#include <stdint.h>

typedef struct EventSource {
    int fd;                /* -1: memory */
    const uint8_t *memory; /* NULL: file */
    uint64_t size;
    uint64_t opened; /* size of a file when it was opened */
    /* The bytes of a pinned file, or NULL. Only copies to a GPU may read them: if the file has become shorter, a
     * program that reads them is stopped. */
    uint8_t *pinned;
} EventSource;

/* Opens a regular file, O_RDONLY or O_RDWR; messages name `function`. The caller closes it even after an error. */
cusStatus eventio_openSource(EventSource *source, const char *path, int access, const char *function);

/* Returns how many bytes the source has now. */
uint64_t eventio_sizeNow(const EventSource *source);

/* Maps the file and pins it. */
cusStatus eventio_pin(EventSource *source, const char *function);

void eventio_closeSource(EventSource *source);

/* Fails with TRUNCATED: the file ends at byte `end`, before the size that it had. */
cusStatus eventio_isShorter(const EventSource *source, const char *function, uint64_t end);
/* Does so if the file has become shorter since it was opened: its apparent end is not the true one. */
cusStatus eventio_checkSize(const EventSource *source, const char *function);

/* Returns the number of bytes read: fewer than n only at the end; -1 if the file cannot be read (see errno). */
int64_t eventio_readAt(const EventSource *source, uint64_t offset, void *buffer, size_t n);

#endif

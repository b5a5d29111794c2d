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
} EventSource;

/* Opens a regular file, O_RDONLY or O_RDWR, for an entry point that messages name. The caller closes source->fd, also after an
 * error, unless it is -1. */
cusStatus eventio_openSource(EventSource *source, const char *path, int access, const char *function);

/* Returns the number of bytes read: fewer than n only at the end; -1 if the file cannot be read (see errno). */
int64_t eventio_readAt(const EventSource *source, uint64_t offset, void *buffer, size_t n);

#endif

/* What surrounds the frames in their files. */
#ifndef CUSI_EVENTIO_FRAMES_LAYOUT_H
#define CUSI_EVENTIO_FRAMES_LAYOUT_H

#include "cusight/eventio.h"

#include <stddef.h>
#include <stdint.h>

/* Where the first frame starts; the others follow without gaps. */
enum { EVENTIO_FIRST_FRAME = 512 };

/* The attribute of /frames that labels them. */
#define EVENTIO_LABEL "part"
cusStatus eventio_checkLabel(const char *function, const char *label);

/* Checks that a file can have frames of this shape. */
cusStatus eventio_checkFrames(const char *function, int rows, int cols, int type);

typedef struct FrameShape {
    int rows, cols, type;
    int compressed; /* one chunk a frame, LZF; otherwise one block */
} FrameShape;

size_t eventio_frameBytes(const FrameShape *shape);

/* Writes everything but the frames. stored[k]: bytes of frame k, if frames are compressed; label NULL: none yet; *size:
 * the length of the file. Returns 0 on failure, see errno. */
int eventio_writeFrameLayout(int fd, const FrameShape *shape, uint64_t frames, const uint32_t *stored,
                             const uint64_t *offsets, const char *label, uint64_t *size);

#endif

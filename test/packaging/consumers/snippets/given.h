/* What the snippets of the documents take as given: test/packaging/snippets.sh compiles each of them after this file. A snippet that
 * needs more gets it here. */
#include <cusight/cusight.h>
#include <cusight/dlpack.h>

#include <stdio.h>

enum { N = 1000, M = 64, SIZE = 1 << 16 };
extern cusMat frame, image, templ, mat, map, boxes, frames, left, right, elevation, contours, previous, picture, pinned_in,
    pinned_out;
extern cusStream stream, up, run, down;
extern cusStreamEvent uploaded, computed, downloaded;
extern int rows, cols;
extern uint32_t changed;
extern size_t n, size, received_bytes, pitch;
extern void *planes[3];
extern uint16_t x[N], y[N];
extern uint8_t p[N], bytes[SIZE], received[SIZE];
extern int64_t t[N], times[600];
extern cusEventTrigger edges[M];
extern cusEventBuffers out;
extern cusEventReader *reader;
extern cusEventPipeline *pipeline;
extern cusRepresentation histogram;
cusStatus sink(void *user, const cusFrameBatch *batch);
extern void *user;

/* The reader's own functions. */
size_t receive(uint8_t *to), my_write(const uint8_t *from, size_t count);
int readFrame(cusMat *to);
void synchronize(const cusEventTrigger *triggers, size_t count);
void use(); /* takes anything */

/* The stages of the host backend: events become accumulators, and accumulators become rows of pixels. */
#ifndef CUSI_EVENTS_CPU_STAGES_H
#define CUSI_EVENTS_CPU_STAGES_H

#include "events/backend.h"

enum { EVENTS_AT_ONCE = 512 };
#define OUTSIDE UINT32_MAX

/* The accumulators of a band of rows: element row * step + x * unit, plus one of two offsets by polarity. */
typedef struct Grid {
    uint32_t row0, rows, cols;
    uint32_t step, unit;
    uint32_t positive, negative;
} Grid;

/* The events of one window. */
typedef struct Events {
    const uint16_t *x, *y;
    const uint8_t *p;
    const int64_t *t;
    uint32_t count;
} Events;

/* A pixel's last event as a code, from which MDES and TENCODE follow: 0 if there is none, otherwise CODE_EVENT,
 * CODE_POSITIVE, its level among the 16 mixed-density windows times CODE_LEVEL, and TENCODE's green in the low byte. */
enum { CODE_EVENT = 1 << 13, CODE_POSITIVE = 1 << 12, CODE_LEVEL = 1 << 8 };

/* ---- accumulate.c: each returns how many events lie in the band ------------------------------------------------------ */

/* Counts events from .. to - 1, saturating at `ceiling`. */
uint64_t events_host_count(const Events *events, uint32_t from, uint32_t to, const Grid *grid, uint8_t *counts,
                           uint8_t ceiling);
/* Leaves codes of the last events, with green only if with_green. */
uint64_t events_host_lastCodes(const Events *events, const Grid *grid, int with_green, uint16_t *codes);
/* Leaves indices + 1 of the last events. */
uint64_t events_host_lastIndices(const Events *events, const Grid *grid, uint32_t *indices);
uint64_t events_host_sumPolarities(const Events *events, const Grid *grid, int32_t *sum);
uint64_t events_host_sumVoxels(const Events *events, const Grid *grid, int bins, int64_t *voxels);
/* Finds where the time bins of STACKED_HISTOGRAM begin. */
void events_host_timeLevels(const Events *events, int bins, EventsLevels *levels);

/* ---- pixels.c: a row of accumulators to a row of a frame ---------------------------------------------------------------- */

void events_host_mdesRow(const uint16_t *codes, size_t cols, const cusRepresentation *r, uint8_t *row);
void events_host_tencodeRow(const uint16_t *codes, size_t cols, const cusRepresentation *r, uint8_t *row);
/* Adds later channels to each, in place: channel k counted level k alone, but window k of MDES_COUNT holds levels k and up. */
void events_host_addNewerLevels(uint8_t *row, size_t cols, size_t channels);
void events_host_diffRow(const int32_t *sum, size_t cols, int8_t *row);
void events_host_voxelRow(const int64_t *voxels, size_t n, float *row);
void events_host_surfaceRow(const uint32_t *indices, size_t n, const cusRepresentation *r, const Events *events,
                            float *row);
/* Subtracts the mean from the non-zero values of a frame and divides them by their standard deviation. */
void events_host_normalize(cusMat *frames, size_t top, size_t rows);

#endif

// The published algorithm of the event histogram, and the sort that the alternative starts with.
#pragma once

#include "cusight/core.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace peers {

// One serial pass over the events, with saturating 8-bit counters.
inline void serialHistogram(const uint16_t *x, const uint16_t *y, const uint8_t *p, size_t stacks, size_t length, int rows,
                            int cols, uint8_t *frames) {
    const size_t frame = static_cast<size_t>(rows) * static_cast<size_t>(cols) * 2;
    std::memset(frames, 0, stacks * frame);
    for (size_t s = 0; s < stacks; ++s)
        for (size_t i = s * length; i < (s + 1) * length; ++i) {
            if (x[i] >= cols || y[i] >= rows)
                continue;
            uint8_t &count = frames[s * frame + (y[i] * static_cast<size_t>(cols) + x[i]) * 2 + (p[i] ? 0 : 1)];
            if (count < 255)
                ++count;
        }
}

#ifdef CUSIGHT_HAVE_CUDA
// All stacks in one launch: atomics add eight events a thread to 32-bit counters of every stack in device memory (counters:
// as many as frames has bytes); a second pass narrows them to bytes. Arrays start at 16-byte boundaries; length is a
// multiple of 8.
void atomicHistogram(const uint16_t *x, const uint16_t *y, const uint8_t *p, size_t stacks, size_t length, int rows,
                     int cols, uint32_t *counters, uint8_t *frames, cusStream stream);

// CUB's radix sort of n keys. workspace NULL: only sets *workspace_bytes.
void radixSort(const uint32_t *keys, uint32_t *sorted, size_t n, int bits, void *workspace, size_t *workspace_bytes,
               cusStream stream);
#endif

} // namespace peers

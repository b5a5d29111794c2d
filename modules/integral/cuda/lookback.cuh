// Look-back with a fixed order of additions: tiles publish sums to later tiles, which add them up. The last tile of a group
// publishes the prefix, the sum of everything up to and including itself, instead of its own sum.
#ifndef CUSI_INTEGRAL_LOOKBACK_CUH
#define CUSI_INTEGRAL_LOOKBACK_CUH

#include "cuda.cuh"
#include "integral/cuda/tile.cuh"

#include <cstring>

namespace cusi::integral {

// N neighboring sums in format T, as published. The format is compact, since sums are read many times through the cache
// that the tables use, too.
template<class T, unsigned N>
struct Published {
    static constexpr unsigned BITS = FORMAT_BITS<T>, WORDS = N * sizeof(T) / 4;
    TaggedWord words[WORDS];

    template<class Sum>
    __device__ static void store(TaggedWord *at, const Sum (&v)[N], uint32_t epoch) {
        TaggedWord w[WORDS];
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i) {
            w[i] = static_cast<TaggedWord>(epoch) << EPOCH_SHIFT;
            if constexpr (sizeof(T) == 2) {
                w[i] |= static_cast<TaggedWord>(v[2 * i + 1]) << BITS | v[2 * i];
            } else if constexpr (sizeof(T) == 4) {
                w[i] |= v[i];
            } else {
                uint32_t halves[2];
                memcpy(halves, &v[i / 2], sizeof halves);
                w[i] |= halves[i % 2];
            }
        }
        if constexpr (WORDS == 1)
            storeRelaxedEvictLast(at, w[0]);
        else
#pragma unroll
            for (unsigned i = 0; i < WORDS; i += 2)
                storeRelaxedEvictLast(at + i, w[i], w[i + 1]);
    }
    __device__ void load(const TaggedWord *at) {
        if constexpr (WORDS == 1)
            words[0] = loadRelaxedEvictLast(at);
        else
#pragma unroll
            for (unsigned i = 0; i < WORDS; i += 2)
                loadRelaxedEvictLast(at + i, words[i], words[i + 1]);
    }
    __device__ bool isComplete(uint32_t epoch) const {
        bool all = true;
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            all &= words[i] >> EPOCH_SHIFT == epoch;
        return all;
    }
    template<class Acc>
    __device__ void addTo(Acc (&sums)[N]) const {
#pragma unroll
        for (unsigned i = 0; i < N; ++i) {
            if constexpr (sizeof(T) == 8) {
                const uint32_t halves[2] = {static_cast<uint32_t>(words[2 * i]), static_cast<uint32_t>(words[2 * i + 1])};
                Acc v;
                memcpy(&v, halves, sizeof v);
                sums[i] += v;
            } else {
                constexpr unsigned PER_WORD = 4 / sizeof(T);
                const TaggedWord mask = (TaggedWord{1} << BITS) - 1;
                sums[i] += static_cast<Acc>(words[i / PER_WORD] >> (i % PER_WORD * BITS) & mask);
            }
        }
    }
};

// Returns the address of sum `index` in a chain of sums of type T.
template<class T>
__device__ inline TaggedWord *sumAt(TaggedWord *words, size_t index) {
    return words + index * sizeof(T) / 4;
}

// Adds what tiles first .. end - 1 published, BATCH tiles at a time. The constructor starts loading; addTo() waits.
template<class T, unsigned N, unsigned BATCH = 1>
struct LookBack {
    const TaggedWord *at;
    size_t stride;
    unsigned count;
    Published<T, N> batch[BATCH];

    // words: those of tile 0; stride_: sums from tile to tile
    __device__ LookBack(const TaggedWord *words, size_t stride_, unsigned first, unsigned end)
        : at(words + first * stride_ * sizeof(T) / 4), stride(stride_ * sizeof(T) / 4), count(end - min(first, end)) {
        load();
    }
    __device__ void load() {
#pragma unroll
        for (unsigned k = 0; k < BATCH; ++k)
            if (k < count)
                batch[k].load(at + k * stride);
    }
    template<class Acc>
    __device__ void addTo(Acc (&sums)[N], uint32_t epoch) {
        while (count > 0) {
            bool retry = true;
            while (retry) { // reloads everything missing together
                retry = false;
#pragma unroll
                for (unsigned k = 0; k < BATCH; ++k)
                    if (k < count && !batch[k].isComplete(epoch)) {
                        batch[k].load(at + k * stride);
                        retry = true;
                    }
            }
#pragma unroll
            for (unsigned k = 0; k < BATCH; ++k)
                if (k < count)
                    batch[k].addTo(sums);
            count -= min(count, BATCH);
            at += BATCH * stride;
            load();
        }
    }
};

// Groups have a power of two tiles.
__device__ inline unsigned groupStart(unsigned tile, unsigned group) {
    return tile & ~(group - 1);
}
__device__ inline bool endsGroup(unsigned tile, unsigned group) {
    return (tile & (group - 1)) == group - 1;
}

} // namespace cusi::integral

#endif

// Publishing sums to later tiles, and adding up what earlier tiles published: look-back with a fixed order of additions.
//
// Each chain of tiles is cut into groups. The last tile of a group publishes the prefix, the sum of everything up to and
// including itself, instead of its own sum. A tile adds the prefix of the group before and the sums of the earlier tiles of
// its own group, always in the order of the tiles. Nothing depends on timing, so float sums are the same in every run.
#ifndef CUSI_INTEGRAL_LOOKBACK_CUH
#define CUSI_INTEGRAL_LOOKBACK_CUH

#include "cuda.cuh"
#include "integral_params.cuh"

#include <cstring>

namespace cusi::integral {

// N neighboring sums as they are published: 32 bits of payload a word (two 16-bit sums together), the epoch above. Compact,
// as they are read many times through the cache that the tables go through too.
template<class T, unsigned N>
struct Published {
    static constexpr unsigned WORDS = N * sizeof(T) / 4;
    TaggedWord words[WORDS];

    __device__ static void store(TaggedWord *at, const T (&v)[N], uint32_t epoch) {
        uint32_t payload[WORDS];
        memcpy(payload, v, sizeof v);
        TaggedWord w[WORDS];
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            w[i] = static_cast<TaggedWord>(epoch) << EPOCH_SHIFT | payload[i];
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
        uint32_t payload[WORDS];
#pragma unroll
        for (unsigned i = 0; i < WORDS; ++i)
            payload[i] = static_cast<uint32_t>(words[i]);
        T v[N];
        memcpy(v, payload, sizeof v);
#pragma unroll
        for (unsigned i = 0; i < N; ++i)
            sums[i] += static_cast<Acc>(v[i]);
    }
};

// Two sums of 17 bits in one word.
template<>
struct Published<Bits17, 2> {
    TaggedWord word;

    __device__ static void store(TaggedWord *at, const uint32_t (&v)[2], uint32_t epoch) {
        storeRelaxedEvictLast(at,
                              static_cast<TaggedWord>(epoch) << EPOCH_SHIFT | static_cast<TaggedWord>(v[1]) << 17 | v[0]);
    }
    __device__ void load(const TaggedWord *at) { word = loadRelaxedEvictLast(at); }
    __device__ bool isComplete(uint32_t epoch) const { return word >> EPOCH_SHIFT == epoch; }
    template<class Acc>
    __device__ void addTo(Acc (&sums)[2]) const {
        sums[0] += static_cast<Acc>(word & 0x1ffff);
        sums[1] += static_cast<Acc>(word >> 17 & 0x1ffff);
    }
};

// Four sums of 34 bits, a word each.
template<>
struct Published<Bits34, 4> {
    TaggedWord words[4];

    __device__ static void store(TaggedWord *at, const uint64_t (&v)[4], uint32_t epoch) {
        const TaggedWord tag = static_cast<TaggedWord>(epoch) << EPOCH_SHIFT;
        storeRelaxedEvictLast(at, tag | v[0], tag | v[1]);
        storeRelaxedEvictLast(at + 2, tag | v[2], tag | v[3]);
    }
    __device__ void load(const TaggedWord *at) {
        loadRelaxedEvictLast(at, words[0], words[1]);
        loadRelaxedEvictLast(at + 2, words[2], words[3]);
    }
    __device__ bool isComplete(uint32_t epoch) const {
        return words[0] >> EPOCH_SHIFT == epoch && words[1] >> EPOCH_SHIFT == epoch && words[2] >> EPOCH_SHIFT == epoch &&
               words[3] >> EPOCH_SHIFT == epoch;
    }
    __device__ void addTo(uint64_t (&sums)[4]) const {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            sums[i] += words[i] & ((TaggedWord{1} << EPOCH_SHIFT) - 1);
    }
};

// Sum `index` of a chain of sums of type T.
template<class T>
__device__ inline TaggedWord *sumAt(TaggedWord *words, size_t index) {
    return words + index * sizeof(T) / 4;
}

// Adds what tiles first .. end - 1 published, BATCH tiles at a time. The constructor starts loading; addTo() waits.
template<class T, unsigned N, unsigned BATCH = 1>
struct LookBack {
    using Sums = Published<T, N>;
    const TaggedWord *at;
    size_t stride;
    unsigned count;
    Sums batch[BATCH];

    // words: of tile 0; stride_: in sums, from tile to tile
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
            while (retry) { // everything that is missing is loaded again together
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

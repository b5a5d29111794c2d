/* Background, difference and threshold on the CPU: 64 pixels at a time, whose moving bits make up one word. */
#include "host.h"
#include "motion/cpu/stages.h"

#include <string.h>

enum { BLOCK = 64 };

/* Packs eight bytes of 0 or 1 into bits. The product puts byte i into bit 56 + i; no two of its terms overlap. */
static inline uint64_t packEight(const uint8_t *bytes) {
    uint64_t eight;
    memcpy(&eight, bytes, sizeof eight);
    return eight * UINT64_C(0x0102040810204080) >> 56;
}

/* Packs 64 bytes as packEight() does, on machines of either byte order. */
static inline uint64_t packBits(const uint8_t *bytes) {
    uint64_t bits = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (int i = 0; i < BLOCK / 8; ++i)
        bits |= packEight(bytes + (size_t)8 * (size_t)i) << 8 * i;
#else
    for (int i = 0; i < BLOCK; ++i)
        bits |= (uint64_t)bytes[i] << i;
#endif
    return bits;
}

/* Returns the luma of a block of `n` <= 64 pixels, with zeros after the last; `pixels` itself for a whole block of 8UC1. */
static inline const uint8_t *loadLuma(const uint8_t *pixels, size_t n, int channels, uint8_t *restrict luma) {
    if (n < BLOCK) {
        for (size_t i = 0; i < BLOCK; ++i)
            luma[i] = 0;
        for (size_t i = 0; i < n; ++i)
            luma[i] = channels == 1 ? pixels[i] : (uint8_t)motionLuma(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
        return luma;
    }
    if (channels == 1)
        return pixels;
    for (size_t i = 0; i < BLOCK; ++i)
        luma[i] = (uint8_t)motionLuma(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
    return luma;
}

typedef struct Row {
    const uint8_t *pixels;
    uint16_t *background;
    uint8_t *differences;
    const uint64_t *watched;
    uint64_t *moving;
    size_t cols;
    int channels;
} Row;

/* Starts the background of a row at a camera's first step. */
CUSI_MULTIVERSION
static void startRow(const Row *row) {
    for (size_t x = 0; x < row->cols; x += BLOCK) {
        uint8_t converted[BLOCK];
        const uint8_t *const luma = loadLuma(row->pixels + x * (size_t)row->channels,
                                             row->cols - x < BLOCK ? row->cols - x : BLOCK, row->channels, converted);
        uint16_t *const background = row->background + x;
        for (size_t i = 0; i < BLOCK; ++i)
            background[i] = (uint16_t)(luma[i] << 8);
        row->moving[x / BLOCK] = 0;
    }
}

/* Computes the differences of a block and a byte for each pixel, 1 where its difference exceeds the threshold. Returns
 * whether any does. */
static inline int compareBlock(const uint8_t *luma, const uint16_t *background, uint16_t threshold,
                               uint16_t *restrict differences, uint8_t *restrict moves) {
    for (size_t i = 0; i < BLOCK; ++i) {
        const uint16_t now = (uint16_t)(luma[i] << 8), before = background[i];
        const uint16_t difference = (uint16_t)((now > before ? now : before) - (now < before ? now : before));
        differences[i] = difference;
        moves[i] = difference > threshold;
    }
    uint64_t any = 0, eight;
    for (size_t i = 0; i < BLOCK; i += sizeof eight) {
        memcpy(&eight, moves + i, sizeof eight);
        any |= eight;
    }
    return any != 0;
}

/* Does motionLearn() for a block whose differences and weight are below 2^15. All values then have 16 bits, and written
 * like this the rounded product is one instruction on most processors. */
static inline void learnSmall(const uint8_t *luma, uint16_t *restrict background, int16_t weight) {
    for (size_t i = 0; i < BLOCK; ++i) {
        const int16_t difference = (int16_t)((luma[i] << 8) - background[i]);
        const int16_t step = (int16_t)(((difference * weight >> (MOTION_WEIGHT_BITS - 1)) + 1) >> 1);
        background[i] = (uint16_t)(background[i] + step);
    }
}

/* limit: -1 if all of the difference is learned. */
static inline void learnAny(const uint8_t *luma, uint16_t *restrict background, int32_t weight, int32_t limit) {
    int32_t difference;
    if (limit < 0)
        for (size_t i = 0; i < BLOCK; ++i)
            background[i] = (uint16_t)motionLearn(background[i], luma[i], weight, &difference);
    else
        for (size_t i = 0; i < BLOCK; ++i)
            background[i] = (uint16_t)motionLearnLittle(background[i], luma[i], weight, limit, &difference);
}

enum { LANES = BLOCK / 2 };

/* Adds the noise of a block to partial sums. */
static inline void addNoise(const uint16_t *differences, uint64_t watched, uint32_t *restrict sums) {
    if (watched == UINT64_MAX) {
        for (size_t i = 0; i < LANES; ++i) {
            const uint16_t a = differences[i], b = differences[i + LANES];
            sums[i] +=
                (uint16_t)((a < MOTION_MAX_NOISE ? a : MOTION_MAX_NOISE) + (b < MOTION_MAX_NOISE ? b : MOTION_MAX_NOISE));
        }
        return;
    }
    for (; watched; watched &= watched - 1) {
        const uint16_t d = differences[__builtin_ctzll(watched)];
        sums[0] += d < MOTION_MAX_NOISE ? d : MOTION_MAX_NOISE;
    }
}

/* Packs the watched moving pixels and keeps their differences; the others become 0, so that sums need no mask. */
static inline uint64_t keepMoving(const uint8_t *moves, uint64_t watched, const uint16_t *differences,
                                  uint8_t *restrict kept) {
    const uint64_t all = packBits(moves), bits = all & watched;
    if (!bits)
        return 0;
    for (size_t i = 0; i < BLOCK; ++i)
        kept[i] = (uint8_t)(moves[i] ? differences[i] >> 8 : 0);
    for (uint64_t rest = all & ~watched; rest; rest &= rest - 1)
        kept[__builtin_ctzll(rest)] = 0;
    return bits;
}

CUSI_MULTIVERSION
static uint64_t learnRow(const Row *row, const MotionPlan *plan, int32_t limit, uint32_t *moving) {
    const int32_t weight = plan->weight;
    const uint16_t threshold = (uint16_t)plan->threshold;
    const int small = weight <= INT16_MAX && threshold <= INT16_MAX;
    const size_t cols = row->cols;
    const int channels = row->channels;
    uint32_t sums[LANES] = {0};
    uint32_t moved = 0;
    for (size_t x = 0; x < cols; x += BLOCK) {
        uint8_t converted[BLOCK], moves[BLOCK];
        uint16_t differences[BLOCK];
        const uint8_t *const luma =
            loadLuma(row->pixels + x * (size_t)channels, cols - x < BLOCK ? cols - x : BLOCK, channels, converted);
        uint16_t *const background = row->background + x;
        const uint64_t watched = row->watched[x / BLOCK];
        uint64_t bits = 0;
        if (!compareBlock(luma, background, threshold, differences, moves) && small) {
            learnSmall(luma, background, (int16_t)weight);
        } else {
            learnAny(luma, background, weight, limit);
            bits = keepMoving(moves, watched, differences, row->differences + x);
            moved += (uint32_t)__builtin_popcountll(bits);
        }
        row->moving[x / BLOCK] = bits;
        addNoise(differences, watched, sums);
    }
    *moving += moved;
    uint64_t noise = 0;
    for (size_t i = 0; i < LANES; ++i)
        noise += sums[i];
    return noise;
}

void motion_host_update(const MotionModel *model, const MotionPlanes *planes, const cusMat *frame, const MotionPlan *plan,
                        int starts, int first, int end, uint32_t *moving, uint64_t *noise_sum) {
    const size_t words = motionWords(model);
    for (size_t y = (size_t)first; y < (size_t)end; ++y) {
        const Row row = {(const uint8_t *)frame->data + y * frame->step,
                         planes->background + y * words * BLOCK,
                         planes->differences + y * words * BLOCK,
                         planes->watched + y * words,
                         planes->moving + y * words,
                         (size_t)model->cols,
                         model->type == CUS_8UC1 ? 1 : 3};
        if (starts)
            startRow(&row);
        else
            *noise_sum += learnRow(&row, plan, model->options.ghosts ? plan->threshold : -1, moving);
    }
}

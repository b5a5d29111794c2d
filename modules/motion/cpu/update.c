/* Background, difference and threshold on the CPU: 64 pixels at a time, whose moving bits make up one word. */
#include "host.h"
#include "motion/cpu/stages.h"

#include <string.h>

enum { BLOCK = 64 };

/* One bit of 0 or 1 bytes. The product puts byte i into bit 56 + i; no two of its terms meet. */
static inline uint64_t packEight(const uint8_t *bytes) {
    uint64_t eight;
    memcpy(&eight, bytes, sizeof eight);
    return eight * UINT64_C(0x0102040810204080) >> 56;
}

/* As packEight, whatever the order of bytes in a word. */
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

/* Luma of n <= 64 pixels; zeros follow. */
static inline void loadLuma(const uint8_t *pixels, size_t n, int type, uint8_t *luma) {
    if (type == CUS_8UC1) {
        memcpy(luma, pixels, n);
    } else if (n == BLOCK) {
        for (size_t i = 0; i < BLOCK; ++i)
            luma[i] = (uint8_t)motionLuma(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
    } else {
        for (size_t i = 0; i < n; ++i)
            luma[i] = (uint8_t)motionLuma(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
    }
    memset(luma + n, 0, BLOCK - n);
}

typedef struct Row {
    const uint8_t *pixels;
    uint16_t *background;
    uint8_t *differences;
    const uint64_t *watched;
    uint64_t *moving;
    size_t cols;
    int type;
} Row;

/* The first step of a camera. */
CUSI_MULTIVERSION
static void startRow(const Row *row) {
    const size_t bytes = cusTypeSize(row->type);
    for (size_t x = 0; x < row->cols; x += BLOCK) {
        uint8_t luma[BLOCK];
        uint16_t *const background = row->background + x;
        loadLuma(row->pixels + x * bytes, row->cols - x < BLOCK ? row->cols - x : BLOCK, row->type, luma);
        for (size_t i = 0; i < BLOCK; ++i)
            background[i] = (uint16_t)(luma[i] << 8);
        row->moving[x / BLOCK] = 0;
    }
}

/* Learns a block; returns which pixels differ by more than the threshold. */
static inline uint64_t learnBlock(const uint8_t *luma, uint16_t *restrict background, const MotionPlan *plan,
                                  uint16_t *restrict differences) {
    uint8_t moves[BLOCK];
    for (size_t i = 0; i < BLOCK; ++i) {
        int32_t difference;
        background[i] = (uint16_t)motionLearn(background[i], luma[i], plan->weight, &difference);
        differences[i] = (uint16_t)difference;
    }
    for (size_t i = 0; i < BLOCK; ++i)
        moves[i] = differences[i] > plan->threshold;
    return packBits(moves);
}

static inline uint32_t noiseOf(const uint16_t *differences, uint64_t watched) {
    uint32_t sum = 0;
    if (watched == UINT64_MAX) {
        for (size_t i = 0; i < BLOCK; ++i)
            sum += differences[i] < MOTION_MOST_NOISE ? differences[i] : MOTION_MOST_NOISE;
        return sum;
    }
    for (; watched; watched &= watched - 1) {
        const uint16_t d = differences[__builtin_ctzll(watched)];
        sum += d < MOTION_MOST_NOISE ? d : MOTION_MOST_NOISE;
    }
    return sum;
}

CUSI_MULTIVERSION
static uint64_t learnRow(const Row *row, const MotionPlan *plan, uint32_t *moving) {
    const size_t bytes = cusTypeSize(row->type);
    uint64_t noise = 0;
    for (size_t x = 0; x < row->cols; x += BLOCK) {
        uint8_t luma[BLOCK];
        uint16_t differences[BLOCK];
        loadLuma(row->pixels + x * bytes, row->cols - x < BLOCK ? row->cols - x : BLOCK, row->type, luma);
        const uint64_t watched = row->watched[x / BLOCK];
        const uint64_t bits = learnBlock(luma, row->background + x, plan, differences) & watched;
        noise += noiseOf(differences, watched);
        row->moving[x / BLOCK] = bits;
        if (bits) {
            *moving += (uint32_t)__builtin_popcountll(bits);
            for (size_t i = 0; i < BLOCK; ++i)
                row->differences[x + i] = (uint8_t)(differences[i] >> 8);
        }
    }
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
                         model->type};
        if (starts)
            startRow(&row);
        else
            *noise_sum += learnRow(&row, plan, moving);
    }
}

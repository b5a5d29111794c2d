/* Cuts boxes on the CPU between things that stand side by side. */
#include "host.h"
#include "motion/cpu/stages.h"

#include <assert.h>
#include <string.h>

enum {
    MOST = 256,  /* boxes of a camera */
    KEPT = 8,    /* words of a box whose columns are counted only once */
    DIGITS = 17, /* of a column's number of pixels in binary */
};

/* Pixels of the 64 columns of a word. */
typedef struct Columns {
    int32_t moving[64];
    uint32_t area[64];
} Columns;

/* Adds a bit to each of 64 numbers, whose digits k are digits[k]. */
static inline void add(uint64_t *digits, uint64_t bits) {
    for (int k = 0; bits; ++k) {
        const uint64_t carry = digits[k] & bits;
        digits[k] ^= bits;
        bits = carry;
    }
}

/* Counts the pixels of the mask that a box has in the columns of word i. */
CUSI_MULTIVERSION
static void countColumns(const MotionModel *model, const MotionPlanes *planes, const cusMotionBox *box, size_t i,
                         Columns *columns) {
    uint64_t area[DIGITS] = {0}, moving[DIGITS] = {0};
    const uint64_t inside = motionColumns(i, box->x, box->x + box->width);
    const size_t words = motionWords(model);
    for (int y = box->y; y < box->y + box->height; ++y) {
        const size_t at = (size_t)y * words + i;
        const uint64_t mask = planes->mask[at] & inside;
        add(area, mask);
        add(moving, mask & planes->moving[at]);
    }
    memset(columns, 0, sizeof *columns);
    for (int k = 0; k < DIGITS && box->height >> k; ++k)
        for (int x = 0; x < 64; ++x) {
            columns->area[x] += (uint32_t)(area[k] >> x & 1) << k;
            columns->moving[x] += (int32_t)(moving[k] >> x & 1) << k;
        }
}

/* Writes the columns before which a box is cut, of which the first MOST count. Returns how many they are. */
static int findCuts(const MotionModel *model, const MotionPlanes *planes, const cusMotionBox *box, int32_t *cuts) {
    const size_t first = (size_t)box->x / 64, last = (size_t)(box->x + box->width - 1) / 64;
    MotionCores cores = {0, box->x, box->x, 0, -1};
    Columns kept[KEPT]; /* the last one is of all further words in turn */
    for (size_t i = first; i <= last; ++i) {
        Columns *const columns = &kept[i - first < KEPT ? i - first : KEPT - 1];
        countColumns(model, planes, box, i, columns);
        for (int k = 0; k < 64; ++k)
            cores.most = columns->moving[k] > cores.most ? columns->moving[k] : cores.most;
    }
    int count = 0;
    for (size_t i = first; i <= last && count < MOST; ++i) {
        Columns *const columns = &kept[i - first < KEPT ? i - first : KEPT - 1];
        if (last - first >= KEPT && i - first >= KEPT - 1)
            countColumns(model, planes, box, i, columns);
        for (int k = 0; k < 64 && count < MOST; ++k) {
            if (!motionIsFull(model, &cores, columns->moving[k]))
                continue;
            const int32_t x = (int32_t)(64 * i) + k;
            if (x != cores.end) {
                const int32_t cut = motionEndRun(model, &cores);
                if (cut >= 0)
                    cuts[count++] = cut;
                cores.first = x;
            }
            cores.end = x + 1;
            cores.area += columns->area[k];
        }
    }
    const int32_t cut = count < MOST ? motionEndRun(model, &cores) : -1;
    if (cut >= 0)
        cuts[count++] = cut;
    return count;
}

/* Returns the box of what columns left .. end - 1 of a box have. */
static cusMotionBox sliceOf(const MotionModel *model, const MotionPlanes *planes, const cusMotionBox *box, int left,
                            int end) {
    const size_t words = motionWords(model);
    MotionComponent all = MOTION_NOTHING;
    for (int y = box->y; y < box->y + box->height; ++y)
        for (size_t i = (size_t)left / 64; i <= (size_t)(end - 1) / 64; ++i) {
            const size_t at = (size_t)y * words + i;
            const uint64_t mask = planes->mask[at] & motionColumns(i, left, end), moving = mask & planes->moving[at],
                           hull = model->options.tight ? moving : mask;
            const int column = (int)(64 * i);
            MotionComponent here = MOTION_NOTHING;
            here.area = (uint32_t)__builtin_popcountll(mask);
            here.moving = (uint32_t)__builtin_popcountll(moving);
            here.sum_y = (uint64_t)here.area * (uint64_t)y;
            for (uint64_t rest = mask; rest; rest &= rest - 1)
                here.sum_x += (uint64_t)(column + __builtin_ctzll(rest));
            for (uint64_t rest = moving; rest; rest &= rest - 1)
                here.differences += planes->differences[64 * at + (size_t)__builtin_ctzll(rest)];
            if (hull) {
                here.top = here.bottom = y;
                here.left = column + __builtin_ctzll(hull);
                here.right = column + 63 - __builtin_clzll(hull);
                here.first = (uint32_t)here.left;
            }
            motionAbsorb(&all, &here);
        }
    assert(all.area > 0 && all.moving > 0); /* of the slice's core */
    return motionBox(&all);
}

int motion_host_split(const MotionModel *model, const MotionPlanes *planes, cusMotionBox *boxes, int count) {
    cusMotionBox made[MOST];
    int made_count = 0;
    for (int b = 0; b < count; ++b) {
        const cusMotionBox *const box = &boxes[b];
        int32_t cuts[MOST + 1];
        const int cut_count = findCuts(model, planes, box, cuts);
        cuts[cut_count] = box->x + box->width;
        for (int k = 0, left = box->x; k <= cut_count && made_count < model->options.max_boxes; left = cuts[k++])
            made[made_count++] = cut_count > 0 ? sliceOf(model, planes, box, left, cuts[k]) : *box;
    }
    for (int b = 0; b < made_count; ++b)
        boxes[b] = made[b];
    return made_count;
}

/* Shadows and ghosts on the CPU: where the frame is the background in less light, and where only the background has
 * edges. */
#include "motion/cpu/stages.h"

#include <stdlib.h>

/* What the pixels of a step are read from. */
typedef struct Ground {
    const MotionModel *model;
    const MotionPlanes *planes;
    const cusMat *frame;
    size_t words;
} Ground;

static inline int32_t lumaAt(const Ground *g, int y, int x) {
    const uint8_t *const row = (const uint8_t *)g->frame->data + (size_t)y * g->frame->step;
    if (g->model->type == CUS_8UC1)
        return row[x];
    const uint8_t *const p = row + 3 * (size_t)x;
    return motionLuma(p[0], p[1], p[2]);
}

static inline int32_t grayAt(const Ground *g, int y, int x) {
    return motionGray(g->planes->background[(size_t)y * g->words * 64 + (size_t)x]);
}

static int isShadow(const Ground *g, int y, int x) {
    const int32_t luma = lumaAt(g, y, x), gray = grayAt(g, y, x);
    if (!motionDarker(luma, gray, g->model->options.shadows))
        return 0;
    return (x == 0 || motionKeepsEdge(luma, gray, lumaAt(g, y, x - 1), grayAt(g, y, x - 1))) &&
           (x + 1 == g->model->cols || motionKeepsEdge(luma, gray, lumaAt(g, y, x + 1), grayAt(g, y, x + 1))) &&
           (y == 0 || motionKeepsEdge(luma, gray, lumaAt(g, y - 1, x), grayAt(g, y - 1, x))) &&
           (y + 1 == g->model->rows || motionKeepsEdge(luma, gray, lumaAt(g, y + 1, x), grayAt(g, y + 1, x)));
}

void motion_host_shadows(const MotionModel *model, const MotionPlanes *planes, const cusMat *frame) {
    const Ground ground = {model, planes, frame, motionWords(model)};
    for (int y = 0; y < model->rows; ++y)
        for (size_t i = 0; i < ground.words; ++i) {
            const size_t at = (size_t)y * ground.words + i;
            uint64_t shadow = 0;
            for (uint64_t rest = planes->moving[at]; rest; rest &= rest - 1) {
                const int bit = __builtin_ctzll(rest);
                if (!isShadow(&ground, y, (int)(64 * i) + bit))
                    continue;
                shadow |= (uint64_t)1 << bit;
                planes->differences[64 * at + (size_t)bit] = 0; /* as those of all that do not move */
            }
            planes->moving[at] &= ~shadow;
        }
}

/* Edges between two pixels, in the frame less those in the background. */
static int64_t edge(const Ground *g, int y, int x, int next_y, int next_x) {
    return abs(lumaAt(g, y, x) - lumaAt(g, next_y, next_x)) - abs(grayAt(g, y, x) - grayAt(g, next_y, next_x));
}

static int isGhost(const Ground *g, const cusMotionBox *box) {
    const int left = box->x > 0 ? box->x - 1 : 0, top = box->y > 0 ? box->y - 1 : 0;
    const int right = box->x + box->width < g->model->cols ? box->x + box->width : g->model->cols - 1,
              bottom = box->y + box->height < g->model->rows ? box->y + box->height : g->model->rows - 1;
    int64_t sum = 0;
    for (int y = top; y <= bottom; ++y) {
        const uint64_t *const row = g->planes->moving + (size_t)y * g->words;
        for (size_t i = (size_t)left / 64; i <= (size_t)right / 64; ++i) {
            const int column = (int)(64 * i);
            const uint64_t next = row[i] >> 1 | (i + 1 < g->words ? row[i + 1] << 63 : 0);
            for (uint64_t rest = (row[i] ^ next) & motionColumns(i, left, right); rest; rest &= rest - 1) {
                const int x = column + __builtin_ctzll(rest);
                sum += edge(g, y, x, y, x + 1);
            }
            const uint64_t below = y < bottom ? row[i + g->words] : row[i];
            for (uint64_t rest = (row[i] ^ below) & motionColumns(i, left, right + 1); rest; rest &= rest - 1) {
                const int x = column + __builtin_ctzll(rest);
                sum += edge(g, y, x, y + 1, x);
            }
        }
    }
    return sum < 0;
}

void motion_host_ghosts(const MotionModel *model, const MotionPlanes *planes, const cusMat *frame,
                        const cusMotionBox *boxes, int count) {
    const Ground ground = {model, planes, frame, motionWords(model)};
    uint8_t ghosts[256];
    for (int b = 0; b < count; ++b) /* all before any is learned */
        ghosts[b] = (uint8_t)isGhost(&ground, &boxes[b]);
    for (int b = 0; b < count; ++b) {
        const cusMotionBox *const box = &boxes[b];
        for (int y = box->y; ghosts[b] && y < box->y + box->height; ++y) {
            const size_t row = (size_t)y * ground.words;
            for (int x = box->x; x < box->x + box->width; ++x)
                if (planes->mask[row + (size_t)x / 64] >> x % 64 & 1)
                    planes->background[64 * row + (size_t)x] = (uint16_t)(lumaAt(&ground, y, x) << 8);
        }
    }
}

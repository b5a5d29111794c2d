/* Finds components on the CPU: runs of set bits in rows, joined with the runs of the row above by union-find. */
#include "host.h"
#include "motion/cpu/stages.h"

#include <string.h>

/* Returns a word with bits low .. high set. */
static uint64_t bitsBetween(int low, int high) {
    return UINT64_MAX << low & UINT64_MAX >> (63 - high);
}

/* Appends the runs of a row; returns how many there are now. */
static size_t findRuns(const uint64_t *row, size_t words, MotionRun *runs, size_t count) {
    for (size_t i = 0; i < words; ++i) {
        uint64_t bits = row[i];
        while (bits) {
            const int first = __builtin_ctzll(bits), column = (int)(64 * i);
            const uint64_t gaps = ~bits & UINT64_MAX << first;
            const int last = gaps ? __builtin_ctzll(gaps) - 1 : 63;
            if (first == 0 && i > 0 && row[i - 1] >> 63)
                runs[count - 1].last = column + last;
            else
                runs[count] = (MotionRun){column + first, column + last, (uint32_t)count}, ++count;
            bits &= ~bitsBetween(first, last);
        }
    }
    return count;
}

static uint32_t rootOf(MotionRun *runs, uint32_t run) {
    while (runs[run].parent != run) {
        runs[run].parent = runs[runs[run].parent].parent;
        run = runs[run].parent;
    }
    return run;
}

static void join(MotionRun *runs, uint32_t a, uint32_t b) {
    a = rootOf(runs, a);
    b = rootOf(runs, b);
    if (a < b)
        runs[b].parent = a;
    else
        runs[a].parent = b;
}

/* Joins the runs of two successive rows, above .. here - 1 and here .. end - 1, that touch. */
static void joinRows(MotionRun *runs, size_t above, size_t here, size_t end) {
    size_t a = above, b = here;
    while (a < here && b < end) {
        if (runs[a].first <= runs[b].last + 1 && runs[b].first <= runs[a].last + 1)
            join(runs, (uint32_t)a, (uint32_t)b);
        if (runs[a].last < runs[b].last)
            ++a;
        else
            ++b;
    }
}

/* Adds moving pixels of word `word` of row y to a component's box; rows and words come in order. */
static inline void growBox(MotionComponent *component, int y, int word, uint64_t bits) {
    const int left = 64 * word + __builtin_ctzll(bits), right = 64 * word + 63 - __builtin_clzll(bits);
    if (component->top == INT32_MAX) {
        component->top = y;
        component->first = (uint32_t)left;
    }
    component->left = left < component->left ? left : component->left;
    component->right = right > component->right ? right : component->right;
    component->bottom = y;
}

/* Adds a run to its component. */
static inline void addRun(const MotionPlanes *planes, size_t words, int y, const MotionRun *run, int tight,
                          MotionComponent *component) {
    const uint64_t length = (uint64_t)run->last - (uint64_t)run->first + 1;
    component->sum_x += length * (uint64_t)(run->first + run->last) / 2;
    component->sum_y += length * (uint64_t)y;
    if (!tight) {
        component->left = run->first < component->left ? run->first : component->left;
        component->right = run->last > component->right ? run->last : component->right;
        component->bottom = y;
    }
    const uint64_t *const moving = planes->moving + (size_t)y * words;
    const uint8_t *const differences = planes->differences + (size_t)y * words * 64;
    for (int word = run->first / 64; word <= run->last / 64; ++word) {
        const int low = word == run->first / 64 ? run->first % 64 : 0, high = word == run->last / 64 ? run->last % 64 : 63;
        const uint64_t bits = moving[word] & bitsBetween(low, high);
        if (!bits)
            continue;
        component->moving += (uint32_t)__builtin_popcountll(bits);
        if (tight)
            growBox(component, y, word, bits);
        uint32_t sum = 0;
        for (int i = low; i <= high; ++i) /* differences of pixels that do not move are 0 */
            sum += differences[(size_t)word * 64 + (size_t)i];
        component->differences += sum;
    }
}

CUSI_MULTIVERSION
static void addRuns(const MotionModel *model, const MotionPlanes *planes, MotionWorkspace *w) {
    const size_t words = motionWords(model);
    for (int y = 0; y < model->rows; ++y)
        for (size_t i = w->first_run[y]; i < w->first_run[y + 1]; ++i) {
            const uint32_t number = w->areas[w->runs[i].parent];
            if (number > 0)
                addRun(planes, words, y, &w->runs[i], model->options.tight, &w->components[number - 1]);
        }
}

/* Makes every run's parent its component's smallest run, and adds up areas. */
static void addAreas(MotionWorkspace *w, size_t count) {
    memset(w->areas, 0, count * sizeof *w->areas);
    for (size_t i = 0; i < count; ++i) {
        w->runs[i].parent = w->runs[w->runs[i].parent].parent; /* parents come first, so theirs are final */
        w->areas[w->runs[i].parent] += (uint32_t)(w->runs[i].last - w->runs[i].first + 1);
    }
}

/* Numbers the components of at least min_area pixels. */
static uint32_t numberComponents(const MotionModel *model, MotionWorkspace *w) {
    uint32_t components = 0;
    for (int y = 0; y < model->rows; ++y)
        for (size_t i = w->first_run[y]; i < w->first_run[y + 1]; ++i) {
            if (w->runs[i].parent != i)
                continue;
            const uint32_t area = w->areas[i];
            w->areas[i] = area >= (uint32_t)model->options.min_area ? ++components : 0;
            if (w->areas[i] == 0 || components > CUS_MOTION_MAX_COMPONENTS)
                continue;
            MotionComponent *const component = &w->components[components - 1];
            *component = (MotionComponent)MOTION_NOTHING;
            component->area = area;
            if (!model->options.tight) {
                component->top = y;
                component->first = (uint32_t)w->runs[i].first;
            }
        }
    return components;
}

uint32_t motion_host_label(const MotionModel *model, const MotionPlanes *planes, MotionWorkspace *w) {
    const size_t words = motionWords(model);
    size_t count = 0;
    for (int y = 0; y < model->rows; ++y) {
        w->first_run[y] = count;
        count = findRuns(planes->mask + (size_t)y * words, words, w->runs, count);
        if (y > 0)
            joinRows(w->runs, w->first_run[y - 1], w->first_run[y], count);
    }
    w->first_run[model->rows] = count;
    addAreas(w, count);
    const uint32_t components = numberComponents(model, w);
    if (components > CUS_MOTION_MAX_COMPONENTS)
        return components;
    if (components > 0)
        addRuns(model, planes, w);
    return components;
}

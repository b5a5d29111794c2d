// Subjects of the search: event frames of each representation, and all events in windows of one kind.
#include "cliffs.hpp"

#include "cusight/events.h"

#include <algorithm>
#include <memory>

namespace perf::cliffs {
namespace {

constexpr size_t STACK = 200000;
constexpr int COLS = 1280, ROWS = 720;

// ---- Contents

enum Content {
    UNIFORM,
    ONE_PIXEL,
    ONE_ROW,
    ONE_COLUMN,
    ONE_TILE,
    HOT_PIXEL,
    SORTED,
    OUTSIDE,
    ONE_WINDOW,
    EMPTY_WINDOWS,
    OVERLAPPING,
    UNSORTED_TIMES
};

const std::vector<std::string> &contents() {
    static const std::vector<std::string> names = {"uniform",
                                                   "all on one pixel",
                                                   "all in one row",
                                                   "all in one column",
                                                   "all in a tile of 16 x 16",
                                                   "3 % on one pixel",
                                                   "sorted by pixel",
                                                   "all outside the frame",
                                                   "one window",
                                                   "windows of which up to nine in ten are empty",
                                                   "windows that overlap a hundredfold",
                                                   "times that run backwards"};
    return names;
}

void place(size_t content, size_t i, uint64_t r, uint16_t &x, uint16_t &y) {
    x = static_cast<uint16_t>(r % COLS);
    y = static_cast<uint16_t>((r >> 16) % ROWS);
    if (content == ONE_PIXEL || (content == HOT_PIXEL && (r >> 40) % 32 == 0))
        x = 333, y = 222;
    else if (content == ONE_ROW)
        y = 222;
    else if (content == ONE_COLUMN)
        x = 333;
    else if (content == ONE_TILE)
        x = static_cast<uint16_t>(320 + x % 16), y = static_cast<uint16_t>(208 + y % 16);
    else if (content == OUTSIDE)
        x = 65535;
    else if (content == SORTED) {
        const uint64_t pixel = static_cast<uint64_t>(i % STACK) * COLS * ROWS / STACK;
        x = static_cast<uint16_t>(pixel % COLS), y = static_cast<uint16_t>(pixel / COLS);
    }
}

std::vector<cusEventWindow> windowsOf(size_t content, size_t events) {
    std::vector<cusEventWindow> windows;
    if (content == ONE_WINDOW)
        return {{0, events}};
    if (content == OVERLAPPING) { // as many events in all windows together
        for (size_t first = 0; windows.size() < events / STACK; first += STACK / 100)
            windows.push_back({first, first + STACK});
        return windows;
    }
    const size_t all = events / STACK, empty = content == EMPTY_WINDOWS ? 9 : 0, length = (empty + 1) * STACK;
    for (size_t first = 0; first < events; first += length) {
        windows.push_back({first, std::min(first + length, events)});
        windows.insert(windows.end(), std::min(empty, all - windows.size()), {first, first}); // as many windows as usual
    }
    return windows;
}

// ---- The work

template<class T>
class Array { // of events, `offset` bytes past an aligned address
  public:
    Array(const std::vector<T> &values, int type, cusSpace space, int offset)
        : placed_(1, static_cast<int>(values.size()), type, space, offset) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
        placed_.fill({bytes, bytes + values.size() * sizeof(T)});
    }
    const T *data() const { return static_cast<const T *>(placed_.view.data); }

  private:
    Placed placed_;
};

struct Stacking {
    Stacking(const Scene &s, cusSpace space, const std::vector<cusRepresentation> &representations, size_t events)
        : windows(windowsOf(s.content, events)) {
        Random random(s.seed);
        std::vector<uint16_t> x(events), y(events);
        std::vector<uint8_t> p(events);
        std::vector<int64_t> t(events);
        for (size_t i = 0; i < events; ++i) {
            const uint64_t r = random();
            place(s.content, i, r, x[i], y[i]);
            p[i] = r >> 63;
            t[i] = static_cast<int64_t>((s.content == UNSORTED_TIMES ? events - i : i) / 10);
        }
        xs = std::make_unique<Array<uint16_t>>(x, CUS_16UC1, space, s.offset);
        ys = std::make_unique<Array<uint16_t>>(y, CUS_16UC1, space, s.out_offset);
        ps = std::make_unique<Array<uint8_t>>(p, CUS_8UC1, space, s.offset);
        ts = std::make_unique<Array<int64_t>>(t, CUS_64FC1, space, s.offset);
        view = {xs->data(), ys->data(), ps->data(), ts->data(), events, space};
        check(cusEventStackerCreate(&stacker, ROWS, COLS, space, representations.data(),
                                    static_cast<int>(representations.size())));
        for (const cusRepresentation &r : representations) {
            int type = 0;
            check(cusRepresentationType(&r, &type));
            placed_.push_back(
                std::make_unique<Placed>(static_cast<int>(windows.size()) * ROWS, COLS, type, space, s.out_offset));
            frames.push_back(placed_.back()->view);
        }
    }
    ~Stacking() { cusEventStackerDestroy(stacker); }
    Stacking(const Stacking &) = delete;
    Stacking &operator=(const Stacking &) = delete;

    std::unique_ptr<Array<uint16_t>> xs, ys;
    std::unique_ptr<Array<uint8_t>> ps;
    std::unique_ptr<Array<int64_t>> ts;
    cusEventArrays view = {};
    std::vector<cusEventWindow> windows;
    std::vector<cusMat> frames;
    cusEventStacker *stacker = nullptr;

  private:
    std::vector<std::unique_ptr<Placed>> placed_; // these
};

Maker drawStacker(Random &random, cusSpace space, std::string &text, cusRepresentationKind kind) {
    cusRepresentation r = cusRepresentationDefaults(kind);
    r.normalize = kind == CUS_REPR_VOXEL_GRID && drawn(random, 0, 1);
    const size_t stacks = drawn(random, std::vector<size_t>{1, 5, 20});
    text = std::string(r.normalize ? "normalized, " : "") + std::to_string(stacks) + " x 200,000 events, ";
    return [=](const Scene &scene) -> Work {
        const auto stacking = std::make_shared<Stacking>(scene, space, std::vector<cusRepresentation>{r}, stacks * STACK);
        return [=](cusStream stream, int) {
            return cusEventStack(stacking->stacker, &stacking->view, stacking->windows.data(), stacking->windows.size(),
                                 stacking->frames.data(), stream);
        };
    };
}

} // namespace

void addEvents(std::vector<Subject> &subjects) {
    for (int k = CUS_REPR_HISTOGRAM; k <= CUS_REPR_EVENT_DIFF; ++k) {
        const auto kind = static_cast<cusRepresentationKind>(k);
        subjects.push_back({std::string("cusEventStack ") + cusRepresentationName(kind), contents(), true, false, 1,
                            [=](Random &random, cusSpace space, Size, std::string &text) {
                                return drawStacker(random, space, text, kind);
                            }});
    }
}

} // namespace perf::cliffs

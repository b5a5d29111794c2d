// Rows of family worst/ of events: long windows, crowded contents, windows that overlap or are empty, arrays that start
// anywhere. Compare each with the row of 60 million uniform events in one window, or in 300 windows (`typical`).
#include "harness/frames.hpp"

#include "cusight/events.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using perf::check;
using perf::Mat;

constexpr int ROWS = 720, COLS = 1280;
constexpr size_t ALL = 60000000, STACK = 200000;

uint64_t mixed(uint64_t i) {
    i = (i + 1) * 0x9E3779B97F4A7C15u;
    i = (i ^ i >> 29) * 0xBF58476D1CE4E5B9u;
    return i ^ i >> 32;
}

// The pixel of a random event.
using Content = std::function<std::pair<uint64_t, uint64_t>(uint64_t random)>;

std::pair<uint64_t, uint64_t> anywhere(uint64_t r) {
    return {(r & 0xffff) * COLS >> 16, (r >> 16 & 0xffff) * ROWS >> 16};
}

// The time of event i.
using Times = std::function<int64_t(size_t i)>;

int64_t steady(size_t i) { // ten events per microsecond
    return static_cast<int64_t>(i / 10);
}

// All arrays start `shift` events past an aligned address.
class Input {
  public:
    Input(size_t n, cusSpace space, const Content &content, size_t shift, const Times &times)
        : x_(1, size(n + shift), CUS_16UC1, space), y_(1, size(n + shift), CUS_16UC1, space),
          p_(1, size(n + shift), CUS_8UC1, space), t_(1, size(n + shift), CUS_64FC1, space) {
        std::vector<uint16_t> x(n + shift), y(n + shift);
        std::vector<uint8_t> p(n + shift);
        std::vector<int64_t> t(n + shift); // in a matrix of doubles, which are only moved
        for (size_t i = 0; i < n; ++i) {
            const uint64_t r = mixed(i);
            const auto [col, row] = content(r);
            x[i + shift] = static_cast<uint16_t>(col);
            y[i + shift] = static_cast<uint16_t>(row);
            p[i + shift] = r >> 63;
            t[i + shift] = times(i);
        }
        view.x = put(x_, x, CUS_16UC1) + shift;
        view.y = put(y_, y, CUS_16UC1) + shift;
        view.p = put(p_, p, CUS_8UC1) + shift;
        view.t = put(t_, t, CUS_64FC1) + shift;
        view.count = n;
        view.space = space;
    }
    cusEventArrays view = {};

  private:
    static int size(size_t n) { return static_cast<int>(n); }
    template<class T>
    static const T *put(Mat &to, std::vector<T> &values, int type) {
        cusMat from = CUS_MAT_INIT;
        check(cusMatWrap(&from, 1, size(values.size()), type, CUS_HOST, values.data(), 0));
        const bool device = to.mat.space == CUS_DEVICE;
        check(device ? cusMatUpload(&from, &to.mat, nullptr) : cusMatCopy(&from, &to.mat, nullptr));
        if (device)
            check(cusStreamSynchronize(nullptr));
        return static_cast<const T *>(to.mat.data);
    }
    Mat x_, y_, p_, t_;
};

// Stacks `windows` into `frames`, or into frames that the stacker makes if these have no memory yet.
void measure(perf::Row &row, cusRepresentationKind kind, const Input &input, const std::vector<cusEventWindow> &windows,
             cusMat *frames) {
    const cusRepresentation r = cusRepresentationDefaults(kind);
    cusEventStacker *stacker = nullptr;
    check(cusEventStackerCreate(&stacker, ROWS, COLS, input.view.space, &r, 1));
    row.measure([&](cusStream stream, int) {
        return cusEventStack(stacker, &input.view, windows.data(), windows.size(), frames, stream);
    });
    row.report();
    cusEventStackerDestroy(stacker);
}

void row(const std::string &name, const std::vector<cusRepresentationKind> &kinds, size_t n,
         const std::vector<cusEventWindow> &windows, const Content &content = anywhere, size_t shift = 0,
         const Times &times = steady) {
    if (!perf::wants(CUS_DEVICE))
        return;
    std::optional<Input> input;
    for (cusRepresentationKind kind : kinds) {
        perf::Row row(std::string("worst/events/") + cusRepresentationName(kind) + "/" + name, CUS_DEVICE, 0);
        if (perf::listing()) {
            row.report();
            continue;
        }
        if (!input)
            input.emplace(n, CUS_DEVICE, content, shift, times);
        cusMat frames = CUS_MAT_INIT;
        measure(row, kind, *input, windows, &frames);
        cusMatRelease(&frames);
    }
}

std::vector<cusEventWindow> stacks(size_t n, size_t length, size_t stride) {
    std::vector<cusEventWindow> windows;
    for (size_t first = 0; first + length <= n; first += stride)
        windows.push_back({first, first + length});
    return windows;
}

const std::vector<cusRepresentationKind> TARGETS = {CUS_REPR_HISTOGRAM, CUS_REPR_VOXEL_GRID};

TEST(EventsWorst, OneWindow) {
    row("60M-one-window", TARGETS, ALL, {{0, ALL}});
    row("60M-one-window",
        {CUS_REPR_MDES, CUS_REPR_MDES_COUNT, CUS_REPR_STACKED_HISTOGRAM, CUS_REPR_TIME_SURFACE, CUS_REPR_EVENT_DIFF}, ALL,
        {{0, ALL}});
}

TEST(EventsWorst, OneWindowCrowded) {
    row("60M-one-window/one-pixel", TARGETS, ALL, {{0, ALL}}, [](uint64_t) { return std::pair{333, 222}; });
    row("60M-one-window/half-on-one-pixel", TARGETS, ALL, {{0, ALL}}, [](uint64_t r) {
        return r >> 40 & 1 ? std::pair<uint64_t, uint64_t>{333, 222} : anywhere(r);
    });
    row("60M-one-window/one-row", TARGETS, ALL, {{0, ALL}}, [](uint64_t r) {
        return std::pair{anywhere(r).first, uint64_t{222}};
    });
    row("60M-one-window/one-tile", TARGETS, ALL, {{0, ALL}}, [](uint64_t r) { return std::pair{r % 128, (r >> 16) % 16}; });
}

// Gaps of an hour; and no order at all, where values are unspecified but the time they take is not.
TEST(EventsWorst, OneWindowTimes) {
    row("60M-one-window/gaps", {CUS_REPR_VOXEL_GRID}, ALL, {{0, ALL}}, anywhere, 0,
        [](size_t i) { return steady(i) + static_cast<int64_t>(i / 2000000) * 3600000000; });
    row("60M-one-window/random-times", {CUS_REPR_VOXEL_GRID}, ALL, {{0, ALL}}, anywhere, 0,
        [](size_t i) { return static_cast<int64_t>(mixed(i) >> 40); });
}

// 60 million events in all, from one window to windows that are short.
TEST(EventsWorst, WindowLengths) {
    for (size_t length : {size_t{1000000}, size_t{4000000}, size_t{10000000}, size_t{20000000}})
        row("one-window-of-" + std::to_string(length / 1000000) + "M", TARGETS, length, {{0, length}});
    row("60M/6-windows", TARGETS, ALL, stacks(ALL, 10000000, 10000000));
    row("60M/typical", TARGETS, ALL, stacks(ALL, STACK, STACK));
}

// One long window among 299 short ones.
TEST(EventsWorst, OneLongWindowOfMany) {
    std::vector<cusEventWindow> windows = stacks(299 * 1000, 1000, 1000);
    windows.push_back({0, ALL});
    row("60M/one-long-of-300", TARGETS, ALL, windows);
}

// Few windows, each made whole: a crowded tile would be the work of one block. Calls of fewer than 2^20 events have no helpers
// until one of them was crowded.
TEST(EventsWorst, ShortWindowsCrowded) {
    const std::pair<const char *, Content> contents[] = {{"uniform", anywhere},
                                                         {"one-pixel",
                                                          [](uint64_t) {
                                                              return std::pair{333, 222};
                                                          }},
                                                         {"one-column",
                                                          [](uint64_t r) {
                                                              return std::pair{uint64_t{333}, anywhere(r).second};
                                                          }},
                                                         {"one-tile", [](uint64_t r) {
                                                              return std::pair{320 + r % 16, 208 + (r >> 16) % 16};
                                                          }}};
    const std::vector<cusRepresentationKind> kinds = {
        CUS_REPR_HISTOGRAM,         CUS_REPR_MDES,       CUS_REPR_MDES_COUNT,   CUS_REPR_TENCODE,
        CUS_REPR_STACKED_HISTOGRAM, CUS_REPR_VOXEL_GRID, CUS_REPR_TIME_SURFACE, CUS_REPR_EVENT_DIFF};
    for (const auto &[name, content] : contents) {
        row(std::string("20-windows-of-200k/") + name, kinds, 20 * STACK, stacks(20 * STACK, STACK, STACK), content);
        row(std::string("one-window-of-200k/") + name, kinds, STACK, {{0, STACK}}, content);
    }
}

TEST(EventsWorst, OverlappingAndEmpty) {
    row("300-windows-overlap-100-fold", TARGETS, 798000, stacks(798000, STACK, STACK / 100));
    row("300-windows-empty", TARGETS, STACK, std::vector<cusEventWindow>(300, {7, 7}));
}

// Frames in a larger image: rows start `shift` pixels past an aligned address and have a gap of `gap` pixels after them.
void placedRow(const std::string &name, const std::vector<cusRepresentationKind> &kinds, size_t events,
               const std::vector<cusEventWindow> &windows, int shift, int gap) {
    perf::bothSpaces([&](cusSpace space) {
        std::optional<Input> input;
        for (const cusRepresentationKind kind : kinds) {
            perf::Row row(std::string("worst/events/") + cusRepresentationName(kind) + "/" + name, space, 0);
            if (perf::listing()) {
                row.report();
                continue;
            }
            if (!input)
                input.emplace(events, space, anywhere, 0, steady);
            const cusRepresentation r = cusRepresentationDefaults(kind);
            int type = 0;
            check(cusRepresentationType(&r, &type));
            const int rows = static_cast<int>(windows.size()) * ROWS;
            Mat memory(rows, COLS + shift + gap, type, space);
            cusMat frames = CUS_MAT_INIT;
            check(cusMatRegion(&memory.mat, shift, 0, COLS, rows, &frames));
            measure(row, kind, *input, windows, &frames);
        }
    });
}

// Frames of which most are only filled.
TEST(EventsWorst, MostlyEmptyPadded) {
    std::vector<cusEventWindow> windows(20, {7, 7});
    windows[10] = {0, STACK};
    placedRow("20-windows-mostly-empty-padded", TARGETS, STACK, windows, 0, 4);
}

// Pixels of 1 to 20 bytes: rows start that far from a multiple of 16.
TEST(EventsWorst, FramesAnywhere) {
    for (const int shift : {0, 1})
        placedRow(shift ? "20-windows-of-200k/frames-anywhere" : "20-windows-of-200k/frames-aligned",
                  {CUS_REPR_HISTOGRAM, CUS_REPR_MDES, CUS_REPR_MDES_COUNT, CUS_REPR_TENCODE, CUS_REPR_STACKED_HISTOGRAM,
                   CUS_REPR_VOXEL_GRID, CUS_REPR_TIME_SURFACE, CUS_REPR_EVENT_DIFF},
                  20 * STACK, stacks(20 * STACK, STACK, STACK), shift, 0);
}

TEST(EventsWorst, Unaligned) {
    row("60M/unaligned", TARGETS, ALL, stacks(ALL, STACK, STACK), anywhere, 1);
    row("60M-one-window/unaligned", TARGETS, ALL, {{0, ALL}}, anywhere, 1);
}

} // namespace

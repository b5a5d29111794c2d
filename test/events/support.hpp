// What the tests of event frames share: random events, events and stackers in either space, and the comparison with the
// reference.
#pragma once

#include "reference/events.hpp"
#include "../support.hpp"

#include "cusight/events.h"

namespace events {

using reference::Events;

// Random events over a frame, in half of the cases a little past it too. `crowd` percent fall on a few pixels, in bursts.
inline Events randomEvents(size_t n, int rows, int cols, int crowd, std::mt19937_64 &random, int64_t max_step = 20) {
    Events events;
    int64_t t = static_cast<int64_t>(random() % 1000000);
    const bool past = random() & 1;
    int hot_x = 0, hot_y = 0, left = 0, polarity = 0;
    for (size_t i = 0; i < n; ++i) {
        t += static_cast<int64_t>(random() % static_cast<uint64_t>(max_step + 1));
        if (left-- <= 0) {
            left = static_cast<int>(random() % 64);
            hot_x = static_cast<int>(random() % 3) % cols, hot_y = static_cast<int>(random() % 2) % rows;
            polarity = static_cast<int>(random() & 1);
        }
        if (static_cast<int>(random() % 100) < crowd)
            events.add(t, hot_x, hot_y, polarity);
        else
            events.add(t, static_cast<int>(random() % static_cast<uint64_t>(cols + (past ? cols / 8 + 1 : 0))),
                       static_cast<int>(random() % static_cast<uint64_t>(rows + (past ? rows / 8 + 1 : 0))),
                       random() & 1 ? static_cast<int>(1 + random() % 3) : 0);
    }
    return events;
}

// Where events crowd. HOT_PIXEL: a fifth of them on one pixel. LAMP: three in ten on 16 x 16 pixels.
enum class Content { UNIFORM, HOT_PIXEL, LAMP, ONE_PIXEL, HALF_ON_ONE_PIXEL, TWO_PIXELS, ONE_ROW, ONE_COLUMN, ONE_TILE };
constexpr Content CONTENTS[] = {Content::UNIFORM,   Content::HOT_PIXEL,         Content::LAMP,
                                Content::ONE_PIXEL, Content::HALF_ON_ONE_PIXEL, Content::TWO_PIXELS,
                                Content::ONE_ROW,   Content::ONE_COLUMN,        Content::ONE_TILE};

inline Events eventsOf(Content content, size_t n, int rows, int cols, std::mt19937_64 &random) {
    Events events;
    int64_t t = 1000;
    for (size_t i = 0; i < n; ++i) {
        int x = static_cast<int>(random() % static_cast<uint64_t>(cols + 1)), // a few outside
            y = static_cast<int>(random() % static_cast<uint64_t>(rows));
        const uint64_t percent = random() % 100;
        if (content == Content::ONE_PIXEL || (content == Content::HALF_ON_ONE_PIXEL && percent < 50) ||
            (content == Content::HOT_PIXEL && percent < 20))
            x = cols / 3, y = rows - 1;
        else if (content == Content::LAMP && percent < 30)
            x = cols / 3 + x % std::min(16, cols - cols / 3), y = y % std::min(rows, 16);
        else if (content == Content::TWO_PIXELS)
            x = i % 2 ? cols / 3 : cols - 1, y = i % 2 ? rows - 1 : 0;
        else if (content == Content::ONE_ROW)
            y = rows / 2;
        else if (content == Content::ONE_COLUMN)
            x = cols / 2;
        else if (content == Content::ONE_TILE)
            x %= std::min(cols, 64), y %= std::min(rows, 16);
        events.add(t += static_cast<int64_t>(random() & 1), x, y, random() % 8 ? 1 : 0);
    }
    return events;
}

// The events in either space, in arrays that start `shift` events past an aligned address.
class SpaceEvents {
  public:
    SpaceEvents(const Events &events, cusSpace space, size_t shift = 0) {
        view.count = events.size();
        view.space = space;
        view.x = put(0, events.x, space, shift);
        view.y = put(1, events.y, space, shift);
        view.p = put(2, events.p, space, shift);
        view.t = put(3, events.t, space, shift);
    }
    cusEventArrays view = {};

  private:
    template<class T>
    const T *put(int k, const std::vector<T> &values, cusSpace space, size_t shift) {
        if (values.empty())
            return nullptr;
        cusMat &m = memory_[k];
        std::vector<T> shifted(values.size() + shift);
        std::copy(values.begin(), values.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
        const int bytes = static_cast<int>(shifted.size() * sizeof(T));
        CUS_EXPECT_OK(cusMatCreate(&m, 1, bytes, CUS_8UC1, space));
        cusMat host = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusMatWrap(&host, 1, bytes, CUS_8UC1, CUS_HOST, shifted.data(), 0));
        CUS_EXPECT_OK(space == CUS_DEVICE ? cusMatUpload(&host, &m, nullptr) : cusMatCopy(&host, &m, nullptr));
        return static_cast<const T *>(m.data) + shift;
    }
    support::Mat memory_[4];
};

// Replaces the contents of arrays on the device; complete at return.
inline void copyOnDevice(const SpaceEvents &from, const SpaceEvents &to) {
    const auto copy = [&](const void *source, const void *target, size_t size) {
        support::Mat a, b;
        const int bytes = static_cast<int>(from.view.count * size);
        CUS_ASSERT_OK(cusMatWrap(&a, 1, bytes, CUS_8UC1, CUS_DEVICE, const_cast<void *>(source), 0));
        CUS_ASSERT_OK(cusMatWrap(&b, 1, bytes, CUS_8UC1, CUS_DEVICE, const_cast<void *>(target), 0));
        CUS_ASSERT_OK(cusMatCopy(&a, &b, nullptr));
    };
    copy(from.view.x, to.view.x, 2);
    copy(from.view.y, to.view.y, 2);
    copy(from.view.p, to.view.p, 1);
    copy(from.view.t, to.view.t, 8);
    CUS_ASSERT_OK(cusStreamSynchronize(nullptr));
}

// n events in host memory.
inline cusEventArrays slice(const Events &events, size_t from, size_t n) {
    return {events.x.data() + from, events.y.data() + from, events.p.data() + from, events.t.data() + from, n, CUS_HOST};
}

inline cusWindowing randomWindowing(std::mt19937_64 &random) {
    cusWindowing w = cusWindowingDefaults();
    w.unit = random() & 1 ? CUS_WINDOW_COUNT : CUS_WINDOW_DURATION;
    w.length = 1 + random() % (w.unit == CUS_WINDOW_COUNT ? 400 : 2000);
    w.stride = random() % 3 ? 0 : 1 + w.length / 4 + random() % (2 * w.length);
    w.keep_incomplete = static_cast<int>(random() & 1);
    return w;
}

class Stacker {
  public:
    Stacker(int rows, int cols, cusSpace space, const std::vector<cusRepresentation> &representations) {
        CUS_EXPECT_OK(cusEventStackerCreate(&object, rows, cols, space, representations.data(),
                                            static_cast<int>(representations.size())));
    }
    support::Owned<cusEventStackerDestroy> object;
};

inline std::vector<double> values(const cusMat &mat) {
    switch (CUS_DEPTH(mat.type)) {
    case CUS_8U: {
        const auto v = support::elements<uint8_t>(mat);
        return {v.begin(), v.end()};
    }
    case CUS_8S: {
        const auto v = support::elements<int8_t>(mat);
        return {v.begin(), v.end()};
    }
    case CUS_16F: {
        std::vector<double> v;
        for (const uint16_t bits : support::elements<uint16_t>(mat))
            v.push_back(reference::halfValue(bits));
        return v;
    }
    default: {
        const auto v = support::elements<float>(mat);
        return {v.begin(), v.end()};
    }
    }
}

// The largest difference that the header allows for a frame of n events.
inline double tolerance(const cusRepresentation &r, double n, double expected) {
    if (r.kind == CUS_REPR_VOXEL_GRID)
        return r.normalize || r.map || r.depth == CUS_16F
                   ? 0
                   : std::ldexp(n, -25) + std::ldexp(std::fabs(expected), -24) + 1e-12;
    return 0;
}

inline void expectFrames(const cusMat &frames, const Events &events, const std::vector<cusEventWindow> &windows, int rows,
                         int cols, const cusRepresentation &r, const cusEventSpan *spans = nullptr) {
    const std::vector<double> got = values(frames);
    const size_t size = got.size() / windows.size();
    for (size_t w = 0; w < windows.size(); ++w) {
        const std::vector<double> expected =
            reference::frame(events, windows[w], rows, cols, r, spans ? spans + w : nullptr);
        ASSERT_EQ(size, expected.size());
        const double n = static_cast<double>(windows[w].last - windows[w].first);
        for (size_t i = 0; i < size; ++i)
            ASSERT_TRUE(got[w * size + i] == expected[i] ||
                        std::fabs(got[w * size + i] - expected[i]) <= tolerance(r, n, expected[i]))
                << cusRepresentationName(r.kind) << ", " << rows << " x " << cols << ", window " << w << " with " << n
                << " events, value " << i << ": got " << got[w * size + i] << ", expected " << expected[i];
    }
}

inline cusRepresentation repr(cusRepresentationKind kind) {
    return cusRepresentationDefaults(kind);
}

inline std::vector<cusRepresentation> allKinds() {
    std::vector<cusRepresentation> all;
    for (int kind = 0; cusRepresentationName(static_cast<cusRepresentationKind>(kind)); ++kind)
        all.push_back(repr(static_cast<cusRepresentationKind>(kind)));
    return all;
}

// Every option different from its default.
inline std::vector<cusRepresentation> otherOptions(std::mt19937_64 &random) {
    std::vector<cusRepresentation> all = allKinds();
    for (cusRepresentation &r : all) {
        r.swap_channels = 1;
        r.channels = 1 + static_cast<int>(random() % 16);
        r.depth = r.kind == CUS_REPR_MDES ? random() & 1 ? CUS_8S : CUS_32F : random() & 1 ? CUS_16F : CUS_32F;
        r.cutoff = 1 + static_cast<int>(random() % 20);
        r.tau = 1 + static_cast<double>(random() % 3000);
        r.normalize = 1 + static_cast<int>(random() & 1);
        r.surface = static_cast<int>(random() % 3);
        r.lower = -static_cast<int>(random() % 8);
        r.upper = static_cast<int>(random() % 8);
        r.clip_each_event = static_cast<int>(random() & 1);
        r.scale = 0.2;
        r.clip = 1;
    }
    return all;
}

// Calls with at most as many representations as a stacker takes.
template<class Call>
void forParts(const std::vector<cusRepresentation> &representations, Call call) {
    constexpr size_t MAX_LISTED = 8;
    for (size_t first = 0; first < representations.size(); first += MAX_LISTED)
        call(std::vector<cusRepresentation>(
            representations.begin() + static_cast<std::ptrdiff_t>(first),
            representations.begin() + static_cast<std::ptrdiff_t>(std::min(first + MAX_LISTED, representations.size()))));
}

inline void checkPart(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                      const std::vector<cusRepresentation> &representations, cusSpace space, size_t shift) {
    const SpaceEvents input(events, space, shift);
    const Stacker stacker(rows, cols, space, representations);
    std::vector<support::Mat> frames(representations.size());
    CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), windows.size(), frames.data(), nullptr));
    for (size_t i = 0; i < representations.size(); ++i)
        expectFrames(frames[i], events, windows, rows, cols, representations[i]);
    uint64_t skipped = 0, expected = 0;
    CUS_EXPECT_OK(cusEventStackerSkipped(stacker.object, &skipped, nullptr));
    for (const cusEventWindow &w : windows)
        expected += reference::skipped(events, w, rows, cols);
    EXPECT_EQ(skipped, expected);
}

inline void check(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                  const std::vector<cusRepresentation> &representations, cusSpace space, size_t shift = 0) {
    forParts(representations, [&](const std::vector<cusRepresentation> &part) {
        checkPart(events, windows, rows, cols, part, space, shift);
    });
}

inline void expectSamePart(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                           const std::vector<cusRepresentation> &representations) {
    std::vector<support::Mat> frames[2] = {std::vector<support::Mat>(representations.size()),
                                           std::vector<support::Mat>(representations.size())};
    uint64_t skipped[2] = {0, 0};
    for (cusSpace space : {CUS_HOST, CUS_DEVICE}) {
        const SpaceEvents input(events, space);
        const Stacker stacker(rows, cols, space, representations);
        CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), windows.size(),
                                    frames[space == CUS_DEVICE].data(), nullptr));
        CUS_EXPECT_OK(cusEventStackerSkipped(stacker.object, &skipped[space == CUS_DEVICE], nullptr));
    }
    EXPECT_EQ(skipped[0], skipped[1]);
    for (size_t k = 0; k < representations.size(); ++k) {
        SCOPED_TRACE(testing::Message() << cusRepresentationName(representations[k].kind) << " of "
                                        << representations[k].channels << " channels, " << rows << " x " << cols << ", "
                                        << events.size() << " events");
        EXPECT_TRUE(support::elements(frames[0][k]) == support::elements(frames[1][k]));
    }
}

// Collects what a pipeline delivers.
struct Collected {
    std::vector<std::vector<double>> values; // of each representation, all frames in order
    std::vector<cusEventWindow> windows;
    uint64_t first = 0;
    size_t stop_at = SIZE_MAX;
    static cusStatus sink(void *user, const cusFrameBatch *batch) {
        Collected &g = *static_cast<Collected *>(user);
        if (g.windows.size() + batch->count > g.stop_at)
            return CUS_ERROR_IO;
        if (g.windows.empty())
            g.first = batch->first;
        EXPECT_EQ(batch->first, g.first + g.windows.size());
        g.values.resize(static_cast<size_t>(batch->representations));
        if (batch->stream)
            CUS_EXPECT_OK(cusStreamSynchronize(batch->stream));
        for (size_t i = 0; i < g.values.size(); ++i) {
            const std::vector<double> v = events::values(batch->frames[i]);
            g.values[i].insert(g.values[i].end(), v.begin(), v.end());
        }
        g.windows.insert(g.windows.end(), batch->windows, batch->windows + batch->count);
        return CUS_OK;
    }
};

class Pipeline {
  public:
    Pipeline(int rows, int cols, const std::vector<cusRepresentation> &r, const cusEventPipelineOptions &options,
             Collected *to) {
        CUS_EXPECT_OK(cusEventPipelineCreate(&object, rows, cols, r.data(), static_cast<int>(r.size()), &options,
                                             Collected::sink, to));
    }
    support::Owned<cusEventPipelineDestroy> object;
};

// The device's frames equal the host's, and so does the number of skipped events.
inline void expectSameAsOnHost(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                               const std::vector<cusRepresentation> &representations) {
    forParts(representations,
             [&](const std::vector<cusRepresentation> &part) { expectSamePart(events, windows, rows, cols, part); });
}

} // namespace events

// Subject of the search: template matching.
#include "cliffs.hpp"

#include "cusight/match.h"

#include <cstring>
#include <memory>

namespace perf::cliffs {
namespace {

constexpr int MAX_SIDE = 200; // of a template

struct Matching {
    Matching(const Scene &s, cusSpace space, int type, Size t, const cusMatcherOptions &options, bool masked)
        : frame(s.size.rows, s.size.cols, type, space, s.offset), templ(t.rows, t.cols, type, space, 0),
          mask(t.rows, t.cols, CUS_8UC1, space, 0) {
        const int channels = type == CUS_8UC3 ? 3 : 1;
        frame.fill(bytesOf(makeFrame(s.size, channels, s.content, s.seed), type));
        // Every other scene has a template of the same content, the others a natural one.
        templ.fill(bytesOf(makeFrame(t, channels, s.seed % 2 ? 0 : s.content, s.seed / 2), type));
        std::vector<uint8_t> set(t.pixels(), 1);
        for (size_t i = 0; i < set.size(); i += 3)
            set[i] = 0;
        mask.fill(set);
        cusMatcherOptions o = options;
        o.mask = masked ? &mask.view : nullptr;
        check(cusMatcherCreate(&matcher, &templ.view, 1, s.size.rows, s.size.cols, &o, nullptr));
    }
    ~Matching() { cusMatcherDestroy(matcher); }
    Matching(const Matching &) = delete;
    Matching &operator=(const Matching &) = delete;

    static std::vector<uint8_t> bytesOf(const std::vector<uint8_t> &pixels, int type) {
        if (type != CUS_32FC1)
            return pixels;
        const std::vector<float> values(pixels.begin(), pixels.end());
        std::vector<uint8_t> bytes(values.size() * sizeof(float));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    }

    Placed frame, templ, mask;
    cusMatcher *matcher = nullptr;
};

Maker drawMatcher(Random &random, cusSpace space, Size, std::string &text) {
    const int type = drawn(random, std::vector<int>{CUS_8UC1, CUS_8UC1, CUS_8UC3, CUS_32FC1});
    const Size t = {drawn(random, 4, MAX_SIDE), drawn(random, 4, MAX_SIDE)};
    cusMatcherOptions o = cusMatcherDefaults();
    o.method = static_cast<cusMatchMethod>(drawn(random, 0, 5));
    o.max_matches = drawn(random, std::vector<int>{1, 1, 1, 10, 100});
    o.min_distance = std::max(1, std::min(t.cols, t.rows) / 2);
    const bool masked = (o.method == CUS_MATCH_SQDIFF || o.method == CUS_MATCH_CCORR) && drawn(random, 0, 2) == 0;
    text = std::string(type == CUS_8UC1   ? "8UC1"
                       : type == CUS_8UC3 ? "8UC3"
                                          : "32FC1") +
           ", template " + t.text() + ", method " + std::to_string(o.method) + ", matches " +
           std::to_string(o.max_matches) + (masked ? ", mask, " : ", ");
    return [=](const Scene &scene) -> Work {
        const auto matching = std::make_shared<Matching>(scene, space, type, t, o, masked);
        return
            [=](cusStream stream, int) { return cusMatcherRun(matching->matcher, &matching->frame.view, nullptr, stream); };
    };
}

} // namespace

void addMatch(std::vector<Subject> &subjects) {
    subjects.push_back({"cusMatcherRun", frameContents(), true, true, MAX_SIDE, drawMatcher});
}

} // namespace perf::cliffs

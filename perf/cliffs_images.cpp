// Subjects of the search: integral, framediff, hsv, stereo.
#include "cliffs.hpp"

#include "cusight/framediff.h"
#include "cusight/hsv.h"
#include "cusight/integral.h"
#include "cusight/stereo.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace perf::cliffs {
namespace {

std::string number(const char *name, int value) {
    return std::string(name) + " " + std::to_string(value) + ", ";
}

// ---- integral --------------------------------------------------------------------------------------------------------

struct Tables {
    Tables(const Scene &s, cusSpace space, int type, int depth, bool squares)
        : src(s.size.rows, s.size.cols, type, space, s.offset),
          sum(s.size.rows + 1, s.size.cols + 1, depth == CUS_32S ? CUS_32SC1 : CUS_64FC1, space, s.out_offset) {
        if (squares)
            sqsum = std::make_unique<Placed>(s.size.rows + 1, s.size.cols + 1, CUS_64FC1, space, s.out_offset);
        check(cusIntegratorCreate(&integrator, s.size.rows, s.size.cols, space));
    }
    ~Tables() { cusIntegratorDestroy(integrator); }
    Tables(const Tables &) = delete;
    Tables &operator=(const Tables &) = delete;
    Placed src, sum;
    std::unique_ptr<Placed> sqsum;
    cusIntegrator *integrator = nullptr;
};

Maker drawIntegral(Random &random, cusSpace space, Size, std::string &text) {
    const int type = drawn(random, std::vector<int>{CUS_8UC1, CUS_8UC1, CUS_32FC1});
    const int depth = type == CUS_8UC1 ? drawn(random, std::vector<int>{CUS_32S, CUS_64F}) : CUS_64F;
    const bool squares = drawn(random, 0, 1) != 0;
    text = std::string(type == CUS_8UC1 ? "8U" : "32F") + (depth == CUS_32S ? " to 32S, " : " to 64F, ") +
           (squares ? "squares, " : "");
    return [=](const Scene &scene) -> Work {
        const auto tables = std::make_shared<Tables>(scene, space, type, depth, squares);
        std::vector<uint8_t> bytes = makeFrame(scene.size, 1, scene.content, scene.seed);
        if (type == CUS_32FC1) {
            const std::vector<float> values(bytes.begin(), bytes.end());
            bytes.resize(values.size() * sizeof(float));
            std::memcpy(bytes.data(), values.data(), bytes.size());
        }
        tables->src.fill(bytes);
        return [=](cusStream stream, int) {
            const cusIntegralOptions options = {depth};
            return cusIntegratorRun(tables->integrator, &tables->src.view, &tables->sum.view,
                                    squares ? &tables->sqsum->view : nullptr, &options, stream);
        };
    };
}

// ---- framediff -------------------------------------------------------------------------------------------------------

const std::vector<std::string> &changes() {
    static const std::vector<std::string> names = {"3 % in discs",    "no change",      "all bytes",
                                                   "85 % at random",  "30 % at random", "3 % at random",
                                                   "alternate bytes", "one half",       "one row"};
    return names;
}

// The frame after `before`; changed bytes differ by 100.
std::vector<uint8_t> changed(std::vector<uint8_t> bytes, Size size, int channels, size_t content, unsigned seed) {
    Random random(seed);
    const size_t row = static_cast<size_t>(size.cols) * static_cast<size_t>(channels), half = bytes.size() / 2;
    const auto flip = [&](size_t i) { bytes[i] = static_cast<uint8_t>(bytes[i] + 100); };
    const unsigned percent = content == 3 ? 85 : content == 4 ? 30 : 3;
    for (size_t i = 0; content && i < bytes.size(); ++i)
        if (content == 2 || (content >= 3 && content <= 5 && random() % 100 < percent) || (content == 6 && i % 2) ||
            (content == 7 && i < half) || (content == 8 && i / row == static_cast<size_t>(size.rows) / 2))
            flip(i);
    if (content)
        return bytes;
    constexpr int RADIUS = 8; // discs of about 200 pixels
    for (size_t n = size.pixels() * 3 / 100 / 201; n > 0; --n) {
        const int x0 = drawn(random, 0, size.cols - 1), y0 = drawn(random, 0, size.rows - 1);
        for (int y = std::max(0, y0 - RADIUS); y < std::min(size.rows, y0 + RADIUS); ++y)
            for (int x = std::max(0, x0 - RADIUS); x < std::min(size.cols, x0 + RADIUS); ++x)
                if ((x - x0) * (x - x0) + (y - y0) * (y - y0) < RADIUS * RADIUS)
                    for (int c = 0; c < channels; ++c)
                        flip(static_cast<size_t>(y) * row + static_cast<size_t>(x * channels + c));
    }
    return bytes;
}

struct Frames {
    Frames(const Scene &s, cusSpace space, int type)
        : prev(s.size.rows, s.size.cols, type, space, s.offset), cur(s.size.rows, s.size.cols, type, space, s.offset),
          dst(s.size.rows, s.size.cols, CUS_8UC3, space, s.out_offset) {
        const int channels = CUS_CHANNELS(type);
        const auto before = makeFrame({s.size.cols * channels, s.size.rows}, 1, 0, 1);
        prev.fill(before);
        cur.fill(changed(before, s.size, channels, s.content, s.seed));
    }
    Placed prev, cur, dst;
};

Maker drawPicture(Random &random, cusSpace space, std::string &text, bool heatmap) {
    const int type = drawn(random, std::vector<int>{CUS_8UC1, CUS_8UC3, CUS_8UC4});
    text = number("channels", CUS_CHANNELS(type));
    return [=](const Scene &scene) -> Work {
        const auto frames = std::make_shared<Frames>(scene, space, type);
        return [=](cusStream stream, int) {
            return heatmap ? cusHeatmap(&frames->prev.view, &frames->cur.view, &frames->dst.view, nullptr, stream)
                           : cusNoiseView(&frames->prev.view, &frames->cur.view, &frames->dst.view, 30, stream);
        };
    };
}

struct Codec : Frames {
    Codec(const Scene &s, cusSpace space, int type, const cusDiffOptions &options) : Frames(s, space, type) {
        check(cusDiffEncoderCreate(&encoder, s.size.rows, s.size.cols, type, space, &options));
        check(cusDiffDecoderCreate(&decoder, s.size.rows, s.size.cols, type, space));
        check(cusSparseDiffCreate(&diff, s.size.rows, s.size.cols, type, 0, 0, space));
        check(cusDiffEncoderReset(encoder, &prev.view, nullptr));
        check(cusDiffEncode(encoder, &cur.view, &diff, nullptr)); // there to decode; encoding goes on with prev
        if (space == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
    }
    ~Codec() {
        cusDiffEncoderDestroy(encoder);
        cusDiffDecoderDestroy(decoder);
        cusSparseDiffRelease(&diff);
    }
    Codec(const Codec &) = delete;
    Codec &operator=(const Codec &) = delete;
    cusDiffEncoder *encoder = nullptr;
    cusDiffDecoder *decoder = nullptr;
    cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
};

Maker drawCodec(Random &random, cusSpace space, std::string &text, bool encode) {
    const int type = drawn(random, std::vector<int>{CUS_8UC1, CUS_8UC3});
    cusDiffOptions options = cusDiffDefaults();
    options.min_neighbors = encode && drawn(random, 0, 3) == 0 ? drawn(random, 1, 4) : 0;
    text = number("channels", CUS_CHANNELS(type)) + (encode ? number("min_neighbors", options.min_neighbors) : "");
    return [=](const Scene &scene) -> Work {
        const auto codec = std::make_shared<Codec>(scene, space, type, options);
        if (!encode)
            return [=](cusStream stream, int) { return cusDiffDecode(codec->decoder, &codec->diff, stream); };
        return [=](cusStream stream, int i) { // there and back: every call sees the same changes
            return cusDiffEncode(codec->encoder, i % 2 ? &codec->cur.view : &codec->prev.view, &codec->diff, stream);
        };
    };
}

// ---- hsv -------------------------------------------------------------------------------------------------------------

Maker drawHsv(Random &random, cusSpace space, std::string &text) {
    const bool mask = drawn(random, 0, 1) != 0;
    text = mask ? "with a mask, " : "";
    return [=](const Scene &scene) -> Work {
        struct Buffers {
            Buffers(const Scene &s, cusSpace where)
                : src(s.size.rows, s.size.cols, CUS_8UC3, where, s.offset),
                  mask(s.size.rows, s.size.cols, CUS_8UC1, where, s.out_offset) {}
            Placed src, mask;
            Mat count;
        };
        const auto buffers = std::make_shared<Buffers>(scene, space);
        buffers->src.fill(makeFrame(scene.size, 3, scene.content, scene.seed));
        return [=](cusStream stream, int) {
            const cusHsvRange range = {{100, 120, 60}, {130, 255, 255}};
            return cusHsvCount(&buffers->src.view, &range, &buffers->count.mat, mask ? &buffers->mask.view : nullptr,
                               stream);
        };
    };
}

// ---- stereo ----------------------------------------------------------------------------------------------------------

constexpr int MAX_SHIFTS = 256;

struct StereoPair {
    StereoPair(const Scene &s, cusSpace space, const cusStereoOptions &o)
        : left(s.size.rows, s.size.cols, CUS_8UC1, space, s.offset),
          right(s.size.rows, s.size.cols, CUS_8UC1, space, s.offset),
          elevation(s.size.rows, s.size.cols, o.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1, space, s.out_offset),
          contours(s.size.rows, s.size.cols, CUS_8UC1, space, s.out_offset) {
        const auto base = makeFrame({s.size.cols + 12, s.size.rows}, 1, s.content, s.seed);
        std::vector<uint8_t> image;
        for (const int shift : {0, 12}) {
            image.clear();
            for (int y = 0; y < s.size.rows; ++y) {
                const auto row = base.begin() + static_cast<std::ptrdiff_t>(y) * (s.size.cols + 12) + shift;
                image.insert(image.end(), row, row + s.size.cols);
            }
            (shift ? right : left).fill(image);
        }
        check(cusContourMapperCreate(&mapper, s.size.rows, s.size.cols, CUS_8UC1, space, &o));
    }
    ~StereoPair() { cusContourMapperDestroy(mapper); }
    StereoPair(const StereoPair &) = delete;
    StereoPair &operator=(const StereoPair &) = delete;
    Placed left, right, elevation, contours;
    cusContourMapper *mapper = nullptr;
};

Maker drawStereo(Random &random, cusSpace space, std::string &text) {
    cusStereoOptions o = drawn(random, 0, 1) ? cusStereoDefaults() : cusStereoClassic();
    o.shifts = drawn(random, std::vector<int>{1, 16, 30, 64, 128, MAX_SHIFTS});
    o.window = drawn(random, std::vector<int>{1, 7, 21, 63});
    o.agreement = static_cast<cusStereoAgreement>(drawn(random, 0, 2));
    text = number("shifts", o.shifts) + number("window", o.window) + number("agreement", o.agreement) +
           number("fill", o.fill) + number("median", o.median);
    return [=](const Scene &scene) -> Work {
        const auto pair = std::make_shared<StereoPair>(scene, space, o);
        return [=](cusStream stream, int) {
            return cusContourMap(pair->mapper, &pair->left.view, &pair->right.view, &pair->elevation.view,
                                 &pair->contours.view, stream);
        };
    };
}

} // namespace

void addImages(std::vector<Subject> &subjects) {
    subjects.push_back({"cusIntegratorRun", frameContents(), true, true, 1, drawIntegral});
    for (const bool heatmap : {true, false})
        subjects.push_back({heatmap ? "cusHeatmap" : "cusNoiseView", changes(), true, true, 1,
                            [=](Random &random, cusSpace space, Size, std::string &text) {
                                return drawPicture(random, space, text, heatmap);
                            }});
    for (const bool encode : {true, false})
        subjects.push_back({encode ? "cusDiffEncode" : "cusDiffDecode", changes(), encode, true, 1,
                            [=](Random &random, cusSpace space, Size, std::string &text) {
                                return drawCodec(random, space, text, encode);
                            }});
    subjects.push_back(
        {"cusHsvCount", frameContents(), true, true, 1,
         [](Random &random, cusSpace space, Size, std::string &text) { return drawHsv(random, space, text); }});
    subjects.push_back(
        {"cusContourMap", frameContents(), true, true, MAX_SHIFTS,
         [](Random &random, cusSpace space, Size, std::string &text) { return drawStereo(random, space, text); }});
}

} // namespace perf::cliffs

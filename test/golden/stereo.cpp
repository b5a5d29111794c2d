#include "golden/golden.hpp"

#include "stereo/support.hpp"

namespace golden {
namespace {

namespace ref = reference::stereo;
using stereo_test::Placed;

// A scene with slopes, flat parts and noise; the right image is the left one moved by a shift that varies.
struct Pair {
    ref::Bytes left, right;
};
Pair scene(int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    Pair pair = {ref::Bytes(rows, cols), ref::Bytes(rows, cols)};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            pair.left(y, x) = static_cast<uint8_t>((x / 24 + y / 16) % 3 ? next() : 3 * x + y);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            pair.right(y, x) = next() % 16 ? pair.left.value(y, x + (x / 16 + y / 16) % 12, CUS_STEREO_WRAP)
                                           : static_cast<uint8_t>(next());
    return pair;
}

// Brightness 0..1. Every value is a multiple of 1/256, so that it is exact.
ref::Image<float> floats(const ref::Bytes &bytes) {
    ref::Image<float> image(bytes.rows, bytes.cols);
    for (size_t i = 0; i < bytes.data.size(); ++i)
        image.data[i] = static_cast<float>(bytes.data[i]) / 256.0f;
    return image;
}

ref::Elevation holes(int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    ref::Elevation e(rows, cols);
    for (auto &v : e.data)
        v = static_cast<uint16_t>(next() % 3 ? 0 : 1 + next() % 200);
    return e;
}

// Patches of all sizes, slopes and noise.
ref::Elevation patches(int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    ref::Elevation e(rows, cols);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            e(y, x) = static_cast<uint16_t>(next() % 4 ? 1 + 40 * ((x / 7 + y / 5) % 3) + (x + y) % 3 : next() % 3);
    return e;
}

template<class T>
Data bytes(const ref::Image<T> &image) {
    return bytesOf(image.data);
}

// Calls a stage with placed inputs; the output has the layout too.
template<class T, class Call>
Data stage(const ref::Image<T> &image, int out_type, cusSpace space, Layout layout, Call call) {
    Placed<T> in(image, space, layoutFor(stereo_test::typeOf<T>(), layout));
    TestMat out(image.rows, image.cols, out_type, space, layoutFor(out_type, layout));
    CUS_EXPECT_OK(call(&in.mat, &out.mat));
    EXPECT_TRUE(in.intact() && out.intact());
    return out.get();
}

class Rows {
  public:
    Rows(int h, int w, uint32_t seed) : seed_(seed), size_(sizeName(h, w)) {}
    template<class Expected, class Computed>
    void add(const char *function, const std::string &options, const char *type, Expected expected, Computed computed) {
        list.push_back({function, options, seed_, size_, type, expected, computed});
    }
    std::vector<Row> list;

  private:
    uint32_t seed_;
    std::string size_;
};

template<class T>
void addFeatures(Rows &rows, const ref::Image<T> &image, const char *type) {
    for (const cusStereoBorder border : {CUS_STEREO_WRAP, CUS_STEREO_ZERO}) {
        cusStereoOptions o = cusStereoClassic();
        o.border = border;
        const std::string options = border == CUS_STEREO_WRAP ? "wrap" : "zero";
        rows.add(
            "cusStereoEdges", options, type, [=] { return bytes(ref::edges(image, o)); },
            [=](cusSpace space, Layout layout) {
                return stage(image, CUS_8UC1, space, layout,
                             [&](cusMat *in, cusMat *out) { return cusStereoEdges(in, out, &o, nullptr); });
            });
        rows.add(
            "cusStereoCensus", options, type, [=] { return bytes(ref::census(image, o)); },
            [=](cusSpace space, Layout layout) {
                return stage(image, CUS_8UC1, space, layout,
                             [&](cusMat *in, cusMat *out) { return cusStereoCensus(in, out, &o, nullptr); });
            });
    }
}

void addElevation(Rows &rows, const Pair &pair, const cusStereoOptions &o, const std::string &name) {
    const bool census = o.agreement == CUS_STEREO_CENSUS;
    const auto left = census ? ref::census(pair.left, o) : ref::edges(pair.left, o);
    const auto right = census ? ref::census(pair.right, o) : ref::edges(pair.right, o);
    rows.add(
        "cusStereoElevation", name, "8UC1", [=] { return bytes(ref::elevation(left, right, o)); },
        [=](cusSpace space, Layout layout) {
            Placed<uint8_t> other(right, space, layout);
            return stage(left, CUS_16UC1, space, layout,
                         [&](cusMat *in, cusMat *out) { return cusStereoElevation(in, &other.mat, out, &o, nullptr); });
        });
}

// Elevation with a fraction, and its confidence.
void addRefined(Rows &rows, const Pair &pair, const cusStereoOptions &o, const std::string &name) {
    const bool census = o.agreement == CUS_STEREO_CENSUS;
    const auto left = census ? ref::census(pair.left, o) : ref::edges(pair.left, o);
    const auto right = census ? ref::census(pair.right, o) : ref::edges(pair.right, o);
    rows.add(
        "cusStereoElevationConfidence", name, "8UC1",
        [=] {
            const ref::Matched matched = ref::match(left, right, o);
            Data data = bytes(matched.elevation);
            append(data, matched.confidence.data);
            return data;
        },
        [=](cusSpace space, Layout layout) {
            Placed<uint8_t> l(left, space, layout), r(right, space, layout);
            TestMat elevation(left.rows, left.cols, CUS_16UC1, space, layoutFor(CUS_16UC1, layout));
            TestMat confidence(left.rows, left.cols, CUS_8UC1, space, layout);
            CUS_EXPECT_OK(cusStereoElevationConfidence(&l.mat, &r.mat, &elevation.mat, &confidence.mat, &o, nullptr));
            EXPECT_TRUE(elevation.intact() && confidence.intact());
            Data data = elevation.get();
            append(data, confidence.get());
            return data;
        });
}

void addRefinements(Rows &rows, const Pair &pair, int cols) {
    for (const cusStereoAgreement agreement : {CUS_STEREO_EQUAL, CUS_STEREO_EDGE, CUS_STEREO_CENSUS})
        for (const int bits : {0, 4, 8}) {
            cusStereoOptions o = cusStereoDefaults();
            o.agreement = agreement;
            o.border = bits == 4 ? CUS_STEREO_WRAP : CUS_STEREO_ZERO;
            o.prefer_smaller = bits != 4;
            o.shifts = std::min(cols, bits == 8 ? 14 : 70);
            o.subpixel_bits = bits;
            o.min_confidence = bits == 4 ? 20 : 0;
            addRefined(rows, pair, o,
                       std::string(agreement == CUS_STEREO_EQUAL  ? "equal"
                                   : agreement == CUS_STEREO_EDGE ? "edge"
                                                                  : "census") +
                           " bits=" + std::to_string(bits));
        }
}

void addElevations(Rows &rows, const Pair &pair, int cols) {
    struct Case {
        const char *name;
        cusStereoBorder border;
        cusStereoAgreement agreement;
        int direction, window, prefer_smaller, left_right_check;
    };
    for (const Case &c : {Case{"wrap equal", CUS_STEREO_WRAP, CUS_STEREO_EQUAL, 1, 21, 0, -1},
                          Case{"zero equal prefer_smaller", CUS_STEREO_ZERO, CUS_STEREO_EQUAL, -1, 5, 1, -1},
                          Case{"wrap edge", CUS_STEREO_WRAP, CUS_STEREO_EDGE, -1, 9, 0, 0},
                          Case{"zero edge", CUS_STEREO_ZERO, CUS_STEREO_EDGE, 1, 1, 1, -1},
                          Case{"wrap census", CUS_STEREO_WRAP, CUS_STEREO_CENSUS, 1, 3, 0, 2},
                          Case{"zero census", CUS_STEREO_ZERO, CUS_STEREO_CENSUS, -1, 7, 1, 1}}) {
        cusStereoOptions o = cusStereoClassic();
        o.border = c.border, o.agreement = c.agreement, o.direction = c.direction, o.window = c.window;
        o.prefer_smaller = c.prefer_smaller, o.left_right_check = c.left_right_check;
        o.shifts = std::min(cols, c.window > 7 ? 40 : 14);
        addElevation(rows, pair, o, std::string(c.name) + " window=" + std::to_string(c.window));
    }
}

void addPaths(Rows &rows, const Pair &pair, int cols) {
    for (const int window : {1, 3, 15})
        for (const int count : {4, 8}) {
            cusStereoOptions o = cusStereoBest();
            o.border = count == 4 ? CUS_STEREO_WRAP : CUS_STEREO_ZERO;
            o.direction = window == 1 ? 1 : -1;
            o.prefer_smaller = window != 15;
            o.window = window, o.paths = count;
            o.shifts = std::min(cols, window == 15 ? 70 : 14);
            o.p1 = window == 15 ? 300 : 0;
            o.p2 = window == 15 ? 5000 : 0;
            o.subpixel_bits = window == 1 ? 0 : 4;
            addRefined(rows, pair, o, "paths=" + std::to_string(count) + " window=" + std::to_string(window));
        }
}

void addFill(Rows &rows, const ref::Elevation &e, const cusStereoOptions &o) {
    rows.add(
        "cusStereoFill",
        std::string(o.fill == CUS_FILL_ONCE    ? "once"
                    : o.fill == CUS_FILL_LOWER ? "lower"
                                               : "relax") +
            (o.border == CUS_STEREO_WRAP ? " wrap" : " zero"),
        "16UC1",
        [=] {
            return o.fill == CUS_FILL_RELAX  ? bytes(ref::fillRelax(e, o))
                   : o.fill == CUS_FILL_ONCE ? bytes(ref::fillOnce(e, o))
                                             : bytes(ref::fillLower(e));
        },
        [=](cusSpace space, Layout layout) {
            return stage(e, o.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1, space, layout,
                         [&](cusMat *in, cusMat *out) { return cusStereoFill(in, out, &o, nullptr); });
        });
}

void addSpeckles(Rows &rows, const ref::Elevation &e, const cusStereoOptions &o) {
    rows.add(
        "cusStereoFilterSpeckles", "size=" + std::to_string(o.speckle_size) + " bits=" + std::to_string(o.subpixel_bits),
        "16UC1", [=] { return bytes(ref::filterSpeckles(e, o)); },
        [=](cusSpace space, Layout layout) {
            return stage(e, CUS_16UC1, space, layout,
                         [&](cusMat *in, cusMat *out) { return cusStereoFilterSpeckles(in, out, &o, nullptr); });
        });
}

void addFills(Rows &rows, const ref::Elevation &e) {
    for (const cusStereoBorder border : {CUS_STEREO_WRAP, CUS_STEREO_ZERO})
        for (const cusStereoFillRule fill : {CUS_FILL_ONCE, CUS_FILL_LOWER, CUS_FILL_RELAX}) {
            cusStereoOptions o = cusStereoDefaults();
            o.border = border, o.fill = fill, o.iterations = 50;
            addFill(rows, e, o);
        }
}

template<class T>
void addEnds(Rows &rows, const ref::Image<T> &image, const char *type) {
    for (const int size : {3, 5})
        rows.add(
            "cusStereoMedian", "size=" + std::to_string(size), type, [=] { return bytes(ref::median(image, size)); },
            [=](cusSpace space, Layout layout) {
                return stage(image, stereo_test::typeOf<T>(), space, layout,
                             [&](cusMat *in, cusMat *out) { return cusStereoMedian(in, out, size, nullptr); });
            });
    for (const cusStereoLines lines : {CUS_LINES_MODULO, CUS_LINES_CROSSING}) {
        cusStereoOptions o = cusStereoDefaults();
        o.lines = lines;
        rows.add(
            "cusStereoContours", lines == CUS_LINES_MODULO ? "modulo" : "crossing", type,
            [=] { return bytes(ref::contours(image, o)); },
            [=](cusSpace space, Layout layout) {
                return stage(image, CUS_8UC1, space, layout,
                             [&](cusMat *in, cusMat *out) { return cusStereoContours(in, out, &o, nullptr); });
            });
    }
    rows.add(
        "cusStereoPicture", "", type, [=] { return ref::picture(image, nullptr); },
        [=](cusSpace space, Layout layout) {
            return stage(image, CUS_8UC3, space, layout,
                         [&](cusMat *in, cusMat *out) { return cusStereoPicture(in, nullptr, out, nullptr); });
        });
}

template<class T>
Data mapped(const ref::Image<T> &left, const ref::Image<T> &right, const cusStereoOptions &o, cusSpace space,
            Layout layout) {
    const int type = stereo_test::typeOf<T>(), out = o.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1;
    Placed<T> l(left, space, layoutFor(type, layout)), r(right, space, layoutFor(type, layout));
    TestMat elevation(left.rows, left.cols, out, space, layoutFor(out, layout));
    TestMat contours(left.rows, left.cols, CUS_8UC1, space, layout);
    support::Owned<cusContourMapperDestroy> mapper;
    CUS_EXPECT_OK(cusContourMapperCreate(&mapper, left.rows, left.cols, type, space, &o));
    if (mapper) {
        CUS_EXPECT_OK(cusContourMap(mapper, &l.mat, &r.mat, &elevation.mat, &contours.mat, nullptr));
    }
    EXPECT_TRUE(elevation.intact() && contours.intact());
    Data data = elevation.get();
    append(data, contours.get());
    return data;
}

template<class T>
Data expectedMap(const ref::Image<T> &left, const ref::Image<T> &right, const cusStereoOptions &o) {
    const bool census = o.agreement == CUS_STEREO_CENSUS;
    const auto matched = ref::match(census ? ref::census(left, o) : ref::edges(left, o),
                                    census ? ref::census(right, o) : ref::edges(right, o), o, &left);
    const auto elevation = ref::filterSpeckles(matched.elevation, o);
    const auto finish = [&](auto filled) {
        if (o.median)
            filled = ref::median(filled, o.median);
        Data data = bytes(filled);
        append(data, ref::contours(filled, o).data);
        return data;
    };
    if (o.fill == CUS_FILL_RELAX)
        return finish(ref::fillRelax(elevation, o));
    return finish(o.fill == CUS_FILL_ONCE    ? ref::fillOnce(elevation, o)
                  : o.fill == CUS_FILL_LOWER ? ref::fillLower(elevation)
                                             : elevation);
}

template<class T>
void addMap(Rows &rows, const ref::Image<T> &left, const ref::Image<T> &right, const char *type, const char *name,
            const cusStereoOptions &o) {
    rows.add(
        "cusContourMap", name, type, [=] { return expectedMap(left, right, o); },
        [=](cusSpace space, Layout layout) { return mapped(left, right, o, space, layout); });
}

template<class T>
void addMaps(Rows &rows, const ref::Image<T> &left, const ref::Image<T> &right, const char *type) {
    cusStereoOptions relaxed = cusStereoDefaults();
    relaxed.fill = CUS_FILL_RELAX, relaxed.iterations = 40, relaxed.median = 3;
    struct Case {
        const char *name;
        cusStereoOptions o;
    };
    cusStereoOptions filtered = cusStereoDefaults();
    filtered.speckle_size = 20, filtered.subpixel_bits = 4;
    cusStereoOptions sloped = cusStereoBest();
    sloped.p2_slope = 2, sloped.paths = 8;
    for (Case c : {Case{"classic", cusStereoClassic()}, Case{"default", cusStereoDefaults()}, Case{"relax", relaxed},
                   Case{"speckle_size=20", filtered}, Case{"paths=8 p2_slope=2", sloped}}) {
        c.o.shifts = std::min(c.o.shifts, left.cols);
        addMap(rows, left, right, type, c.name, c.o);
    }
}

template<class T>
ref::Image<T> imageOf(int h, int w, const Data &content, T scale) {
    ref::Image<T> image(h, w);
    for (size_t i = 0; i < content.size(); ++i)
        image.data[i] = static_cast<T>(content[i] * scale);
    return image;
}

cusStereoOptions anyOptions(Choices &choices, int cols) {
    cusStereoOptions o = cusStereoDefaults();
    o.border = choices.yes() ? CUS_STEREO_WRAP : CUS_STEREO_ZERO;
    o.agreement = static_cast<cusStereoAgreement>(choices.below(3));
    o.threshold = static_cast<float>(choices.below(100)) / 128.0f;
    o.shifts = choices.between(1, std::min(cols, 40));
    o.direction = choices.yes() ? 1 : -1;
    o.window = 1 + 2 * choices.below(12);
    o.prefer_smaller = choices.yes();
    o.left_right_check = choices.between(-1, 3);
    o.fill = static_cast<cusStereoFillRule>(choices.between(1, 3));
    o.iterations = choices.below(50);
    o.median = choices.yes() ? 3 + 2 * choices.below(2) : 0;
    o.lines = choices.yes() ? CUS_LINES_MODULO : CUS_LINES_CROSSING;
    o.levels = choices.between(1, 300);
    const int bits = choices.below(10);
    o.subpixel_bits = bits < 2 || bits > 8 ? 0 : bits;
    o.min_confidence = choices.yes() ? choices.below(80) : 0;
    o.speckle_size = choices.yes() ? choices.below(60) : 0;
    if (choices.yes()) {
        o.aggregation = CUS_STEREO_PATHS;
        o.agreement = CUS_STEREO_CENSUS;
        o.window = std::min<int>(o.window, CUS_STEREO_MAX_PATH_WINDOW);
        o.paths = choices.below(3) * 4;
        o.p1 = choices.below(40);
        o.p2 = choices.yes() ? 0 : choices.between(o.p1 ? o.p1 : 3 * o.window * o.window, CUS_STEREO_MAX_PENALTY);
    }
    return o;
}

} // namespace

Row anyStereo(Choices &choices) {
    const int h = choices.between(1, 24), w = choices.between(1, 70), kind = choices.below(8);
    const cusStereoOptions o = anyOptions(choices, w);
    const size_t n = static_cast<size_t>(h * w);
    const Data first = choices.content(n), second = choices.content(n);
    const Pair pair = {imageOf<uint8_t>(h, w, first, 1), imageOf<uint8_t>(h, w, second, 1)};
    const auto elevation = imageOf<uint16_t>(h, w, first, choices.yes() ? 1 : 257);
    const auto left = imageOf<float>(h, w, first, 1 / 256.0f), right = imageOf<float>(h, w, second, 1 / 256.0f);
    Rows rows(h, w, 0);
    if (kind == 0)
        addElevation(rows, pair, o, "any");
    else if (kind == 1)
        addFill(rows, elevation, o);
    else if (kind == 2)
        choices.yes() ? addFeatures(rows, left, "32FC1") : addFeatures(rows, pair.left, "8UC1");
    else if (kind == 3)
        choices.yes() ? addEnds(rows, left, "32FC1") : addEnds(rows, elevation, "16UC1");
    else if (kind == 7)
        addSpeckles(rows, elevation, o);
    else if (kind == 6)
        addRefined(rows, pair, o, "any");
    else if (kind == 4)
        addMap(rows, pair.left, pair.right, "8UC1", "any", o);
    else
        addMap(rows, left, right, "32FC1", "any", o);
    return rows.list[static_cast<size_t>(choices.below(static_cast<int>(rows.list.size())))];
}

std::vector<Row> stereoRows() {
    std::vector<Row> all;
    const uint32_t seed = 50;
    for (const auto &[h, w] : {std::pair(1, 1), std::pair(9, 17), std::pair(70, 131)}) {
        Rows rows(h, w, seed);
        const Pair pair = scene(h, w, seed);
        const auto left = floats(pair.left), right = floats(pair.right);
        const ref::Elevation e = holes(h, w, seed);
        cusStereoOptions o = cusStereoDefaults();
        o.iterations = 30;
        addFeatures(rows, pair.left, "8UC1");
        addFeatures(rows, left, "32FC1");
        addElevations(rows, pair, w);
        addRefinements(rows, pair, w);
        addPaths(rows, pair, w);
        addFills(rows, e);
        for (const int size : {2, 30}) {
            o.speckle_size = size, o.subpixel_bits = size == 2 ? 0 : 2;
            addSpeckles(rows, patches(h, w, seed), o);
        }
        o.speckle_size = o.subpixel_bits = 0;
        addEnds(rows, e, "16UC1");
        addEnds(rows, ref::fillRelax(e, o), "32FC1");
        addMaps(rows, pair.left, pair.right, "8UC1");
        addMaps(rows, left, right, "32FC1");
        all.insert(all.end(), rows.list.begin(), rows.list.end());
    }
    return all;
}

} // namespace golden

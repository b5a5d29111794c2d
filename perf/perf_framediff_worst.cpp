// Rows worst/framediff: contents, alignments and shapes that cost most. docs/internals/framediff.md counts their bytes.
#include "perf_framediff.hpp"

#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

using namespace perf::framediff;
using perf::check;

// A matrix without row padding, or a region at (region, region) of one, whose rows then start at any address.
class Placed {
  public:
    Placed(int rows, int cols, int type, cusSpace space, const std::vector<uint8_t> &tight, int region)
        : memory_(1, (rows + region) * (cols + region) * static_cast<int>(cusTypeSize(type)), CUS_8UC1, space) {
        const size_t pixel = cusTypeSize(type), step = static_cast<size_t>(cols + region) * pixel;
        check(cusMatWrap(&mat, rows, cols, type, space, memory_.bytes() + static_cast<size_t>(region) * (step + pixel),
                         step));
        if (tight.empty())
            return;
        // As a whole: a copy row by row takes seconds for a million rows.
        const size_t row = static_cast<size_t>(cols) * pixel;
        std::vector<uint8_t> all(static_cast<size_t>(memory_.mat.cols));
        uint8_t *const first = all.data() + static_cast<size_t>(region) * (step + pixel);
        for (size_t y = 0; y < static_cast<size_t>(rows); ++y)
            std::memcpy(first + y * step, tight.data() + y * row, row);
        cusMat from = CUS_MAT_INIT;
        check(cusMatWrap(&from, 1, memory_.mat.cols, CUS_8UC1, CUS_HOST, all.data(), 0));
        check(space == CUS_DEVICE ? cusMatUpload(&from, &memory_.mat, nullptr) : cusMatCopy(&from, &memory_.mat, nullptr));
        if (space == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
    }
    cusMat mat = CUS_MAT_INIT;

  private:
    perf::Mat memory_;
};

// An encoder that sees two frames in turn, so every call sees the same bytes change; or its list, decoded again and again.
struct Work {
    Work(Size size, int type, cusSpace space, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second,
         int region, cusDiffOptions options, uint32_t capacity)
        : a(size.rows, size.cols, type, space, first, region), b(size.rows, size.cols, type, space, second, region) {
        check(cusSparseDiffCreate(&diff, size.rows, size.cols, type, capacity, 0, space));
        check(cusDiffEncoderCreate(&encoder, size.rows, size.cols, type, space, &options));
        check(cusDiffDecoderCreate(&decoder, size.rows, size.cols, type, space));
        check(cusDiffEncoderReset(encoder, &a.mat, nullptr));
    }
    ~Work() {
        cusSparseDiffRelease(&diff);
        cusDiffEncoderDestroy(encoder);
        cusDiffDecoderDestroy(decoder);
    }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;
    cusStatus encode(cusStream stream) {
        use_b = !use_b;
        return cusDiffEncode(encoder, use_b ? &b.mat : &a.mat, &diff, stream);
    }
    Placed a, b;
    cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
    cusDiffEncoder *encoder = nullptr;
    cusDiffDecoder *decoder = nullptr;
    bool use_b = false;
};

struct Case {
    std::string name;
    Size size;
    int type;
    int region; // frames begin at (region, region) of an image larger by as much
    int min_neighbors;
};

std::vector<uint8_t> uniform(size_t n, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(n);
    for (auto &b : bytes)
        b = static_cast<uint8_t>(random());
    return bytes;
}

void encodeRow(const Case &c, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second,
               const std::string &note) {
    cusDiffOptions options = cusDiffDefaults();
    options.min_neighbors = c.min_neighbors;
    const size_t bytes = c.size.pixels() * cusTypeSize(c.type);
    perf::bothSpaces([&](cusSpace space) {
        std::deque<Work> sets;
        const size_t padding = static_cast<size_t>(c.size.rows) * static_cast<size_t>(c.region) * cusTypeSize(c.type);
        for (int k = perf::rotation(space, 2 * (bytes + padding)); k > 0; --k)
            sets.emplace_back(c.size, c.type, space, first, second, c.region, options, 0u);
        perf::Row row("worst/framediff/" + c.name, space, 2.0 * static_cast<double>(bytes));
        row.note(note);
        row.note("bytes: the two reads");
        row.measure([&](cusStream stream, int i) { return turn(sets, i).encode(stream); });
        row.report();
    });
}

// 85 % of the bytes of two random frames differ by more than 20.
void encodeRandom(const Case &c) {
    const size_t bytes = c.size.pixels() * cusTypeSize(c.type);
    encodeRow(c, uniform(bytes, 1), uniform(bytes, 2), "two random frames: 85 % of the bytes change");
}

// One byte in 32 changes.
void encodeFew(const Case &c) {
    const auto a = uniform(c.size.pixels() * cusTypeSize(c.type), 1), which = uniform(a.size(), 2);
    auto b = a;
    for (size_t i = 0; i < b.size(); ++i)
        b[i] = static_cast<uint8_t>(b[i] + (which[i] < 8 ? 100 : 0));
    encodeRow(c, a, b, "changes of 3 %, scattered");
}

void encodeShare(double percent, Distribution distribution) {
    const Size size = SIZES[0];
    const auto a = randomBytes(size.bytes());
    const std::string kind = distribution == Distribution::RANDOM ? "scattered" : "discs";
    encodeRow({"encode/" + size.text() + "/" + perf::number(percent) + "pct-" + kind, size, CUS_8UC3, 0, 0}, a,
              changed(a, size, distribution, percent / 100), "changes of " + perf::number(percent) + " %, " + kind);
}

void decodeRow(Size size, const std::string &name, const std::vector<uint8_t> &a, const std::vector<uint8_t> &b,
               const std::string &note) {
    perf::bothSpaces([&](cusSpace space) {
        std::deque<Work> sets;
        uint32_t count = 0;
        for (int k = perf::rotation(space, 6 * size.bytes()); k > 0; --k) {
            Work &work = sets.emplace_back(size, CUS_8UC3, space, a, b, 0, cusDiffDefaults(), 0u);
            check(work.encode(nullptr));
            check(cusSparseDiffCount(&work.diff, &count, nullptr));
        }
        perf::Row row("worst/framediff/decode/" + size.text() + "/" + name, space, 7.0 * count);
        row.note(note + "; bytes: 5 read, 1 read and written per change");
        row.measure([&](cusStream stream, int i) {
            Work &work = turn(sets, i);
            return cusDiffDecode(work.decoder, &work.diff, stream);
        });
        row.report();
    });
}

// The list is one entry too short, so every call lists all and takes everything back.
void encodeOverflow(Size size) {
    const auto a = uniform(size.bytes(), 1), b = uniform(size.bytes(), 2);
    uint32_t count = 0;
    for (size_t i = 0; i < a.size(); ++i)
        count += std::abs(a[i] - b[i]) > cusDiffDefaults().threshold;
    perf::bothSpaces([&](cusSpace space) {
        std::deque<Work> sets;
        for (int k = perf::rotation(space, 2 * size.bytes()); k > 0; --k)
            sets.emplace_back(size, CUS_8UC3, space, a, b, 0, cusDiffDefaults(), count - 1);
        perf::Row row("worst/framediff/encode-overflow/" + size.text() + "/random", space,
                      2.0 * static_cast<double>(size.bytes()));
        row.note("85 % of the bytes change, and the list is one entry too short");
        row.measure([&](cusStream stream, int i) {
            Work &work = turn(sets, i);
            const cusStatus status = cusDiffEncode(work.encoder, &work.b.mat, &work.diff, stream);
            return status == CUS_ERROR_CAPACITY ? CUS_OK : status;
        });
        row.report();
    });
}

// Where the two frames and the picture lie: matrices of their own, regions at (1, 1), or regions at (1, 1), (2, 2) and (3, 3), whose
// rows all begin at different places of a vector.
enum class Place { WHOLE, REGIONS, DIFFERENT_REGIONS };

void pictures(const std::string &name, Size size, int type, Place place) {
    const size_t bytes = size.pixels() * cusTypeSize(type);
    const auto a = uniform(bytes, 1), b = uniform(bytes, 2);
    perf::bothSpaces([&](cusSpace space) {
        struct Set {
            Set(Size size, int type, cusSpace space, const std::vector<uint8_t> &a, const std::vector<uint8_t> &b,
                Place place)
                : prev(size.rows, size.cols, type, space, a, place != Place::WHOLE),
                  cur(size.rows, size.cols, type, space, b, regionOf(place, 2)),
                  dst(size.rows, size.cols, CUS_8UC3, space, {}, regionOf(place, 3)) {}
            static int regionOf(Place place, int different) {
                return place == Place::DIFFERENT_REGIONS ? different : place != Place::WHOLE;
            }
            Placed prev, cur, dst;
        };
        std::deque<Set> sets;
        for (int k = perf::rotation(space, 3 * bytes); k > 0; --k)
            sets.emplace_back(size, type, space, a, b, place);
        const double moved = 2.0 * static_cast<double>(bytes) + 3.0 * static_cast<double>(size.pixels());
        perf::Row heat("worst/framediff/heatmap/" + name, space, moved);
        heat.measure([&](cusStream stream, int i) {
            Set &set = turn(sets, i);
            return cusHeatmap(&set.prev.mat, &set.cur.mat, &set.dst.mat, nullptr, stream);
        });
        heat.report();
        perf::Row view("worst/framediff/noiseview/" + name, space, moved);
        view.measure([&](cusStream stream, int i) {
            Set &set = turn(sets, i);
            return cusNoiseView(&set.prev.mat, &set.cur.mat, &set.dst.mat, 30, stream);
        });
        view.report();
    });
}

constexpr Size NARROW_SQUARE = {1344, 1344}, NARROW = {2, 903168}, ODD = {1280, 1280};
constexpr Size COLOR_SQUARE = {1920, 1920}, COLOR_NARROW = {57, 64674};
constexpr Size SQUARE = {1000, 1000}, WIDE = {1000000, 1}, TALL = {1, 1000000};

TEST(FramediffWorst, EncodeDense) {
    encodeRandom({"encode/3840x2160/random", SIZES[0], CUS_8UC3, 0, 0});
    for (const Distribution distribution : {Distribution::RANDOM, Distribution::BLOBS})
        for (const double percent : {10.0, 30.0, 50.0, 100.0})
            encodeShare(percent, distribution);
}
TEST(FramediffWorst, EncodeFiltered) {
    const auto a = randomBytes(SIZES[0].bytes());
    encodeRow({"encode-filtered/3840x2160/3pct-scattered", SIZES[0], CUS_8UC3, 0, 2}, a,
              changed(a, SIZES[0], Distribution::RANDOM), "changes of 3 %, scattered: all are noise");
    encodeRandom({"encode-filtered/3840x2160/random", SIZES[0], CUS_8UC3, 0, 2});
}
TEST(FramediffWorst, EncodeOverflow) {
    encodeOverflow(SIZES[0]);
}
TEST(FramediffWorst, Decode) {
    const auto a = randomBytes(SIZES[0].bytes());
    decodeRow(SIZES[0], "3pct-scattered", a, changed(a, SIZES[0], Distribution::RANDOM), "changes of 3 %, scattered");
    decodeRow(SIZES[0], "random", uniform(a.size(), 1), uniform(a.size(), 2), "85 % of the bytes change");
}
TEST(FramediffWorst, Alignment) { // beside framediff/encode, encode-filtered and heatmap of the same size
    const auto a = randomBytes(SIZES[0].bytes());
    const auto b = changed(a, SIZES[0], Distribution::CLUSTERS), blobs = changed(a, SIZES[0], Distribution::BLOBS);
    encodeRow({"encode/region/3840x2160/3pct", SIZES[0], CUS_8UC3, 1, 0}, a, b, "frames at (1, 1) of a larger image");
    encodeRow({"encode-filtered/region/3840x2160/3pct-blobs", SIZES[0], CUS_8UC3, 1, 2}, a, blobs,
              "frames at (1, 1) of a larger image");
    encodeRandom({"encode/region/3840x2160/random", SIZES[0], CUS_8UC3, 1, 0});
    pictures("region/3840x2160", SIZES[0], CUS_8UC3, Place::REGIONS);
    pictures("different-regions/3840x2160", SIZES[0], CUS_8UC3, Place::DIFFERENT_REGIONS);
}
TEST(FramediffWorst, Shapes) {
    for (const Size size : {SQUARE, WIDE, TALL}) {
        encodeRandom({"encode/" + size.text(), size, CUS_8UC1, 0, 0});
        encodeRandom({"encode-filtered/" + size.text(), size, CUS_8UC1, 0, 2});
        pictures(size.text(), size, CUS_8UC1, Place::WHOLE);
        if (size.cols > 1) // a column of a larger image touches a memory sector for every pixel, whatever the code
            pictures("region/" + size.text(), size, CUS_8UC1, Place::REGIONS);
    }
}
TEST(FramediffWorst, Narrow) { // two columns beside the square of as many pixels: without padding, and a row in 64 bytes
    encodeFew({"encode/1344x1344/3pct", NARROW_SQUARE, CUS_8UC1, 0, 0});
    encodeFew({"encode/2x903168/3pct", NARROW, CUS_8UC1, 0, 0});
    encodeFew({"encode/region/2x903168/3pct", NARROW, CUS_8UC1, 62, 0});
    encodeFew({"encode-filtered/1344x1344/3pct", NARROW_SQUARE, CUS_8UC1, 0, 2});
    encodeFew({"encode-filtered/2x903168/3pct", NARROW, CUS_8UC1, 0, 2});
    encodeFew({"encode-filtered/region/2x903168/3pct", NARROW, CUS_8UC1, 62, 2});
    encodeFew({"encode-filtered/1920x1920/3pct", COLOR_SQUARE, CUS_8UC3, 0, 2});
    encodeFew({"encode-filtered/57x64674/3pct", COLOR_NARROW, CUS_8UC3, 0, 2});
    pictures("1344x1344", NARROW_SQUARE, CUS_8UC1, Place::WHOLE);
    pictures("region/2x903168", NARROW, CUS_8UC1, Place::REGIONS);
}
TEST(FramediffWorst, RowEnds) { // an end of a row in every second kilobyte
    encodeFew({"encode/1280x1280/3pct", ODD, CUS_8UC1, 0, 0});
    encodeFew({"encode/region/1280x1280/3pct", ODD, CUS_8UC1, 5, 0});
    encodeFew({"encode-filtered/1280x1280/3pct", ODD, CUS_8UC1, 0, 2});
    encodeFew({"encode-filtered/region/1280x1280/3pct", ODD, CUS_8UC1, 5, 2});
}

} // namespace

// Rows of framediff: heatmap, noise view, sparse difference, resident and from host to host.
#include "frames.hpp"

#include "cusight/framediff.h"
#include "peers/framediff.hpp"
#include "peers/npp.hpp"

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::check;

constexpr int THRESHOLD = 20;

using perf::Event;
using perf::Pipeline;
using perf::Stream;

struct Size : perf::Size {
    constexpr Size(int width, int height) : perf::Size{width, height} {}
    constexpr Size(perf::Size size) : perf::Size(size) {}
    size_t bytes() const { return pixels() * 3; }
};
constexpr Size SIZES[] = {{3840, 2160}, {1920, 1080}, {640, 480}};

class Mat : public perf::Mat {
  public:
    Mat(Size size, cusSpace space) : perf::Mat(size.rows, size.cols, CUS_8UC3, space) {}
    Mat(Size size, cusSpace space, const std::vector<uint8_t> &tight)
        : perf::Mat(size.rows, size.cols, CUS_8UC3, space, tight) {}
};

std::vector<uint8_t> randomBytes(size_t n) {
    std::mt19937_64 random(1);
    std::vector<uint8_t> bytes(n + 8);
    for (size_t i = 0; i < n; i += 8) {
        const uint64_t eight = random();
        std::memcpy(&bytes[i], &eight, 8);
    }
    bytes.resize(n);
    return bytes;
}

// How the changed bytes of a frame lie. What costs time beside their number is how many 32-byte sectors of the reference they
// touch. In real video at threshold 20 that share is 3.0 (vtest.avi), 5.0 (Megamind.avi) and 7.7 (tree.avi) times the share of
// bytes; discs of radius 2 give 5 times. Single bytes at random places are the worst case (62 % of the sectors at 3 %), large
// discs the densest.
enum class Spread { CLUSTERS, RANDOM, BLOBS };

// The other frame of a pair: a share of the bytes differs, each by 128.
std::vector<uint8_t> changed(const std::vector<uint8_t> &frame, Size size, Spread spread, double share = 0.03) {
    std::mt19937_64 random(2);
    std::vector<uint8_t> other = frame;
    const size_t goal = static_cast<size_t>(share * static_cast<double>(frame.size()));
    size_t count = 0;
    const auto flip = [&](size_t i) {
        if (other[i] == frame[i]) {
            other[i] = static_cast<uint8_t>(other[i] ^ 128);
            ++count;
        }
    };
    if (spread == Spread::RANDOM) {
        while (count < goal)
            flip(random() % frame.size());
        return other;
    }
    const int radius = spread == Spread::CLUSTERS ? 2 : size.cols / 60;
    while (count < goal) {
        const int cx = static_cast<int>(random() % static_cast<unsigned>(size.cols));
        const int cy = static_cast<int>(random() % static_cast<unsigned>(size.rows));
        for (int y = std::max(0, cy - radius); y <= std::min(size.rows - 1, cy + radius); ++y)
            for (int x = std::max(0, cx - radius); x <= std::min(size.cols - 1, cx + radius); ++x)
                if ((x - cx) * (x - cx) + (y - cy) * (y - cy) <= radius * radius)
                    for (size_t c = 0; c < 3; ++c)
                        flip((static_cast<size_t>(y) * static_cast<size_t>(size.cols) + static_cast<size_t>(x)) * 3 + c);
    }
    return other;
}

const char *spreadNote(Spread spread) {
    switch (spread) {
    case Spread::CLUSTERS:
        return "3 % of the bytes change, in discs of radius 2";
    case Spread::RANDOM:
        return "3 % of the bytes change, one by one at random places";
    case Spread::BLOBS:
        break;
    }
    return "3 % of the bytes change, in large discs";
}

// ---- Pictures of the difference --------------------------------------------------------------------------------------

struct Pair {
    Pair(Size size, cusSpace space, const std::vector<uint8_t> &a, const std::vector<uint8_t> &b)
        : prev(size, space, a), cur(size, space, b), dst(size, space) {}
    Mat prev, cur, dst;
};

std::deque<Pair> pairs(Size size, cusSpace space) {
    const auto bytes = randomBytes(2 * size.bytes());
    const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(size.bytes());
    const std::vector<uint8_t> a(bytes.begin(), middle), b(middle, bytes.end());
    std::deque<Pair> sets;
    for (int k = perf::rotation(space, 3 * size.bytes()); k > 0; --k)
        sets.emplace_back(size, space, a, b);
    return sets;
}

template<class T>
T &turn(std::deque<T> &sets, int i) {
    return sets[static_cast<size_t>(i) % sets.size()];
}

void heatmap(Size size) {
    perf::bothSpaces([&](cusSpace space) {
        auto sets = pairs(size, space);
        perf::Row row("framediff/heatmap/" + size.text(), space, 3.0 * static_cast<double>(size.bytes()));
        row.note("random frames");
        const auto one = [&](cusStream stream, int i) {
            Pair &p = turn(sets, i);
            return cusHeatmap(&p.prev.mat, &p.cur.mat, &p.dst.mat, nullptr, stream);
        };
        row.measure(one);
        if (space == CUS_HOST) {
#ifdef CUSIGHT_HAVE_OPENCV
            row.peer("opencv", [&, difference = cv::Mat(), gray = cv::Mat()](cusStream, int i) mutable {
                Pair &p = turn(sets, i);
                const cv::Mat prev(size.rows, size.cols, CV_8UC3, p.prev.bytes());
                const cv::Mat cur(size.rows, size.cols, CV_8UC3, p.cur.bytes());
                cv::Mat dst(size.rows, size.cols, CV_8UC3, p.dst.bytes());
                cv::absdiff(prev, cur, difference);
                cv::cvtColor(difference, gray, cv::COLOR_BGR2GRAY);
                cv::applyColorMap(gray, dst, cv::COLORMAP_JET);
            });
#endif
            row.peer("published", [&](cusStream, int i) {
                Pair &p = turn(sets, i);
                peers::serialHeatmap(p.prev.bytes(), p.cur.bytes(), p.dst.bytes(), size.pixels());
            });
        } else {
#ifdef CUSIGHT_HAVE_CUDA
            row.peer("published", [&](cusStream stream, int i) {
                Pair &p = turn(sets, i);
                peers::publishedHeatmap(p.prev.mat, p.cur.mat, p.dst.mat, stream);
            });
#endif
#ifdef CUSIGHT_HAVE_NPP
            row.peer("npp absdiff alone", [&, context = peers::nppContext(nullptr)](cusStream stream, int i) mutable {
                Pair &p = turn(sets, i);
                context.hStream = stream;
                peers::checkNpp(nppiAbsDiff_8u_C3R_Ctx(
                    p.prev.bytes(), static_cast<int>(p.prev.mat.step), p.cur.bytes(), static_cast<int>(p.cur.mat.step),
                    p.dst.bytes(), static_cast<int>(p.dst.mat.step), NppiSize{size.cols, size.rows}, context));
            });
#endif
        }
        row.report();

        if (space == CUS_DEVICE)
            perf::latency("framediff/heatmap/" + size.text(), one);
    });
}

void noiseView(Size size) {
    perf::bothSpaces([&](cusSpace space) {
        auto sets = pairs(size, space);
        perf::Row row("framediff/noiseview/" + size.text(), space, 3.0 * static_cast<double>(size.bytes()));
        row.note("random frames");
        row.measure([&](cusStream stream, int i) {
            Pair &p = turn(sets, i);
            return cusNoiseView(&p.prev.mat, &p.cur.mat, &p.dst.mat, 30, stream);
        });
        row.report();
    });
}

// ---- Sparse difference -----------------------------------------------------------------------------------------------

struct Lists {
    Lists(Size size, cusSpace space, uint32_t capacity = 0) { // 0: room for every byte
        check(cusSparseDiffCreate(&diff, size.rows, size.cols, CUS_8UC3, capacity, 0, space));
    }
    ~Lists() { cusSparseDiffRelease(&diff); }
    Lists(const Lists &) = delete;
    Lists &operator=(const Lists &) = delete;
    uint32_t *positions() const { return static_cast<uint32_t *>(diff.positions.data); }
    uint8_t *values() const { return static_cast<uint8_t *>(diff.values.data); }
    uint32_t *count() const { return static_cast<uint32_t *>(diff.count.data); }
    cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
};

uint32_t countOf(const cusMat &count) {
    uint32_t value = 0;
    cusMat host = CUS_MAT_INIT;
    check(cusMatWrap(&host, 1, 1, CUS_32SC1, CUS_HOST, &value, 0));
    check(count.space == CUS_DEVICE ? cusMatDownload(&count, &host, nullptr) : cusMatCopy(&count, &host, nullptr));
    if (count.space == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr));
    return value;
}

// Two frames that take turns as the current one, and where the result goes.
struct Frames {
    Frames(Size size, cusSpace space, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second,
           uint32_t capacity = 0)
        : a(size, space, first), b(size, space, second), lists(size, space, capacity) {}

    Mat &latest() { return use_b ? b : a; }
    Mat &next() {
        use_b = !use_b;
        return latest();
    }

    Mat a, b;
    Lists lists;
    bool use_b = false;
};

// Frames and an encoder whose reference is a: every call sees the same bytes change.
struct Encoding : Frames {
    Encoding(Size size, cusSpace space, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second,
             const cusDiffOptions *options, uint32_t capacity = 0)
        : Frames(size, space, first, second, capacity) {
        check(cusDiffEncoderCreate(&encoder, size.rows, size.cols, CUS_8UC3, space, options));
        check(cusDiffEncoderReset(encoder, &a.mat, nullptr));
    }
    ~Encoding() { cusDiffEncoderDestroy(encoder); }
    cusDiffEncoder *encoder = nullptr;
};

// CUB's way needs tight frames and a reference.
struct TightFrames : Frames {
    TightFrames(Size size, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second)
        : Frames({size.cols * size.rows, 1}, CUS_DEVICE, first, second),
          ref({size.cols * size.rows, 1}, CUS_DEVICE, first) {}
    Mat ref;
};

uint32_t differences(const std::vector<uint8_t> &a, const std::vector<uint8_t> &b) {
    uint32_t count = 0;
    for (size_t i = 0; i < a.size(); ++i)
        count += a[i] != b[i];
    return count;
}

// Where places are random, most sectors of the reference take a new byte and are written back whole.
std::string sectorNote(const std::vector<uint8_t> &a, const std::vector<uint8_t> &b) {
    constexpr size_t sector = 32;
    size_t written = 0;
    for (size_t i = 0; i + sector <= a.size(); i += sector)
        written += std::memcmp(&a[i], &b[i], sector) != 0;
    return std::to_string(100 * written * sector / a.size()) + " % of the reference's 32-byte sectors change";
}

std::string changeId(Size size, Spread spread) {
    return "/" + size.text() + "/3pct" +
           (spread == Spread::CLUSTERS ? ""
            : spread == Spread::RANDOM ? "-scattered"
                                       : "-blobs");
}

void encode(Size size, Spread spread) {
    const auto a = randomBytes(size.bytes()), b = changed(a, size, spread);
    const uint32_t expected = differences(a, b);
    perf::bothSpaces([&](cusSpace space) {
        std::deque<Encoding> sets;
        std::deque<Frames> theirs; // the published way changes its frames
        const int rotation = perf::rotation(space, 2 * size.bytes());
        for (int k = 0; k < rotation; ++k) {
            sets.emplace_back(size, space, a, b, nullptr);
            theirs.emplace_back(size, space, a, b);
        }
        const auto encodeOne = [&](cusStream stream, int i) {
            Encoding &set = turn(sets, i);
            return cusDiffEncode(set.encoder, &set.next().mat, &set.lists.diff, stream);
        };
        perf::Row row("framediff/encode" + changeId(size, spread), space, 2.0 * static_cast<double>(size.bytes()));
        row.note(spreadNote(spread));
        row.note(sectorNote(a, b));
        row.note("bytes: the two reads");
        row.measure(encodeOne);
        if (space == CUS_HOST)
            row.peer("published", [&](cusStream, int i) {
                Frames &set = turn(theirs, i);
                const uint8_t *prev = set.latest().bytes();
                *set.lists.count() = peers::serialEncode(set.next().bytes(), prev, size.bytes(), THRESHOLD,
                                                         set.lists.positions(), set.lists.values());
            });
#ifdef CUSIGHT_HAVE_CUDA
        std::deque<TightFrames> tight;
        peers::CubEncoder cub;
        if (space == CUS_DEVICE) {
            row.peer("published", [&](cusStream stream, int i) {
                Frames &set = turn(theirs, i);
                const cusMat &prev = set.latest().mat;
                peers::publishedEncode(set.next().mat, prev, THRESHOLD, set.lists.positions(), set.lists.values(),
                                       set.lists.count(), stream);
            });
            for (int k = 0; k < rotation; ++k)
                tight.emplace_back(size, a, b);
            cub.create(static_cast<uint32_t>(size.bytes()));
            row.peer("cub", [&](cusStream stream, int i) {
                TightFrames &set = turn(tight, i);
                cub.encode(set.next().bytes(), set.ref.bytes(), THRESHOLD, set.lists.positions(), set.lists.values(),
                           set.lists.count(), stream);
            });
        }
#endif
        row.report();
        if (row.measured()) {
            EXPECT_EQ(countOf(sets[0].lists.diff.count), expected);
            EXPECT_EQ(countOf(theirs[0].lists.diff.count), expected) << "the published way does other work";
#ifdef CUSIGHT_HAVE_CUDA
            if (space == CUS_DEVICE) {
                EXPECT_EQ(countOf(tight[0].lists.diff.count), expected) << "CUB's way does other work";
            }
#endif
        }

        if (space == CUS_DEVICE)
            perf::latency("framediff/encode" + changeId(size, spread), encodeOne);
    });
}

// Ways to encode that have their price: called by name, without peers.
void encodeVariant(const std::string &name, Size size, Spread spread, int min_neighbors, uint32_t capacity, double passes,
                   const std::string &note) {
    const auto a = randomBytes(size.bytes()), b = changed(a, size, spread);
    cusDiffOptions options = cusDiffDefaults();
    options.min_neighbors = min_neighbors;
    perf::bothSpaces([&](cusSpace space) {
        std::deque<Encoding> sets;
        for (int k = perf::rotation(space, 2 * size.bytes()); k > 0; --k)
            sets.emplace_back(size, space, a, b, &options, capacity);
        perf::Row row("framediff/" + name + changeId(size, spread), space, passes * static_cast<double>(size.bytes()));
        row.note(spreadNote(spread));
        row.note(note);
        row.measure([&](cusStream stream, int i) {
            Encoding &set = turn(sets, i);
            return cusDiffEncode(set.encoder, &set.next().mat, &set.lists.diff, stream);
        });
        row.report();
        if (row.measured()) {
            EXPECT_EQ(countOf(sets[0].lists.diff.count), differences(a, b));
        }
    });
}

struct Decoding {
    Decoding(Size size, cusSpace space, Encoding &source) : lists(size, space) {
        check(cusDiffEncoderReset(source.encoder, &source.a.mat, nullptr));
        check(cusDiffEncode(source.encoder, &source.b.mat, &lists.diff, nullptr));
        check(cusDiffDecoderCreate(&decoder, size.rows, size.cols, CUS_8UC3, space));
        check(cusDiffDecoderReset(decoder, &source.a.mat, nullptr));
    }
    ~Decoding() { cusDiffDecoderDestroy(decoder); }
    Decoding(const Decoding &) = delete;
    Decoding &operator=(const Decoding &) = delete;
    Lists lists;
    cusDiffDecoder *decoder = nullptr;
};

void decode(Size size, Spread spread) {
    const auto a = randomBytes(size.bytes()), b = changed(a, size, spread);
    const uint32_t count = differences(a, b);
    perf::bothSpaces([&](cusSpace space) {
        Encoding source(size, space, a, b, nullptr);
        std::deque<Decoding> sets;
        for (int k = perf::rotation(space, size.bytes() + 5 * count); k > 0; --k)
            sets.emplace_back(size, space, source);
        perf::Row row("framediff/decode" + changeId(size, spread), space, 7.0 * count);
        row.note(spreadNote(spread));
        row.note("bytes: 5 read, 1 read and written a change; sectors move whole");
        row.measure([&](cusStream stream, int i) {
            Decoding &set = turn(sets, i);
            return cusDiffDecode(set.decoder, &set.lists.diff, stream);
        });
        if (space == CUS_HOST)
            row.peer("published", [&](cusStream, int i) {
                Decoding &set = turn(sets, i);
                cusMat frame = CUS_MAT_INIT;
                check(cusDiffDecoderFrame(set.decoder, &frame));
                peers::serialDecode(static_cast<uint8_t *>(frame.data), set.lists.positions(), set.lists.values(),
                                    *set.lists.count());
            });
        row.report();
    });
}

// ---- From host memory to host memory ---------------------------------------------------------------------------------

void heatmapHostToHost(Size size) {
    if (!perf::wants(CUS_DEVICE))
        return;
    struct Slot {
        Slot(Size s, const std::vector<uint8_t> &frame)
            : cur(s, CUS_DEVICE, frame), dst(s, CUS_DEVICE), in(cur.mat), out(s.rows, s.cols, CUS_8UC3) {}
        Mat cur, dst;
        perf::Pinned in, out;
    };
    const auto a = randomBytes(size.bytes()), b = changed(a, size, Spread::BLOBS);
    std::deque<Slot> ring;
    Pipeline pipeline;
    for (int k = 0; k < Pipeline::SLOTS; ++k)
        ring.emplace_back(size, k % 2 ? a : b);
    for (int k = 0; k < Pipeline::SLOTS; ++k) {
        Slot &slot = turn(ring, k), &before = turn(ring, k + Pipeline::SLOTS - 1);
        pipeline.add(
            {{&slot.in.mat, &slot.cur.mat}},
            [&](cusStream stream) { check(cusHeatmap(&before.cur.mat, &slot.cur.mat, &slot.dst.mat, nullptr, stream)); },
            {{&slot.dst.mat, &slot.out.mat}});
    }
    pipeline.report("framediff/heatmap/" + size.text(), "pinned frames up, heatmaps down");
}

// The lists of a frame come down, as long as they are, while the next frame goes up.
void encodeHostToHost(Size size, Spread spread) {
    if (!perf::wants(CUS_DEVICE))
        return;
    struct Slot {
        Slot(Size s, const std::vector<uint8_t> &frame)
            : cur(s, CUS_DEVICE, frame), lists(s, CUS_DEVICE), in(cur.mat),
              positions(1, static_cast<int>(s.bytes() / 16), CUS_32SC1),
              values(1, static_cast<int>(s.bytes() / 16), CUS_8UC1), count(1, 1, CUS_32SC1) {}
        Mat cur;
        Lists lists;
        perf::Pinned in, positions, values, count;
        Event uploaded, encoded, counted, downloaded;
    };
    const auto a = randomBytes(size.bytes()), b = changed(a, size, spread);
    const uint32_t expected = differences(a, b);
    std::deque<Slot> ring;
    for (int k = 0; k < Pipeline::SLOTS; ++k)
        ring.emplace_back(size, k % 2 ? a : b);
    Encoding encoding(size, CUS_DEVICE, a, b, nullptr);
    Stream up, down, counts;
    const auto fetch = [&](Slot &slot) {
        slot.counted.wait();
        const int n = static_cast<int>(
            std::min(*static_cast<uint32_t *>(slot.count.mat.data), static_cast<uint32_t>(slot.positions.mat.cols)));
        if (n > 0) {
            const auto part = [&](cusMat &from, cusMat &to) {
                cusMat device = CUS_MAT_INIT, host = CUS_MAT_INIT;
                check(cusMatRegion(&from, 0, 0, n, 1, &device));
                check(cusMatRegion(&to, 0, 0, n, 1, &host));
                check(cusMatDownload(&device, &host, down));
            };
            part(slot.lists.diff.positions, slot.positions.mat);
            part(slot.lists.diff.values, slot.values.mat);
        }
        slot.downloaded.record(down);
    };
    int frame = Pipeline::SLOTS;
    perf::Row row("framediff/encode" + changeId(size, spread) + "/host-to-host", CUS_DEVICE, 0);
    row.hostToHost(static_cast<double>(size.bytes()), 5.0 * expected + 4, Pipeline::FRAMES_A_CALL);
    row.note(spreadNote(spread));
    row.note("pinned frames up, count, positions and values down, " + Pipeline::note());
    row.measure([&](cusStream stream, int) {
        for (int k = 0; k < Pipeline::FRAMES_A_CALL; ++k, ++frame) {
            Slot &slot = turn(ring, frame);
            slot.encoded.before(up);
            check(cusMatUpload(&slot.in.mat, &slot.cur.mat, up));
            slot.uploaded.record(up);
            slot.uploaded.before(stream);
            slot.downloaded.before(stream);
            check(cusDiffEncode(encoding.encoder, &slot.cur.mat, &slot.lists.diff, stream));
            slot.encoded.record(stream);
            slot.encoded.before(counts);
            check(cusMatDownload(&slot.lists.diff.count, &slot.count.mat, counts));
            slot.counted.record(counts);
            if (k > 0)
                fetch(turn(ring, frame - 1));
        }
        fetch(turn(ring, frame - 1));
        turn(ring, frame - 1).downloaded.before(stream);
    });
    row.report();
    if (row.measured()) {
        EXPECT_EQ(*static_cast<uint32_t *>(ring[0].count.mat.data), expected);
    }
}

// ---- How cost grows --------------------------------------------------------------------------------------------------

void sweepPixels() {
    for (const Size size : perf::SWEEP_SIZES)
        perf::bothSpaces([&](cusSpace space) {
            if (space == CUS_HOST && size.cols > 7680)
                return; // minutes of filling for one more point of a straight line
            const std::string pixels = perf::pixelsOf(size);
            {
                auto sets = pairs(size, space);
                perf::Row row("sweep/framediff/heatmap" + pixels, space, 3.0 * static_cast<double>(size.bytes()));
                row.measure([&](cusStream stream, int i) {
                    Pair &p = turn(sets, i);
                    return cusHeatmap(&p.prev.mat, &p.cur.mat, &p.dst.mat, nullptr, stream);
                });
                row.report();
            }
            const auto a = randomBytes(size.bytes()), b = changed(a, size, Spread::BLOBS);
            std::deque<Encoding> sets;
            for (int k = perf::rotation(space, 2 * size.bytes()); k > 0; --k)
                sets.emplace_back(size, space, a, b, nullptr);
            perf::Row row("sweep/framediff/encode 3 % in discs" + pixels, space, 2.0 * static_cast<double>(size.bytes()));
            row.measure([&](cusStream stream, int i) {
                Encoding &set = turn(sets, i);
                return cusDiffEncode(set.encoder, &set.next().mat, &set.lists.diff, stream);
            });
            row.report();
        });
}

void sweepShare() {
    const Size size = SIZES[0];
    const auto a = randomBytes(size.bytes());
    for (const Spread spread : {Spread::RANDOM, Spread::BLOBS})
        for (const double percent : {0.1, 0.3, 1.0, 3.0, 10.0, 30.0}) {
            const auto b = changed(a, size, spread, percent / 100);
            const uint32_t expected = differences(a, b);
            perf::bothSpaces([&](cusSpace space) {
                std::deque<Encoding> sets;
                for (int k = perf::rotation(space, 2 * size.bytes()); k > 0; --k)
                    sets.emplace_back(size, space, a, b, nullptr);
                perf::Row row(std::string("sweep/framediff/encode ") +
                                  (spread == Spread::RANDOM ? "scattered" : "in discs") +
                                  "/percent=" + perf::number(percent),
                              space, 2.0 * static_cast<double>(size.bytes()));
                row.measure([&](cusStream stream, int i) {
                    Encoding &set = turn(sets, i);
                    return cusDiffEncode(set.encoder, &set.next().mat, &set.lists.diff, stream);
                });
                row.report();
                if (row.measured()) {
                    EXPECT_EQ(countOf(sets[0].lists.diff.count), expected);
                }
            });
        }
}

TEST(Framediff, heatmap) {
    for (const Size size : SIZES)
        heatmap(size);
}
TEST(Framediff, noiseView) {
    for (const Size size : SIZES)
        noiseView(size);
}
TEST(Framediff, encode) {
    for (const Spread spread : {Spread::CLUSTERS, Spread::RANDOM, Spread::BLOBS})
        for (const Size size : SIZES)
            encode(size, spread);
}
TEST(Framediff, encodeFiltered) { // the filter lets discs through whole, so that every call sees the same bytes change
    for (const Size size : SIZES)
        encodeVariant("encode-filtered", size, Spread::BLOBS, 2, 0, 4,
                      "noise filter on, 2 neighbors; bytes: both frames read twice");
}
TEST(Framediff, encodeBounded) {
    for (const Size size : SIZES)
        encodeVariant("encode-bounded", size, Spread::CLUSTERS, 0, static_cast<uint32_t>(size.bytes() / 16), 2,
                      "room for 1/16 of the bytes, so that the reference waits for the count; bytes: the two reads");
}
TEST(Framediff, decode) {
    for (const Size size : SIZES)
        decode(size, Spread::CLUSTERS);
}
TEST(Framediff, hostToHost) {
    for (const Size size : SIZES) {
        heatmapHostToHost(size);
        encodeHostToHost(size, Spread::CLUSTERS);
    }
}
TEST(FramediffSweep, pixels) {
    sweepPixels();
}
TEST(FramediffSweep, share) {
    sweepShare();
}

} // namespace

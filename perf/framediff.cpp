// Rows of framediff: heatmap, noise view, sparse difference, and how their cost grows.
#include "framediff.hpp"

#include "peers/framediff.hpp"
#include "peers/npp.hpp"
#include "peers/opencv_cuda.hpp"

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

#ifdef CUSIGHT_HAVE_OPENCV_CUDA
#include <opencv2/cudaarithm.hpp>
#endif
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace {

using namespace perf::framediff;
using perf::check;
using perf::Event;
using perf::Pipeline;
using perf::Stream;

constexpr int THRESHOLD = 20;

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
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
            row.peer("opencv absdiff alone", [&](cusStream stream, int i) {
                Pair &p = turn(sets, i);
                cv::cuda::GpuMat dst = peers::gpuMat(p.dst.mat);
                cv::cuda::absdiff(peers::gpuMat(p.prev.mat), peers::gpuMat(p.cur.mat), dst, peers::opencvStream(stream));
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

// Many pairs of gray frames by one call.
void heatmapBatch(Size size, int count) {
    perf::bothSpaces([&](cusSpace space) {
        const double bytes = 5.0 * count * static_cast<double>(size.pixels());
        perf::Row row("framediff/heatmap/" + size.text() + "/batch" + std::to_string(count), space, bytes);
        row.note("random gray frames");
        if (perf::listing())
            return row.report();
        const std::vector<uint8_t> bytes_of_frame = randomBytes(size.pixels());
        const int sets = perf::rotation(space, static_cast<size_t>(bytes));
        std::deque<perf::Mat> mats;
        std::vector<std::vector<cusMat>> prev(static_cast<size_t>(sets)), cur = prev, dst = prev;
        for (size_t k = 0; k < prev.size(); ++k)
            for (int i = 0; i < count; ++i) {
                prev[k].push_back(mats.emplace_back(size.rows, size.cols, CUS_8UC1, space, bytes_of_frame).mat);
                cur[k].push_back(mats.emplace_back(size.rows, size.cols, CUS_8UC1, space, bytes_of_frame).mat);
                dst[k].push_back(mats.emplace_back(size.rows, size.cols, CUS_8UC3, space).mat);
            }
        row.measure([&](cusStream stream, int i) {
            const size_t k = static_cast<size_t>(i) % prev.size();
            return cusHeatmapBatch(count, prev[k].data(), cur[k].data(), dst[k].data(), nullptr, stream);
        });
        row.report();
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

// The CUB peer needs continuous frames and a reference of its own.
struct TightFrames : Frames {
    TightFrames(Size size, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second)
        : Frames({size.cols * size.rows, 1}, CUS_DEVICE, first, second),
          ref({size.cols * size.rows, 1}, CUS_DEVICE, first) {}
    Mat ref;
};

void encode(Size size, Distribution distribution) {
    const auto a = randomBytes(size.bytes()), b = changed(a, size, distribution);
    const uint32_t expected = differences(a, b);
    perf::bothSpaces([&](cusSpace space) {
        std::deque<Encoding> sets;
        std::deque<Frames> theirs; // the published method modifies its frames
        const int rotation = perf::rotation(space, 2 * size.bytes());
        for (int k = 0; k < rotation; ++k) {
            sets.emplace_back(size, space, a, b, nullptr);
            theirs.emplace_back(size, space, a, b);
        }
        const auto encodeOne = [&](cusStream stream, int i) {
            Encoding &set = turn(sets, i);
            return cusDiffEncode(set.encoder, &set.next().mat, &set.lists.diff, stream);
        };
        perf::Row row("framediff/encode" + changeId(size, distribution), space, 2.0 * static_cast<double>(size.bytes()));
        row.note(distributionNote(distribution));
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
            EXPECT_EQ(countOf(theirs[0].lists.diff.count), expected) << "the published method does different work";
#ifdef CUSIGHT_HAVE_CUDA
            if (space == CUS_DEVICE) {
                EXPECT_EQ(countOf(tight[0].lists.diff.count), expected) << "the CUB peer does different work";
            }
#endif
        }

        if (space == CUS_DEVICE)
            perf::latency("framediff/encode" + changeId(size, distribution), encodeOne);
    });
}

// Encoders of many cameras by one call.
void encodeBatch(Size size, int count) {
    struct Set {
        std::vector<cusDiffEncoder *> encoders;
        std::vector<cusMat> frames[2]; // alternate
        std::vector<cusSparseDiff> diffs;
        size_t latest = 0;
    };
    const auto a = randomBytes(size.bytes()), b = changed(a, size, Distribution::CLUSTERS);
    perf::bothSpaces([&](cusSpace space) {
        const double bytes = 2.0 * count * static_cast<double>(size.bytes());
        perf::Row row("framediff/encode" + changeId(size, Distribution::CLUSTERS) + "/batch" + std::to_string(count), space,
                      bytes);
        row.note(distributionNote(Distribution::CLUSTERS));
        row.note("bytes: the two reads");
        if (perf::listing())
            return row.report();
        std::deque<Encoding> all;
        std::deque<Set> sets(static_cast<size_t>(perf::rotation(space, static_cast<size_t>(bytes))));
        for (Set &set : sets)
            for (int i = 0; i < count; ++i) {
                const Encoding &one = all.emplace_back(size, space, a, b, nullptr);
                set.encoders.push_back(one.encoder);
                set.frames[0].push_back(one.a.mat);
                set.frames[1].push_back(one.b.mat);
                set.diffs.push_back(one.lists.diff);
            }
        row.measure([&](cusStream stream, int i) {
            Set &set = turn(sets, i);
            set.latest = 1 - set.latest;
            return cusDiffEncodeBatch(count, set.encoders.data(), set.frames[set.latest].data(), set.diffs.data(), stream);
        });
        row.report();
        if (row.measured()) {
            EXPECT_EQ(countOf(all.back().lists.diff.count), differences(a, b));
        }
    });
}

// Encoder options that take time; without peers.
void encodeVariant(const std::string &name, Size size, Distribution distribution, int min_neighbors, uint32_t capacity,
                   double passes, const std::string &note) {
    const auto a = randomBytes(size.bytes()), b = changed(a, size, distribution);
    cusDiffOptions options = cusDiffDefaults();
    options.min_neighbors = min_neighbors;
    perf::bothSpaces([&](cusSpace space) {
        std::deque<Encoding> sets;
        for (int k = perf::rotation(space, 2 * size.bytes()); k > 0; --k)
            sets.emplace_back(size, space, a, b, &options, capacity);
        perf::Row row("framediff/" + name + changeId(size, distribution), space,
                      passes * static_cast<double>(size.bytes()));
        row.note(distributionNote(distribution));
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

void decode(Size size, Distribution distribution) {
    const auto a = randomBytes(size.bytes()), b = changed(a, size, distribution);
    const uint32_t count = differences(a, b);
    perf::bothSpaces([&](cusSpace space) {
        Encoding source(size, space, a, b, nullptr);
        std::deque<Decoding> sets;
        for (int k = perf::rotation(space, size.bytes() + 5 * count); k > 0; --k)
            sets.emplace_back(size, space, source);
        perf::Row row("framediff/decode" + changeId(size, distribution), space, 7.0 * count);
        row.note(distributionNote(distribution));
        row.note("bytes: 5 read, 1 read and written per change; sectors move whole");
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

// ---- From host memory to host memory: upload, work and download overlap ----------------------------------------------

void heatmapHostToHost(Size size) {
    if (!perf::wants(CUS_DEVICE))
        return;
    struct Slot {
        Slot(Size s, const std::vector<uint8_t> &frame)
            : cur(s, CUS_DEVICE, frame), dst(s, CUS_DEVICE), in(cur.mat), out(s.rows, s.cols, CUS_8UC3) {}
        Mat cur, dst;
        perf::Pinned in, out;
    };
    const auto a = randomBytes(size.bytes()), b = changed(a, size, Distribution::BLOBS);
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

// Downloads a frame's lists, without their unused entries, while the next frame is uploaded.
void encodeHostToHost(Size size, Distribution distribution) {
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
    const auto a = randomBytes(size.bytes()), b = changed(a, size, distribution);
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
    perf::Row row("framediff/encode" + changeId(size, distribution) + "/host-to-host", CUS_DEVICE, 0);
    row.hostToHost(static_cast<double>(size.bytes()), 5.0 * expected + 4, Pipeline::FRAMES_A_CALL);
    row.note(distributionNote(distribution));
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
                return; // would take minutes to fill, for one more point on a straight line
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
            const auto a = randomBytes(size.bytes()), b = changed(a, size, Distribution::BLOBS);
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
    for (const Distribution distribution : {Distribution::RANDOM, Distribution::BLOBS})
        for (const double percent : {0.1, 0.3, 1.0, 3.0, 10.0, 30.0}) {
            const auto b = changed(a, size, distribution, percent / 100);
            const uint32_t expected = differences(a, b);
            perf::bothSpaces([&](cusSpace space) {
                std::deque<Encoding> sets;
                for (int k = perf::rotation(space, 2 * size.bytes()); k > 0; --k)
                    sets.emplace_back(size, space, a, b, nullptr);
                perf::Row row(std::string("sweep/framediff/encode ") +
                                  (distribution == Distribution::RANDOM ? "scattered" : "in discs") +
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

TEST(Framediff, Heatmap) {
    for (const Size size : SIZES)
        heatmap(size);
    heatmapBatch(Size(640, 480), 32);
}
TEST(Framediff, NoiseView) {
    for (const Size size : SIZES)
        noiseView(size);
}
TEST(Framediff, Encode) {
    for (const Distribution distribution : {Distribution::CLUSTERS, Distribution::RANDOM, Distribution::BLOBS})
        for (const Size size : SIZES)
            encode(size, distribution);
    encodeBatch(Size(640, 480), 32);
}
TEST(Framediff, EncodeFiltered) { // the filter passes whole discs, so every call sees the same bytes change
    for (const Size size : SIZES)
        encodeVariant("encode-filtered", size, Distribution::BLOBS, 2, 0, 4,
                      "noise filter on, 2 neighbors; bytes: both frames read twice");
}
TEST(Framediff, EncodeBounded) {
    for (const Size size : SIZES)
        encodeVariant(
            "encode-bounded", size, Distribution::CLUSTERS, 0, static_cast<uint32_t>(size.bytes() / 16), 2,
            "room for 1/16 of the bytes, so the reference is updated once the count is known; bytes: the two reads");
}
TEST(Framediff, Decode) {
    for (const Size size : SIZES)
        decode(size, Distribution::CLUSTERS);
}
TEST(Framediff, HostToHost) {
    for (const Size size : SIZES) {
        heatmapHostToHost(size);
        encodeHostToHost(size, Distribution::CLUSTERS);
    }
}
TEST(FramediffSweep, Pixels) {
    sweepPixels();
}
TEST(FramediffSweep, Share) {
    sweepShare();
}

} // namespace

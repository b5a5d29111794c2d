// Rows of framediff from host memory to host memory: upload, work and download overlap.
#include "perf_framediff.hpp"

#include <algorithm>

namespace {

using namespace perf::framediff;
using perf::check;
using perf::Event;
using perf::Pipeline;
using perf::Stream;

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

// Downloads a frame's lists, only as many entries as there are, while the next frame is uploaded.
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

TEST(Framediff, HostToHost) {
    for (const Size size : SIZES) {
        heatmapHostToHost(size);
        encodeHostToHost(size, Distribution::CLUSTERS);
    }
}

} // namespace

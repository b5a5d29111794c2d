// Where rows begin and end, at every address modulo 16, and lists that turn out to be too short.
#include "framediff/support.hpp"

#include <algorithm>
#include <string>
#include <vector>

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime.h>
#endif

using namespace framediff_support;

namespace {

Layout anyLayout(std::mt19937_64 &random) {
    return {random() % 20, random() % 16};
}

// Widths around one vector, several, and the 512 pixels that a warp makes a picture of.
std::vector<int> widths() {
    std::vector<int> all;
    for (int cols = 1; cols <= 70; ++cols)
        all.push_back(cols);
    for (const int cols : {127, 128, 129, 495, 496, 497, 507, 511, 512, 513, 527, 528, 1009, 1024})
        all.push_back(cols);
    return all;
}

class FramediffEdges : public support::SpaceTest {};

} // namespace

CUS_BOTH_SPACES(FramediffEdges);

TEST_P(FramediffEdges, PicturesOfEveryWidthAtAnyAddress) {
    auto random = support::generator();
    for (const int cols : widths())
        for (const int channels : {1, 3, 4})
            for (const bool same_address : {true, false}) {
                const Shape s = {3, cols, channels};
                Bytes a = noise(s.bytes(), random), b = noise(s.bytes(), random);
                if (cols % 4 == 0) // the largest differences
                    std::fill(a.begin(), a.end(), uint8_t{0}), std::fill(b.begin(), b.end(), uint8_t{255});
                const Layout layout = anyLayout(random);
                const auto next = [&] { return same_address ? layout : anyLayout(random); };
                expectPictures(s, a, b, space(), {next(), next(), next()});
            }
}

TEST_P(FramediffEdges, FramesOfEveryWidthAtAnyAddress) {
    auto random = support::generator();
    for (const int cols : widths())
        for (const int channels : {1, 3, 4})
            for (const int min_neighbors : {0, 3}) {
                const Shape s = {5, cols, channels};
                Lists lists(s, space(), allBytes(s));
                Link link(s, space(), min_neighbors, anyLayout(random));
                link.send(noise(s.bytes(), random), lists, describe(s) + ", first");
                link.send(flipped(link.reference(), 9, random), lists, describe(s) + ", after a dense one");
                link.send(flipped(link.reference(), 30, random), lists, describe(s));
            }
}

// Rows of a few bytes, of which a vector or a warp's tile holds one: frames without padding, and padded ones at any address.
TEST_P(FramediffEdges, NarrowFramesOfManyRows) {
    auto random = support::generator();
    struct Setup {
        int min_neighbors;
        bool with_mask, padded;
    };
    for (const Shape s : {Shape{4097, 2, 1}, Shape{4099, 1, 3}, Shape{4096, 31, 1}, Shape{4098, 3, 4}, Shape{601, 57, 3},
                          Shape{333, 128, 1}, Shape{130, 100, 4}})
        for (const Setup setup : {Setup{0, false, false}, Setup{0, false, true}, Setup{0, true, false},
                                  Setup{2, false, false}, Setup{2, false, true}, Setup{2, true, true}}) {
            const Layout layout = setup.padded ? anyLayout(random) : Layout{0, random() % 16};
            const std::string where = describe(s) + ", " + std::to_string(setup.min_neighbors) + " neighbors, padding " +
                                      std::to_string(layout.padding) + (setup.with_mask ? ", mask" : "");
            Lists all(s, space(), allBytes(s), setup.with_mask), shorter(s, space(), allBytes(s) / 3, setup.with_mask);
            Link link(s, space(), setup.min_neighbors, layout);
            link.send(noise(s.bytes(), random), all, where + ", first");
            link.send(flipped(link.reference(), 40, random), all, where + ", after a dense one");
            link.send(flipped(link.reference(), 40, random), all, where);
            link.send(flipped(link.reference(), 5, random), shorter, where + ", shorter list");
            link.send(noise(s.bytes(), random), shorter, where + ", too short");
        }
}

// The host's threads share a frame in chunks of 64 KiB and more: rows that follow each other, rows with padding, short ones, and
// rows longer than a chunk; a mask and the noise filter, which reads pixels of other chunks.
TEST_P(FramediffEdges, FramesOfManyChunks) {
    auto random = support::generator();
    for (const Shape s :
         {Shape{400, 300, 3}, Shape{401, 301, 3}, Shape{2, 70001, 4}, Shape{1, 300007, 1}, Shape{300007, 1, 1},
          Shape{120011, 3, 1}, Shape{9001, 13, 4}, Shape{1400, 255, 1}, Shape{3, 100003, 1}})
        for (const int min_neighbors : {0, 1, 2})
            for (const Layout layout : {Layout{0, 0}, Layout{1 + random() % 20, random() % 16}}) {
                const std::string where = describe(s) + ", " + std::to_string(min_neighbors) + " neighbors, padding " +
                                          std::to_string(layout.padding);
                Lists masked(s, space(), allBytes(s)), plain(s, space(), allBytes(s) / 4, false);
                Link link(s, space(), min_neighbors, layout);
                link.send(flipped(link.reference(), 9, random), masked, where + ", sparse");
                link.send(flipped(link.reference(), 30, random), plain, where + ", no mask");
                link.send(noise(s.bytes(), random), plain, where + ", too short");
                link.send(noise(s.bytes(), random), masked, where + ", dense");
            }
}

// One tile and several, whole vectors and others; lists that just suffice, miss one entry, half or nearly all, in any order with
// lists that hold every byte.
TEST_P(FramediffEdges, ListsThatMayBeTooShortLoseNothing) {
    auto random = support::generator();
    for (const Shape s : {Shape{1, 7, 1}, Shape{3, 333, 3}, Shape{64, 512, 3}, Shape{240, 320, 3}, Shape{2000, 3, 4}})
        for (const int min_neighbors : {0, 2}) {
            Lists all(s, space(), allBytes(s));
            Link link(s, space(), min_neighbors, anyLayout(random));
            link.send(noise(s.bytes(), random), all, describe(s) + ", first");
            for (int i = 0; i < 12; ++i) {
                const Bytes frame = i % 3 == 2 ? noise(s.bytes(), random) : flipped(link.reference(), 2 + i * 7, random);
                const uint32_t entries = link.entriesOf(frame);
                const uint32_t capacities[] = {entries, entries - 1, entries / 2, 1, entries + 1};
                const uint32_t capacity = entries ? std::clamp(capacities[i % 5], 1u, allBytes(s)) : 1u;
                Lists shorter(s, space(), capacity);
                const std::string where = describe(s) + ", " + std::to_string(entries) + " entries, room for ";
                link.send(frame, shorter, where + std::to_string(capacity));
                if (i % 4 == 3)
                    link.send(noise(s.bytes(), random), all, where + "all");
            }
        }
}

#ifdef CUSIGHT_HAVE_CUDA

namespace {

// A region of device memory of which nothing else was ever written.
class Region {
  public:
    Region(Shape shape, int type, int left, const Bytes &tight = {}) {
        CUS_EXPECT_OK(cusMatCreate(&whole_, shape.rows + 2, shape.cols + left + 3, type, CUS_DEVICE));
        CUS_EXPECT_OK(cusMatRegion(&whole_, left, 1, shape.cols, shape.rows, &mat));
        if (tight.empty())
            return;
        cusMat host = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusMatWrap(&host, shape.rows, shape.cols, type, CUS_HOST, const_cast<uint8_t *>(tight.data()), 0));
        CUS_EXPECT_OK(cusMatUpload(&host, &mat, nullptr));
        CUS_EXPECT_OK(cusStreamSynchronize(nullptr));
    }
    cusMat mat = CUS_MAT_INIT;

  private:
    support::Mat whole_;
};

void encodeInTurn(Shape s, const Region &first, const Bytes &a, const Region &second, const Bytes &b, int min_neighbors,
                  uint32_t capacity) {
    Link link(s, CUS_DEVICE, min_neighbors, {});
    Lists lists(s, CUS_DEVICE, capacity);
    for (const bool turn : {true, false, true, true}) {
        CUS_EXPECT_OK(cusDiffEncode(link.encoder(), turn ? &first.mat : &second.mat, &lists.diff, nullptr));
        link.expect(turn ? a : b, lists, describe(s));
    }
}

} // namespace

// A captured call whose list is too short for some replays and not for others.
TEST(FramediffEdgesCuda, ReplaysOfAListThatMayBeTooShort) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const Shape s = {240, 320, 3};
    Link link(s, CUS_DEVICE, 0, {});
    TestMat frame(s.rows, s.cols, CUS_8UC3, CUS_DEVICE);
    Lists lists(s, CUS_DEVICE, allBytes(s) / 4, false);
    support::Owned<cusStreamDestroy> stream;
    CUS_ASSERT_OK(cusStreamCreate(&stream));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CUS_EXPECT_OK(cusDiffEncode(link.encoder(), &frame.mat, &lists.diff, stream));
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
    for (int i = 0; i < 40; ++i) {
        const Bytes next = flipped(link.reference(), 2 + random() % 6, random); // 1/2 to 1/7 of the bytes: a quarter fits
        frame.set(next.data());
        ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
        CUS_ASSERT_OK(cusStreamSynchronize(stream));
        link.expect(next, lists, "replay " + std::to_string(i));
    }
    EXPECT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// compute-sanitizer's initcheck finds any read outside the rows.
TEST(FramediffEdgesCuda, NothingOutsideTheRowsIsRead) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (const int channels : {1, 3, 4})
        for (const int left : {0, 1, 5})
            for (const int cols : {3, 40, 333}) {
                const Shape s = {6, cols, channels};
                const Bytes a = noise(s.bytes(), random), b = noise(s.bytes(), random);
                const Region first(s, typeOf(channels), left, a), second(s, typeOf(channels), left + 2, b);
                Region dst(s, CUS_8UC3, left);
                CUS_ASSERT_OK(cusHeatmap(&first.mat, &second.mat, &dst.mat, nullptr, nullptr));
                ASSERT_TRUE(support::elements(dst.mat) == reference::heatmap(a, b, s, 765)) << describe(s);
                CUS_ASSERT_OK(cusNoiseView(&first.mat, &first.mat, &dst.mat, 30, nullptr));
                ASSERT_TRUE(support::elements(dst.mat) == reference::noiseView(a, a, s, 30)) << describe(s);
                for (const int min_neighbors : {0, 2})
                    for (const uint32_t capacity : {allBytes(s), std::max(1u, allBytes(s) / 2)})
                        encodeInTurn(s, first, a, second, b, min_neighbors, capacity);
            }
}

#endif

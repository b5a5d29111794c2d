// Many frames by one call: the same bits as one by one, whatever else the encoders have encoded.
#include "framediff/support.hpp"

#include "framediff/backend.h"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime.h>
#endif

using namespace framediff_support;

namespace {

class FramediffBatch : public support::SpaceTest {};

// Encoders of one size, each with options and lists of its own.
class Cameras {
  public:
    Cameras(Shape shape, cusSpace space, int count, std::mt19937_64 &random, bool plain = false)
        : shape_(shape), space_(space), random_(random) {
        const auto layouts = support::layouts(CUS_8UC1);
        for (int i = 0; i < count; ++i) {
            const int neighbors = plain || random() % 3 ? 0 : 1 + static_cast<int>(random() % 4);
            const uint32_t room =
                plain || random() % 3 ? allBytes(shape) : 1 + static_cast<uint32_t>(random()) % allBytes(shape);
            layouts_.push_back(plain ? Layout{} : layouts[random() % layouts.size()]);
            links_.emplace_back(shape, space, neighbors, layouts_.back(), static_cast<int>(random() % 40));
            lists_.emplace_back(shape, space, room, !plain && random() % 2 == 0);
        }
    }

    // Sends a frame of each of some cameras by one call, or by one call each.
    void send(const std::vector<size_t> &cameras, bool together, const std::string &where) {
        std::vector<Bytes> bytes;
        std::deque<TestMat> mats;
        std::vector<cusDiffEncoder *> encoders;
        std::vector<cusMat> frames;
        std::vector<cusSparseDiff> diffs;
        for (const size_t c : cameras) {
            const uint64_t periods[] = {2, 9, 30, 200};
            bytes.push_back(random_() % 8 ? flipped(links_[c].reference(), periods[random_() % 4], random_)
                                          : noise(shape_.bytes(), random_));
            if (!together) {
                links_[c].send(bytes.back(), lists_[c], where + ", alone, camera " + std::to_string(c));
                continue;
            }
            mats.emplace_back(shape_.rows, shape_.cols, typeOf(shape_.channels), space_, layouts_[c], bytes.back().data());
            encoders.push_back(links_[c].encoder());
            frames.push_back(mats.back().mat);
            diffs.push_back(lists_[c].diff);
        }
        if (!together)
            return;
        std::string too_short;
        for (size_t i = cameras.size(); i-- > 0;)
            if (links_[cameras[i]].entriesOf(bytes[i]) > diffs[i].capacity)
                too_short = ", diff[" + std::to_string(i) + "] has capacity " + std::to_string(diffs[i].capacity);
        const int count = static_cast<int>(cameras.size());
        const cusStatus status = cusDiffEncodeBatch(count, encoders.data(), frames.data(), diffs.data(), nullptr);
        if (space_ == CUS_HOST && !too_short.empty()) {
            ASSERT_EQ(status, CUS_ERROR_CAPACITY) << where;
            ASSERT_NE(std::string(cusLastError()).find(too_short), std::string::npos) << cusLastError() << too_short;
        } else {
            ASSERT_EQ(status, CUS_OK) << cusLastError();
        }
        for (size_t i = 0; i < cameras.size(); ++i) {
            links_[cameras[i]].expect(bytes[i], lists_[cameras[i]],
                                      where + ", camera " + std::to_string(cameras[i]) + " of " + std::to_string(count));
            ASSERT_TRUE(mats[i].intact()) << where;
        }
    }

    std::vector<size_t> some(size_t count) {
        std::vector<size_t> all(links_.size());
        for (size_t i = 0; i < all.size(); ++i)
            all[i] = i;
        std::shuffle(all.begin(), all.end(), random_);
        all.resize(count);
        return all;
    }

  private:
    const Shape shape_;
    const cusSpace space_;
    std::mt19937_64 &random_;
    std::vector<Layout> layouts_;
    std::deque<Link> links_;
    std::deque<Lists> lists_;
};

} // namespace

CUS_BOTH_SPACES(FramediffBatch);

TEST_P(FramediffBatch, EqualsOneByOne) {
    auto random = support::generator();
    for (const int count : {1, 2, 7, 32, 33, 65, 70})
        for (const int channels : {1, 3, 4}) {
            const Shape s = {1 + static_cast<int>(random() % 20), 1 + static_cast<int>(random() % 300), channels};
            Cameras cameras(s, space(), count, random);
            for (int round = 0; round < 3 && !HasFailure(); ++round)
                cameras.send(cameras.some(static_cast<size_t>(count)), true, describe(s));
        }
}

// Frames of several blocks and chunks, with whole vectors and without. Batches of any number take turns with single calls,
// which divide a frame in another way.
TEST_P(FramediffBatch, TakesTurnsWithSingleCalls) {
    auto random = support::generator();
    for (const Shape s : {Shape{120, 512, 3}, Shape{200, 512, 1}, Shape{197, 301, 4}})
        for (const bool plain : {true, false}) {
            Cameras cameras(s, space(), 10, random, plain);
            for (int round = 0; round < 8 && !HasFailure(); ++round)
                cameras.send(cameras.some(1 + random() % 10), round % 3 != 2,
                             describe(s) + ", round " + std::to_string(round));
        }
}

// On the device these are launches of a few frames each, or of one.
TEST_P(FramediffBatch, LargeFrames) {
    auto random = support::generator();
    Cameras some({720, 1280, 3}, space(), 3, random);
    for (int round = 0; round < 2 && !HasFailure(); ++round)
        some.send(some.some(3), true, "720 x 1280");
    if (space() == CUS_HOST)
        return; // nothing else happens there
    Cameras large({2160, 3840, 3}, space(), 2, random, true);
    large.send(large.some(2), true, "2160 x 3840");
}

TEST_P(FramediffBatch, BadOnesAreRejectedWithAClearMessage) {
    const Shape s{4, 6, 3};
    Encoder one(s, space()), two(s, space()), smaller({4, 5, 3}, space()), gray({4, 6, 1}, space());
    Lists lists(s, space(), 72), more(s, space(), 72), other({5, 9, 3}, space(), 135);
    const Bytes bytes(s.bytes(), 99);
    TestMat a(4, 6, CUS_8UC3, space(), {}, bytes.data()), small(4, 5, CUS_8UC3, space()), plane(4, 6, CUS_8UC1, space());
    cusDiffEncoder *encoders[2] = {one.p, two.p};
    cusMat frames[2] = {a.mat, a.mat};
    cusSparseDiff diffs[2] = {lists.diff, more.diff};
    const auto call = [&](int count) { return cusDiffEncodeBatch(count, encoders, frames, diffs, nullptr); };
    CUS_REJECTS(call(0), VALUE, "cusDiffEncodeBatch: count is 0, expected 1..1024");
    CUS_REJECTS(call(1025), VALUE, "cusDiffEncodeBatch: count is 1025, expected 1..1024");
    CUS_REJECTS(cusDiffEncodeBatch(2, nullptr, frames, diffs, nullptr), NULL, "encoder is NULL");
    CUS_REJECTS(cusDiffEncodeBatch(2, encoders, nullptr, diffs, nullptr), NULL, "frame is NULL");
    CUS_REJECTS(cusDiffEncodeBatch(2, encoders, frames, nullptr, nullptr), NULL, "diff is NULL");
    encoders[1] = nullptr;
    CUS_REJECTS(call(2), NULL, "cusDiffEncodeBatch: encoder[1] is NULL");
    encoders[1] = one.p;
    CUS_REJECTS(call(2), ALIAS, "cusDiffEncodeBatch: encoder[1] is encoder[0], expected one for each frame");
    encoders[1] = smaller.p;
    CUS_REJECTS(call(2), SIZE, "encoder[1] is 4 x 5 (rows x cols), expected 4 x 6 like encoder[0]");
    encoders[1] = gray.p;
    CUS_REJECTS(call(2), TYPE, "encoder[1] has type 8UC1, expected 8UC3 like encoder[0]");
    encoders[1] = two.p;
    two.p->guard.busy = 1;
    CUS_REJECTS(call(2), BUSY, "encoder[1] is in use by another call, expected one call at a time");
    two.p->guard.busy = 0;
    frames[1] = small.mat;
    CUS_REJECTS(call(2), SIZE, "frame[1] is 4 x 5 (rows x cols), expected 4 x 6 like encoder[1]");
    frames[1] = plane.mat;
    CUS_REJECTS(call(2), TYPE, "frame[1] has type 8UC1, expected 8UC3 like encoder[1]");
    frames[1] = cusMat(CUS_MAT_INIT);
    CUS_REJECTS(call(2), NULL, "frame[1] is an empty matrix");
    CUS_ASSERT_OK(cusDiffEncoderReference(two.p, &frames[1]));
    CUS_REJECTS(call(2), ALIAS, "frame[1] overlaps the reference of encoder[1]");
    frames[1] = a.mat;
    diffs[1] = cusSparseDiff(CUS_SPARSE_DIFF_INIT);
    CUS_REJECTS(call(2), NULL, "diff[1] is empty; create it with cusSparseDiffCreate");
    diffs[1] = other.diff;
    CUS_REJECTS(call(2), SIZE, "diff[1]'s mask is 5 x 4 (rows x cols), expected 4 x 3");
    diffs[1].mask.step = 1;
    CUS_REJECTS(call(2), SIZE, "diff[1]'s mask has a step of 1");
    EXPECT_EQ(one.reference(), Bytes(s.bytes(), 0)) << "a rejected call has changed something";
    diffs[1] = more.diff;
    CUS_ASSERT_OK(call(2)); // all objects are free again
    EXPECT_EQ(one.reference(), bytes);
    EXPECT_EQ(two.reference(), bytes);
}

TEST(FramediffSpaces, BatchesOfBothSpacesAreNamed) {
    const Shape s{2, 3, 1};
    Encoder host(s, CUS_HOST), second(s, CUS_HOST);
    second.p->ref.space = CUS_DEVICE; // needs no GPU: nothing looks further
    cusDiffEncoder *encoders[2] = {host.p, second.p};
    TestMat frame(s.rows, s.cols, CUS_8UC1, CUS_HOST);
    Lists lists(s, CUS_HOST, 6);
    const cusMat frames[2] = {frame.mat, frame.mat};
    cusSparseDiff diffs[2] = {lists.diff, lists.diff};
    CUS_REJECTS(cusDiffEncodeBatch(2, encoders, frames, diffs, nullptr), SPACE,
                "encoder[1] is in CUS_DEVICE, expected CUS_HOST like encoder[0]");
    second.p->ref.space = CUS_HOST;
}

#ifdef CUSIGHT_HAVE_CUDA

// A captured batch has a launch for the filter, one for all frames, and one for the lists that may be too short, however many
// there are. Its replays give what single calls would.
TEST(FramediffBatchCuda, ReplaysAndLaunches) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const Shape s = {48, 640, 3};
    for (const bool all : {false, true}) { // with a filter and short lists
        constexpr size_t COUNT = 32;
        std::deque<Link> links;
        std::deque<Lists> lists;
        std::deque<TestMat> mats;
        std::vector<cusDiffEncoder *> encoders;
        std::vector<cusMat> frames;
        std::vector<cusSparseDiff> diffs;
        for (size_t i = 0; i < COUNT; ++i) {
            links.emplace_back(s, CUS_DEVICE, all && i % 5 == 0 ? 2 : 0, Layout{});
            lists.emplace_back(s, CUS_DEVICE, all && i % 3 == 0 ? allBytes(s) / 4 : allBytes(s), all && i % 2 == 0);
            mats.emplace_back(s.rows, s.cols, CUS_8UC3, CUS_DEVICE);
            encoders.push_back(links.back().encoder());
            frames.push_back(mats.back().mat);
            diffs.push_back(lists.back().diff);
        }
        support::Owned<cusStreamDestroy> stream;
        CUS_ASSERT_OK(cusStreamCreate(&stream));
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        CUS_EXPECT_OK(cusDiffEncodeBatch(COUNT, encoders.data(), frames.data(), diffs.data(), stream));
        ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
        size_t launches = 0;
        ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &launches), cudaSuccess);
        EXPECT_EQ(launches, all ? 3u : 1u);
        ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
        for (int round = 0; round < 8 && !HasFailure(); ++round) {
            std::vector<Bytes> bytes;
            for (size_t i = 0; i < COUNT; ++i) {
                bytes.push_back(flipped(links[i].reference(), 2 + random() % 20, random));
                mats[i].set(bytes.back().data());
            }
            ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
            CUS_ASSERT_OK(cusStreamSynchronize(stream));
            for (size_t i = 0; i < COUNT; ++i)
                links[i].expect(bytes[i], lists[i], "replay " + std::to_string(round) + ", frame " + std::to_string(i));
        }
        EXPECT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
}

#endif

// Frames of which much changes: exactness of encoder and decoder when dense and other frames follow each other, in any order, at
// any address. On a GPU the frame after a dense one is encoded by a kernel of its own, whatever it holds.
#include "cusight/framediff.h"

#include "reference/framediff.hpp"
#include "support.hpp"

#include <algorithm>
#include <string>
#include <vector>

using reference::Shape;
using support::Layout;
using support::TestMat;
using Bytes = std::vector<uint8_t>;

namespace {

constexpr int THRESHOLD = 20;

int typeOf(int channels) {
    return CUS_MAKETYPE(CUS_8U, channels);
}

Bytes noise(size_t n, std::mt19937_64 &random) {
    Bytes bytes(n);
    for (auto &b : bytes)
        b = static_cast<uint8_t>(random());
    return bytes;
}

// A copy in which about one byte in `period` differs by 128.
Bytes flipped(const Bytes &frame, uint64_t period, std::mt19937_64 &random) {
    Bytes next = frame;
    for (auto &b : next)
        if (random() % period == 0)
            b = static_cast<uint8_t>(b ^ 128);
    return next;
}

// A copy of which the second half, one row of 16 bytes in two or one byte in 16 differs by 128.
Bytes striped(const Bytes &frame, int kind) {
    Bytes next = frame;
    for (size_t i = 0; i < next.size(); ++i)
        if (kind == 0 ? i >= next.size() / 2 : kind == 1 ? i / 16 % 2 == 0 : i % 16 == 15)
            next[i] = static_cast<uint8_t>(next[i] ^ 128);
    return next;
}

// The output of an encoder, at any address in larger blocks of memory.
class Lists {
  public:
    Lists(Shape s, cusSpace space, uint32_t capacity, bool with_mask = true, Layout positions = {}, Layout values = {})
        : shape_(s), positions_(1, static_cast<int>(capacity), CUS_32SC1, space, positions),
          values_(1, static_cast<int>(capacity), CUS_8UC1, space, values), count_(1, 1, CUS_32SC1, space),
          mask_(s.rows, static_cast<int>((static_cast<size_t>(s.cols) * static_cast<size_t>(s.channels) + 7) / 8), CUS_8UC1,
                space, {3, 1}) {
        diff.positions = positions_.mat;
        diff.values = values_.mat;
        diff.count = count_.mat;
        if (with_mask)
            diff.mask = mask_.mat;
        diff.capacity = capacity;
    }

    void expect(const reference::Entries &want, const std::string &where) {
        ASSERT_EQ(count_.get<uint32_t>()[0], want.positions.size()) << where;
        if (want.positions.size() <= diff.capacity) {
            auto positions = positions_.get<uint32_t>();
            auto values = values_.get();
            positions.resize(want.positions.size());
            values.resize(want.values.size());
            ASSERT_TRUE(positions == want.positions) << where << ": positions differ";
            ASSERT_TRUE(values == want.values) << where << ": values differ";
        }
        if (diff.mask.data) {
            ASSERT_TRUE(mask_.get() == reference::mask(want, shape_)) << where << ": masks differ";
        }
        ASSERT_TRUE(positions_.intact() && values_.intact() && mask_.intact()) << where;
    }

    cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;

  private:
    const Shape shape_;
    TestMat positions_, values_, count_, mask_;
};

// An encoder and a decoder beside their reference.
class Link {
  public:
    Link(Shape s, cusSpace space, int min_neighbors, Layout layout)
        : shape_(s), space_(space), min_neighbors_(min_neighbors), layout_(layout), reference_(s.bytes()) {
        const cusDiffOptions options = {THRESHOLD, min_neighbors};
        CUS_EXPECT_OK(cusDiffEncoderCreate(&encoder_, s.rows, s.cols, typeOf(s.channels), space, &options));
        CUS_EXPECT_OK(cusDiffDecoderCreate(&decoder_, s.rows, s.cols, typeOf(s.channels), space));
    }
    ~Link() {
        cusDiffEncoderDestroy(encoder_);
        cusDiffDecoderDestroy(decoder_);
    }
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    // Encodes and decodes a frame; compares lists, mask and both frames. A list that does not fit leaves both as they were.
    void send(const Bytes &frame, Lists &lists, const std::string &where) {
        TestMat mat(shape_.rows, shape_.cols, typeOf(shape_.channels), space_, layout_, frame.data());
        Bytes after = reference_;
        const auto want = reference::encode(after, frame, shape_, THRESHOLD, min_neighbors_);
        const bool fits = want.positions.size() <= lists.diff.capacity;
        ASSERT_EQ(cusDiffEncode(encoder_, &mat.mat, &lists.diff, nullptr),
                  fits || space_ == CUS_DEVICE ? CUS_OK : CUS_ERROR_CAPACITY)
            << where;
        lists.expect(want, where);
        if (fits) {
            CUS_ASSERT_OK(cusDiffDecode(decoder_, &lists.diff, nullptr));
            reference_ = after;
        }
        cusMat view = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusDiffEncoderReference(encoder_, &view));
        ASSERT_TRUE(support::elements(view) == reference_) << where << ": the encoder's reference differs";
        CUS_ASSERT_OK(cusDiffDecoderFrame(decoder_, &view));
        ASSERT_TRUE(support::elements(view) == reference_) << where << ": the decoder's frame differs";
        ASSERT_TRUE(mat.intact()) << where;
    }

    // Frames of all kinds, each after a dense one.
    void sendAllKinds(Lists &lists, std::mt19937_64 &random, const std::string &where) {
        const Bytes a = noise(shape_.bytes(), random), b = noise(shape_.bytes(), random);
        send(a, lists, where + ", first");
        send(b, lists, where + ", dense after the first");
        Bytes inverse = b;
        for (auto &byte : inverse)
            byte = static_cast<uint8_t>(byte ^ 128);
        send(inverse, lists, where + ", every byte");
        for (int kind = 0; kind < 3; ++kind) {
            send(a, lists, where + ", dense");
            send(striped(reference_, kind), lists, where + ", striped " + std::to_string(kind));
        }
        send(b, lists, where + ", dense");
        send(reference_, lists, where + ", unchanged");
        for (const uint64_t period : {uint64_t{3}, uint64_t{100}, uint64_t{100000}}) {
            send(noise(shape_.bytes(), random), lists, where + ", dense");
            send(flipped(reference_, period, random), lists, where + ", one in " + std::to_string(period));
            send(flipped(reference_, period, random), lists, where + ", again one in " + std::to_string(period));
        }
    }

  private:
    const Shape shape_;
    const cusSpace space_;
    const int min_neighbors_;
    const Layout layout_;
    Bytes reference_;
    cusDiffEncoder *encoder_ = nullptr;
    cusDiffDecoder *decoder_ = nullptr;
};

uint32_t allBytes(Shape s) {
    return static_cast<uint32_t>(s.bytes());
}

std::string describe(Shape s) {
    return std::to_string(s.rows) + " x " + std::to_string(s.cols) + " x " + std::to_string(s.channels);
}

class FramediffDense : public support::SpaceTest {};

} // namespace

CUS_BOTH_SPACES(FramediffDense);

// Whole units of 16 bytes and others; a tile of the dense kernel has 16 KiB: less than one, about one, several, with a rest.
TEST_P(FramediffDense, FramesOfAllKindsAfterADenseOne) {
    auto random = support::generator();
    for (const Shape s : {Shape{1, 1, 1}, Shape{3, 5, 3}, Shape{1, 20000, 1}, Shape{20000, 1, 1}, Shape{64, 256, 1},
                          Shape{64, 257, 1}, Shape{63, 256, 1}, Shape{120, 160, 3}, Shape{97, 131, 4}}) {
        for (const int min_neighbors : {0, 2})
            for (const bool with_mask : {false, true}) {
                Lists lists(s, space(), allBytes(s), with_mask);
                Link(s, space(), min_neighbors, {})
                    .sendAllKinds(lists, random, describe(s) + (with_mask ? " with mask" : ""));
                if (HasFatalFailure())
                    return;
            }
    }
}

TEST_P(FramediffDense, FramesAndListsAtAnyAddress) {
    auto random = support::generator();
    const Shape s = {61, 272, 3};
    for (const Layout &layout : support::layouts(typeOf(s.channels)))
        for (const Layout &list : {Layout{}, Layout{0, 4}, Layout{0, 12}}) {
            Lists lists(s, space(), allBytes(s), false, list, {0, list.offset / 4});
            Link(s, space(), 0, layout).sendAllKinds(lists, random, describe(s));
            if (HasFatalFailure())
                return;
        }
}

TEST_P(FramediffDense, ManyTiles) {
    auto random = support::generator();
    const Shape s = {720, 1280, 3}; // 169 tiles of the dense kernel
    Lists lists(s, space(), allBytes(s));
    Link link(s, space(), 0, {});
    for (int i = 0; i < 3; ++i)
        link.send(noise(s.bytes(), random), lists, "dense");
    link.send(Bytes(s.bytes(), 7), lists, "one color");
    link.send(Bytes(s.bytes(), 7), lists, "unchanged");
}

// The dense kernel only sees lists that hold every byte; a shorter one after dense frames, too short or not, loses nothing.
TEST_P(FramediffDense, ShorterListsAfterDenseFrames) {
    auto random = support::generator();
    const Shape s = {90, 320, 3};
    Lists all(s, space(), allBytes(s)), shorter(s, space(), allBytes(s) / 2);
    Link link(s, space(), 0, {});
    for (int i = 0; i < 2; ++i) {
        const Bytes a = noise(s.bytes(), random);
        link.send(a, all, "dense");
        link.send(noise(s.bytes(), random), shorter, "does not fit");
        link.send(flipped(a, 5, random), shorter, "fits");
        link.send(noise(s.bytes(), random), all, "dense again");
    }
}

TEST_P(FramediffDense, FilteredFramesAtAnyAddress) {
    auto random = support::generator();
    for (const Shape s : {Shape{33, 77, 3}, Shape{1, 500, 1}, Shape{61, 65, 4}})
        for (const int min_neighbors : {1, 5, 8})
            for (const Layout &layout : support::layouts(typeOf(s.channels))) {
                Lists lists(s, space(), allBytes(s), true, {0, 4}, {0, 1});
                Link(s, space(), min_neighbors, layout).sendAllKinds(lists, random, describe(s));
                if (HasFatalFailure())
                    return;
            }
}

// Each matrix at an address of its own, for all 16 of them; the largest and the smallest differences.
TEST_P(FramediffDense, PicturesOfMatricesAtDifferentAddresses) {
    auto random = support::generator();
    for (const int channels : {1, 3, 4})
        for (size_t offset = 0; offset < 16; ++offset) {
            const Shape s = {9, 150, channels};
            Bytes a = noise(s.bytes(), random), b = striped(a, static_cast<int>(offset % 3));
            if (offset % 4 == 0)
                std::fill(a.begin(), a.end(), uint8_t{0}), std::fill(b.begin(), b.end(), uint8_t{255});
            TestMat prev(s.rows, s.cols, typeOf(channels), space(), {random() % 20, offset}, a.data());
            TestMat cur(s.rows, s.cols, typeOf(channels), space(), {random() % 20, random() % 16}, b.data());
            TestMat dst(s.rows, s.cols, CUS_8UC3, space(), {random() % 20, random() % 16});
            CUS_ASSERT_OK(cusHeatmap(&prev.mat, &cur.mat, &dst.mat, nullptr, nullptr));
            ASSERT_TRUE(dst.get() == reference::heatmap(a, b, s, 765)) << channels << ' ' << offset;
            CUS_ASSERT_OK(cusNoiseView(&prev.mat, &cur.mat, &dst.mat, 30, nullptr));
            ASSERT_TRUE(dst.get() == reference::noiseView(a, b, s, 30)) << channels << ' ' << offset;
            ASSERT_TRUE(dst.intact() && prev.intact() && cur.intact());
        }
}

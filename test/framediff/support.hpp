// An encoder and a decoder beside their reference: what several tests of framediff share.
#pragma once

#include "cusight/framediff.h"

#include "reference/framediff.hpp"
#include "../support.hpp"

#include <string>
#include <vector>

namespace framediff_support {

using reference::Shape;
using support::Layout;
using support::TestMat;
using Bytes = std::vector<uint8_t>;

inline int typeOf(int channels) {
    return CUS_MAKETYPE(CUS_8U, channels);
}

inline Bytes noise(size_t n, std::mt19937_64 &random) {
    Bytes bytes(n);
    for (auto &b : bytes)
        b = static_cast<uint8_t>(random());
    return bytes;
}

// A copy in which about one byte in `period` differs by 128.
inline Bytes flipped(const Bytes &frame, uint64_t period, std::mt19937_64 &random) {
    Bytes next = frame;
    for (auto &b : next)
        if (random() % period == 0)
            b = static_cast<uint8_t>(b ^ 128);
    return next;
}

inline uint32_t allBytes(Shape s) {
    return static_cast<uint32_t>(s.bytes());
}

inline std::string describe(Shape s) {
    return std::to_string(s.rows) + " x " + std::to_string(s.cols) + " x " + std::to_string(s.channels);
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
        if (diff.mask.data)
            ASSERT_TRUE(mask_.get() == reference::mask(want, shape_)) << where << ": masks differ";
        ASSERT_TRUE(positions_.intact() && values_.intact() && mask_.intact()) << where;
    }

    cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;

  private:
    const Shape shape_;
    TestMat positions_, values_, count_, mask_;
};

struct Encoder {
    support::Owned<cusDiffEncoderDestroy> p;
    Encoder(Shape s, cusSpace space, cusDiffOptions options = cusDiffDefaults()) {
        CUS_EXPECT_OK(cusDiffEncoderCreate(&p, s.rows, s.cols, typeOf(s.channels), space, &options));
    }
    Bytes reference() const {
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusDiffEncoderReference(p, &view));
        return support::elements(view);
    }
};

struct Decoder {
    support::Owned<cusDiffDecoderDestroy> p;
    Decoder(Shape s, cusSpace space) { CUS_EXPECT_OK(cusDiffDecoderCreate(&p, s.rows, s.cols, typeOf(s.channels), space)); }
    Bytes frame() const {
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusDiffDecoderFrame(p, &view));
        return support::elements(view);
    }
};

// Heatmap and noise view of two frames that lie in these layouts, as does the picture.
inline void expectPictures(Shape s, const Bytes &prev, const Bytes &cur, cusSpace space, const Layout (&layouts)[3]) {
    SCOPED_TRACE(describe(s) + ", padding " + std::to_string(layouts[0].padding));
    TestMat p(s.rows, s.cols, typeOf(s.channels), space, layouts[0], prev.data());
    TestMat c(s.rows, s.cols, typeOf(s.channels), space, layouts[1], cur.data());
    TestMat dst(s.rows, s.cols, CUS_8UC3, space, layouts[2]);
    CUS_ASSERT_OK(cusHeatmap(&p.mat, &c.mat, &dst.mat, nullptr, nullptr));
    ASSERT_TRUE(dst.get() == reference::heatmap(prev, cur, s, 765));
    CUS_ASSERT_OK(cusNoiseView(&p.mat, &c.mat, &dst.mat, 30, nullptr));
    ASSERT_TRUE(dst.get() == reference::noiseView(prev, cur, s, 30));
    ASSERT_TRUE(dst.intact() && p.intact() && c.intact());
}

// An encoder and a decoder beside their reference.
class Link {
  public:
    Link(Shape s, cusSpace space, int min_neighbors, Layout layout, int threshold = 20)
        : shape_(s), space_(space), min_neighbors_(min_neighbors), layout_(layout), threshold_(threshold),
          reference_(s.bytes()), encoder_(s, space, {threshold, min_neighbors, {}}), decoder_(s, space) {}

    // Encodes and decodes a frame; compares lists, mask and both frames. A list that does not fit leaves both as they were.
    void send(const Bytes &frame, Lists &lists, const std::string &where) {
        TestMat mat(shape_.rows, shape_.cols, typeOf(shape_.channels), space_, layout_, frame.data());
        const cusStatus status = cusDiffEncode(encoder_.p, &mat.mat, &lists.diff, nullptr);
        expect(frame, lists, where);
        ASSERT_EQ(status, fits_ || space_ == CUS_DEVICE ? CUS_OK : CUS_ERROR_CAPACITY) << where;
        ASSERT_TRUE(mat.intact()) << where;
    }

    // The same after somebody else has encoded the frame.
    void expect(const Bytes &frame, Lists &lists, const std::string &where) {
        Bytes after = reference_;
        const auto want = reference::encode(after, frame, shape_, threshold_, min_neighbors_);
        lists.expect(want, where);
        fits_ = want.positions.size() <= lists.diff.capacity;
        if (fits_) {
            CUS_ASSERT_OK(cusDiffDecode(decoder_.p, &lists.diff, nullptr));
            reference_ = after;
        } else {
            uint32_t count = 0;
            CUS_REJECTS(cusSparseDiffCount(&lists.diff, &count, nullptr), CAPACITY,
                        std::to_string(want.positions.size()) + " bytes changed, capacity is " +
                            std::to_string(lists.diff.capacity));
            ASSERT_EQ(count, want.positions.size()) << where;
            (void)cusDiffDecode(decoder_.p, &lists.diff, nullptr); // decodes nothing
        }
        ASSERT_TRUE(encoder_.reference() == reference_) << where << ": the encoder's reference differs";
        ASSERT_TRUE(decoder_.frame() == reference_) << where << ": the decoder's frame differs";
    }

    // The number of entries of a frame sent next.
    uint32_t entriesOf(const Bytes &frame) const {
        Bytes after = reference_;
        return static_cast<uint32_t>(reference::encode(after, frame, shape_, threshold_, min_neighbors_).positions.size());
    }

    // What encoder and decoder hold.
    const Bytes &reference() const { return reference_; }
    cusDiffEncoder *encoder() const { return encoder_.p; }

  private:
    const Shape shape_;
    const cusSpace space_;
    const int min_neighbors_;
    const Layout layout_;
    const int threshold_;
    bool fits_ = true;
    Bytes reference_;
    Encoder encoder_;
    Decoder decoder_;
};

} // namespace framediff_support

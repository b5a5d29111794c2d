// Frames of which much changes: exactness of encoder and decoder when dense and other frames follow each other, in any order, at
// any address. On a GPU the frame after a dense one is encoded by a kernel of its own, whatever it holds.
#include "framediff/support.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace framediff_support;

namespace {

// A copy of which the second half, one row of 16 bytes in two or one byte in 16 differs by 128.
Bytes striped(const Bytes &frame, int kind) {
    Bytes next = frame;
    for (size_t i = 0; i < next.size(); ++i)
        if (kind == 0 ? i >= next.size() / 2 : kind == 1 ? i / 16 % 2 == 0 : i % 16 == 15)
            next[i] = static_cast<uint8_t>(next[i] ^ 128);
    return next;
}

// Frames of all kinds, each after one dense frame and after two.
void sendAllKinds(Link &link, Shape shape, Lists &lists, std::mt19937_64 &random, const std::string &where) {
    for (int dense = 1; dense <= 2; ++dense) {
        const std::string after = where + ", after " + std::to_string(dense) + " dense: ";
        const auto sendDense = [&] { // after a frame without changes, so that what was sent before has no influence
            link.send(link.reference(), lists, where + ", unchanged");
            for (int i = 0; i < dense; ++i)
                link.send(noise(shape.bytes(), random), lists, where + ", dense");
        };
        sendDense();
        Bytes inverse = link.reference();
        for (auto &byte : inverse)
            byte = static_cast<uint8_t>(byte ^ 128);
        link.send(inverse, lists, after + "every byte");
        for (int kind = 0; kind < 3; ++kind) {
            sendDense();
            link.send(striped(link.reference(), kind), lists, after + "striped " + std::to_string(kind));
        }
        sendDense();
        link.send(link.reference(), lists, after + "unchanged");
        for (const uint64_t period : {uint64_t{3}, uint64_t{100}, uint64_t{100000}}) {
            sendDense();
            link.send(flipped(link.reference(), period, random), lists, after + "one in " + std::to_string(period));
            link.send(flipped(link.reference(), period, random), lists, after + "again one in " + std::to_string(period));
        }
    }
}

class FramediffDense : public support::SpaceTest {};

} // namespace

CUS_BOTH_SPACES(FramediffDense);

// Whole units of 16 bytes, in rows with padding on a GPU and without, and others; a tile of the dense kernel has 16 KiB:
// less than one, about one, several, with a rest.
TEST_P(FramediffDense, FramesOfAllKindsAfterADenseOne) {
    auto random = support::generator();
    for (const Shape s : {Shape{1, 1, 1}, Shape{3, 5, 3}, Shape{1, 20000, 1}, Shape{20000, 1, 1}, Shape{64, 256, 1},
                          Shape{64, 257, 1}, Shape{63, 256, 1}, Shape{64, 544, 3}, Shape{64, 512, 3}, Shape{32768, 1, 1},
                          Shape{8192, 1, 3}, Shape{120, 160, 3}, Shape{97, 131, 4}}) {
        for (const int min_neighbors : {0, 2})
            for (const bool with_mask : {false, true}) {
                Lists lists(s, space(), allBytes(s), with_mask);
                Link link(s, space(), min_neighbors, {});
                sendAllKinds(link, s, lists, random, describe(s) + (with_mask ? " with mask" : ""));
            }
    }
}

TEST_P(FramediffDense, FramesAndListsAtAnyAddress) {
    auto random = support::generator();
    for (const Shape s : {Shape{61, 272, 3}, Shape{32, 544, 3}})
        for (const Layout &layout : support::layouts(typeOf(s.channels)))
            for (const Layout &list : {Layout{}, Layout{0, 4}, Layout{0, 12}}) {
                Lists lists(s, space(), allBytes(s), false, list, {0, list.offset / 4});
                Link link(s, space(), 0, layout);
                sendAllKinds(link, s, lists, random, describe(s));
            }
}

// The last has several tiles for each block of a GPU.
TEST_P(FramediffDense, ManyTiles) {
    auto random = support::generator();
    for (const Shape s : {Shape{720, 1280, 3}, Shape{2160, 3840, 3}})
        for (const int min_neighbors : {0, 2}) {
            if (s.rows > 720 && space() == CUS_HOST)
                continue; // which has other tiles
            Lists lists(s, space(), allBytes(s), min_neighbors > 0);
            Link link(s, space(), min_neighbors, {});
            for (int i = 0; i < 3; ++i)
                link.send(noise(s.bytes(), random), lists, describe(s) + ", dense");
            link.send(striped(link.reference(), 1), lists, describe(s) + ", every second row of 16 bytes");
            for (const uint64_t period : {33, 2, 1000}) // enough tiles for several look-back windows
                link.send(flipped(link.reference(), period, random), lists, describe(s) + ", sparse");
            link.send(Bytes(s.bytes(), 7), lists, describe(s) + ", one color");
            link.send(Bytes(s.bytes(), 7), lists, describe(s) + ", unchanged");
        }
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

// Two encoders whose blocks share the GPU, and wait for other blocks of their own: none of them may keep those from running.
TEST(FramediffDenseCuda, EncodersOnTwoStreams) {
    CUS_NEEDS(CUS_DEVICE);
    constexpr int FRAMES = 12;
    auto random = support::generator();
    const Shape s = {2160, 3840, 3};
    const Bytes a = noise(s.bytes(), random), b = noise(s.bytes(), random);
    TestMat first(s.rows, s.cols, CUS_8UC3, CUS_DEVICE, {}, a.data()),
        second(s.rows, s.cols, CUS_8UC3, CUS_DEVICE, {}, b.data());
    Bytes expected(s.bytes());
    reference::Entries entries;
    for (int i = 0; i < FRAMES; ++i)
        entries = reference::encode(expected, i % 2 ? b : a, s, 20, 0);

    struct Both {
        explicit Both(Shape s) : lists(s, CUS_DEVICE, allBytes(s), false), encoder(s, CUS_DEVICE, {20, 0, {}}) {
            CUS_EXPECT_OK(cusStreamCreate(&stream));
        }
        Lists lists;
        support::Owned<cusStreamDestroy> stream;
        Encoder encoder;
    } one(s), other(s);
    for (int i = 0; i < FRAMES; ++i)
        for (Both *both : {&one, &other}) {
            CUS_ASSERT_OK(
                cusDiffEncode(both->encoder.p, i % 2 ? &second.mat : &first.mat, &both->lists.diff, both->stream));
            if (i < 2) { // now the device has reported how much changed
                CUS_ASSERT_OK(cusStreamSynchronize(both->stream));
            }
        }
    for (Both *both : {&one, &other}) {
        CUS_ASSERT_OK(cusStreamSynchronize(both->stream));
        both->lists.expect(entries, "the last frame");
        ASSERT_TRUE(both->encoder.reference() == expected);
    }
}

// The LZF codec against its reference, with valid and arbitrary data; blocks of LZ4.
#include "eventio/support.hpp"

#include "eventio/hdf5/codec.h"
#include "lzf.h"

using namespace eventio_test;

namespace {

TEST(EventCodec, LzfRoundTrip) {
    auto random = support::generator();
    for (int round = 0; round < 300; ++round) {
        const size_t n = 1 + random() % (round < 200 ? 400 : 100000);
        Bytes in(n);
        const unsigned kind = unsigned(random() % 4), spread = 1 + unsigned(random() % 255);
        for (size_t i = 0; i < n; ++i)
            in[i] = kind == 0   ? uint8_t(random() % spread)
                    : kind == 1 ? uint8_t(i / 8)
                    : kind == 2 ? 7
                                : uint8_t(i % spread);
        Bytes packed(n);
        const size_t size = cusi_lzfEncode(in.data(), n, packed.data());
        ASSERT_LT(size, n);
        if (!size)
            continue;
        packed.resize(size);
        Bytes plain, fast(n, 0xee);
        ASSERT_TRUE(reference::lzf(packed, n, plain));
        ASSERT_EQ(plain, in);
        ASSERT_TRUE(cusi_lzfDecode(packed.data(), size, fast.data(), n));
        ASSERT_EQ(fast, in);
        ASSERT_FALSE(cusi_lzfDecode(packed.data(), size, fast.data(), n - 1));
        ASSERT_FALSE(cusi_lzfDecode(packed.data(), size - 1, fast.data(), n));
    }
}

TEST(EventCodec, LzfOfArbitraryDataMatchesTheReference) {
    auto random = support::generator();
    int good = 0;
    for (int round = 0; round < 3000 || good <= 1000; ++round) {
        // Valid data with short literals and near matches; half of it has one bit changed.
        Bytes in;
        size_t made = 0;
        while (in.size() < 20 + random() % 300) {
            if (made < 2 || random() % 2) {
                const unsigned n = unsigned(random() % 32);
                in.push_back(uint8_t(n));
                for (unsigned k = 0; k <= n; ++k)
                    in.push_back(uint8_t(random()));
                made += n + 1;
            } else {
                const unsigned code = 1 + unsigned(random() % 7), more = unsigned(random() % 256);
                const size_t distance = random() % std::min<size_t>(made, 8192);
                in.push_back(uint8_t(code << 5 | distance >> 8));
                if (code == 7)
                    in.push_back(uint8_t(more));
                in.push_back(uint8_t(distance));
                made += code + 2 + (code == 7 ? more : 0);
            }
        }
        if (round % 2)
            in[random() % in.size()] ^= uint8_t(1 << random() % 8);
        Bytes plain, fast(made + 64, 0xee);
        const bool expected = reference::lzf(in, made, plain);
        ASSERT_EQ(cusi_lzfDecode(in.data(), in.size(), fast.data(), made) != 0, expected);
        for (size_t i = made; i < fast.size(); ++i)
            ASSERT_EQ(fast[i], 0xee); // not a byte past the end
        fast.resize(made);
        if (expected)
            ASSERT_EQ(fast, plain);
        good += expected;
    }
}

// Ten bytes in blocks of six: one that is stored, one of four literals.
TEST(EventCodec, Lz4Blocks) {
    const Bytes packed = {0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 6, 0, 0, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0, 5, 0x40, 7, 8, 9, 10};
    const auto decodes = [](const Bytes &in, size_t n) {
        Bytes out(n);
        return eventio_lz4Decode(in.data(), in.size(), out.data(), n) == 1;
    };
    Bytes out(10);
    if (eventio_lz4Decode(packed.data(), packed.size(), out.data(), out.size()) == -1)
        GTEST_SKIP() << "built without liblz4";
    EXPECT_EQ(out, (Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    for (size_t n = 0; n < packed.size(); ++n)
        EXPECT_FALSE(decodes(Bytes(packed.begin(), packed.begin() + long(n)), 10)) << n;
    EXPECT_FALSE(decodes(packed, 9));
    EXPECT_FALSE(decodes(packed, 11));
    Bytes longer = packed;
    longer.push_back(0);
    EXPECT_FALSE(decodes(longer, 10));
    for (const auto &[at, value] : {std::pair(11, 0), {11, 5}, {11, 7}, {15, 5}, {15, 7}, {25, 4}, {25, 255}, {26, 0x50}}) {
        Bytes bad = packed;
        bad[size_t(at)] = uint8_t(value);
        EXPECT_FALSE(decodes(bad, 10)) << at << ": " << value;
    }
}

} // namespace

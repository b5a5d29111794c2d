// The LZF codec against its reference, with valid and arbitrary data.
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

} // namespace

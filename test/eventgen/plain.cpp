// Events from video, a frame at a time and without noise, against reference::crossings.
#include "eventgen/support.hpp"

using reference::Events;

namespace {

TEST(EventGenerator, IsTheReference) {
    auto random = support::generator();
    for (const auto &[rows, cols] : support::sizes()) {
        cusEventGeneratorOptions options = cusEventGeneratorDefaults();
        options.positive = 0.05 + double(random() % 100) / 100;
        options.negative = 0.05 + double(random() % 100) / 100;
        support::Owned<cusEventGeneratorDestroy> generator;
        CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, rows, cols, &options));
        const size_t pixels = size_t(rows) * size_t(cols);
        std::vector<int32_t> references(pixels);
        std::vector<uint8_t> before(pixels), frame(pixels);
        int64_t last = -1, time = int64_t(random() % 1000);
        for (int k = 0; k < 4; ++k) {
            for (auto &v : frame)
                v = k && random() % 4 ? v : uint8_t(random() % (random() % 3 ? 256 : 25));
            support::TestMat mat(rows, cols, CUS_8UC1, CUS_HOST, support::layouts(CUS_8UC1)[size_t(k)], frame.data());
            cusEventArrays out = {};
            CUS_ASSERT_OK(cusEventGeneratorPush(generator, &mat.mat, time, &out));
            EXPECT_TRUE(mat.intact());
            if (k == 0) {
                EXPECT_EQ(out.count, 0u);
                for (size_t i = 0; i < pixels; ++i)
                    references[i] = reference::logIntensity(frame[i]);
            } else {
                const Events expected =
                    reference::crossings(before, frame, cols, last, time, int32_t(std::lround(options.positive * 65536)),
                                         int32_t(std::lround(options.negative * 65536)), references);
                Events got;
                for (size_t i = 0; i < out.count; ++i)
                    got.add(out.t[i], out.x[i], out.y[i], out.p[i]);
                ASSERT_TRUE(got == expected) << rows << " x " << cols << ", frame " << k;
                for (const int64_t t : got.t)
                    ASSERT_TRUE(t > last && t <= time);
            }
            before = frame;
            last = time;
            time += 1 + int64_t(random() % (k == 1 ? 3 : 5000000));
        }
    }
}

TEST(EventGenerator, WorkedExample) {
    // From 100 to 200 within 1000 us is ln 2 = 0.693 in log intensity: three crossings of 0.2, at 289, 578 and 866 us.
    cusEventGenerator *generator = nullptr;
    CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, 1, 1, nullptr));
    uint8_t value = 100;
    cusMat frame = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&frame, 1, 1, CUS_8UC1, CUS_HOST, &value, 0));
    cusEventArrays out = {};
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 0, &out));
    EXPECT_EQ(out.count, 0u);
    value = 200;
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 1000, &out));
    ASSERT_EQ(out.count, 3u);
    EXPECT_EQ(out.t[0], 289);
    EXPECT_EQ(out.t[1], 578);
    EXPECT_EQ(out.t[2], 866);
    EXPECT_EQ(out.p[0], 1);
    // No event without a change, nor for a step back that stays within a threshold of the last crossing.
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 2000, &out));
    EXPECT_EQ(out.count, 0u);
    value = 170;
    CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame, 3000, &out));
    EXPECT_EQ(out.count, 0u);
    CUS_REJECTS(cusEventGeneratorPush(generator, &frame, 3000, &out), VALUE, "time is 3000 us");
    support::Mat wrong;
    CUS_ASSERT_OK(cusMatCreate(&wrong, 2, 1, CUS_8UC1, CUS_HOST));
    CUS_REJECTS(cusEventGeneratorPush(generator, &wrong, 4000, &out), SIZE, "frame is 2 x 1");
    CUS_ASSERT_OK(cusMatCreate(&wrong, 1, 1, CUS_8UC3, CUS_HOST));
    CUS_REJECTS(cusEventGeneratorPush(generator, &wrong, 4000, &out), TYPE, "frame has type 8UC3");
    CUS_REJECTS(cusEventGeneratorPush(generator, nullptr, 4000, &out), NULL, "frame");
    CUS_REJECTS(cusEventGeneratorPush(nullptr, &frame, 4000, &out), NULL, "generator");
    CUS_REJECTS(cusEventGeneratorPush(generator, &frame, 4000, nullptr), NULL, "events");
    cusEventGeneratorDestroy(generator);
    cusEventGeneratorDestroy(nullptr);
    cusEventGeneratorOptions options = cusEventGeneratorDefaults();
    options.positive = 0.001;
    CUS_REJECTS(cusEventGeneratorCreate(&generator, 1, 1, &options), VALUE, "positive is 0.001, expected 0.01..10");
    CUS_REJECTS(cusEventGeneratorCreate(&generator, 0, 1, nullptr), VALUE, "0 x 1");
    CUS_REJECTS(cusEventGeneratorCreate(nullptr, 1, 1, nullptr), NULL, "generator");
}

} // namespace

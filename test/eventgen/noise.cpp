// Events from video with noise: both backends against reference::eventsOf, and the noise against what was asked for.
#include "eventgen/support.hpp"

#include "eventgen/pixel.h"

using namespace eventgen_test;

namespace {

class EventGeneration : public support::SpaceTest {};
CUS_BOTH_SPACES(EventGeneration);

// Each option is off in a third of the cases, and otherwise high enough that milliseconds show it.
Options randomOptions(std::mt19937_64 &random) {
    const auto some = [&](double most) {
        return random() % 3 ? most * static_cast<double>(random() % 1000 + 1) / 1000 : 0;
    };
    Options options = cusEventGeneratorDefaults();
    options.positive = 0.01 + some(0.5);
    options.negative = 0.01 + some(0.5);
    options.threshold_spread = some(0.1);
    options.refractory_us = static_cast<int64_t>(some(3000));
    options.leak_rate = some(100);
    options.leak_jitter = some(0.2);
    options.shot_rate = some(1000);
    options.seed = random();
    return options;
}

TEST_P(EventGeneration, IsTheReference) {
    auto random = support::generator();
    size_t all = 0;
    for (int round = 0; round < 40 || all <= 1000; ++round) { // until there was something to compare
        const int rows = 1 + static_cast<int>(random() % 9), cols = 1 + static_cast<int>(random() % 11);
        const Video video = randomVideo(rows, cols, 1 + static_cast<int>(random() % 14), round % 2 ? 3000 : 40, random);
        const Options options = randomOptions(random);
        const Events expected = reference::eventsOf(video.values, rows, cols, video.times, options);
        const int batch = 1 + static_cast<int>(random() % static_cast<uint64_t>(video.frames()));
        const support::Layout layout = support::layouts(CUS_8UC1)[random() % 4];
        ASSERT_TRUE(generate(video, options, space(), batch, layout) == expected)
            << "round " << round << ": " << rows << " x " << cols << ", " << video.frames() << " frames, " << batch
            << " a run";
        all += expected.size();
    }
}

// However frames are divided among runs, also one by one through Push, with sizes on both sides of a block.
TEST_P(EventGeneration, AnyDivisionGivesTheSameEvents) {
    auto random = support::generator();
    for (const auto &[rows, cols] : {std::pair(1, 255), {16, 16}, {1, 257}, {61, 83}}) {
        const Video video = randomVideo(rows, cols, 20, 30000, random);
        Options options = randomOptions(random);
        options.shot_rate = 20;
        options.positive = std::min(options.positive, 0.1); // so that there are events
        Events pushed;
        support::Owned<cusEventGeneratorDestroy> generator;
        CUS_ASSERT_OK(cusEventGeneratorCreate(&generator, rows, cols, &options));
        for (int f = 0; f < video.frames(); ++f) {
            support::TestMat frame(rows, cols, CUS_8UC1, CUS_HOST, {},
                                   &video.values[static_cast<size_t>(f) * video.pixels()]);
            cusEventArrays events = {};
            CUS_ASSERT_OK(cusEventGeneratorPush(generator, &frame.mat, video.times[static_cast<size_t>(f)], &events));
            for (size_t i = 0; i < events.count; ++i)
                pushed.add(events.t[i], events.x[i], events.y[i], events.p[i]);
        }
        EXPECT_GT(pushed.size(), 100u);
        for (const int batch : {1, 7, 20})
            EXPECT_TRUE(generate(video, options, space(), batch) == pushed) << rows << " x " << cols << ", " << batch;
    }
}

// Default options give the events of plain threshold crossings, at intervals that are too long to try each microsecond.
TEST_P(EventGeneration, DefaultsMakeNoNoise) {
    auto random = support::generator();
    const Video video = randomVideo(37, 41, 9, 500000000, random); // over an hour at most
    const Options options = cusEventGeneratorDefaults();
    std::vector<int32_t> references;
    for (size_t i = 0; i < video.pixels(); ++i)
        references.push_back(reference::logIntensity(video.values[i]));
    Events expected;
    const auto frame = [&](size_t f) {
        const auto at = video.values.begin() + static_cast<std::ptrdiff_t>(f * video.pixels());
        return std::vector<uint8_t>(at, at + static_cast<std::ptrdiff_t>(video.pixels()));
    };
    for (size_t f = 1; f < video.times.size(); ++f) {
        const Events some = reference::crossings(frame(f - 1), frame(f), video.cols, video.times[f - 1], video.times[f],
                                                 13107, 13107, references);
        for (size_t i = 0; i < some.size(); ++i)
            expected.add(some.t[i], some.x[i], some.y[i], some.p[i]);
    }
    EXPECT_TRUE(generate(video, options, space(), 4) == expected);
}

// The largest options over the longest intervals: products come close to 2^63, which UBSan watches.
TEST_P(EventGeneration, Extremes) {
    Video video = constantVideo(1, 5, 0, 4, (1 << 24) - 1);
    for (size_t i = 0; i < video.values.size(); ++i)
        video.values[i] = i / 5 % 2 ? 255 : static_cast<uint8_t>(i % 5);
    for (const double threshold : {0.01, 10.0})
        for (const int64_t refractory : {0, 1000000})
            for (const double shot_rate : {0.0, 1000.0}) {
                Options options = cusEventGeneratorDefaults();
                options.positive = options.negative = threshold;
                options.threshold_spread = 1;
                options.leak_rate = 100;
                options.leak_jitter = 0.2;
                options.refractory_us = refractory;
                options.shot_rate = shot_rate;
                const Events events = generate(video, options, space(), 4);
                EXPECT_TRUE(generate(video, options, space(), 1) == events);
                std::vector<int64_t> last(5, 0);
                for (size_t i = 0; i < events.size(); ++i) {
                    ASSERT_GE(events.t[i], last[events.x[i]] + refractory);
                    ASSERT_LE(events.t[i], video.times.back());
                    last[events.x[i]] = events.t[i];
                }
                EXPECT_GT(events.size(), refractory ? 5 * 20u : 5 * 1000u);
            }
}

// ---- The noise is what was asked for: v2e's model on a constant gray video ---------------------------------------------

struct Counts {
    double positive = 0, negative = 0; // events of a pixel per second
};

Counts rates(const Video &video, const Events &events) {
    Counts counts;
    for (const uint8_t p : events.p)
        (p ? counts.positive : counts.negative) += 1;
    const double all = static_cast<double>(video.pixels()) * 1e-6 * static_cast<double>(video.times.back());
    return {counts.positive / all, counts.negative / all};
}

// Four standard deviations of a Poisson number of events.
double tolerance(const Video &video, double rate) {
    return 4 * std::sqrt(rate / (static_cast<double>(video.pixels()) * 1e-6 * static_cast<double>(video.times.back())));
}

TEST_P(EventGeneration, LeakRate) {
    Options options = cusEventGeneratorDefaults();
    for (const double jitter : {0.0, 0.1})
        for (const double spread : {0.0, 0.03}) {
            options.leak_rate = 2;
            options.leak_jitter = jitter;
            options.threshold_spread = spread;
            options.seed = static_cast<uint64_t>(1000 * jitter + 100 * spread);
            const Video video = constantVideo(60, 70, 128, 200, 33333);
            const Counts got = rates(video, generate(video, options, space(), 64));
            EXPECT_EQ(got.negative, 0);
            // Intervals are regular, so their number is known much better than a Poisson number: each pixel's to about one.
            EXPECT_NEAR(got.positive, 2, 0.01) << jitter << " " << spread;
        }
}

// Leak events are spread evenly over time from the first frame on.
TEST_P(EventGeneration, PixelsDoNotLeakInStep) {
    Options options = cusEventGeneratorDefaults();
    options.leak_rate = 1;
    const Events events = generate(constantVideo(60, 70, 128, 100, 20000), options, space(), 100);
    std::vector<int> tenths(10);
    for (const int64_t t : events.t)
        if (t < 1000000)
            ++tenths[static_cast<size_t>(t / 100000)];
    for (const int n : tenths)
        EXPECT_NEAR(n, 420, 4 * std::sqrt(420));
}

TEST_P(EventGeneration, ShotRateFallsWithBrightness) {
    Options options = cusEventGeneratorDefaults();
    options.shot_rate = 10;
    for (const int value : {0, 100, 255}) {
        options.seed = static_cast<uint64_t>(value);
        const Video video = constantVideo(60, 70, value, 200, 33333);
        const double expected = 10 * (1 + (0.25 - 1) * (value + 20) / 275.0) / 2; // v2e: half of it for each polarity
        const Counts got = rates(video, generate(video, options, space(), 64));
        EXPECT_NEAR(got.positive, expected, tolerance(video, expected)) << value;
        EXPECT_NEAR(got.negative, expected, tolerance(video, expected)) << value;
    }
}

// A Poisson process of rate r with dead time d has the rate r / (1 + r d), and intervals of at least d.
TEST_P(EventGeneration, RefractoryPeriod) {
    Options options = cusEventGeneratorDefaults();
    options.shot_rate = 100;
    options.refractory_us = 5000;
    const Video video = constantVideo(60, 70, 0, 100, 10000);
    const Events events = generate(video, options, space(), 100);
    const double rate = 100 * (1 - 0.75 * 20 / 275), expected = rate / (1 + rate * 0.005);
    const Counts got = rates(video, events);
    EXPECT_NEAR(got.positive + got.negative, expected, tolerance(video, expected) + 0.005 * expected);
    std::vector<int64_t> last(video.pixels(), 0);
    for (size_t i = 0; i < events.size(); ++i) {
        int64_t &before = last[events.y[i] * size_t(70) + events.x[i]];
        ASSERT_GE(events.t[i] - before, 5000);
        before = events.t[i];
    }
}

// From 100 to 200 in 693147 us the log intensity rises by 1e-6 a microsecond, so the first event shows the pixel's threshold.
TEST_P(EventGeneration, ThresholdSpread) {
    Video video = constantVideo(100, 100, 100, 2, 693147);
    std::fill_n(video.values.begin() + 10000, 10000, uint8_t(200));
    Options options = cusEventGeneratorDefaults();
    options.threshold_spread = 0.03;
    const Events events = generate(video, options, space(), 2);
    std::vector<double> first(10000);
    for (size_t i = 0; i < events.size(); ++i) {
        double &t = first[events.y[i] * size_t(100) + events.x[i]];
        t = t > 0 ? t : static_cast<double>(events.t[i]) * 1e-6;
    }
    double sum = 0, squares = 0;
    for (const double t : first) {
        ASSERT_GT(t, 0);
        sum += t;
        squares += t * t;
    }
    const double mean = sum / 10000, sigma = std::sqrt(squares / 10000 - mean * mean);
    EXPECT_NEAR(mean, 0.2, 4 * 0.03 / 100);
    EXPECT_NEAR(sigma, 0.03, 4 * 0.03 / std::sqrt(2 * 10000.0));
}

// A pixel that is past its threshold when its refractory period ends emits then: three crossings, of which the second waits.
TEST_P(EventGeneration, CrossingsWaitForTheRefractoryPeriod) {
    Video video = constantVideo(1, 1, 100, 3, 1000);
    video.values[1] = video.values[2] = 200;
    Options options = cusEventGeneratorDefaults();
    options.refractory_us = 700;
    const Events events = generate(video, options, space(), 3);
    EXPECT_EQ(events.t, (std::vector<int64_t>{700, 1400})); // without: 289, 578, 866; what is left at 1400 waits until 2100
    EXPECT_EQ(events.p, (std::vector<uint8_t>{1, 1}));
}

// ---- Random numbers ----------------------------------------------------------------------------------------------------

// The published answers of Philox4x32-10 for counters and keys of zeros and of ones.
TEST(EventgenRandom, KnownAnswers) {
    using Words = std::array<uint32_t, 4>;
    EXPECT_EQ(reference::philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(reference::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    const uint32_t seed[2] = {0, 0};
    Words words;
    eventgenRandom(seed, 0, 0, 0, words.data());
    EXPECT_EQ(words, (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(EventgenRandom, NormalNumbers) {
    EXPECT_EQ(eventgenNormal(0, 0), -1020);
    EXPECT_EQ(eventgenNormal(~0u, ~0u), 1020);
    EXPECT_EQ(eventgenNormal(0x01020304, 0x05060708), 36 - 1020);
    const uint32_t seed[2] = {7, 8};
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < 100000; ++i) {
        uint32_t words[4];
        eventgenRandom(seed, i, 0, 0, words);
        const double g = eventgenNormal(words[0], words[1]) / EVENTGEN_NORMAL_SIGMA;
        sum += g;
        squares += g * g;
    }
    EXPECT_NEAR(sum / 100000, 0, 4 / std::sqrt(100000));
    EXPECT_NEAR(squares / 100000, 1, 4 * std::sqrt(2 / 100000.0));
}

TEST(EventgenRandom, WaitingTimes) {
    auto random = support::generator();
    for (int i = 0; i < 20000; ++i) {
        const uint32_t word = i < 32 ? ~uint32_t(0) >> i : i < 64 ? 1u << i % 32 : static_cast<uint32_t>(random());
        const int64_t waiting = eventgenWaiting(word);
        ASSERT_EQ(waiting, ((int64_t(33) << 16) - reference::log2Of(2 * uint64_t(word) + 1)) << 24);
        ASSERT_NEAR(std::ldexp(waiting, -40), 33 - std::log2(2.0 * word + 1), std::ldexp(1.5, -16)) << word;
        ASSERT_GT(waiting, 0);
    }
}

} // namespace

// Floats of every decade, subnormal and up to the largest: copies are found, score maps are within their bound, threads change nothing.
#include "match/support.hpp"

extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace {

using namespace match_test;

class MatchScales : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchScales);

constexpr int ROWS = 34, COLS = 45, H = 8, W = 9, Y = 21, X = 29;
constexpr int SMALLEST = -45, LARGEST = 38; // decades

// Dull noise and, at (X, Y), a part of high contrast with the largest values: each method finds it. From 0 to 2.6, so that every decade
// holds it, the smallest with three values.
Image<float> scene(int channels, std::mt19937_64 &random) {
    Image<float> image{ROWS, COLS, channels, {}};
    for (int y = 0; y < ROWS; ++y)
        for (int x = 0; x < COLS; ++x)
            for (int c = 0; c < channels; ++c) {
                const bool bright = y >= Y && y < Y + H && x >= X && x < X + W;
                const double noise = static_cast<double>(random() % 1009) / 1008;
                image.data.push_back(static_cast<float>(bright ? 2.6 * (noise < 0.4 ? 0 : noise) : 0.9 + 0.2 * noise));
            }
    return image;
}

Image<float> scaled(Image<float> image, int decade) {
    for (float &v : image.data)
        v = static_cast<float>(static_cast<long double>(v) * std::pow(10.0L, decade));
    return image;
}

// Brute force in long double, whose exponents suffice, and the tolerance of scores: 1e-9 of what they are relative to.
struct Truth {
    std::vector<long double> map;
    std::vector<long double> scale; // |window| |template|, of normed methods 1
};
Truth truthOf(const Image<float> &image, const Image<float> &templ, cusMatchMethod method, const uint8_t *mask) {
    Truth truth;
    for (int y = 0; y + templ.rows <= image.rows; ++y)
        for (int x = 0; x + templ.cols <= image.cols; ++x) {
            truth.map.push_back(reference::score(image, templ, mask, method, y, x));
            long double s2 = 0, t2 = 0;
            for (int j = 0; j < templ.rows; ++j)
                for (int i = 0; i < templ.cols * templ.channels; ++i) {
                    const long double a = image.at(y + j, x, i), b = templ.at(j, 0, i);
                    s2 += a * a, t2 += b * b;
                }
            truth.scale.push_back(method & 1 ? 1 : method == CUS_MATCH_SQDIFF ? s2 + t2 : std::sqrt(s2) * std::sqrt(t2));
        }
    return truth;
}

// The best match of an image is one of the best, and its score the true one.
void expectTrue(const cusMatch &match, const Truth &truth, cusMatchMethod method, int cols) {
    const size_t at = static_cast<size_t>(match.y) * static_cast<size_t>(cols) + static_cast<size_t>(match.x);
    ASSERT_LT(at, truth.map.size());
    const bool smallest = method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED;
    const long double best = smallest ? *std::min_element(truth.map.begin(), truth.map.end())
                                      : *std::max_element(truth.map.begin(), truth.map.end());
    const long double tolerance = 1e-9L * truth.scale[at];
    EXPECT_LE(std::fabs(match.score - truth.map[at]), tolerance) << "score " << match.score;
    EXPECT_LE(std::fabs(truth.map[at] - best), tolerance) << match.x << ", " << match.y;
}

bool comparesUnits(cusMatchMethod method) {
    return method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED;
}

// An exact copy is found in each decade.
TEST_P(MatchScales, CopyInEveryDecade) {
    auto random = support::generator();
    const auto image = scene(1, random);
    for (int decade = SMALLEST; decade <= LARGEST; ++decade)
        for (const auto method : METHODS) {
            SCOPED_TRACE(testing::Message() << "1e" << decade << " method " << method);
            const auto frame = scaled(image, decade);
            const auto matches = run(frame, cut(frame, Y, X, H, W), space(), with(method, CUS_MATCH_AUTO)).matches;
            ASSERT_EQ(matches.size(), 1u);
            EXPECT_EQ(matches[0].x, X);
            EXPECT_EQ(matches[0].y, Y);
            if (method & 1)
                EXPECT_NEAR(matches[0].score, method == CUS_MATCH_SQDIFF_NORMED ? 0 : 1, 1e-9);
        }
}

// Frame and template of different decades: pairs near each other, and far apart.
TEST_P(MatchScales, FrameAndTemplateOfDifferentDecades) {
    auto random = support::generator();
    const auto image = scene(1, random), templ = cut(image, Y, X, H, W);
    for (const auto &[of_frame, of_template] : {std::pair{-12, -38},
                                                {-38, -12},
                                                {-45, 38},
                                                {38, -45},
                                                {-44, -20},
                                                {-20, -45},
                                                {38, 0},
                                                {0, 38},
                                                {-30, 2},
                                                {25, 37},
                                                {-10, -13}})
        for (const auto method : METHODS) {
            SCOPED_TRACE(testing::Message()
                         << "frame 1e" << of_frame << " template 1e" << of_template << " method " << method);
            const auto frame = scaled(image, of_frame), part = scaled(templ, of_template);
            const auto matches = run(frame, part, space(), with(method, CUS_MATCH_AUTO)).matches;
            ASSERT_EQ(matches.size(), 1u);
            expectTrue(matches[0], truthOf(frame, part, method, nullptr), method, COLS - W + 1);
            if (!comparesUnits(method)) {
                EXPECT_EQ(matches[0].x, X);
                EXPECT_EQ(matches[0].y, Y);
            }
        }
}

// Further matches, channels, masks.
TEST_P(MatchScales, MatchesChannelsMasks) {
    auto random = support::generator();
    for (const int channels : {1, 3})
        for (const int decade : {SMALLEST, -38, -20, 19, LARGEST}) {
            const auto frame = scaled(scene(channels, random), decade), templ = cut(frame, Y, X, H, W);
            std::vector<uint8_t> mask;
            for (int i = 0; i < H * W; ++i)
                mask.push_back(random() % 4 ? 255 : 0);
            for (const auto method : METHODS)
                for (const uint8_t *inside : std::initializer_list<const uint8_t *>{nullptr, mask.data()}) {
                    SCOPED_TRACE(testing::Message() << channels << " channels 1e" << decade << " method " << method
                                                    << (inside ? " masked" : ""));
                    const auto matches = run(frame, templ, space(), with(method, CUS_MATCH_AUTO, 3, 5), inside).matches;
                    ASSERT_EQ(matches.size(), 3u);
                    EXPECT_EQ(matches[0].x, X);
                    EXPECT_EQ(matches[0].y, Y);
                    expectTrue(matches[0], truthOf(frame, templ, method, inside), method, COLS - W + 1);
                }
        }
}

// Weights have decades of their own, and so has a limit.
TEST_P(MatchScales, Weights) {
    auto random = support::generator();
    const auto image = scene(1, random);
    std::vector<float> plain;
    for (int i = 0; i < H * W; ++i)
        plain.push_back(static_cast<float>(1 + random() % 500) / 200);
    for (const auto &[decade, of_weights] :
         {std::pair{0, 0}, {-45, -38}, {38, 37}, {-45, 37}, {37, -45}, {-12, -12}, {0, -44}, {0, 37}})
        for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR, CUS_MATCH_CCORR_NORMED}) {
            SCOPED_TRACE(testing::Message() << "1e" << decade << " weights 1e" << of_weights << " method " << method);
            const auto frame = scaled(image, decade), templ = cut(frame, Y, X, H, W);
            const auto weights = scaled({H, W, 1, plain}, of_weights).data;
            support::TestMat mask(H, W, CUS_32FC1, space());
            mask.set(weights.data());
            auto options = with(method, CUS_MATCH_AUTO);
            options.mask = &mask.mat;
            const auto matches = run(frame, templ, space(), options).matches;
            ASSERT_EQ(matches.size(), 1u);
            EXPECT_EQ(matches[0].x, X);
            EXPECT_EQ(matches[0].y, Y);
            const double score = reference::weightedScore(frame, templ, weights, method, Y, X);
            EXPECT_NEAR(matches[0].score, score, 1e-9 * (method & 1 ? 1 : score));
            options.score_limit = matches[0].score;
            EXPECT_EQ(run(frame, templ, space(), options).matches.size(), 1u);
            options.score_limit = std::nextafter(matches[0].score, comparesUnits(method) ? -INFINITY : INFINITY);
            EXPECT_EQ(run(frame, templ, space(), options).matches.size(), 0u);
        }
}

// Templates of all decades in one matcher, and frames of all decades in one batch, are as good as alone.
TEST_P(MatchScales, TogetherAsAlone) {
    auto random = support::generator();
    const auto image = scene(1, random), templ = cut(image, Y, X, H, W);
    const std::vector<int> decades = {0, -45, 38, -30, 20};
    std::vector<std::unique_ptr<Pixels<float>>> frames, templates;
    std::vector<cusMat> frame_mats, template_mats;
    for (const int decade : decades) {
        frames.push_back(std::make_unique<Pixels<float>>(scaled(image, decade), space()));
        templates.push_back(std::make_unique<Pixels<float>>(scaled(templ, decade), space()));
        frame_mats.push_back(frames.back()->mat);
        template_mats.push_back(templates.back()->mat);
    }
    const int count = static_cast<int>(decades.size());
    for (const auto method : METHODS)
        for (const bool batch : {false, true}) {
            auto options = with(method, CUS_MATCH_AUTO);
            options.batch = batch ? count : 1;
            Matcher matcher;
            CUS_ASSERT_OK(cusMatcherCreate(&matcher, template_mats.data(), count, ROWS, COLS, &options, nullptr));
            CUS_ASSERT_OK(cusMatcherRun(matcher, frame_mats.data(), nullptr, nullptr));
            options.batch = 1;
            for (int k = 0; k < count; ++k) {
                SCOPED_TRACE(testing::Message() << "1e" << decades[static_cast<size_t>(k)] << " method " << method);
                const auto frame = scaled(image, batch ? decades[static_cast<size_t>(k)] : decades[0]);
                const auto alone = run(frame, scaled(templ, decades[static_cast<size_t>(k)]), space(), options).matches;
                expectSame(matchesOf(matcher, k, 1), alone);
            }
        }
}

// A few huge or tiny rows among ordinary ones.
TEST_P(MatchScales, RowsOfDifferentDecades) {
    auto random = support::generator();
    const auto image = scene(1, random), templ = cut(image, Y, X, H, W);
    for (const int decade : {-45, -30, -18, -12, 3})
        for (const auto method : METHODS) {
            SCOPED_TRACE(testing::Message() << "1e" << decade << " method " << method);
            auto frame = image;
            for (size_t i = 0; i < static_cast<size_t>(9 * COLS); ++i)
                frame.data[i] = static_cast<float>(frame.data[i] * std::pow(10.0, decade));
            const auto matches = run(frame, templ, space(), with(method, CUS_MATCH_AUTO)).matches;
            ASSERT_EQ(matches.size(), 1u);
            expectTrue(matches[0], truthOf(frame, templ, method, nullptr), method, COLS - W + 1);
        }
}

// The documented bound, which is relative to the norms, in every decade. Floats end at 3.4e38 and 1.4e-45.
TEST_P(MatchScales, MapsAreWithinTheirBound) {
    auto random = support::generator();
    const auto image = scene(1, random), part = cut(image, Y, X, H, W);
    for (const auto &[of_frame, of_template] : {std::pair{-45, -45},
                                                {-30, -30},
                                                {-22, -22},
                                                {-19, -19},
                                                {-10, -10},
                                                {0, 0},
                                                {10, 10},
                                                {18, 18},
                                                {38, 38},
                                                {-45, 38},
                                                {38, -45},
                                                {-12, -38}})
        for (const auto method : METHODS) {
            SCOPED_TRACE(testing::Message()
                         << "frame 1e" << of_frame << " template 1e" << of_template << " method " << method);
            const auto frame = scaled(image, of_frame), templ = scaled(part, of_template);
            const auto map = run(frame, templ, space(), with(method, CUS_MATCH_AUTO)).map;
            const Truth truth = truthOf(frame, templ, method, nullptr);
            // About the documented mean of the templates, or any of the frame, which is at most 1.05 times as large.
            const auto norm = [](const Image<float> &of, long double shift) {
                long double sum = 0;
                for (const float v : of.data)
                    sum += (v - shift) * (v - shift);
                return std::sqrt(sum);
            };
            const auto mean = [](const Image<float> &of) {
                long double sum = 0;
                for (const float v : of.data)
                    sum += v;
                return sum / static_cast<long double>(of.data.size());
            };
            const long double of_image =
                comparesUnits(method) ? norm(frame, mean(templ)) : 1.05L * norm(frame, mean(frame));
            const long double points = 4.0L * ROWS * COLS + 64;
            const long double error = (comparesUnits(method) ? 2 : 1) * (12 * std::log2(points) + 16) * 0x1p-24L *
                                      of_image * norm(templ, mean(templ));
            for (int i = 0; i < static_cast<int>(map.size()); ++i) {
                const int cols = COLS - W + 1;
                const auto window = cut(frame, i / cols, i % cols, H, W);
                const bool centers = method == CUS_MATCH_CCOEFF_NORMED;
                const long double divisor =
                    norm(window, centers ? mean(window) : 0) * norm(templ, centers ? mean(templ) : 0);
                const long double bound = !(method & 1) ? error : divisor > 0 ? std::min(error / divisor, 2.0L) : 2.0L;
                const long double value = truth.map[static_cast<size_t>(i)], got = map[static_cast<size_t>(i)];
                const long double rounding = std::fabs(value) * 0x1p-22L + 0x1p-149L + 1e-9L * (method & 1);
                if (std::isinf(got))
                    ASSERT_GT(std::fabs(value) + bound + rounding, std::numeric_limits<float>::max()) << i;
                else
                    ASSERT_LE(std::fabs(got - value), bound + rounding) << i << " " << static_cast<double>(value);
            }
        }
}

// A power of two changes neither positions nor fractions of a pixel, and scores by this power alone, to the last bit.
TEST_P(MatchScales, PowersOfTwoAreExact) {
    auto random = support::generator();
    const auto image = scene(1, random), templ = cut(image, Y, X, H, W);
    const auto times = [](Image<float> of, int exponent) {
        for (float &v : of.data)
            v = std::ldexp(v, exponent);
        return of;
    };
    for (const auto method : METHODS) {
        auto options = with(method, CUS_MATCH_AUTO, 4, 3);
        options.subpixel = 1;
        const auto first = run(image, templ, space(), options);
        for (const int exponent : {-100, -60, -41, 54, 70, 120}) {
            const auto other = run(times(image, exponent), times(templ, exponent), space(), options);
            ASSERT_EQ(other.matches.size(), first.matches.size());
            for (size_t i = 0; i < first.matches.size(); ++i) {
                SCOPED_TRACE(testing::Message() << "2^" << exponent << " method " << method << " match " << i);
                cusMatch want = first.matches[i];
                want.score = std::ldexp(want.score, method & 1 ? 0 : 2 * exponent);
                EXPECT_EQ(std::memcmp(&other.matches[i], &want, sizeof want), 0);
            }
        }
    }
}

// The number of threads decides how the CPU cuts a map into blocks, but nothing of the matches.
TEST(MatchScalesThreads, ChangeNothing) {
    auto random = support::generator();
    const auto image = scene(1, random), templ = cut(image, Y, X, H, W);
    const int threads = omp_get_max_threads ? omp_get_max_threads() : 1;
    for (const int decade : {SMALLEST, -44, -42, -38, -30, -22, -12, 0, 20, LARGEST})
        for (const auto method : METHODS) {
            SCOPED_TRACE(testing::Message() << "1e" << decade << " method " << method);
            const auto frame = scaled(image, decade), part = scaled(templ, decade);
            auto options = with(method, CUS_MATCH_AUTO, 5, 2);
            options.subpixel = 1;
            std::vector<cusMatch> first;
            for (const int now : {1, 2, 3, 5}) {
                if (omp_set_num_threads)
                    omp_set_num_threads(now);
                const auto matches = run(frame, part, CUS_HOST, options).matches;
                first = now == 1 ? matches : first;
                ASSERT_EQ(matches.size(), first.size());
                EXPECT_EQ(std::memcmp(matches.data(), first.data(), first.size() * sizeof(cusMatch)), 0) << now;
            }
        }
    if (omp_set_num_threads)
        omp_set_num_threads(threads);
}

} // namespace

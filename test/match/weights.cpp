// Floats of several channels; weights, and masks of the template's channels.
#include "match/support.hpp"

namespace {

using namespace match_test;

class MatchWeights : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchWeights);

template<class T>
Image<T> shifted(Image<T> image, double scale, double offset) {
    for (size_t i = 0; i < image.data.size(); ++i)
        image.data[i] = static_cast<T>(image.data[i] * scale + offset * static_cast<double>(1 + i % 3));
    return image;
}

TEST_P(MatchWeights, ChannelsOfFloats) {
    auto random = support::generator();
    std::vector<uint8_t> mask;
    for (int i = 0; i < 9 * 13; ++i)
        mask.push_back(random() % 3 ? 1 : 0);
    for (const int channels : {2, 3, 4})
        for (const auto method : METHODS) {
            const auto image = shifted(picture<float>(45, 58, channels, random), 1.7, 0.3);
            compare(image, cut(image, 20, 31, 9, 13), space(), with(method, CUS_MATCH_AUTO, 3, 2));
            compare(image, cut(image, 20, 31, 9, 13), space(), with(method, CUS_MATCH_AUTO), mask.data());
            compare(image, shifted(picture<float>(9, 13, channels, random), 1.7, 0), space(), with(method, CUS_MATCH_AUTO),
                    nullptr, {24, 16});
            // Integers, flat parts, and a template of one color.
            const auto bytes = picture<float>(45, 58, channels, random);
            compare(bytes, cut(bytes, 3, 7, 11, 5), space(), with(method, CUS_MATCH_AUTO, 2, 3));
            compare(flat<float>(45, 58, channels, 3.25f), cut(image, 3, 7, 11, 5), space(), with(method, CUS_MATCH_AUTO));
            compare(bytes, flat<float>(11, 5, channels, 17), space(), with(method, CUS_MATCH_AUTO));
        }
}

// Frames that are transformed by cuFFT on the device.
TEST_P(MatchWeights, LongFramesOfFloats) {
    auto random = support::generator();
    for (const int channels : {2, 4}) {
        const auto image = shifted(picture<float>(6, 5000, channels, random), 0.9, 0.1);
        for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF_NORMED})
            compare(image, cut(image, 1, 3000, 4, 7), space(), with(method, CUS_MATCH_AUTO));
    }
}

// What the channels' own shifts are for: the template has other units than the image.
TEST_P(MatchWeights, UnitsOfChannels) {
    auto random = support::generator();
    const auto image = shifted(picture<float>(50, 70, 3, random), 1 / 255.0, 0.5);
    for (const double scale : {1e-6, 1.0, 65535.0, 1e7})
        for (const auto method : {CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED}) {
            SCOPED_TRACE(testing::Message() << scale << " method " << method);
            const auto found =
                run(image, shifted(cut(image, 21, 33, 12, 14), scale, 0), space(), with(method, CUS_MATCH_AUTO)).matches;
            ASSERT_EQ(found.size(), 1u);
            EXPECT_EQ(found[0].x, 33);
            EXPECT_EQ(found[0].y, 21);
            EXPECT_NEAR(found[0].score, 1, 1e-9);
        }
}

// Weights of every kind of mask: floats or bytes, one channel or the template's.
std::vector<float> weightsOf(int elements, bool bytes, std::mt19937_64 &random) {
    std::vector<float> weights;
    for (int i = 0; i < elements; ++i)
        weights.push_back(bytes ? static_cast<float>(random() % 3) : static_cast<float>(random() % 1000) / 300 - 0.5f);
    return weights;
}

template<class T>
void compareWeighted(const Image<T> &image, const Image<T> &templ, cusMatchMethod method, int mask_channels, bool bytes,
                     cusSpace space, std::mt19937_64 &random) {
    SCOPED_TRACE(testing::Message() << "channels " << templ.channels << " of the mask " << mask_channels << " method "
                                    << method << (bytes ? " bytes" : ""));
    const auto given = weightsOf(templ.rows * templ.cols * mask_channels, bytes, random);
    const std::vector<uint8_t> as_bytes(given.begin(), given.end());
    std::vector<float> weights;
    for (size_t i = 0; i < templ.data.size(); ++i) {
        const size_t channels = static_cast<size_t>(templ.channels), of_mask = static_cast<size_t>(mask_channels);
        const float v = given[i / channels * of_mask + i % channels % of_mask];
        weights.push_back(bytes ? v != 0 : v);
    }
    support::TestMat mask(templ.rows, templ.cols, CUS_MAKETYPE(bytes ? CUS_8U : CUS_32F, mask_channels), space);
    if (bytes)
        mask.set(as_bytes.data());
    else
        mask.set(given.data());
    cusMatcherOptions options = with(method, CUS_MATCH_AUTO, 2, 3);
    options.mask = &mask.mat;
    const auto outcome = run(image, templ, space, options);
    std::vector<double> map;
    double frame = 0, pattern = 0, most = 0;
    for (const T v : image.data)
        frame += static_cast<double>(v) * v;
    for (size_t i = 0; i < templ.data.size(); ++i)
        pattern += std::pow(static_cast<double>(weights[i]) * weights[i] * templ.data[i], 2);
    for (int y = 0; y + templ.rows <= image.rows; ++y)
        for (int x = 0; x + templ.cols <= image.cols; ++x) {
            map.push_back(reference::weightedScore(image, templ, weights, method, y, x));
            most = std::max(most, std::fabs(map.back()));
        }
    const double bound = 1e-3 * (method & 1) + 2e-4 * std::sqrt(frame * pattern) * !(method & 1) + most * 0x1p-22;
    for (size_t i = 0; i < map.size(); ++i)
        ASSERT_NEAR(outcome.map[i], map[i], bound) << i;
    const double tolerance = 1e-9 * (method & 1 ? 1 : most);
    const auto best = reference::best(map, image.cols - templ.cols + 1, method, 2, 3);
    ASSERT_EQ(outcome.matches.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
        const auto &match = outcome.matches[i];
        const size_t at =
            static_cast<size_t>(match.y) * static_cast<size_t>(image.cols - templ.cols + 1) + static_cast<size_t>(match.x);
        EXPECT_NEAR(match.score, map[at], tolerance);
        EXPECT_NEAR(match.score, best[i].score, tolerance);
    }
}

TEST_P(MatchWeights, EveryMask) {
    auto random = support::generator();
    for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR, CUS_MATCH_CCORR_NORMED})
        for (const int channels : {1, 2, 3, 4}) {
            const auto bytes = picture<uint8_t>(43, 52, channels, random);
            const auto floats = shifted(picture<float>(43, 52, channels, random), 0.01, 0);
            compareWeighted(bytes, cut(bytes, 20, 31, 9, 11), method, 1, false, space(), random);
            compareWeighted(floats, cut(floats, 20, 31, 9, 11), method, 1, false, space(), random);
            if (channels == 1)
                continue;
            compareWeighted(bytes, cut(bytes, 20, 31, 9, 11), method, channels, false, space(), random);
            compareWeighted(bytes, cut(bytes, 20, 31, 9, 11), method, channels, true, space(), random);
            compareWeighted(floats, picture<float>(9, 11, channels, random), method, channels, false, space(), random);
            compareWeighted(floats, cut(floats, 20, 31, 9, 11), method, channels, true, space(), random);
        }
}

// Weights of ones and zeros are a mask.
TEST_P(MatchWeights, OnesAreTheMask) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(60, 71, 3, random), templ = cut(image, 30, 22, 14, 9);
    std::vector<uint8_t> mask;
    std::vector<float> weights;
    for (int i = 0; i < 14 * 9; ++i) {
        mask.push_back(random() % 2 ? 7 : 0);
        weights.push_back(mask.back() ? 1.0f : 0.0f);
    }
    support::TestMat ones(14, 9, CUS_32FC1, space());
    ones.set(weights.data());
    for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR, CUS_MATCH_CCORR_NORMED}) {
        auto options = with(method, CUS_MATCH_AUTO, 4, 2);
        const auto expected = run(image, templ, space(), options, mask.data()).matches;
        options.mask = &ones.mat;
        expectSame(run(image, templ, space(), options).matches, expected);
    }
}

TEST_P(MatchWeights, Rejects) {
    support::TestMat templ(4, 5, CUS_8UC3, space()), weights(4, 5, CUS_32FC1, space()), two(4, 5, CUS_8UC2, space());
    support::TestMat gray(4, 5, CUS_8UC1, space());
    Matcher matcher;
    cusMatcherOptions options = cusMatcherDefaults();
    const auto create = [&](const support::TestMat &pattern, const support::TestMat &mask, cusMatchMethod method) {
        options.method = method;
        options.mask = &mask.mat;
        return cusMatcherCreate(&matcher, &pattern.mat, 1, 20, 30, &options, nullptr);
    };
    weights.set(std::vector<float>(20, 1).data());
    CUS_REJECTS(create(templ, weights, CUS_MATCH_CCOEFF), TYPE,
                "mask has type 32FC1, expected 8UC1 for CUS_MATCH_CCOEFF and CUS_MATCH_CCOEFF_NORMED");
    CUS_REJECTS(create(templ, two, CUS_MATCH_CCORR), TYPE, "mask has type 8UC2, expected 8UC1, 32FC1, 8UC3 or 32FC3");
    CUS_REJECTS(create(gray, two, CUS_MATCH_CCORR), TYPE, "mask has type 8UC2, expected 8UC1 or 32FC1");
    for (const float value : {NAN, INFINITY, -INFINITY}) {
        weights.set(std::vector<float>(20, value).data());
        CUS_REJECTS(create(templ, weights, CUS_MATCH_CCORR), VALUE, "mask holds NaN or infinity, expected finite weights");
    }
    weights.set(std::vector<float>(20, 0).data());
    CUS_REJECTS(create(templ, weights, CUS_MATCH_SQDIFF), VALUE, "mask is all zero");
    EXPECT_FALSE(matcher);
}

} // namespace

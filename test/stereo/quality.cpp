// Quality of stereo on two real pairs with ground truth, one of them in three sizes, compared with OpenCV's block matcher and
// semi-global matcher. Prints tables (scripts/stereo-quality shows them) and tests what docs/stereo.md concludes from them.
#include "cusight/stereo.h"
#include "../support.hpp"
#include "stereo/scenes.hpp"

#if defined(CUSIGHT_HAVE_OPENCV) && __has_include(<opencv2/calib3d.hpp>) && __has_include(<opencv2/imgcodecs.hpp>)
#include <opencv2/calib3d.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
#include <opencv2/cudastereo.hpp>
#endif

#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>

namespace {

struct Pair {
    std::string name;
    int shifts;                 // as many columns at the left have no match in the right image, for any method
    cv::Mat left, right, truth; // gray; disparity, 0 where unknown
};

// A NumPy array file of little-endian float32 in C order.
cv::Mat readNpy(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    char head[10] = {};
    if (!file.read(head, 10) || std::memcmp(head, "\x93NUMPY\x01", 7) != 0)
        return {};
    std::string text(static_cast<size_t>(static_cast<uint8_t>(head[8]) | static_cast<uint8_t>(head[9]) << 8), ' ');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    int rows = 0, cols = 0;
    const size_t at = text.find("'shape': (");
    if (text.find("'<f4'") == std::string::npos || at == std::string::npos ||
        std::sscanf(text.c_str() + at, "'shape': (%d, %d)", &rows, &cols) != 2)
        return {};
    cv::Mat values(rows, cols, CV_32F);
    file.read(reinterpret_cast<char *>(values.data), static_cast<std::streamsize>(values.total() * 4));
    return file ? values : cv::Mat();
}

// Images are averaged; the ground truth is sampled, since disparities must not be mixed.
Pair reduced(const std::string &name, const cv::Mat &left, const cv::Mat &right, const cv::Mat &truth, int by, int shifts) {
    Pair p{name + " / " + std::to_string(by), shifts, {}, {}, {}};
    const cv::Size size(left.cols / by, left.rows / by);
    cv::resize(left, p.left, size, 0, 0, cv::INTER_AREA);
    cv::resize(right, p.right, size, 0, 0, cv::INTER_AREA);
    p.truth.create(size, CV_32F);
    for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x) {
            const float d = truth.at<float>(by * y, by * x);
            p.truth.at<float>(y, x) = std::isfinite(d) && d > 0 ? d / static_cast<float>(by) : 0;
        }
    return p;
}

cv::Mat gray(const char *name) {
    return cv::imread(support::dataFolder() + "/" + name, cv::IMREAD_GRAYSCALE);
}

std::vector<Pair> motorcycle(int by) {
    const cv::Mat truth = readNpy(support::dataFolder() + "/motorcycle_disp.npy");
    const cv::Mat left = gray("motorcycle_left.png"), right = gray("motorcycle_right.png");
    if (truth.empty() || truth.size() != left.size() || left.size() != right.size())
        return {};
    return {reduced("motorcycle", left, right, truth, by, 96 / by)};
}

std::vector<Pair> aloe(std::initializer_list<int> sizes) {
    cv::Mat truth;
    gray("aloeGT.png").convertTo(truth, CV_32F);
    const cv::Mat left = gray("aloeL.jpg"), right = gray("aloeR.jpg");
    std::vector<Pair> list;
    for (const int by : sizes)
        if (!truth.empty() && truth.size() == left.size() && left.size() == right.size())
            list.push_back(reduced("aloe", left, right, truth, by, 288 / by));
    return list;
}

struct Score {
    double bad_half, bad1, bad2; // percent of pixels with ground truth that are off by more, after the fill
    double error;                // mean, in pixels, of those that are known before the fill and off by at most 2
    double known;                // percent of pixels that are not holes before the fill
    double ms;
};

// Disparities, negative where unknown, before and after holes are filled.
Score score(const cv::Mat &before, const cv::Mat &filled, const Pair &p, double ms) {
    double n = 0, bad_half = 0, bad1 = 0, bad2 = 0, near = 0, error = 0;
    for (int y = 0; y < filled.rows; ++y)
        for (int x = p.shifts; x < filled.cols; ++x)
            if (const float truth = p.truth.at<float>(y, x); truth > 0) {
                const float off = std::fabs(filled.at<float>(y, x) - truth), known_off = before.at<float>(y, x) - truth;
                ++n;
                bad_half += off > 0.5f;
                bad1 += off > 1;
                bad2 += off > 2;
                if (before.at<float>(y, x) >= 0 && std::fabs(known_off) <= 2) {
                    ++near;
                    error += std::fabs(known_off);
                }
            }
    const double known = 100.0 * cv::countNonZero(before >= 0) / static_cast<double>(before.total());
    return {100 * bad_half / n, 100 * bad1 / n, 100 * bad2 / n, error / near, known, ms};
}

double bestMs(const std::function<void()> &work) {
    double best = 1e9;
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 9 && std::chrono::steady_clock::now() - begun < std::chrono::milliseconds(300); ++i) {
        const auto start = std::chrono::steady_clock::now();
        work();
        best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

// OpenCV's maps, in sixteenths of a pixel, have holes: each is filled from the left.
Score ofOpenCv(const Pair &p, const std::function<void(cv::Mat &)> &compute) {
    cv::Mat fixed, d;
    const double ms = bestMs([&] { compute(fixed); });
    fixed.convertTo(d, CV_32F, 1 / 16.0);
    const cv::Mat before = d.clone();
    for (int y = 0; y < d.rows; ++y) {
        float last = -1;
        for (int x = 0; x < d.cols; ++x) {
            float &v = d.at<float>(y, x);
            v = v < 0 ? last : v;
            last = v;
        }
    }
    return score(before, d, p, ms);
}
Score ofOpenCv(cv::StereoMatcher &matcher, const Pair &p) {
    return ofOpenCv(p, [&](cv::Mat &fixed) { matcher.compute(p.left, p.right, fixed); });
}

// The map in pixels, and the time of one.
std::pair<cv::Mat, double> mapOf(const cusStereoOptions &o, const Pair &p) {
    cusMat left = CUS_MAT_INIT, right = CUS_MAT_INIT, e = CUS_MAT_INIT;
    EXPECT_EQ(cusMatWrap(&left, p.left.rows, p.left.cols, CUS_8UC1, CUS_HOST, p.left.data, p.left.step), CUS_OK);
    EXPECT_EQ(cusMatWrap(&right, p.right.rows, p.right.cols, CUS_8UC1, CUS_HOST, p.right.data, p.right.step), CUS_OK);
    cusContourMapper *mapper = nullptr;
    EXPECT_EQ(cusContourMapperCreate(&mapper, p.left.rows, p.left.cols, CUS_8UC1, CUS_HOST, &o), CUS_OK);
    const double ms =
        bestMs([&] { EXPECT_EQ(cusContourMap(mapper, &left, &right, &e, nullptr, nullptr), CUS_OK) << cusLastError(); });
    cv::Mat d;
    cv::Mat(e.rows, e.cols, e.type, e.data, e.step).convertTo(d, CV_32F, 1.0 / (1 << o.subpixel_bits), -1);
    cusContourMapperDestroy(mapper);
    cusMatRelease(&e);
    return {d, ms};
}

Score ofCusight(const cusStereoOptions &o, const Pair &p) {
    cusStereoOptions unfilled = o;
    unfilled.fill = CUS_FILL_NONE;
    unfilled.median = 0;
    const auto [filled, ms] = mapOf(o, p);
    return score(mapOf(unfilled, p).first, filled, p, ms);
}

using Scores = std::vector<Score>; // of all pairs

// One line of the table.
Scores row(const std::string &name, const std::vector<Pair> &pairs, const std::function<Score(const Pair &)> &of) {
    std::printf("| %-44s |", name.c_str());
    Scores scores;
    for (const Pair &p : pairs) {
        scores.push_back(of(p));
        const Score &s = scores.back();
        std::printf(" %5.1f | %5.1f | %5.1f | %5.3f | %5.1f | %7.2f |", s.bad_half, s.bad1, s.bad2, s.error, s.known, s.ms);
    }
    std::printf("\n");
    std::fflush(stdout);
    return scores;
}

Scores cusightRow(const std::string &name, const std::vector<Pair> &pairs, cusStereoOptions o) {
    o.direction = -1;
    return row(name, pairs, [&](const Pair &p) {
        o.shifts = p.shifts;
        return ofCusight(o, p);
    });
}

struct Peers {
    std::vector<Scores> block_matcher;
    Scores semi_global, filtered;
    std::vector<Scores> all_directions; // modes HH and HH4, 5x5, and the filtered setting with HH
    // The fewest errors of any semi-global matcher.
    double bestBad1(size_t pair) const {
        double best = std::min(semi_global[pair].bad1, filtered[pair].bad1);
        for (const Scores &scores : all_directions)
            best = std::min(best, scores[pair].bad1);
        return best;
    }
};

// The table's head, and its rows of OpenCV's matchers.
Peers peersOn(const std::vector<Pair> &pairs) {
    std::printf("| %-44s |", "");
    for (const Pair &p : pairs)
        std::printf(" %s: bad-0.5 | bad-1 | bad-2 | error | known | ms |", p.name.c_str());
    std::printf("\n|---|");
    for (size_t i = 0; i < 6 * pairs.size(); ++i)
        std::printf("---:|");
    std::printf("\n");
    Peers peers;
    for (const int size : {21, 11})
        peers.block_matcher.push_back(
            row("cv::StereoBM " + std::to_string(size) + "x" + std::to_string(size), pairs, [&](const Pair &p) {
                const auto m = cv::StereoBM::create(p.shifts, size);
                m->setUniquenessRatio(0);
                m->setTextureThreshold(0);
                return ofOpenCv(*m, p);
            }));
    peers.semi_global = row("cv::StereoSGBM 5x5", pairs, [](const Pair &p) {
        return ofOpenCv(*cv::StereoSGBM::create(0, p.shifts, 5, 8 * 25, 32 * 25), p);
    });
    // Uniqueness ratio 10, speckle filter of 100 pixels and range 2: the best of ten settings that were tried.
    peers.filtered = row("cv::StereoSGBM 3x3, filtered", pairs, [](const Pair &p) {
        return ofOpenCv(*cv::StereoSGBM::create(0, p.shifts, 3, 8 * 9, 32 * 9, 1, 63, 10, 100, 2), p);
    });
    for (const auto &[mode, name] : {std::pair{cv::StereoSGBM::MODE_HH, "HH"}, {cv::StereoSGBM::MODE_HH4, "HH4"}})
        peers.all_directions.push_back(row(std::string("cv::StereoSGBM 5x5, ") + name, pairs, [mode = mode](const Pair &p) {
            return ofOpenCv(*cv::StereoSGBM::create(0, p.shifts, 5, 8 * 25, 32 * 25, 0, 0, 0, 0, 0, mode), p);
        }));
    peers.all_directions.push_back(row("cv::StereoSGBM 3x3, HH, filtered", pairs, [](const Pair &p) {
        return ofOpenCv(*cv::StereoSGBM::create(0, p.shifts, 3, 8 * 9, 32 * 9, 1, 63, 10, 100, 2, cv::StereoSGBM::MODE_HH),
                        p);
    }));
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
    if (cv::cuda::getCudaEnabledDeviceCount() > 0) // 64, 128 or 256 shifts; the result does not equal that on the CPU
        for (const auto &[mode, name] :
             {std::pair{cv::cuda::StereoSGM::MODE_HH, "HH"}, {cv::cuda::StereoSGM::MODE_HH4, "HH4"}})
            row(std::string("cv::cuda::StereoSGM, ") + name, pairs, [mode = mode](const Pair &p) {
                const int shifts = p.shifts <= 64 ? 64 : p.shifts <= 128 ? 128 : 256;
                const auto matcher = cv::cuda::createStereoSGM(0, shifts, 10, 120, 5, mode);
                const cv::cuda::GpuMat left(p.left), right(p.right);
                cv::cuda::GpuMat d;
                cv::cuda::Stream stream;
                return ofOpenCv(p, [&](cv::Mat &fixed) {
                    matcher->compute(left, right, d, stream);
                    d.download(fixed, stream);
                    stream.waitForCompletion();
                });
            });
#endif
    return peers;
}

// Rows of cusStereoBest(). Returns those of 4 paths: without a slope of P2, and with that of cusight-contour.
std::array<Scores, 2> bestRows(const std::vector<Pair> &pairs) {
    cusStereoOptions o = cusStereoBest();
    o.subpixel_bits = 7; // up to 511 shifts
    std::array<Scores, 2> best = {cusightRow("PATHS (best), subpixel_bits 7", pairs, o), {}};
    o.paths = 8;
    cusightRow("PATHS, 8 of them, subpixel_bits 7", pairs, o);
    o.p2_slope = 1;
    cusightRow("PATHS, 8 of them, p2_slope 1, subpixel_bits 7", pairs, o);
    o.paths = 4;
    best[1] = cusightRow("PATHS (best), p2_slope 1, subpixel_bits 7", pairs, o);
    return best;
}

TEST(StereoQuality, Scenes) {
    std::vector<Pair> all;
    std::vector<scenes::Scene> list = scenes::all();
    for (scenes::Scene &scene : list)
        all.push_back({scene.name, scenes::SHIFTS, cv::Mat(scenes::ROWS, scenes::COLS, CV_8U, scene.left.data()),
                       cv::Mat(scenes::ROWS, scenes::COLS, CV_8U, scene.right.data()),
                       cv::Mat(scenes::ROWS, scenes::COLS, CV_32F, scene.truth.data())});
    const Peers peers = peersOn(all);
    cusStereoOptions o = cusStereoDefaults();
    o.subpixel_bits = 7;
    o.speckle_size = 49;
    cusightRow("SMOOTH, subpixel_bits 7, speckle_size 49", all, o);
    for (const Scores &best : bestRows(all))
        for (size_t i = 0; i < all.size(); ++i)
            EXPECT_LE(best[i].bad1, peers.all_directions[0][i].bad1) << all[i].name << ": semi-global matcher, HH";
}

TEST(StereoQuality, SmallPairs) {
    std::vector<Pair> all = motorcycle(2);
    for (const Pair &p : aloe({6}))
        all.push_back(p);
    if (all.size() < 2)
        GTEST_SKIP() << "CUSIGHT_TEST_DATA lacks aloeL.jpg, aloeR.jpg, aloeGT.png, motorcycle_left.png, "
                        "motorcycle_right.png or motorcycle_disp.npy";
    const Peers peers = peersOn(all);
    const auto ours = [&](const std::string &name, cusStereoOptions o,
                          const std::function<void(cusStereoOptions &)> &change) {
        change(o);
        return cusightRow(name, all, o);
    };
    const auto same = [](cusStereoOptions &) {};
    const auto smooth = ours("SMOOTH (defaults)", cusStereoDefaults(), same);
    ours("CLASSIC", cusStereoClassic(), same);
    const cusStereoOptions c = cusStereoClassic(), d = cusStereoDefaults();
    ours("CLASSIC, threshold 0.05", c, [](auto &o) { o.threshold = 0.05f; });
    ours("CLASSIC + border ZERO", c, [](auto &o) { o.border = CUS_STEREO_ZERO; });
    ours("CLASSIC + smaller shift", c, [](auto &o) { o.prefer_smaller = 1; });
    ours("CLASSIC + agreement EDGE", c, [](auto &o) { o.agreement = CUS_STEREO_EDGE; });
    ours("CLASSIC + agreement EDGE, fill LOWER", c, [](auto &o) {
        o.agreement = CUS_STEREO_EDGE;
        o.fill = CUS_FILL_LOWER;
    });
    ours("CLASSIC + agreement EDGE, fill RELAX", c, [](auto &o) {
        o.agreement = CUS_STEREO_EDGE;
        o.fill = CUS_FILL_RELAX;
        o.iterations = 500;
    });
    ours("CLASSIC + agreement CENSUS", c, [](auto &o) { o.agreement = CUS_STEREO_CENSUS; });
    ours("CLASSIC + window 7", c, [](auto &o) { o.window = 7; });
    ours("CLASSIC + left-right check 1", c, [](auto &o) { o.left_right_check = 1; });
    ours("CLASSIC + fill LOWER", c, [](auto &o) { o.fill = CUS_FILL_LOWER; });
    ours("CLASSIC + fill RELAX", c, [](auto &o) { o.fill = CUS_FILL_RELAX; });
    ours("CLASSIC + median 5", c, [](auto &o) { o.median = 5; });
    ours("SMOOTH, agreement EQUAL", d, [](auto &o) { o.agreement = CUS_STEREO_EQUAL; });
    ours("SMOOTH, agreement EDGE", d, [](auto &o) { o.agreement = CUS_STEREO_EDGE; });
    ours("SMOOTH, window 5", d, [](auto &o) { o.window = 5; });
    ours("SMOOTH, window 11", d, [](auto &o) { o.window = 11; });
    ours("SMOOTH, window 21", d, [](auto &o) { o.window = 21; });
    ours("SMOOTH, no left-right check", d, [](auto &o) { o.left_right_check = -1; });
    ours("SMOOTH, left-right check 0", d, [](auto &o) { o.left_right_check = 0; });
    ours("SMOOTH, fill ONCE", d, [](auto &o) { o.fill = CUS_FILL_ONCE; });
    ours("SMOOTH, fill RELAX", d, [](auto &o) { o.fill = CUS_FILL_RELAX; });
    ours("SMOOTH, no median", d, [](auto &o) { o.median = 0; });
    ours("SMOOTH, border WRAP", d, [](auto &o) { o.border = CUS_STEREO_WRAP; });
    ours("SMOOTH, larger shift", d, [](auto &o) { o.prefer_smaller = 0; });
    const auto cleaned = ours("SMOOTH, speckle_size 49", d, [](auto &o) { o.speckle_size = 49; });
    const auto fine = ours("SMOOTH, subpixel_bits 8", d, [](auto &o) { o.subpixel_bits = 8; });
    ours("SMOOTH, subpixel_bits 4", d, [](auto &o) { o.subpixel_bits = 4; });
    ours("SMOOTH, subpixel_bits 8, min_confidence 8", d, [](auto &o) {
        o.subpixel_bits = 8;
        o.min_confidence = 8;
    });
    ours("SMOOTH, subpixel_bits 8, speckle_size 49", d, [](auto &o) {
        o.subpixel_bits = 8;
        o.speckle_size = 49;
    });
    const auto best = bestRows(all);
    for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_LT(fine[i].error, smooth[i].error) << all[i].name;
        EXPECT_LT(fine[i].bad_half, smooth[i].bad_half) << all[i].name;
    }
    for (size_t i = 0; i < all.size(); ++i) {
        for (const auto &scores : peers.block_matcher)
            EXPECT_LT(smooth[i].bad2, scores[i].bad2) << all[i].name << ": block matcher";
        for (const Scores &scores : {peers.semi_global, peers.filtered}) {
            EXPECT_LT(smooth[i].bad2, scores[i].bad2) << all[i].name << ": semi-global matcher";
            EXPECT_LT(cleaned[i].bad2, scores[i].bad2) << all[i].name << ": semi-global matcher";
        }
        EXPECT_LT(cleaned[i].bad2, smooth[i].bad2) << all[i].name << ": without speckle filter";
        for (const Scores &scores : best)
            EXPECT_LE(scores[i].bad1, std::min(cleaned[i].bad1, peers.bestBad1(i)))
                << all[i].name << ": the best of others";
        EXPECT_LT(best[1][i].bad1, best[0][i].bad1) << all[i].name << ": without p2_slope";
    }
}

TEST(StereoQuality, LargerPairs) {
    std::vector<Pair> all = motorcycle(1);
    for (const Pair &p : aloe({3, 2}))
        all.push_back(p);
    if (all.size() < 3)
        GTEST_SKIP() << "CUSIGHT_TEST_DATA lacks the pairs of SmallPairs";
    const Peers peers = peersOn(all);
    cusStereoOptions o = cusStereoDefaults();
    const Scores smooth = cusightRow("SMOOTH (defaults)", all, o);
    o.subpixel_bits = 7; // 144 shifts
    const Scores fine = cusightRow("SMOOTH, subpixel_bits 7", all, o);
    o.min_confidence = 8;
    cusightRow("SMOOTH, subpixel_bits 7, min_confidence 8", all, o);
    o.min_confidence = 0;
    o.speckle_size = 49; // the pixels of the window
    const Scores cleaned = cusightRow("SMOOTH, subpixel_bits 7, speckle_size 49", all, o);
    const auto best = bestRows(all);
    for (size_t i = 0; i < all.size(); ++i)
        EXPECT_LT(fine[i].error, smooth[i].error) << all[i].name;
    for (size_t i = 0; i < all.size(); ++i) {
        for (const auto &scores : peers.block_matcher)
            EXPECT_LT(smooth[i].bad2, scores[i].bad2) << all[i].name << ": block matcher";
        for (const Scores &scores : {peers.semi_global, peers.filtered})
            EXPECT_LT(cleaned[i].bad2, scores[i].bad2) << all[i].name << ": semi-global matcher";
        for (const Scores &scores : best)
            EXPECT_LE(scores[i].bad1, std::min(cleaned[i].bad1, peers.bestBad1(i)))
                << all[i].name << ": the best of others";
    }
}

} // namespace
#endif

// Every function and object of the modules under faults.
#include "faults.hpp"

#include "cusight/cusight.h"

#include <array>
#include <tuple>

using namespace faults;

namespace {

class FaultsOf : public FaultTest {
  protected:
    Mat image(int rows, int cols, int type, unsigned seed = 1) const { return Mat(rows, cols, type, space(), seed); }
    // Floats 0..1.
    Mat floats(int rows, int cols, unsigned seed = 1) const {
        std::vector<float> values;
        for (const uint8_t b : noise(static_cast<size_t>(rows) * static_cast<size_t>(cols), seed))
            values.push_back(static_cast<float>(b) / 255);
        const auto *p = reinterpret_cast<const uint8_t *>(values.data());
        return Mat(rows, cols, CUS_32FC1, space(), std::vector<uint8_t>(p, p + values.size() * sizeof(float)));
    }
};
FAULTS_IN_ALL_PLACES(FaultsOf);

// ---- Integral images, colors

TEST_P(FaultsOf, Integral) {
    const Mat bytes = image(37, 65, CUS_8UC1), real = floats(37, 65);
    for (const Mat *src : {&bytes, &real})
        check(src == &bytes ? "cusIntegral" : "cusIntegral, 32F", [&](Trial &t) {
            Mat sum, squares;
            t.call([&] { return cusIntegral(&src->mat, &sum, &squares, nullptr, nullptr); });
            t.result(sum.bytes());
            t.result(squares.bytes());
        });
    const Mat color = image(37, 65, CUS_8UC3);
    check("cusIntegral, 3 channels", [&](Trial &t) {
        Mat sum, squares;
        t.call([&] { return cusIntegral(&color.mat, &sum, &squares, nullptr, nullptr); });
        t.result(sum.bytes());
        t.result(squares.bytes());
    });
    checkCreate<cusIntegratorDestroy>("cusIntegratorCreate",
                                      [&](auto *integrator) { return cusIntegratorCreate(integrator, 64, 80, space()); });
    check("cusIntegratorRun", [&](Trial &t) {
        support::Owned<cusIntegratorDestroy> integrator;
        CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 64, 80, space()));
        Mat sum, squares;
        t.call([&] { return cusIntegratorRun(integrator, &bytes.mat, &sum, &squares, nullptr, nullptr); });
        t.result(sum.bytes());
        t.result(squares.bytes());
    });
    check("cusIntegratorRunBatch", [&](Trial &t) {
        support::Owned<cusIntegratorDestroy> integrator;
        CUS_ASSERT_OK(cusIntegratorCreate(&integrator, 37, 130, space()));
        const cusMat src[2] = {bytes.mat, bytes.mat};
        std::array<Mat, 2> owned;
        cusMat sum[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
        t.call([&] { return cusIntegratorRunBatch(integrator, 2, src, sum, nullptr, nullptr, nullptr); });
        for (size_t i = 0; i < 2; ++i) {
            owned[i].mat = sum[i];
            t.result(owned[i].bytes());
        }
    });
    Mat table;
    CUS_ASSERT_OK(cusIntegral(&bytes.mat, &table, nullptr, nullptr, nullptr));
    const int32_t box[8] = {1, 2, 3, 4, 0, 0, 30, 30};
    const auto *p = reinterpret_cast<const uint8_t *>(box);
    const Mat boxes(2, 4, CUS_32SC1, space(), std::vector<uint8_t>(p, p + sizeof box));
    checkOutput("cusBoxSums", [&](cusMat *sums) { return cusBoxSums(&table, &boxes.mat, sums, nullptr); });
}

TEST_P(FaultsOf, Hsv) {
    const Mat src = image(37, 65, CUS_8UC3);
    const cusHsvRange range = {{10, 20, 30}, {100, 200, 250}};
    check("cusHsvCount", [&](Trial &t) {
        Mat count, mask;
        t.call([&] { return cusHsvCount(&src.mat, &range, &count, &mask, nullptr); });
        t.result(count.bytes());
        t.result(mask.bytes());
    });
}

TEST_P(FaultsOf, Video) {
    const Mat y = image(37, 65, CUS_8UC1), u = image(19, 33, CUS_8UC2);
    checkOutput("cusYuvToBgr", [&](cusMat *bgr) { return cusYuvToBgr(&y.mat, &u.mat, nullptr, nullptr, bgr, nullptr); });
    checkOutput("cusYuvToGray", [&](cusMat *gray) { return cusYuvToGray(&y.mat, nullptr, gray, nullptr); });
}

// ---- Motion

TEST_P(FaultsOf, Motion) {
    cusMotionOptions options = cusMotionDefaults();
    options.space = space();
    options.warmup = 0;
    checkCreate<cusMotionDetectorDestroy>("cusMotionDetectorCreate", [&](auto *detector) {
        return cusMotionDetectorCreate(detector, 2, 37, 65, CUS_8UC1, &options);
    });
    const Mat first = image(37, 65, CUS_8UC1), second = image(37, 65, CUS_8UC1, 2);
    check("cusMotionDetectorRun", [&](Trial &t) {
        support::Owned<cusMotionDetectorDestroy> detector, other;
        const cusMat before[] = {first.mat, second.mat}, now[] = {second.mat, first.mat};
        for (cusMotionDetector **made : {&detector, &other}) {
            CUS_ASSERT_OK(cusMotionDetectorCreate(made, 2, 37, 65, CUS_8UC1, &options));
            CUS_ASSERT_OK(cusMotionDetectorRun(*made, before, nullptr, nullptr));
        }
        cusMotionStatus status[2] = {};
        const auto steps = [&](cusMotionDetector *from) {
            CUS_TRY(cusMotionDetectorWatch(from, -1, &first.mat, nullptr));
            CUS_TRY(cusMotionDetectorRun(from, now, nullptr, nullptr));
            return cusMotionDetectorGet(from, 0, 2, status, nullptr, nullptr, nullptr);
        };
        t.call([&] { return steps(detector); }, [&] { return steps(other); }); // the frame that failed may have counted
        t.value(status[1].steps);
    });
    support::Owned<cusMotionDetectorDestroy> detector;
    CUS_ASSERT_OK(cusMotionDetectorCreate(&detector, 1, 37, 65, CUS_8UC1, &options));
    checkOutput("cusMotionDetectorMask", [&](cusMat *mask) { return cusMotionDetectorMask(detector, 0, mask, nullptr); });
}

// ---- Rotation and scale

TEST_P(FaultsOf, Pose) {
    const Mat templ = image(9, 11, CUS_8UC1), frame = image(40, 50, CUS_8UC1, 2);
    cusPoseOptions options = cusPoseDefaults();
    options.method = CUS_MATCH_SQDIFF;
    options.angles = {-20, 20, 10, nullptr, 0};
    options.max_matches = 2;
    const auto create = [&](cusPoseMatcher **matcher) {
        return cusPoseMatcherCreate(matcher, &templ.mat, 40, 50, &options, nullptr);
    };
    checkCreate<cusPoseMatcherDestroy>("cusPoseMatcherCreate", [&](auto *matcher) { return create(matcher); });
    support::Owned<cusPoseMatcherDestroy> matcher;
    CUS_ASSERT_OK(create(&matcher));
    check("cusPoseMatcherRun", [&](Trial &t) {
        cusPoseMatch matches[2] = {};
        int found = 0, angles = 0;
        t.call([&] {
            CUS_TRY(cusPoseMatcherRun(matcher, &frame.mat, nullptr));
            CUS_TRY(cusPoseMatcherGrid(matcher, &angles, nullptr));
            CUS_TRY(cusPoseMatcherNearest(matcher, matches, &found));
            return cusPoseMatcherGet(matcher, matches, 2, &found);
        });
        t.value(matches[0].score);
        t.value(found + angles);
    });
    // Noise in which a device's search comes to its transforms, which a new matcher has not made yet.
    const Mat other = image(40, 44, CUS_8UC1, 3), noise = image(100, 120, CUS_8UC1, 4);
    options = cusPoseDefaults();
    options.angles = {0, 340, 20, nullptr, 0};
    check("cusPoseMatcherRun by transforms", [&](Trial &t) {
        support::Owned<cusPoseMatcherDestroy> fresh;
        CUS_ASSERT_OK(cusPoseMatcherCreate(&fresh, &other.mat, 100, 120, &options, nullptr));
        cusPoseMatch match = {};
        int found = 0;
        t.call([&] {
            CUS_TRY(cusPoseMatcherRun(fresh, &noise.mat, nullptr));
            return cusPoseMatcherNearest(fresh, &match, &found);
        });
        t.value(match.score);
    });
    checkOutput("cusPoseMatcherTemplate",
                [&](cusMat *pose) { return cusPoseMatcherTemplate(matcher, 1, 0, pose, nullptr); });
}

// ---- Template matching

TEST_P(FaultsOf, Match) {
    const Mat frame = image(64, 80, CUS_8UC3);
    const Mat mask(9, 11, CUS_8UC1, space(), std::vector<uint8_t>(99, 1));
    const cusHsvRange range = {{0, 0, 0}, {179, 255, 255}};
    struct Case {
        const char *name;
        cusMatchAlgorithm algorithm;
        bool masked;
        int count, matches;
        int rows, cols; // of the frame
    };
    // On the device: FFT, launches of one match and of three, and cuFFT's plans (too large for the device's own transform).
    for (const Case &c :
         {Case{"direct", CUS_MATCH_DIRECT, false, 2, 3, 64, 80}, Case{"FFT", CUS_MATCH_FFT, false, 2, 3, 64, 80},
          Case{"FFT, one match", CUS_MATCH_FFT, false, 1, 1, 64, 80},
          Case{"FFT, two templates", CUS_MATCH_FFT, false, 2, 1, 64, 80}, Case{"mask", CUS_MATCH_FFT, true, 2, 3, 64, 80},
          Case{"long rows", CUS_MATCH_FFT, false, 2, 3, 20, 20000}}) {
        if (c.algorithm == CUS_MATCH_FFT && GetParam() == HOST && std::string(cusMatcherHostFft()) == "none")
            continue;
        if (c.cols > 1000 && GetParam() == HOST)
            continue;
        cusMat templates[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
        Mat a = image(9, 11, CUS_8UC3, 2), b = image(9, 11, CUS_8UC3, 3);
        templates[0] = a.mat, templates[1] = b.mat;
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = CUS_MATCH_SQDIFF;
        options.algorithm = c.algorithm;
        options.max_matches = c.matches;
        options.mask = c.masked ? &mask.mat : nullptr;
        const auto create = [&](cusMatcher **matcher) {
            return cusMatcherCreate(matcher, templates, c.count, c.rows, c.cols, &options, nullptr);
        };
        checkCreate<cusMatcherDestroy>(std::string("cusMatcherCreate, ") + c.name,
                                       [&](auto *matcher) { return create(matcher); });
        const Mat wide = image(c.rows, c.cols, CUS_8UC3);
        support::Owned<cusMatcherDestroy> matcher;
        CUS_ASSERT_OK(create(&matcher));
        check(std::string("cusMatcherRun, ") + c.name, [&](Trial &t) {
            cusMat scores[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
            t.call([&] { return cusMatcherRun(matcher, &wide.mat, scores, nullptr); });
            t.result(Mat::bytesOf(scores[0]));
            cusMatRelease(&scores[0]);
            cusMatRelease(&scores[1]);
        });
    }
    Mat templ = image(9, 11, CUS_8UC3, 2);
    support::Owned<cusMatcherDestroy> matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &templ, 1, 64, 80, nullptr, nullptr));
    CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
    check("cusMatcherInspect",
          [&](Trial &t) { t.call([&] { return cusMatcherInspect(matcher, &frame.mat, &range, 0.5, nullptr); }); });
    check("cusMatcherGet", [&](Trial &t) {
        cusMatch match = {};
        int found = -1;
        t.call([&] { return cusMatcherGet(matcher, 0, &match, 1, &found, nullptr); });
        t.value(found);
    });
}

// ---- Frame differences

TEST_P(FaultsOf, Framediff) {
    const Mat first = image(37, 65, CUS_8UC3, 1), second = image(37, 65, CUS_8UC3, 2);
    check("cusSparseDiffCreate", [&](Trial &t) {
        cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
        t.call([&] { return cusSparseDiffCreate(&diff, 37, 65, CUS_8UC3, 0, 1, space()); });
        cusSparseDiffRelease(&diff);
    });
    // A diff that may be too small takes one more launch on the device.
    for (const auto &[name, neighbors, capacity] :
         {std::tuple{"", 0, 0u}, std::tuple{", noise filter", 3, 0u}, std::tuple{", small diff", 0, 37u * 65 * 3 - 1}}) {
        cusDiffOptions options = cusDiffDefaults();
        options.min_neighbors = neighbors;
        checkCreate<cusDiffEncoderDestroy>(std::string("cusDiffEncoderCreate") + name, [&](auto *encoder) {
            return cusDiffEncoderCreate(encoder, 37, 65, CUS_8UC3, space(), &options);
        });
        cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
        CUS_ASSERT_OK(cusSparseDiffCreate(&diff, 37, 65, CUS_8UC3, capacity, 1, space()));
        check(std::string("cusDiffEncode") + name, [&](Trial &t) {
            support::Owned<cusDiffEncoderDestroy> encoder;
            CUS_ASSERT_OK(cusDiffEncoderCreate(&encoder, 37, 65, CUS_8UC3, space(), &options));
            CUS_ASSERT_OK(cusDiffEncoderReset(encoder, &first.mat, nullptr));
            t.call([&] { return cusDiffEncode(encoder, &second.mat, &diff, nullptr); },
                   // A CUDA error in the middle may have updated the reference: a key frame starts again.
                   [&] {
                       CUS_TRY(cusDiffEncoderReset(encoder, &first.mat, nullptr));
                       return cusDiffEncode(encoder, &second.mat, &diff, nullptr);
                   });
            t.result(Mat::bytesOf(diff.count));
        });
        cusSparseDiffRelease(&diff);
    }
    cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
    CUS_ASSERT_OK(cusSparseDiffCreate(&diff, 37, 65, CUS_8UC3, 0, 0, space()));
    check("cusDiffEncode, dense frames", [&](Trial &t) { // the device's other kernel takes those that follow a dense one
        support::Owned<cusDiffEncoderDestroy> encoder;
        CUS_ASSERT_OK(cusDiffEncoderCreate(&encoder, 37, 65, CUS_8UC3, space(), nullptr));
        const auto prepare = [&] {
            CUS_TRY(cusDiffEncoderReset(encoder, nullptr, nullptr));
            CUS_TRY(cusDiffEncode(encoder, &second.mat, &diff, nullptr));
            return space() == CUS_DEVICE ? cusStreamSynchronize(nullptr) : CUS_OK;
        };
        CUS_ASSERT_OK(prepare());
        t.call([&] { return cusDiffEncode(encoder, &first.mat, &diff, nullptr); },
               [&] {
                   CUS_TRY(prepare());
                   return cusDiffEncode(encoder, &first.mat, &diff, nullptr);
               });
        t.result(Mat::bytesOf(diff.count));
    });
    cusSparseDiffRelease(&diff);
    check("cusDiffEncodeBatch", [&](Trial &t) { // a noise filter and a short list
        std::array<support::Owned<cusDiffEncoderDestroy>, 2> owned;
        cusDiffOptions options = cusDiffDefaults();
        for (auto &encoder : owned) {
            CUS_ASSERT_OK(cusDiffEncoderCreate(&encoder, 37, 65, CUS_8UC3, space(), &options));
            options.min_neighbors = 3;
        }
        cusSparseDiff diffs[2] = {CUS_SPARSE_DIFF_INIT, CUS_SPARSE_DIFF_INIT};
        for (cusSparseDiff &each : diffs)
            CUS_ASSERT_OK(cusSparseDiffCreate(&each, 37, 65, CUS_8UC3, 37 * 65 * 3 - 1, 1, space()));
        cusDiffEncoder *const encoders[2] = {owned[0], owned[1]};
        const cusMat frames[2] = {second.mat, first.mat};
        const auto encode = [&] { return cusDiffEncodeBatch(2, encoders, frames, diffs, nullptr); };
        t.call(encode, [&] {
            for (cusDiffEncoder *encoder : encoders)
                CUS_TRY(cusDiffEncoderReset(encoder, nullptr, nullptr));
            return encode();
        });
        for (cusSparseDiff &each : diffs) {
            t.result(Mat::bytesOf(each.count));
            cusSparseDiffRelease(&each);
        }
    });
    cusDiffEncoder *encoder = nullptr;
    CUS_ASSERT_OK(cusDiffEncoderCreate(&encoder, 37, 65, CUS_8UC3, space(), nullptr));
    CUS_ASSERT_OK(cusSparseDiffCreate(&diff, 37, 65, CUS_8UC3, 0, 0, space()));
    CUS_ASSERT_OK(cusDiffEncode(encoder, &first.mat, &diff, nullptr));
    check("cusDiffEncoderReset",
          [&](Trial &t) { t.call([&] { return cusDiffEncoderReset(encoder, &first.mat, nullptr); }); });
    check("cusSparseDiffCount", [&](Trial &t) {
        uint32_t count = 0;
        t.call([&] { return cusSparseDiffCount(&diff, &count, nullptr); });
        t.value(count);
    });
    checkCreate<cusDiffDecoderDestroy>(
        "cusDiffDecoderCreate", [&](auto *decoder) { return cusDiffDecoderCreate(decoder, 37, 65, CUS_8UC3, space()); });
    check("cusDiffDecoderReset, cusDiffDecode", [&](Trial &t) {
        support::Owned<cusDiffDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusDiffDecoderCreate(&decoder, 37, 65, CUS_8UC3, space()));
        t.call([&] {
            CUS_TRY(cusDiffDecoderReset(decoder, nullptr, nullptr));
            return cusDiffDecode(decoder, &diff, nullptr);
        });
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusDiffDecoderFrame(decoder, &view));
        t.result(Mat::bytesOf(view));
    });
    cusSparseDiffRelease(&diff);
    cusDiffEncoderDestroy(encoder);
    checkOutput("cusHeatmap", [&](cusMat *dst) { return cusHeatmap(&first.mat, &second.mat, dst, nullptr, nullptr); });
    check("cusHeatmapBatch", [&](Trial &t) {
        const cusMat prev[2] = {first.mat, second.mat}, cur[2] = {second.mat, first.mat};
        std::array<Mat, 2> owned;
        cusMat out[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
        t.call([&] { return cusHeatmapBatch(2, prev, cur, out, nullptr, nullptr); });
        for (size_t i = 0; i < 2; ++i) {
            owned[i].mat = out[i];
            t.result(owned[i].bytes());
        }
    });
    checkOutput("cusNoiseView", [&](cusMat *dst) { return cusNoiseView(&first.mat, &second.mat, dst, 30, nullptr); });
}

// ---- Remap

TEST_P(FaultsOf, Remap) {
    const Mat src = image(20, 30, CUS_8UC3, 1);
    const Mat map(10, 15, CUS_32FC2, space(), 2);
    checkOutput("cusRemap", [&](cusMat *out) { return cusRemap(&src.mat, &map.mat, out, nullptr); });
    check("cusRemapBatch", [&](Trial &t) {
        const cusMat sources[2] = {src.mat, src.mat}, maps[2] = {map.mat, map.mat};
        std::array<Mat, 2> owned;
        cusMat out[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
        t.call([&] { return cusRemapBatch(2, sources, maps, out, nullptr); });
        for (size_t i = 0; i < 2; ++i) {
            owned[i].mat = out[i];
            t.result(owned[i].bytes());
        }
    });
}

// ---- Stereo

TEST_P(FaultsOf, Stereo) {
    const Mat left = image(40, 64, CUS_8UC1, 1), right = image(40, 64, CUS_8UC1, 2), real = floats(40, 64);
    checkOutput("cusStereoEdges", [&](cusMat *out) { return cusStereoEdges(&left.mat, out, nullptr, nullptr); });
    checkOutput("cusStereoEdges, 32F", [&](cusMat *out) { return cusStereoEdges(&real.mat, out, nullptr, nullptr); });
    checkOutput("cusStereoCensus", [&](cusMat *out) { return cusStereoCensus(&left.mat, out, nullptr, nullptr); });
    cusStereoOptions many = cusStereoDefaults();
    many.shifts = 60;
    checkOutput("cusStereoElevation",
                [&](cusMat *out) { return cusStereoElevation(&left.mat, &right.mat, out, nullptr, nullptr); });
    checkOutput("cusStereoElevation, 60 shifts",
                [&](cusMat *out) { return cusStereoElevation(&left.mat, &right.mat, out, &many, nullptr); });
    many.subpixel_bits = 8;
    check("cusStereoElevationConfidence", [&](Trial &t) {
        Mat heights, confidence;
        t.call([&] {
            return cusStereoElevationConfidence(&left.mat, &right.mat, &heights.mat, &confidence.mat, &many, nullptr);
        });
        t.result(heights.bytes());
        t.result(confidence.bytes());
    });
    check("cusStereoFindShifts", [&](Trial &t) {
        int shifts = 0;
        t.call([&] { return cusStereoFindShifts(&left.mat, &right.mat, &shifts, nullptr, nullptr); });
    });
    Mat elevation;
    CUS_ASSERT_OK(cusStereoElevation(&left.mat, &right.mat, &elevation, nullptr, nullptr));
    cusStereoOptions speckles = cusStereoDefaults();
    speckles.speckle_size = 20;
    checkOutput("cusStereoFilterSpeckles",
                [&](cusMat *out) { return cusStereoFilterSpeckles(&elevation, out, &speckles, nullptr); });
    for (const cusStereoFillRule rule : {CUS_FILL_NONE, CUS_FILL_ONCE, CUS_FILL_RELAX, CUS_FILL_LOWER}) {
        cusStereoOptions options = cusStereoDefaults();
        options.fill = rule;
        checkOutput("cusStereoFill, rule " + std::to_string(rule),
                    [&](cusMat *out) { return cusStereoFill(&elevation, out, &options, nullptr); });
    }
    checkOutput("cusStereoMedian", [&](cusMat *out) { return cusStereoMedian(&elevation, out, 5, nullptr); });
    checkOutput("cusStereoContours", [&](cusMat *out) { return cusStereoContours(&elevation, out, nullptr, nullptr); });
    checkOutput("cusStereoPicture", [&](cusMat *out) { return cusStereoPicture(&elevation, nullptr, out, nullptr); });
    cusStereoOptions paths = cusStereoBest();
    paths.shifts = 20;
    checkOutput("cusStereoElevation, paths",
                [&](cusMat *out) { return cusStereoElevation(&left.mat, &right.mat, out, &paths, nullptr); });
    paths.shifts = CUS_STEREO_AUTO;
    for (const auto &[name, options] :
         {std::pair{"", cusStereoDefaults()}, {", classic", cusStereoClassic()}, {", paths", paths}}) {
        checkCreate<cusContourMapperDestroy>(std::string("cusContourMapperCreate") + name, [&](auto *mapper) {
            return cusContourMapperCreate(mapper, 40, 64, CUS_8UC1, space(), &options);
        });
        support::Owned<cusContourMapperDestroy> mapper;
        CUS_ASSERT_OK(cusContourMapperCreate(&mapper, 40, 64, CUS_8UC1, space(), &options));
        check(std::string("cusContourMap") + name, [&](Trial &t) {
            Mat heights, contours;
            t.call([&] { return cusContourMap(mapper, &left.mat, &right.mat, &heights, &contours, nullptr); });
            t.result(heights.bytes());
            t.result(contours.bytes());
        });
    }
    check("cusContourMap, paths, the first pair", [&](Trial &t) { // which allocates for the shifts that it finds
        support::Owned<cusContourMapperDestroy> first;
        CUS_ASSERT_OK(cusContourMapperCreate(&first, 40, 64, CUS_8UC1, space(), &paths));
        Mat heights;
        t.call([&] { return cusContourMap(first, &left.mat, &right.mat, &heights, nullptr, nullptr); });
        t.result(heights.bytes());
    });
    cusStereoOptions fine = cusStereoDefaults();
    fine.subpixel_bits = 4;
    support::Owned<cusContourMapperDestroy> mapper;
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, 40, 64, CUS_8UC1, space(), &fine));
    check("cusContourMapConfidence", [&](Trial &t) {
        Mat heights, contours, confidence;
        t.call([&] {
            return cusContourMapConfidence(mapper, &left.mat, &right.mat, &heights, &contours, &confidence, nullptr);
        });
        t.result(heights.bytes());
        t.result(confidence.bytes());
    });
}

} // namespace

// cusight::cuda on cv::cuda::GpuMat, in one process with cv::cuda: whole matrices, regions, streams, buffer pools, and what people
// report about cv::cuda's template matching. Needs a GPU and an OpenCV with CUDA (cudaarithm, cudaimgproc, cudastereo): skipped
// by name without. docs/opencv.md says how to build against one. test_opencv.cpp: the same on cv::Mat.
#include "support.hpp"

#ifdef CUSIGHT_HAVE_OPENCV_CORE
#include "core/opencv_support.hpp"

#ifdef CUSIGHT_HAVE_OPENCV_CUDA
#include <opencv2/cudaarithm.hpp>
#include <opencv2/cudaimgproc.hpp>
#endif

#include <thread>

namespace {

using namespace opencv_test;

using cv::cuda::GpuMat;

cv::Mat onHost(const GpuMat &mat) {
    cv::Mat host;
    if (!mat.empty())
        mat.download(host);
    return host;
}

GpuMat onDevice(const cv::Mat &mat) {
    GpuMat device;
    device.upload(mat);
    return device;
}

// A region of a larger matrix at an odd offset.
GpuMat asRegion(const cv::Mat &mat) {
    GpuMat frame(mat.rows + 9, mat.cols + 12, mat.type(), cv::Scalar::all(99));
    GpuMat region = frame(cv::Rect(3, 5, mat.cols, mat.rows));
    region.upload(mat);
    return region;
}

size_t freeMemory() {
    int device = 0;
    cusDeviceInfo info = {};
    EXPECT_EQ(cusDeviceGet(&device), CUS_OK);
    EXPECT_EQ(cusDeviceQuery(device, &info), CUS_OK) << cusLastError();
    return info.memory_free;
}

class OpencvCuda : public testing::Test {
  protected:
    void SetUp() override {
        CUS_NEEDS(CUS_DEVICE);
#ifndef CUSIGHT_HAVE_OPENCV_CUDA
        GTEST_SKIP() << "OpenCV was built without CUDA, or without cudaarithm, cudaimgproc and cudastereo";
#endif
    }
    std::mt19937_64 random = support::generator();
};

TEST_F(OpencvCuda, IntegralEqualsCvCuda) {
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
    cv::cuda::Stream stream;
    for (const auto &[rows, cols] : {std::pair{37, 53}, {480, 641}, {1080, 1920}}) {
        const cv::Mat image = randomImage(rows, cols, CV_8UC1, random);
        cv::Mat want, want_squares;
        cv::integral(image, want, want_squares, CV_32S, CV_64F);
        for (const GpuMat &src : {onDevice(image), asRegion(image)}) {
            GpuMat sum, sqsum, both, squares, theirs, their_squares;
            cusight::cuda::integral(src, sum, stream);
            cusight::cuda::sqrIntegral(src, sqsum, stream);
            cusight::cuda::integral(src, both, squares, stream);
            stream.waitForCompletion();
            EXPECT_EQ(difference(onHost(sum), want), 0);
            EXPECT_EQ(difference(onHost(both), want), 0);
            EXPECT_EQ(difference(onHost(sqsum), want_squares), 0);
            EXPECT_EQ(difference(onHost(squares), want_squares), 0);
            cv::cuda::integral(src, theirs, stream);
            cv::cuda::sqrIntegral(src, their_squares, stream);
            stream.waitForCompletion();
            EXPECT_EQ(difference(onHost(sum), onHost(theirs)), 0);
            EXPECT_EQ(difference(onHost(sqsum), onHost(their_squares)), 0);
            cusight::cuda::integral(src, sum); // no stream: the default one
            EXPECT_EQ(difference(onHost(sum), want), 0);
        }
    }
#endif
}

TEST_F(OpencvCuda, OutputsOfABufferPoolAndRegions) {
    cv::cuda::setBufferPoolUsage(true);
    {
        // OpenCV 4.14 makes the last GPU current when it first asks for a pool: the second call allocates on this one again.
        const int device = cv::cuda::getDevice();
        for (int k = 0; k < 2; ++k) {
            cv::cuda::setBufferPoolConfig(device, 1 << 20, 2);
        }
        cv::cuda::Stream stream;
        cv::cuda::BufferPool pool(stream);
        const cv::Mat image = randomImage(120, 131, CV_8UC1, random);
        cv::Mat want;
        cv::integral(image, want);
        GpuMat src = pool.getBuffer(120, 131, CV_8UC1), sum = pool.getBuffer(121, 132, CV_32SC1);
        src.upload(image, stream);
        const auto *before = sum.data;
        cusight::cuda::integral(src, sum, stream);
        stream.waitForCompletion();
        EXPECT_EQ(sum.data, before);
        EXPECT_EQ(difference(onHost(sum), want), 0);
        GpuMat frame(140, 150, CV_32SC1, cv::Scalar(-7)), region = frame(cv::Rect(5, 6, 132, 121));
        cusight::cuda::integral(src, region, stream);
        stream.waitForCompletion();
        EXPECT_EQ(difference(onHost(region), want), 0);
        cv::Mat outside = onHost(frame);
        outside({5, 6, 132, 121}).setTo(-7);
        EXPECT_EQ(difference(outside, cv::Mat(140, 150, CV_32SC1, cv::Scalar(-7))), 0);
    }
    cv::cuda::setBufferPoolUsage(false);
}

TEST_F(OpencvCuda, ScoreMapsBesideCvCuda) {
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
    cv::cuda::Stream stream;
    for (int method = cv::TM_SQDIFF; method <= cv::TM_CCOEFF_NORMED; ++method)
        for (const int side : {5, 60}) {
            SCOPED_TRACE("method " + std::to_string(method) + ", side " + std::to_string(side));
            const cv::Mat image = smoothImage(240, 301, CV_8UC1, random);
            const GpuMat src = asRegion(image), templ = src(cv::Rect(37, 21, side, side));
            const auto ours = cusight::cuda::createTemplateMatching(CV_8UC1, method);
            const cv::Ptr<cv::cuda::TemplateMatching> same = ours; // in the place of OpenCV's
            const cv::Ptr<cv::cuda::TemplateMatching> theirs = cv::cuda::createTemplateMatching(CV_8UC1, method);
            GpuMat map, their_map;
            same->match(src, templ, map, stream);
            theirs->match(src, templ, their_map, stream);
            stream.waitForCompletion();
            cv::Mat want;
            cv::matchTemplate(image, image({37, 21, side, side}), want, method);
            const double scale = std::max(1.0, cv::norm(want, cv::NORM_INF));
            EXPECT_LT(difference(onHost(map), want), 1e-4 * scale);
            EXPECT_LT(difference(onHost(map), onHost(their_map)), 2e-3 * scale); // theirs is less accurate
            cv::Point at;
            ASSERT_TRUE(ours->best(nullptr, &at, stream));
            if (method != cv::TM_CCORR && method != cv::TM_CCOEFF)
                EXPECT_EQ(at, cv::Point(37, 21));
        }
#endif
}

TEST_F(OpencvCuda, TheTemplateMayChangeInPlace) {
    const cv::Mat image = smoothImage(90, 100, CV_8UC1, random);
    const GpuMat src = onDevice(image);
    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
    GpuMat templ(12, 14, CV_8UC1), map;
    cv::cuda::Stream stream;
    for (const cv::Point want : {cv::Point(3, 60), cv::Point(80, 7)}) {
        src(cv::Rect(want, templ.size())).copyTo(templ, stream);
        matching->match(src, templ, map, cusight::StreamRef(stream));
        cv::Point at;
        double score = -1;
        ASSERT_TRUE(matching->best(&score, &at, stream));
        EXPECT_EQ(at, want);
        EXPECT_EQ(score, 0);
    }
}

TEST_F(OpencvCuda, TheOtherAlgorithmsEqualTheHost) {
    cv::cuda::Stream stream;
    const cv::Mat prev = randomImage(130, 141, CV_8UC3, random), cur = randomImage(130, 141, CV_8UC3, random);
    cv::Mat want;
    GpuMat map;
    cusight::cuda::heatmap(prev, cur, want);
    cusight::cuda::heatmap(asRegion(prev), onDevice(cur), map, stream);
    stream.waitForCompletion();
    EXPECT_EQ(difference(onHost(map), want), 0);

    const cv::Mat right = smoothImage(60, 90, CV_8UC1, random);
    cv::Mat left = right.clone(), elevation, contours;
    right({0, 0, 80, 60}).copyTo(left({10, 0, 80, 60}));
    const auto stereo = cusight::cuda::createStereoContour(20, 9), on_device = cusight::cuda::createStereoContour(20, 9);
    GpuMat heights, lines;
    stereo->compute(left, right, elevation, contours);
    on_device->compute(onDevice(left), asRegion(right), heights, lines, stream);
    stream.waitForCompletion();
    EXPECT_EQ(difference(onHost(heights), elevation), 0);
    EXPECT_EQ(difference(onHost(lines), contours), 0);

    cusight::cuda::SparseDiff sender, host_sender;
    cusight::cuda::SparseDiffDecoder receiver({141, 130}, CV_8UC3, CUS_DEVICE), direct({141, 130}, CV_8UC3, CUS_DEVICE);
    for (const cv::Mat &frame : {prev, cur, cur}) {
        GpuMat positions, values, got, from_list;
        cv::Mat host_positions, host_values, reference;
        sender.encode(onDevice(frame), stream);
        host_sender.encode(frame);
        direct.decode(sender, stream);
        EXPECT_EQ(sender.changes(positions, values, stream), host_sender.changes(host_positions, host_values));
        stream.waitForCompletion();
        EXPECT_EQ(difference(onHost(values), host_values), 0);
        EXPECT_EQ(difference(onHost(positions), host_positions), 0);
        receiver.decode(positions, values, stream);
        direct.frame(got, stream);
        receiver.frame(from_list, stream);
        stream.waitForCompletion();
        host_sender.reference(reference);
        EXPECT_EQ(difference(onHost(got), reference), 0);
        EXPECT_EQ(difference(onHost(from_list), reference), 0);
    }
}

TEST_F(OpencvCuda, ClassesTakeOpencvTypes) {
    cv::cuda::Stream stream;
    const cv::Mat image = smoothImage(100, 90, CV_8UC1, random);
    const GpuMat src = onDevice(image);
    GpuMat table, scores;
    cv::Mat want;
    cusight::Integrator integrator(100, 90, CUS_DEVICE);
    integrator.sum(src, table, stream);
    cusight::Matcher matcher(src(cv::Rect(20, 30, 16, 16)), 100, 90, cusMatcherDefaults(), stream);
    matcher.run(src, scores, stream);
    const cusMatch best = matcher.best(stream);
    EXPECT_EQ(cv::Point(best.x, best.y), cv::Point(20, 30));
    stream.waitForCompletion();
    cv::integral(image, want);
    EXPECT_EQ(difference(onHost(table), want), 0);
    EXPECT_EQ(scores.size(), cv::Size(75, 85));
}

// ---- What people report about cv::cuda ---------------------------------------------------------------------------------

// opencv 13883: template matching on several threads at once fails. Each thread has its own object and stream.
TEST_F(OpencvCuda, Issue13883MatchingOnThreads) {
    const size_t threads = 4;
    std::vector<cv::Mat> images, want(threads);
    for (size_t k = 0; k < threads; ++k) {
        images.push_back(smoothImage(480 + static_cast<int>(k), 640, CV_8UC1, random));
        const auto alone = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_CCOEFF_NORMED);
        const GpuMat src = onDevice(images[k]);
        GpuMat map;
        alone->match(src, src(cv::Rect(140, 50, 64, 60)), map);
        want[k] = onHost(map);
    }
    std::vector<std::thread> workers;
    std::vector<std::string> wrong(threads);
    for (size_t k = 0; k < threads; ++k)
        workers.emplace_back([&, k] {
            try {
                cv::cuda::Stream stream;
                const GpuMat src = onDevice(images[k]), templ = src(cv::Rect(140, 50, 64, 60));
                for (int object = 0; object < 3; ++object) {
                    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_CCOEFF_NORMED);
                    for (int round = 0; round < 20; ++round) {
                        cv::Point at;
                        GpuMat map;
                        matching->match(src, templ, map, cusight::StreamRef(stream));
                        if (!matching->best(nullptr, &at, stream) || at != cv::Point(140, 50) ||
                            difference(onHost(map), want[k]) != 0)
                            wrong[k] = "another result than alone";
                    }
                }
            } catch (const std::exception &e) {
                wrong[k] = e.what();
            }
        });
    for (auto &worker : workers)
        worker.join();
    EXPECT_EQ(wrong, std::vector<std::string>(threads));
}

// opencv 20484: template matching fails on large images, such as a photograph enlarged tenfold.
TEST_F(OpencvCuda, Issue20484LargeImages) {
    for (const cv::Size size : {cv::Size(70000, 300), cv::Size(300, 70000), cv::Size(16000, 12000)}) {
        const cv::Mat image = randomImage(size.height, size.width, CV_8UC1, random);
        const cv::Point want(size.width - 203, size.height - 204);
        const GpuMat src = onDevice(image);
        const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_CCOEFF_NORMED);
        GpuMat map;
        matching->match(src, src(cv::Rect(want.x, want.y, 200, 200)), map);
        EXPECT_EQ(map.size(), cv::Size(size.width - 199, size.height - 199));
        cv::Point at;
        double score = 0;
        ASSERT_TRUE(matching->best(&score, &at));
        EXPECT_EQ(at, want) << size;
        EXPECT_NEAR(score, 1, 1e-12);
    }
}

// opencv_contrib 2709: findMinMaxLoc allocates at every call.
TEST_F(OpencvCuda, Issue2709NothingIsAllocatedPerCall) {
    cv::cuda::Stream stream;
    const GpuMat src = onDevice(smoothImage(1080, 1920, CV_8UC1, random));
    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
    matching->setTemplate(src(cv::Rect(400, 500, 64, 64)), src.size(), stream);
    GpuMat map;
    matching->match(src, map, stream);
    stream.waitForCompletion();
    const void *results = matching->matcher().results().data;
    const size_t before = freeMemory();
    for (int round = 0; round < 200; ++round)
        matching->match(src, map, stream); // queued: what each call allocated would add up
    EXPECT_EQ(freeMemory(), before);
    EXPECT_EQ(matching->matcher().results().data, results);
    cv::Point at;
    ASSERT_TRUE(matching->best(nullptr, &at, stream));
    EXPECT_EQ(at, cv::Point(400, 500));
    EXPECT_EQ(freeMemory(), before);
}

// Hidden synchronization: calls return while the stream is still busy with earlier work.
TEST_F(OpencvCuda, CallsDoNotWait) {
    cv::cuda::Stream stream;
    const GpuMat large = onDevice(randomImage(16000, 16000, CV_8UC1, random)),
                 src = onDevice(smoothImage(480, 640, CV_8UC1, random)),
                 color = onDevice(randomImage(480, 640, CV_8UC3, random));
    GpuMat table(16001, 16001, CV_32SC1), sum, map, picture, elevation;
    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
    matching->setTemplate(src(cv::Rect(4, 5, 64, 64)), src.size(), stream);
    const auto stereo = cusight::cuda::createStereoContour();
    cusight::cuda::SparseDiff diff;
    cusight::Integrator integrator(16000, 16000, CUS_DEVICE);
    const auto everything = [&] { // what the second call of each needs has been allocated by the first
        cusight::cuda::integral(src, sum, stream);
        matching->match(src, map, stream);
        cusight::cuda::heatmap(color, color, picture, stream);
        stereo->compute(src, src, elevation, stream);
        diff.encode(color, stream);
    };
    everything();
    stream.waitForCompletion();
    for (int round = 0; round < 200; ++round) // some 60 ms of work
        integrator.sum(large, table, stream);
    ASSERT_FALSE(stream.queryIfComplete()) << "the GPU is too fast for this test";
    everything();
    EXPECT_FALSE(stream.queryIfComplete()) << "a call waited for the stream";
    stream.waitForCompletion();
}

// Scores that are not exact, and below zero where the template is an exact copy.
TEST_F(OpencvCuda, ExactScores) {
    for (const int side : {9, 64, 150}) {
        cv::Mat image = randomImage(600, 710, CV_8UC1, random);
        image = image / 16 + 240;
        const GpuMat src = onDevice(image);
        const cv::Mat copy = image({231, 122, side, side}).clone();
        cv::Mat changed = copy.clone(), other = randomImage(side, side, CV_8UC1, random) / 16 + 240;
        changed.at<uint8_t>(side / 2, side / 3) ^= 1;
        const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
        double score = -1;
        cv::Point at;
        for (const auto &[templ, want] : {std::pair{copy, 0.0}, {changed, 1.0}}) {
            matching->match(src, onDevice(templ), cv::noArray());
            ASSERT_TRUE(matching->best(&score, &at));
            EXPECT_EQ(at, cv::Point(231, 122));
            EXPECT_EQ(score, want);
        }
        matching->match(src, onDevice(other), cv::noArray());
        ASSERT_TRUE(matching->best(&score, &at));
        EXPECT_EQ(score, cv::norm(image(cv::Rect(at, other.size())), other, cv::NORM_L2SQR));
        const auto on_host = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
        double host_score = 0;
        cv::Point host_at;
        on_host->match(image, other, cv::noArray());
        ASSERT_TRUE(on_host->best(&host_score, &host_at));
        EXPECT_EQ(host_at, at);
        EXPECT_EQ(host_score, score);
    }
}

} // namespace

#endif

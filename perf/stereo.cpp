// Rows of stereo: contour maps, classic and with the defaults, over sizes, shifts and windows.
#include "harness/frames.hpp"

#include "cusight/stereo.h"
#include "peers/opencv_cuda.hpp"
#include "peers/stereo.hpp"

#ifdef CUSIGHT_HAVE_OPENCV_CALIB3D
#include <opencv2/calib3d.hpp>
#include <opencv2/core.hpp>
#endif
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
#include <opencv2/cudastereo.hpp>
#endif

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::bytesOf;
using perf::check;

using perf::Mat;
using perf::Size;

// Squares of random brightness with a little noise. The right image is shifted by 0 to 29 columns, differently for every
// 100 x 100 pixels.
struct Pair {
    Pair(Size size, cusSpace space, int direction) {
        std::mt19937_64 random(1);
        const int blocks = (size.cols + 128) / 8 + 1;
        std::vector<uint8_t> base(static_cast<size_t>(blocks) * static_cast<size_t>(size.rows / 8 + 1));
        for (auto &b : base)
            b = static_cast<uint8_t>(random());
        std::vector<uint8_t> tight[2];
        for (int image = 0; image < 2; ++image) {
            tight[image].resize(size.pixels());
            for (int y = 0; y < size.rows; ++y)
                for (int x = 0; x < size.cols; ++x) {
                    const int from = x + 64 - (image ? direction * ((y / 100 + x / 100) % 30) : 0);
                    tight[image][static_cast<size_t>(y) * static_cast<size_t>(size.cols) + static_cast<size_t>(x)] =
                        static_cast<uint8_t>(
                            base[static_cast<size_t>(y / 8) * static_cast<size_t>(blocks) + static_cast<size_t>(from / 8)] /
                                2 +
                            64 + random() % 8);
                }
        }
        left.emplace(size.rows, size.cols, CUS_8UC1, space, tight[0]);
        right.emplace(size.rows, size.cols, CUS_8UC1, space, tight[1]);
    }
    std::optional<Mat> left, right;
    Mat elevation, contours;
};

struct Mapper {
    Mapper(Size size, cusSpace space, const cusStereoOptions &o) {
        check(cusContourMapperCreate(&mapper, size.rows, size.cols, CUS_8UC1, space, &o));
    }
    ~Mapper() { cusContourMapperDestroy(mapper); }
    Mapper(const Mapper &) = delete;
    Mapper &operator=(const Mapper &) = delete;
    cusContourMapper *mapper = nullptr;
};

enum class Peers { NONE, PUBLISHED, OPENCV, SEMI_GLOBAL };

void contour(const std::string &id, Size size, const cusStereoOptions &o, Peers with = Peers::NONE) {
    perf::bothSpaces([&](cusSpace space) {
        if (space == CUS_HOST && size.pixels() > 40000000)
            return; // seconds a pair
        // The serial method would run for minutes at 3840x2160.
        const bool published = with == Peers::PUBLISHED && (space == CUS_DEVICE || size.pixels() < 1000000);
        perf::Row row(id, space, 0);
        if (perf::listing())
            return row.report();
        Pair pair(size, space, o.direction);
        Mapper mapper(size, space, o);
        row.note(std::to_string(o.shifts) + " shifts, window " + std::to_string(o.window) +
                 (o.fill == CUS_FILL_ONCE ? ", " + std::to_string(o.iterations) + " fills" : ""));
        const auto one = [&](cusStream stream, int) {
            return cusContourMap(mapper.mapper, &pair.left->mat, &pair.right->mat, &pair.elevation.mat, &pair.contours.mat,
                                 stream);
        };
        row.measure(one);
        const peers::StereoSetting setting{size.rows, size.cols, o.shifts, o.window, o.iterations, o.levels, o.threshold};
        std::vector<uint16_t> elevation;
        std::vector<uint8_t> contours;
        std::optional<peers::SerialStereo> serial;
        if (published && space == CUS_HOST) {
            elevation.resize(size.pixels());
            contours.resize(size.pixels());
            serial.emplace(setting);
            row.peer("published", [&](cusStream, int) {
                serial->run(static_cast<const uint8_t *>(pair.left->mat.data),
                            static_cast<const uint8_t *>(pair.right->mat.data), elevation.data(), contours.data());
            });
        }
#ifdef CUSIGHT_HAVE_OPENCV_CALIB3D
        if (with == Peers::OPENCV && space == CUS_HOST) {
            const cv::Mat l(size.rows, size.cols, CV_8UC1, pair.left->mat.data),
                r(size.rows, size.cols, CV_8UC1, pair.right->mat.data);
            row.peer("cv::StereoBM", [l, r, bm = cv::StereoBM::create(32, o.window < 5 ? 5 : o.window),
                                      d = cv::Mat()](cusStream, int) mutable { bm->compute(l, r, d); });
            row.peer("cv::StereoSGBM", [l, r, sgbm = cv::StereoSGBM::create(0, 32, 5, 8 * 25, 32 * 25),
                                        d = cv::Mat()](cusStream, int) mutable { sgbm->compute(l, r, d); });
        }
        if (with == Peers::SEMI_GLOBAL && space == CUS_HOST) {
            const cv::Mat l(size.rows, size.cols, CV_8UC1, pair.left->mat.data),
                r(size.rows, size.cols, CV_8UC1, pair.right->mat.data);
            const int mode = o.paths == 8 ? cv::StereoSGBM::MODE_HH : cv::StereoSGBM::MODE_HH4;
            row.peer("cv::StereoSGBM",
                     [l, r, sgbm = cv::StereoSGBM::create(0, o.shifts, 5, 8 * 25, 32 * 25, 0, 0, 0, 0, 0, mode),
                      d = cv::Mat()](cusStream, int) mutable { sgbm->compute(l, r, d); });
        }
#endif
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
        if (with != Peers::NONE &&
            space == CUS_DEVICE) { // disparities only, no fill, filter or contours; in steps of 32 and 64
            const auto peer = [&](const std::string &name, auto matching) {
                row.peer(name, [l = peers::gpuMat(pair.left->mat), r = peers::gpuMat(pair.right->mat), matching,
                                d = cv::cuda::GpuMat()](cusStream stream, int) mutable {
                    matching->compute(l, r, d, peers::opencvStream(stream));
                });
            };
            if (with == Peers::SEMI_GLOBAL) {
                peer("opencv StereoSGM alone", cv::cuda::createStereoSGM(0, o.shifts, 10, 120, 5,
                                                                         o.paths == 8 ? cv::cuda::StereoSGM::MODE_HH
                                                                                      : cv::cuda::StereoSGM::MODE_HH4));
            } else {
                peer("opencv StereoBM alone", cv::cuda::createStereoBM(32, o.window < 5 ? 5 : o.window));
                peer("opencv StereoSGM alone", cv::cuda::createStereoSGM(0, 64));
            }
        }
#endif
#ifdef CUSIGHT_HAVE_CUDA
        std::unique_ptr<peers::PublishedStereo> theirs;
        Mat their_elevation, their_contours;
        if (published && space == CUS_DEVICE) {
            theirs = std::make_unique<peers::PublishedStereo>(setting);
            // A single row, because the published method has no row padding.
            check(cusMatCreate(&their_elevation.mat, 1, static_cast<int>(size.pixels()), CUS_16UC1, space));
            check(cusMatCreate(&their_contours.mat, 1, static_cast<int>(size.pixels()), CUS_8UC1, space));
            row.peer("published", [&](cusStream stream, int) {
                theirs->run(pair.left->mat, pair.right->mat, static_cast<uint16_t *>(their_elevation.mat.data),
                            static_cast<uint8_t *>(their_contours.mat.data), stream);
            });
        }
#endif
        row.report();
        if (space == CUS_DEVICE && perf::isFrameSize(size) && id.compare(0, 7, "stereo/") == 0)
            perf::latency(id, one);
        if (!row.measured())
            return;
        if (published && space == CUS_HOST) {
            const auto own = bytesOf(pair.elevation.mat);
            EXPECT_EQ(std::memcmp(own.data(), elevation.data(), own.size()), 0)
                << "the published method gives a different result";
            EXPECT_EQ(bytesOf(pair.contours.mat), contours);
        }
#ifdef CUSIGHT_HAVE_CUDA
        if (theirs) {
            EXPECT_EQ(bytesOf(pair.elevation.mat), bytesOf(their_elevation.mat))
                << "the published method gives a different result";
            EXPECT_EQ(bytesOf(pair.contours.mat), bytesOf(their_contours.mat));
        }
#endif
    });
}

// Pairs up, elevation and contours down.
void hostToHost(Size size) {
    if (!perf::wants(CUS_DEVICE))
        return;
    const cusStereoOptions o = cusStereoClassic();
    struct Slot {
        Slot(Size s, int direction)
            : pair(s, CUS_DEVICE, direction), left(pair.left->mat), right(pair.right->mat),
              elevation(s.rows, s.cols, CUS_16UC1), contours(s.rows, s.cols, CUS_8UC1) {
            check(cusMatCreate(&pair.elevation.mat, s.rows, s.cols, CUS_16UC1, CUS_DEVICE));
            check(cusMatCreate(&pair.contours.mat, s.rows, s.cols, CUS_8UC1, CUS_DEVICE));
        }
        Pair pair;
        perf::Pinned left, right, elevation, contours;
    };
    std::deque<Slot> ring;
    Mapper mapper(size, CUS_DEVICE, o);
    perf::Pipeline pipeline;
    for (int k = 0; k < perf::Pipeline::SLOTS; ++k) {
        Slot &slot = ring.emplace_back(size, o.direction);
        Pair &p = slot.pair;
        pipeline.add(
            {{&slot.left.mat, &p.left->mat}, {&slot.right.mat, &p.right->mat}},
            [&](cusStream stream) {
                check(cusContourMap(mapper.mapper, &p.left->mat, &p.right->mat, &p.elevation.mat, &p.contours.mat, stream));
            },
            {{&p.elevation.mat, &slot.elevation.mat}, {&p.contours.mat, &slot.contours.mat}});
    }
    pipeline.report("stereo/contour/" + size.text(), "pinned pairs up, elevation and contours down");
}

constexpr Size VGA{640, 480}, HD{1920, 1080}, UHD{3840, 2160};

TEST(Stereo, Contour640x480) {
    contour("stereo/contour/640x480", VGA, cusStereoClassic(), Peers::PUBLISHED);
}

TEST(Stereo, Contour3840x2160) {
    contour("stereo/contour/3840x2160", UHD, cusStereoClassic(), Peers::PUBLISHED);
}

TEST(Stereo, Defaults) {
    contour("stereo/defaults/640x480", VGA, cusStereoDefaults(), Peers::OPENCV);
    contour("stereo/defaults/1920x1080", HD, cusStereoDefaults(), Peers::OPENCV);
    contour("stereo/defaults/3840x2160", UHD, cusStereoDefaults(), Peers::OPENCV);
}

TEST(Stereo, Subpixel) {
    cusStereoOptions o = cusStereoDefaults();
    o.shifts = 64;
    contour("stereo/contour-pixel/1920x1080/64", HD, o);
    o.subpixel_bits = 8;
    o.min_confidence = 1; // with the confidence too
    contour("stereo/contour-subpixel/1920x1080/64", HD, o);
    o.min_confidence = 0;
    o.speckle_size = 49; // the pixels of the window, as cusight-contour has it
    contour("stereo/contour-speckles/1920x1080/64", HD, o);
}

TEST(Stereo, Paths) {
    cusStereoOptions o = cusStereoBest();
    o.shifts = 64;
    o.paths = 8;
    contour("stereo/paths8/1920x1080/64", HD, o, Peers::SEMI_GLOBAL);
    o.shifts = 128;
    o.paths = 4;
    contour("stereo/paths4/1024x440/128", {1024, 440}, o, Peers::SEMI_GLOBAL);
}

TEST(Stereo, Contour1920x1080) {
    contour("stereo/contour/1920x1080", HD, cusStereoClassic());
}

TEST(Stereo, HostToHost) {
    for (const Size size : perf::FRAME_SIZES)
        hostToHost(size);
}

TEST(StereoSweep, Pixels) {
    for (const Size size : perf::SWEEP_SIZES)
        contour("sweep/stereo/contour" + perf::pixelsOf(size), size, cusStereoClassic());
}

TEST(StereoSweep, Shifts) {
    for (const int shifts : {1, 8, 32, 64, 256, 1024}) {
        cusStereoOptions o = cusStereoClassic();
        o.shifts = shifts;
        contour("sweep/stereo/contour 1920x1080/shifts=" + std::to_string(shifts), HD, o);
    }
}

TEST(StereoSweep, Windows) {
    for (const int window : {1, 7, 15, 21, 31, 63}) {
        cusStereoOptions o = cusStereoClassic();
        o.window = window;
        contour("sweep/stereo/contour 1920x1080/window=" + std::to_string(window), HD, o);
    }
}

} // namespace

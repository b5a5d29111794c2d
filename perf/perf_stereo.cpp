// Rows of stereo: contour maps, classic and with the defaults, over sizes, shifts and windows.
#include "harness.hpp"

#include "cusight/stereo.h"
#include "peers/stereo.hpp"

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/calib3d.hpp>
#include <opencv2/core.hpp>
#endif

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::check;

struct Size {
    int cols, rows;
    size_t pixels() const { return static_cast<size_t>(cols) * static_cast<size_t>(rows); }
    std::string text() const { return std::to_string(cols) + "x" + std::to_string(rows); }
};

class Mat {
  public:
    Mat() = default;
    ~Mat() { cusMatRelease(&mat); }
    Mat(const Mat &) = delete;
    Mat &operator=(const Mat &) = delete;
    cusMat mat = CUS_MAT_INIT;
};

// Squares of random brightness with a little noise on them, and the right image moved by 0 to 29 columns, another shift
// for every 100 x 100 pixels.
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
        fill(left.mat, size, space, tight[0]);
        fill(right.mat, size, space, tight[1]);
    }
    static void fill(cusMat &mat, Size size, cusSpace space, std::vector<uint8_t> &tight) {
        cusMat from = CUS_MAT_INIT;
        check(cusMatWrap(&from, size.rows, size.cols, CUS_8UC1, CUS_HOST, tight.data(), 0));
        check(cusMatCreate(&mat, size.rows, size.cols, CUS_8UC1, space));
        check(space == CUS_DEVICE ? cusMatUpload(&from, &mat, nullptr) : cusMatCopy(&from, &mat, nullptr));
        if (space == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
    }
    Mat left, right, elevation, contours;
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

std::vector<uint8_t> bytesOf(const cusMat &mat) {
    std::vector<uint8_t> tight(static_cast<size_t>(mat.rows) * static_cast<size_t>(mat.cols) * cusTypeSize(mat.type));
    cusMat host = CUS_MAT_INIT;
    check(cusMatWrap(&host, mat.rows, mat.cols, mat.type, CUS_HOST, tight.data(), 0));
    check(mat.space == CUS_DEVICE ? cusMatDownload(&mat, &host, nullptr) : cusMatCopy(&mat, &host, nullptr));
    if (mat.space == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr));
    return tight;
}

enum class Peers { NONE, PUBLISHED, OPENCV };

void contour(const std::string &id, Size size, const cusStereoOptions &o, Peers with = Peers::NONE) {
    perf::bothSpaces([&](cusSpace space) {
        // The serial way of 3840x2160 takes minutes.
        const bool published = with == Peers::PUBLISHED && (space == CUS_DEVICE || size.pixels() < 1000000);
        perf::Row row(id, space, 0);
        if (perf::listing())
            return row.report();
        Pair pair(size, space, o.direction);
        Mapper mapper(size, space, o);
        row.note(std::to_string(o.shifts) + " shifts, window " + std::to_string(o.window) +
                 (o.fill == CUS_FILL_ONCE ? ", " + std::to_string(o.iterations) + " fills" : ""));
        row.measure([&](cusStream stream, int) {
            return cusContourMap(mapper.mapper, &pair.left.mat, &pair.right.mat, &pair.elevation.mat, &pair.contours.mat,
                                 stream);
        });
        const peers::StereoSetting setting{size.rows, size.cols, o.shifts, o.window, o.iterations, o.levels, o.threshold};
        std::vector<uint16_t> elevation(size.pixels());
        std::vector<uint8_t> contours(size.pixels());
        peers::SerialStereo serial(setting);
        if (published && space == CUS_HOST)
            row.peer("published", [&](cusStream, int) {
                serial.run(static_cast<const uint8_t *>(pair.left.mat.data),
                           static_cast<const uint8_t *>(pair.right.mat.data), elevation.data(), contours.data());
            });
#ifdef CUSIGHT_HAVE_OPENCV
        if (with == Peers::OPENCV && space == CUS_HOST) {
            const cv::Mat l(size.rows, size.cols, CV_8UC1, pair.left.mat.data),
                r(size.rows, size.cols, CV_8UC1, pair.right.mat.data);
            row.peer("cv::StereoBM", [l, r, bm = cv::StereoBM::create(32, o.window < 5 ? 5 : o.window),
                                      d = cv::Mat()](cusStream, int) mutable { bm->compute(l, r, d); });
            row.peer("cv::StereoSGBM", [l, r, sgbm = cv::StereoSGBM::create(0, 32, 5, 8 * 25, 32 * 25),
                                        d = cv::Mat()](cusStream, int) mutable { sgbm->compute(l, r, d); });
        }
#endif
#ifdef CUSIGHT_HAVE_CUDA
        std::unique_ptr<peers::PublishedStereo> theirs;
        Mat their_elevation, their_contours;
        if (published && space == CUS_DEVICE) {
            theirs = std::make_unique<peers::PublishedStereo>(setting);
            // As one row: device rows are tight.
            check(cusMatCreate(&their_elevation.mat, 1, static_cast<int>(size.pixels()), CUS_16UC1, space));
            check(cusMatCreate(&their_contours.mat, 1, static_cast<int>(size.pixels()), CUS_8UC1, space));
            row.peer("published", [&](cusStream stream, int) {
                theirs->run(pair.left.mat, pair.right.mat, static_cast<uint16_t *>(their_elevation.mat.data),
                            static_cast<uint8_t *>(their_contours.mat.data), stream);
            });
        }
#endif
        row.report();
        if (published && space == CUS_HOST) {
            const auto own = bytesOf(pair.elevation.mat);
            EXPECT_EQ(std::memcmp(own.data(), elevation.data(), own.size()), 0) << "the published way does other work";
            EXPECT_EQ(bytesOf(pair.contours.mat), contours);
        }
#ifdef CUSIGHT_HAVE_CUDA
        if (theirs) {
            EXPECT_EQ(bytesOf(pair.elevation.mat), bytesOf(their_elevation.mat)) << "the published way does other work";
            EXPECT_EQ(bytesOf(pair.contours.mat), bytesOf(their_contours.mat));
        }
#endif
    });
}

constexpr Size VGA{640, 480}, HD{1920, 1080}, UHD{3840, 2160};

TEST(Stereo, contour_640x480) {
    contour("stereo/contour/640x480", VGA, cusStereoClassic(), Peers::PUBLISHED);
}

TEST(Stereo, contour_3840x2160) {
    contour("stereo/contour/3840x2160", UHD, cusStereoClassic(), Peers::PUBLISHED);
}

TEST(Stereo, defaults) {
    contour("stereo/defaults/640x480", VGA, cusStereoDefaults(), Peers::OPENCV);
    contour("stereo/defaults/3840x2160", UHD, cusStereoDefaults(), Peers::OPENCV);
}

TEST(Stereo, sweepOfSizes) {
    for (const Size size : {Size{320, 240}, HD, Size{7680, 4320}})
        contour("stereo/contour/" + size.text(), size, cusStereoClassic());
}

TEST(Stereo, sweepOfShifts) {
    for (const int shifts : {1, 8, 32, 64, 256}) {
        cusStereoOptions o = cusStereoClassic();
        o.shifts = shifts;
        contour("stereo/contour/1920x1080/shifts" + std::to_string(shifts), HD, o);
    }
}

TEST(Stereo, sweepOfWindows) {
    for (const int window : {1, 7, 15, 31, 63}) {
        cusStereoOptions o = cusStereoClassic();
        o.window = window;
        contour("stereo/contour/1920x1080/window" + std::to_string(window), HD, o);
    }
}

} // namespace

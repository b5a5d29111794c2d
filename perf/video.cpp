// Rows of video: decoded pictures to BGR.
#include "harness/frames.hpp"
#include "harness/pictures.hpp"

#include "cusight/video.h"

#include <deque>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace {

using perf::Mat;

// A picture of `bytes` a sample, and its colors. u has both where there is no v.
struct Buffers {
    Buffers(perf::Size size, int bytes, bool planar, cusSpace space, const std::vector<uint8_t> &noise)
        : y(size.rows, size.cols, bytes == 1 ? CUS_8UC1 : CUS_16UC1, space, part(noise, size.pixels() * bytes)),
          u(size.rows / 2, size.cols / 2, CUS_MAKETYPE(CUS_DEPTH(y.mat.type), planar ? 1 : 2), space,
            part(noise, size.pixels() * bytes / (planar ? 4 : 2))),
          v(size.rows / 2, size.cols / 2, y.mat.type, space, part(noise, size.pixels() * bytes / 4)),
          bgr(size.rows, size.cols, CUS_8UC3, space) {}
    static std::vector<uint8_t> part(const std::vector<uint8_t> &noise, size_t bytes) {
        return {noise.begin(), noise.begin() + static_cast<std::ptrdiff_t>(bytes)};
    }
    Mat y, u, v, bgr;
};

void convert(const std::string &name, perf::Size size, int bytes, bool planar) {
    perf::bothSpaces([&](cusSpace space) {
        const double moved = (1.5 * bytes + 3) * static_cast<double>(size.pixels());
        perf::Row row("video/" + name + "/" + size.text(), space, moved);
        if (perf::listing())
            return row.report();
        const auto noise = perf::picture(size.rows, size.cols * bytes, 1, 1);
        std::deque<Buffers> sets;
        for (int k = perf::rotation(space, static_cast<size_t>(moved)); k > 0; --k)
            sets.emplace_back(size, bytes, planar, space, noise);
        const auto at = [&](int i) -> Buffers & { return sets[static_cast<size_t>(i) % sets.size()]; };
        row.measure([&](cusStream stream, int i) {
            Buffers &b = at(i);
            return cusYuvToBgr(&b.y.mat, &b.u.mat, planar ? &b.v.mat : nullptr, nullptr, &b.bgr.mat, stream);
        });
#ifdef CUSIGHT_HAVE_OPENCV
        if (space == CUS_HOST && bytes == 1 && !planar)
            row.peer("opencv", [&](cusStream, int i) { // which takes the nearest chroma
                Buffers &b = at(i);
                const cv::Mat y(size.rows, size.cols, b.y.mat.type, b.y.bytes(), b.y.mat.step);
                const cv::Mat uv(size.rows / 2, size.cols / 2, b.u.mat.type, b.u.bytes(), b.u.mat.step);
                cv::Mat bgr(size.rows, size.cols, b.bgr.mat.type, b.bgr.bytes(), b.bgr.mat.step);
                cv::cvtColorTwoPlane(y, uv, bgr, cv::COLOR_YUV2BGR_NV12);
            });
#endif
        row.report();
    });
}

TEST(Video, ToBgr) {
    convert("nv12", {1920, 1080}, 1, false);
    convert("nv12", {3840, 2160}, 1, false);
    convert("i420", {3840, 2160}, 1, true);
    convert("p010", {3840, 2160}, 2, false);
}

} // namespace

// Rows of remap: a map that turns the image by three degrees, as rectification does.
#include "harness/frames.hpp"
#include "harness/pictures.hpp"

#include "cusight/remap.h"

#include <cmath>
#include <cstring>
#include <deque>

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace {

using perf::Mat;

std::vector<uint8_t> turn(perf::Size size) {
    std::vector<uint8_t> bytes(size.pixels() * 2 * sizeof(float));
    const double c = std::cos(0.0524), s = std::sin(0.0524), mx = size.cols / 2.0, my = size.rows / 2.0;
    for (int y = 0; y < size.rows; ++y)
        for (int x = 0; x < size.cols; ++x) {
            const float place[] = {static_cast<float>(mx + c * (x - mx) - s * (y - my)),
                                   static_cast<float>(my + s * (x - mx) + c * (y - my))};
            std::memcpy(&bytes[(static_cast<size_t>(y) * static_cast<size_t>(size.cols) + static_cast<size_t>(x)) * 8],
                        place, sizeof place);
        }
    return bytes;
}

struct Buffers {
    Buffers(perf::Size size, int channels, cusSpace space, const std::vector<uint8_t> &places)
        : src(size.rows, size.cols, CUS_MAKETYPE(CUS_8U, channels), space,
              perf::picture(size.rows, size.cols, channels, 1)),
          map(size.rows, size.cols, CUS_32FC2, space, places),
          dst(size.rows, size.cols, CUS_MAKETYPE(CUS_8U, channels), space) {}
    Mat src, map, dst;
};

void remap(perf::Size size, int channels) {
    perf::bothSpaces([&](cusSpace space) {
        const double bytes = (8.0 + 2.0 * channels) * static_cast<double>(size.pixels());
        perf::Row row("remap/8uc" + std::to_string(channels) + "/" + size.text(), space, bytes);
        if (perf::listing())
            return row.report();
        const auto places = turn(size);
        std::deque<Buffers> sets;
        for (int k = perf::rotation(space, static_cast<size_t>(bytes)); k > 0; --k)
            sets.emplace_back(size, channels, space, places);
        const auto at = [&](int i) -> Buffers & { return sets[static_cast<size_t>(i) % sets.size()]; };
        row.measure(
            [&](cusStream stream, int i) { return cusRemap(&at(i).src.mat, &at(i).map.mat, &at(i).dst.mat, stream); });
#ifdef CUSIGHT_HAVE_OPENCV
        if (space == CUS_HOST)
            row.peer("opencv", [&](cusStream, int i) {
                Buffers &b = at(i);
                const cv::Mat src(size.rows, size.cols,
                                  CV_MAKETYPE(CUS_DEPTH(b.src.mat.type), CUS_CHANNELS(b.src.mat.type)), b.src.bytes(),
                                  b.src.mat.step);
                const cv::Mat map(size.rows, size.cols, CV_32FC2, b.map.bytes(), b.map.mat.step);
                cv::Mat dst(size.rows, size.cols, CV_MAKETYPE(CUS_DEPTH(b.dst.mat.type), CUS_CHANNELS(b.dst.mat.type)),
                            b.dst.bytes(), b.dst.mat.step);
                cv::remap(src, dst, map, cv::noArray(), cv::INTER_LINEAR);
            });
#endif
        row.report();
    });
}

// Images of one map, each a call's share.
void remapBatch(perf::Size size, size_t count) {
    perf::bothSpaces([&](cusSpace space) {
        const double bytes = (8.0 + 2.0 * static_cast<double>(count)) * static_cast<double>(size.pixels());
        perf::Row row("remap/8uc1/" + size.text() + "/batch" + std::to_string(count), space, bytes);
        row.note("one map for all");
        if (perf::listing())
            return row.report();
        const auto places = turn(size);
        const int sets = perf::rotation(space, static_cast<size_t>(bytes));
        std::deque<Buffers> buffers;
        std::vector<std::vector<cusMat>> src, map, dst;
        for (int k = 0; k < sets; ++k) {
            src.emplace_back(), map.emplace_back(), dst.emplace_back();
            for (size_t i = 0; i < count; ++i) {
                buffers.emplace_back(size, 1, space, places);
                src.back().push_back(buffers.back().src.mat);
                map.back().push_back(buffers[buffers.size() - 1 - i].map.mat);
                dst.back().push_back(buffers.back().dst.mat);
            }
        }
        row.measure([&](cusStream stream, int i) {
            const size_t k = static_cast<size_t>(i % sets);
            return cusRemapBatch(static_cast<int>(count), src[k].data(), map[k].data(), dst[k].data(), stream);
        });
        row.report();
    });
}

TEST(Remap, Turn) {
    for (const perf::Size &size : perf::FRAME_SIZES)
        remap(size, 1);
    for (const perf::Size &size : {perf::Size{1920, 1080}, perf::Size{3840, 2160}})
        remap(size, 3);
    remapBatch({640, 480}, 32);
}

} // namespace

// Performance rows of integral: sums, sums with squares, float sources, sums over rectangles.
#include "harness/frames.hpp"

#include "cusight/integral.h"
#include "peers/integral.hpp"
#include "peers/npp.hpp"
#include "peers/opencv_cuda.hpp"

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
#include <opencv2/cudaarithm.hpp>
#endif
#ifdef CUSIGHT_HAVE_NPP
#include <nppi_statistics_functions.h>
#endif

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using perf::check;

using perf::Mat;
using perf::Size;

double entries(Size size) {
    return (size.cols + 1.0) * (size.rows + 1.0);
}

size_t channelsOf(int type) {
    return static_cast<size_t>(CUS_CHANNELS(type));
}

void fill(Mat &mat, Size size, int type, cusSpace space) {
    Mat host;
    check(cusMatCreate(&host.mat, size.rows, size.cols, type, CUS_HOST));
    std::mt19937_64 random(1);
    for (int y = 0; y < size.rows; ++y) {
        auto *row = host.as<uint8_t>() + static_cast<size_t>(y) * host.mat.step;
        const int values = size.cols * CUS_CHANNELS(type);
        if (CUS_DEPTH(type) == CUS_8U)
            for (int x = 0; x < values; x += 8) {
                const uint64_t pixels = random();
                std::memcpy(row + x, &pixels, static_cast<size_t>(std::min(8, values - x)));
            }
        else
            for (int x = 0; x < values; ++x)
                reinterpret_cast<float *>(row)[x] = static_cast<float>(random() % 65536) / 256;
    }
    check(space == CUS_DEVICE ? cusMatUpload(&host.mat, &mat.mat, nullptr) : cusMatCopy(&host.mat, &mat.mat, nullptr));
}

struct Set {
    Mat memory[3];                          // src, sum and sqsum are parts of it
    Mat src, sum, sqsum, tight, transposed; // the last two: for the published method
};

enum class Rows { ALL, NO_PEERS };

// REGION: the source begins at (1, 1) of an image larger by 1 on each side. TIGHT: rows have no padding; tables start at
// their second entry in memory.
enum class Layout { ALIGNED, REGION, TIGHT };

void makeTight(Mat &memory, Mat &mat, Size size, int type, cusSpace space, size_t first) {
    const size_t element = cusTypeSize(type), row = static_cast<size_t>(size.cols) * element;
    check(cusMatCreate(&memory.mat, 1, static_cast<int>((size.pixels() + first) * element), CUS_8UC1, space));
    check(cusMatWrap(&mat.mat, size.rows, size.cols, type, space, memory.bytes() + first * element, row));
}

void fill(Set &s, Size size, int type, int depth, cusSpace space, Layout layout) {
    const Size table = {size.cols + 1, size.rows + 1};
    if (layout == Layout::REGION) {
        fill(s.memory[0], {size.cols + 2, size.rows + 2}, type, space);
        check(cusMatRegion(&s.memory[0].mat, 1, 1, size.cols, size.rows, &s.src.mat));
        return;
    }
    if (layout == Layout::TIGHT) {
        makeTight(s.memory[0], s.src, size, type, space, 0);
        makeTight(s.memory[1], s.sum, table, CUS_MAKETYPE(depth, 1), space, 1);
        makeTight(s.memory[2], s.sqsum, table, CUS_64FC1, space, 1);
    }
    fill(s.src, size, type, space);
}

// squares: both tables. arithmetic: options but the depth.
void integral(const std::string &id, Size size, int type, int depth, bool squares, Rows rows = Rows::ALL,
              Layout layout = Layout::ALIGNED, const cusIntegralOptions &arithmetic = cusIntegralDefaults()) {
    perf::bothSpaces([&](cusSpace space) {
        if (space == CUS_HOST && size.cols > 16000 && rows == Rows::NO_PEERS)
            return; // beyond this size time grows linearly
        const double value = CUS_DEPTH(type) == CUS_8U ? 1 : 4, entry = depth == CUS_32S ? 4 : 8;
        const double bytes = (static_cast<double>(size.pixels()) * value + entries(size) * (entry + (squares ? 8 : 0))) *
                             static_cast<double>(channelsOf(type));
        perf::Row row(id, space, bytes);
        row.note("random pixels");
        std::deque<Set> sets;
        cusIntegrator *integrator = nullptr;
        if (!perf::listing()) {
            for (int i = perf::rotation(space, static_cast<size_t>(bytes)); i > 0; --i)
                fill(sets.emplace_back(), size, type, depth, space, layout);
            check(cusIntegratorCreate(&integrator, size.rows, size.cols * CUS_CHANNELS(type), space));
        }
        cusIntegralOptions options = arithmetic;
        options.sum_depth = depth;
        for (Set &s : sets) // allocates the tables and touches the host's pages before anything is timed
            check(
                cusIntegratorRun(integrator, &s.src.mat, &s.sum.mat, squares ? &s.sqsum.mat : nullptr, &options, nullptr));
        const auto set = [&](int i) -> Set & { return sets[static_cast<size_t>(i) % sets.size()]; };
        const auto run = [&](cusStream stream, int i) {
            Set &s = set(i);
            return cusIntegratorRun(integrator, &s.src.mat, &s.sum.mat, squares ? &s.sqsum.mat : nullptr, &options, stream);
        };
        row.measure(run);
        if (rows == Rows::NO_PEERS) {
            row.report();
            cusIntegratorDestroy(integrator);
            return;
        }
        row.peer("without an object", [&](cusStream stream, int i) {
            Set &s = set(i);
            check(cusIntegral(&s.src.mat, &s.sum.mat, squares ? &s.sqsum.mat : nullptr, &options, stream));
        });
        if (space == CUS_HOST) {
#ifdef CUSIGHT_HAVE_OPENCV
            row.peer("opencv", [&](cusStream, int i) {
                Set &s = set(i);
                const auto view = [](const cusMat &m) {
                    return cv::Mat(m.rows, m.cols, CV_MAKETYPE(CUS_DEPTH(m.type), CUS_CHANNELS(m.type)), m.data, m.step);
                };
                // Into the same tables as ours, equally cold.
                cv::Mat sum = view(s.sum.mat), sqsum = squares ? view(s.sqsum.mat) : cv::Mat();
                if (squares)
                    cv::integral(view(s.src.mat), sum, sqsum, depth, CV_64F);
                else
                    cv::integral(view(s.src.mat), sum, depth);
                if (sum.data != s.sum.mat.data)
                    throw std::logic_error("cv::integral allocated another table");
            });
#endif
        } else if (type == CUS_8UC1 && depth == CUS_32S) {
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
            row.peer("opencv", [&](cusStream stream, int i) { // into our tables; two calls for two tables
                Set &s = set(i);
                cv::cuda::Stream &their_stream = peers::opencvStream(stream);
                const cv::cuda::GpuMat src = peers::gpuMat(s.src.mat);
                cv::cuda::GpuMat sum = peers::gpuMat(s.sum.mat);
                cv::cuda::integral(src, sum, their_stream);
                if (squares) {
                    cv::cuda::GpuMat sqsum = peers::gpuMat(s.sqsum.mat);
                    cv::cuda::sqrIntegral(src, sqsum, their_stream);
                }
            });
#endif
#ifdef CUSIGHT_HAVE_NPP
            row.peer("npp", [&, context = NppStreamContext(), initialized = false](cusStream stream, int i) mutable {
                if (!initialized)
                    context = peers::nppContext(stream);
                initialized = true;
                context.hStream = stream;
                Set &s = set(i);
                check(cusMatCreate(&s.sum.mat, size.rows + 1, size.cols + 1, CUS_32SC1, space));
                const NppiSize roi = {size.cols, size.rows};
                if (squares)
                    peers::checkNpp(nppiSqrIntegral_8u32s64f_C1R_Ctx(s.src.as<Npp8u>(), s.src.step(), s.sum.as<Npp32s>(),
                                                                     s.sum.step(), s.sqsum.as<Npp64f>(), s.sqsum.step(),
                                                                     roi, 0, 0, context));
                else
                    peers::checkNpp(nppiIntegral_8u32s_C1R_Ctx(s.src.as<Npp8u>(), s.src.step(), s.sum.as<Npp32s>(),
                                                               s.sum.step(), roi, 0, context));
            });
#endif
#ifdef CUSIGHT_HAVE_CUDA
            if (!squares)
                row.peer("published", [&](cusStream stream, int i) {
                    Set &s = set(i);
                    // No padding between rows.
                    check(cusMatCreate(&s.tight.mat, size.rows * size.cols, 1, CUS_32SC1, space));
                    check(cusMatCreate(&s.transposed.mat, size.rows * size.cols, 1, CUS_32SC1, space));
                    peers::publishedIntegral(s.src.mat, s.tight.mat, s.transposed.mat, stream);
                });
#endif
        }
        row.report();
        if (space == CUS_DEVICE && perf::isFrameSize(size) && channelsOf(type) == 1)
            perf::latency(id, run);
        cusIntegratorDestroy(integrator);
    });
}

// Many images by one call.
void integralBatch(Size size, int count) {
    perf::bothSpaces([&](cusSpace space) {
        const double bytes = count * (static_cast<double>(size.pixels()) + 4 * entries(size));
        perf::Row row("integral/8u32s/" + size.text() + "/batch" + std::to_string(count), space, bytes);
        row.note("random pixels");
        if (perf::listing())
            return row.report();
        const int sets = perf::rotation(space, static_cast<size_t>(bytes));
        std::deque<Mat> mats;
        std::vector<std::vector<cusMat>> src(static_cast<size_t>(sets)), sum = src;
        for (size_t k = 0; k < src.size(); ++k)
            for (int i = 0; i < count; ++i) {
                fill(mats.emplace_back(), size, CUS_8UC1, space);
                src[k].push_back(mats.back().mat);
                sum[k].push_back(mats.emplace_back(size.rows + 1, size.cols + 1, CUS_32SC1, space).mat);
            }
        cusIntegrator *integrator = nullptr;
        check(cusIntegratorCreate(&integrator, size.rows, size.cols * count, space));
        row.measure([&](cusStream stream, int i) {
            const size_t k = static_cast<size_t>(i) % src.size();
            return cusIntegratorRunBatch(integrator, count, src[k].data(), sum[k].data(), nullptr, nullptr, stream);
        });
        row.report();
        cusIntegratorDestroy(integrator);
    });
}

// Whole frames: upload, integral, table download.
void hostToHost(Size size) {
    if (!perf::wants(CUS_DEVICE))
        return;
    struct Slot {
        explicit Slot(Size s) : sum(s.rows + 1, s.cols + 1, CUS_32SC1, CUS_DEVICE), out(s.rows + 1, s.cols + 1, CUS_32SC1) {
            fill(src, s, CUS_8UC1, CUS_DEVICE);
        }
        Mat src, sum;
        perf::Pinned out;
    };
    std::deque<Slot> ring;
    std::deque<perf::Pinned> in;
    cusIntegrator *integrator = nullptr;
    check(cusIntegratorCreate(&integrator, size.rows, size.cols, CUS_DEVICE));
    perf::Pipeline pipeline;
    for (int k = 0; k < perf::Pipeline::SLOTS; ++k) {
        Slot &slot = ring.emplace_back(size);
        in.emplace_back(slot.src.mat);
        pipeline.add({{&in.back().mat, &slot.src.mat}},
                     [&](cusStream stream) {
                         check(cusIntegratorRun(integrator, &slot.src.mat, &slot.sum.mat, nullptr, nullptr, stream));
                     },
                     {{&slot.sum.mat, &slot.out.mat}});
    }
    pipeline.report("integral/8u32s/" + size.text(), "pinned frames up, tables down");
    cusIntegratorDestroy(integrator);
}

TEST(Integral, Sum640x480) {
    integral("integral/8u32s/640x480", {640, 480}, CUS_8UC1, CUS_32S, false);
}
TEST(Integral, Batch640x480) {
    integralBatch({640, 480}, 32);
}
TEST(Integral, Sum1920x1080) {
    integral("integral/8u32s/1920x1080", {1920, 1080}, CUS_8UC1, CUS_32S, false);
}
TEST(Integral, Sum1920x1080Color) {
    integral("integral/8u32s/1920x1080/8UC3", {1920, 1080}, CUS_8UC3, CUS_32S, false);
}
TEST(Integral, Sum3840x2160) {
    integral("integral/8u32s/3840x2160", {3840, 2160}, CUS_8UC1, CUS_32S, false);
}
TEST(Integral, Sum7680x4320) {
    integral("integral/8u32s/7680x4320", {7680, 4320}, CUS_8UC1, CUS_32S, false);
}
TEST(Integral, Sum16384x16384) {
    integral("integral/8u32s/16384x16384", {16384, 16384}, CUS_8UC1, CUS_32S, false);
}
TEST(Integral, Sum1326x1025) {
    integral("integral/8u32s/1326x1025", {1326, 1025}, CUS_8UC1, CUS_32S, false);
}
TEST(Integral, Squares640x480) {
    integral("integral/8u32s64f/640x480", {640, 480}, CUS_8UC1, CUS_32S, true);
}
TEST(Integral, Squares1920x1080) {
    integral("integral/8u32s64f/1920x1080", {1920, 1080}, CUS_8UC1, CUS_32S, true);
}
TEST(Integral, Squares3840x2160) {
    integral("integral/8u32s64f/3840x2160", {3840, 2160}, CUS_8UC1, CUS_32S, true);
}
TEST(Integral, Squares7680x4320) {
    integral("integral/8u32s64f/7680x4320", {7680, 4320}, CUS_8UC1, CUS_32S, true);
}
TEST(Integral, Wide7680x4320) {
    integral("integral/8u64f/7680x4320", {7680, 4320}, CUS_8UC1, CUS_64F, false);
}
TEST(Integral, Floats7680x4320) {
    integral("integral/32f64f64f/7680x4320", {7680, 4320}, CUS_32FC1, CUS_64F, true);
}

TEST(Integral, FloatSums7680x4320) {
    integral("integral/32f64f/7680x4320", {7680, 4320}, CUS_32FC1, CUS_64F, false);
}
// Without a range, and with it: the same tables, since 256 is the power of two above all pixels.
TEST(Integral, Reproducible7680x4320) {
    cusIntegralOptions options = cusIntegralDefaults();
    options.reproducible = 1;
    for (const double range : {0.0, 256.0}) {
        options.range = range;
        integral(range > 0 ? "integral/32f64f/7680x4320/reproducible-range" : "integral/32f64f/7680x4320/reproducible",
                 {7680, 4320}, CUS_32FC1, CUS_64F, false, Rows::NO_PEERS, Layout::ALIGNED, options);
    }
}

TEST(Integral, HostToHost) {
    for (const Size size : perf::FRAME_SIZES)
        hostToHost(size);
}
TEST(IntegralSweep, Pixels) {
    for (const Size size : perf::SWEEP_SIZES) {
        integral("sweep/integral/8u32s" + perf::pixelsOf(size), size, CUS_8UC1, CUS_32S, false, Rows::NO_PEERS);
        integral("sweep/integral/8u32s64f" + perf::pixelsOf(size), size, CUS_8UC1, CUS_32S, true, Rows::NO_PEERS);
    }
}

TEST(IntegralWorst, region) {
    for (const Size size : {Size{7680, 4320}, Size{1919, 1079}})
        integral("worst/integral/region/" + size.text(), size, CUS_8UC1, CUS_32S, false, Rows::NO_PEERS, Layout::REGION);
    integral("worst/integral/region-squares/7681x4321", {7681, 4321}, CUS_8UC1, CUS_32S, true, Rows::NO_PEERS,
             Layout::REGION);
}
// Rows without padding, as array libraries allocate them.
TEST(IntegralWorst, tight) {
    for (const bool squares : {false, true})
        integral(squares ? "worst/integral/tight-squares/7680x4320" : "worst/integral/tight/7680x4320", {7680, 4320},
                 CUS_8UC1, CUS_32S, squares, Rows::NO_PEERS, Layout::TIGHT);
}

// A million rectangles with random positions and sizes.
TEST(Integral, Boxes1M) {
    perf::bothSpaces([&](cusSpace space) {
        constexpr int COUNT = 1000000;
        const Size size = {3840, 2160};
        perf::Row row("integral/boxsums/1M", space, 0);
        row.note("random rectangles in a 3840x2160 table");
        Mat src, table, boxes, sums;
        if (!perf::listing()) {
            fill(src, size, CUS_8UC1, space);
            check(cusIntegral(&src.mat, &table.mat, nullptr, nullptr, nullptr));
            std::mt19937 random(2);
            std::vector<int> some(4 * COUNT);
            for (int k = 0; k < COUNT; ++k) {
                const int x = static_cast<int>(random() % 3840), y = static_cast<int>(random() % 2160);
                const int box[4] = {x, y, 1 + static_cast<int>(random() % (3840u - x)),
                                    1 + static_cast<int>(random() % (2160u - y))};
                std::memcpy(&some[static_cast<size_t>(4 * k)], box, sizeof box);
            }
            cusMat from = CUS_MAT_INIT;
            check(cusMatWrap(&from, COUNT, 4, CUS_32SC1, CUS_HOST, some.data(), 0));
            check(space == CUS_DEVICE ? cusMatUpload(&from, &boxes.mat, nullptr) : cusMatCopy(&from, &boxes.mat, nullptr));
            if (space == CUS_DEVICE)
                check(cusStreamSynchronize(nullptr));
        }
        row.measure([&](cusStream stream, int) { return cusBoxSums(&table.mat, &boxes.mat, &sums.mat, stream); });
        row.report();
    });
}

} // namespace

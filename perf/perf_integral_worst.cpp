// Performance rows of integral for awkward layouts and shapes: regions, tight tables, tall and narrow, wide and flat images.
#include "frames.hpp"

#include "cusight/integral.h"

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::check;
using perf::Mat;
using perf::Size;

enum class Tables { PADDED, TIGHT }; // TIGHT: the source, too

struct Set {
    Mat parent, memory[2];
    cusMat src = CUS_MAT_INIT, sum = CUS_MAT_INIT, sqsum = CUS_MAT_INIT;
};

// A matrix whose rows follow each other without padding, `shift` elements past the start of its memory.
void makeTight(Mat &memory, cusMat &mat, Size size, int type, cusSpace space, size_t shift) {
    const size_t element = cusTypeSize(type), row = static_cast<size_t>(size.cols) * element;
    check(cusMatCreate(&memory.mat, 1, static_cast<int>((size.pixels() + shift) * element), CUS_8UC1, space));
    check(cusMatWrap(&mat, size.rows, size.cols, type, space, memory.bytes() + shift * element, row));
}

// The source is the part at (at, at) of an image that is larger by `at` on each side.
void worst(const std::string &id, Size size, bool squares, int at, Tables tables, int type = CUS_8UC1) {
    perf::bothSpaces([&](cusSpace space) {
        const double entries = (size.cols + 1.0) * (size.rows + 1.0),
                     bytes = static_cast<double>(size.pixels() * cusTypeSize(type)) +
                             entries * (type == CUS_32FC1 ? (squares ? 16 : 8) : (squares ? 12 : 4));
        perf::Row row("worst/integral/" + id, space, bytes);
        row.note("random pixels");
        std::deque<Set> sets;
        cusIntegrator *integrator = nullptr;
        if (!perf::listing()) {
            std::mt19937_64 random(1);
            const Size whole = {size.cols + 2 * at, size.rows + 2 * at};
            std::vector<uint8_t> pixels(whole.pixels());
            for (auto &p : pixels)
                p = static_cast<uint8_t>(random());
            std::vector<float> floats(type == CUS_32FC1 ? pixels.size() : 0);
            std::copy_n(pixels.begin(), floats.size(), floats.begin());
            void *const data = floats.empty() ? static_cast<void *>(pixels.data()) : floats.data();
            check(cusIntegratorCreate(&integrator, size.rows, size.cols, space));
            for (int i = perf::rotation(space, static_cast<size_t>(bytes)); i > 0; --i) {
                Set &s = sets.emplace_back();
                cusMat host = CUS_MAT_INIT;
                check(cusMatWrap(&host, whole.rows, whole.cols, type, CUS_HOST, data, 0));
                cusMat tight = CUS_MAT_INIT, *const image = tables == Tables::TIGHT ? &tight : &s.parent.mat;
                if (tables == Tables::TIGHT) {
                    const Size table = {size.cols + 1, size.rows + 1};
                    makeTight(s.parent, tight, whole, type, space, 0);
                    makeTight(s.memory[0], s.sum, table, type == CUS_32FC1 ? CUS_64FC1 : CUS_32SC1, space, 1);
                    if (squares)
                        makeTight(s.memory[1], s.sqsum, table, CUS_64FC1, space, 1);
                }
                check(space == CUS_DEVICE ? cusMatUpload(&host, image, nullptr) : cusMatCopy(&host, image, nullptr));
                check(cusMatRegion(image, at, at, size.cols, size.rows, &s.src));
                // Allocates the tables and touches the host's pages.
                check(cusIntegratorRun(integrator, &s.src, &s.sum, squares ? &s.sqsum : nullptr, nullptr, nullptr));
            }
            if (space == CUS_DEVICE)
                check(cusStreamSynchronize(nullptr));
        }
        row.measure([&](cusStream stream, int i) {
            Set &s = sets[static_cast<size_t>(i) % sets.size()];
            return cusIntegratorRun(integrator, &s.src, &s.sum, squares ? &s.sqsum : nullptr, nullptr, stream);
        });
        row.report();
        for (Set &s : sets) {
            cusMatRelease(&s.sum);
            cusMatRelease(&s.sqsum);
        }
        cusIntegratorDestroy(integrator);
    });
}

TEST(IntegralWorst, region) {
    for (const Size size : {Size{7680, 4320}, Size{1919, 1079}})
        worst("region/" + size.text(), size, false, 1, Tables::PADDED);
}
TEST(IntegralWorst, regionSquares) {
    worst("region-squares/7681x4321", {7681, 4321}, true, 1, Tables::PADDED);
}
TEST(IntegralWorst, tight) {
    worst("tight/7680x4320", {7680, 4320}, false, 0, Tables::TIGHT);
    worst("tight-squares/7680x4320", {7680, 4320}, true, 0, Tables::TIGHT);
}
// Columns x rows; the square has as many pixels.
TEST(IntegralWorst, shapes) {
    for (const Size size : {Size{100, 100000}, Size{100000, 100}, Size{3162, 3162}}) {
        worst(size.text(), size, false, 0, Tables::PADDED);
        worst("squares/" + size.text(), size, true, 0, Tables::PADDED);
        worst("32F/" + size.text(), size, false, 0, Tables::PADDED, CUS_32FC1);
    }
}

} // namespace

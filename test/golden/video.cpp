#include "golden/golden.hpp"

#include "video/support.hpp"

namespace golden {
namespace {

using reference::YuvPicture;
using support::YuvFormat;

const char *const MATRICES[] = {"601", "709", "2020"};
const char *const SITINGS[] = {"left", "center", "top-left", "top"};

template<class Next>
YuvPicture picture(int rows, int cols, int bits, Next &&next) {
    YuvPicture p = {rows, cols, bits, {}, {}, {}};
    const auto fill = [&](std::vector<int> &plane, int count) {
        for (int i = 0; i < count; ++i)
            plane.push_back(next(1 << bits));
    };
    fill(p.y, rows * cols);
    fill(p.u, p.chromaRows() * p.chromaCols());
    fill(p.v, p.chromaRows() * p.chromaCols());
    return p;
}

Data computed(const YuvPicture &p, const YuvFormat &format, const cusYuvOptions &o, cusSpace space, Layout layout) {
    const size_t unit = format.bits == 8 ? 1 : 2;
    const Layout planes_layout = {layout.padding * unit, layout.offset * unit};
    support::YuvPlanes planes(p, format, space, planes_layout, planes_layout);
    TestMat bgr(p.rows, p.cols, CUS_8UC3, space, layout), gray(p.rows, p.cols, CUS_8UC1, space, layout);
    CUS_EXPECT_OK(cusYuvToBgr(planes.y(), planes.u(), planes.v(), &o, &bgr.mat, nullptr));
    CUS_EXPECT_OK(cusYuvToGray(planes.y(), &o, &gray.mat, nullptr));
    EXPECT_TRUE(planes.intact() && bgr.intact() && gray.intact());
    Data data = bgr.get();
    append(data, gray.get());
    return data;
}

Row row(const YuvPicture &p, const YuvFormat &format, cusYuvOptions o, uint32_t seed) {
    o.low_bits = format.low;
    const std::string options = std::string(MATRICES[o.matrix]) + " " + SITINGS[o.siting] + (o.full_range ? " full" : "");
    return {"cusYuvToBgr",
            options,
            seed,
            sizeName(p.rows, p.cols),
            format.name,
            [=] {
                Data data = reference::yuvToBgr(p, o);
                append(data, reference::yuvToGray(p, o));
                return data;
            },
            [=](cusSpace space, Layout layout) { return computed(p, format, o, space, layout); }};
}

} // namespace

Row anyVideo(Choices &choices) {
    const YuvFormat &format = support::YUV_FORMATS[choices.below(5)];
    cusYuvOptions o = cusYuvDefaults();
    o.matrix = static_cast<cusYuvMatrix>(choices.below(3));
    o.siting = static_cast<cusYuvSiting>(choices.below(4));
    o.full_range = choices.yes();
    const int rows = choices.between(1, 24), cols = choices.between(1, 90);
    return row(picture(rows, cols, format.bits, [&](int n) { return choices.below(n); }), format, o, 0);
}

std::vector<Row> videoRows() {
    std::vector<Row> rows;
    const uint32_t seed = 120;
    for (int kind = 0; kind < 4; ++kind)
        for (int way = 0; way < 24; ++way) { // matrices, sitings, ranges
            cusYuvOptions o = cusYuvDefaults();
            o.matrix = static_cast<cusYuvMatrix>(way % 3);
            o.siting = static_cast<cusYuvSiting>(way / 3 % 4);
            o.full_range = way / 12;
            Numbers next(seed);
            const YuvFormat &format = support::YUV_FORMATS[kind];
            const auto below = [&](int n) { return next.below(n); };
            const auto [h, w] = way % 4 == 0   ? std::pair(1, 1)
                                : way % 4 == 1 ? std::pair(7, 33)
                                               : std::pair(20, 260 + way % 2);
            rows.push_back(row(picture(h, w, format.bits, below), format, o, seed));
        }
    return rows;
}

} // namespace golden

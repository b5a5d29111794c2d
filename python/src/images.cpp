// Pictures of differences, and counting colors.
#include "modules.hpp"
#include "options.hpp"

namespace cuspy {

static nb::object heatmap(nb::handle prev_object, nb::handle cur_object, int full_scale, std::optional<nb::bytes> colors,
                          nb::handle out, nb::handle stream) {
    Call call("heatmap", stream);
    const Images prev(call, prev_object, "prev"), cur(call, cur_object, "cur");
    cur.requireCount(call, prev);
    Images pictures = prev.outputs(call, out, "out", {prev.image().rows, prev.image().cols, 3}, U8);
    const cusHeatmapOptions options = {full_scale, colors ? static_cast<const uint8_t *>(colors->data()) : nullptr, {}};
    call.run([&] {
        return prev.many()
                   ? cusHeatmapBatch(prev.count(), prev.mats(), cur.mats(), pictures.mats(), &options, call.stream())
                   : cusHeatmap(prev.mats(), cur.mats(), pictures.mats(), &options, call.stream());
    });
    return pictures.object();
}

static nb::object noiseView(nb::handle prev_object, nb::handle cur_object, int threshold, nb::handle out,
                            nb::handle stream) {
    Call call("noise_view", stream);
    const Array prev = call.in(prev_object, "prev"), cur = call.in(cur_object, "cur");
    const cusMat before = prev.matrix(), after = cur.matrix();
    const Array picture = call.out(out, "out", {before.rows, before.cols, 3}, U8);
    cusMat map = picture.matrix();
    call.run([&] { return cusNoiseView(&before, &after, &map, threshold, call.stream()); });
    return picture.object;
}

// (count, mask): the count is an int on the host, else an array with one element that is ready in stream order.
static nb::tuple hsvCount(nb::handle src_object, const std::vector<int> &lower, const std::vector<int> &upper,
                          nb::handle count_out, bool mask_wanted, nb::handle mask_out, nb::handle stream) {
    Call call("hsv_count", stream);
    const Array src = call.in(src_object, "src");
    const cusMat image = src.matrix();
    cusHsvRange range;
    for (size_t i = 0; i < 3; ++i) {
        range.lower[i] = static_cast<uint8_t>(lower.at(i));
        range.upper[i] = static_cast<uint8_t>(upper.at(i));
    }
    Array mask, count;
    cusMat mask_mat = CUS_MAT_INIT, count_mat = CUS_MAT_INIT;
    uint32_t number = 0;
    if (mask_wanted) {
        mask = call.out(mask_out, "mask", {image.rows, image.cols}, U8);
        mask_mat = mask.matrix();
    }
    const bool on_host = call.space() == CUS_HOST;
    if (on_host) {
        check(cusMatWrap(&count_mat, 1, 1, CUS_32SC1, CUS_HOST, &number, 0));
    } else {
        count = call.out(count_out, "count", {1}, I32);
        count_mat = count.column();
    }
    call.run([&] { return cusHsvCount(&image, &range, &count_mat, mask_wanted ? &mask_mat : nullptr, call.stream()); });
    return nb::make_tuple(on_host ? nb::object(nb::int_(number)) : count.object, mask_wanted ? mask.object : nb::none());
}

static nb::object remap(nb::handle src_object, nb::handle map_object, nb::handle out, nb::handle stream) {
    Call call("remap", stream);
    const Images src(call, src_object, "src"), map(call, map_object, "map");
    if (map.many()) // else it is that of all images
        map.requireCount(call, src);
    const cusMat &places = map.image();
    const int channels = CUS_CHANNELS(src.image().type);
    const Shape shape = src.axes() > 2 ? Shape{places.rows, places.cols, channels} : Shape{places.rows, places.cols};
    Images result = src.outputs(call, out, "out", shape, src.dtype());
    if (!src.many()) {
        call.run([&] { return cusRemap(src.mats(), &places, result.mats(), call.stream()); });
        return result.object();
    }
    std::vector<cusMat> maps(static_cast<size_t>(src.count()), places);
    if (map.many())
        std::copy_n(map.mats(), maps.size(), maps.begin());
    call.run([&] { return cusRemapBatch(src.count(), src.mats(), maps.data(), result.mats(), call.stream()); });
    return result.object();
}

static nb::object yuvToBgr(nb::handle y_object, nb::handle u_object, nb::handle v_object, const cusYuvOptions &options,
                           nb::handle out, nb::handle stream) {
    Call call("yuv_to_bgr", stream);
    const Array y = call.in(y_object, "y"), u = call.in(u_object, "u");
    const OptionalMatrix v(call, v_object, "v");
    const cusMat luma = y.matrix(), chroma = u.matrix();
    const Array result = call.out(out, "out", {luma.rows, luma.cols, 3}, U8);
    cusMat bgr = result.matrix();
    call.run([&] { return cusYuvToBgr(&luma, &chroma, v, &options, &bgr, call.stream()); });
    return result.object;
}

static nb::object yuvToGray(nb::handle y_object, const cusYuvOptions &options, nb::handle out, nb::handle stream) {
    Call call("yuv_to_gray", stream);
    const Array y = call.in(y_object, "y");
    const cusMat luma = y.matrix();
    const Array result = call.out(out, "out", {luma.rows, luma.cols}, U8);
    cusMat gray = result.matrix();
    call.run([&] { return cusYuvToGray(&luma, &options, &gray, call.stream()); });
    return result.object;
}

void addImages(nb::module_ &module) {
    module.def("heatmap", &heatmap, none("prev"), none("cur"), nb::arg("full_scale"), none("colors"), none("out"),
               none("stream"));
    module.def("noise_view", &noiseView, none("prev"), none("cur"), nb::arg("threshold"), none("out"), none("stream"));
    module.def("hsv_count", &hsvCount, none("src"), nb::arg("lower"), nb::arg("upper"), none("count_out"), nb::arg("mask"),
               none("mask_out"), none("stream"));
    module.def("remap", &remap, none("src"), none("map"), none("out"), none("stream"));
    typedef cusYuvOptions Yuv;
    Options<Yuv>(module, "YuvOptions", "yuv_to_bgr", cusYuvDefaults)
        .word("matrix", &Yuv::matrix,
              wordsOf({{"bt601", CUS_YUV_BT601}, {"bt709", CUS_YUV_BT709}, {"bt2020", CUS_YUV_BT2020}}))
        .word(
            "siting", &Yuv::siting,
            wordsOf(
                {{"left", CUS_YUV_LEFT}, {"center", CUS_YUV_CENTER}, {"top-left", CUS_YUV_TOP_LEFT}, {"top", CUS_YUV_TOP}}))
        .numbers("full_range", &Yuv::full_range, "low_bits", &Yuv::low_bits);
    module.def("yuv_to_bgr", &yuvToBgr, none("y"), none("u"), none("v"), nb::arg("options"), none("out"), none("stream"));
    module.def("yuv_to_gray", &yuvToGray, none("y"), nb::arg("options"), none("out"), none("stream"));
}

} // namespace cuspy

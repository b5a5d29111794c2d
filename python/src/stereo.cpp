// Elevation and contour maps: the stages, and all of them in one object.
#include "handle.hpp"
#include "modules.hpp"
#include "options.hpp"

namespace cuspy {

using Stage = cusStatus (*)(const cusMat *, cusMat *, const cusStereoOptions *, cusStream);

static void addStage(nb::module_ &module, const char *name, const char *argument, Stage function, int out_type) {
    module.def(
        name,
        [name, argument, function, out_type](nb::handle object, const cusStereoOptions &options, nb::handle out,
                                             nb::handle stream) {
            Call call(name, stream);
            const Array src = call.in(object, argument);
            const cusMat image = src.matrix();
            const bool relaxed = function == cusStereoFill && options.fill == CUS_FILL_RELAX;
            const Array result = call.out(out, "out", {image.rows, image.cols}, relaxed ? F32 : out_type);
            cusMat mat = result.matrix();
            call.run([&] { return function(&image, &mat, &options, call.stream()); });
            return result.object;
        },
        none(argument), nb::arg("options"), none("out"), none("stream"));
}

static nb::object elevation(nb::handle left_object, nb::handle right_object, const cusStereoOptions &options,
                            nb::handle out, nb::handle stream) {
    Call call("stereo_elevation", stream);
    const Array left = call.in(left_object, "left"), right = call.in(right_object, "right");
    const cusMat a = left.matrix(), b = right.matrix();
    const Array result = call.out(out, "out", {a.rows, a.cols}, U16);
    cusMat mat = result.matrix();
    call.run([&] { return cusStereoElevation(&a, &b, &mat, &options, call.stream()); });
    return result.object;
}

// (elevation, confidence)
static nb::tuple elevationConfidence(nb::handle left_object, nb::handle right_object, const cusStereoOptions &options,
                                     nb::handle out, nb::handle confidence_out, nb::handle stream) {
    Call call("stereo_elevation", stream);
    const Array left = call.in(left_object, "left"), right = call.in(right_object, "right");
    const cusMat a = left.matrix(), b = right.matrix();
    const Array heights = call.out(out, "out", {a.rows, a.cols}, U16);
    const Array confidence = call.out(confidence_out, "confidence", {a.rows, a.cols}, U8);
    cusMat heights_mat = heights.matrix(), confidence_mat = confidence.matrix();
    call.run([&] { return cusStereoElevationConfidence(&a, &b, &heights_mat, &confidence_mat, &options, call.stream()); });
    return nb::make_tuple(heights.object, confidence.object);
}

static int findShifts(nb::handle left_object, nb::handle right_object, const cusStereoOptions &options, nb::handle stream) {
    Call call("stereo_find_shifts", stream);
    const Array left = call.in(left_object, "left"), right = call.in(right_object, "right");
    const cusMat a = left.matrix(), b = right.matrix();
    int shifts = 0;
    call.run([&] { return cusStereoFindShifts(&a, &b, &shifts, &options, call.stream()); });
    return shifts;
}

static nb::object median(nb::handle object, int size, nb::handle out, nb::handle stream) {
    Call call("stereo_median", stream);
    const Array src = call.in(object, "elevation");
    const cusMat image = src.matrix();
    const Array result = call.out(out, "out", {image.rows, image.cols}, src.dtype);
    cusMat mat = result.matrix();
    call.run([&] { return cusStereoMedian(&image, &mat, size, call.stream()); });
    return result.object;
}

static nb::object picture(nb::handle elevation_object, nb::handle contours_object, nb::handle out, nb::handle stream) {
    Call call("stereo_picture", stream);
    const Array heights = call.in(elevation_object, "elevation");
    const cusMat image = heights.matrix();
    const OptionalMatrix lines(call, contours_object, "contours");
    const Array result = call.out(out, "out", {image.rows, image.cols, 3}, U8);
    cusMat mat = result.matrix();
    call.run([&] { return cusStereoPicture(&image, lines, &mat, call.stream()); });
    return result.object;
}

struct Mapper {
    Handle<cusContourMapper> handle;
    Device device;
    bool relaxed;
};

static Mapper *createMapper(int rows, int cols, bool floats, const char *device, const cusStereoOptions &options) {
    Call call("ContourMapper");
    call.assume(parseDevice("ContourMapper", device), Framework::NumPy);
    cusContourMapper *mapper = nullptr;
    call.run(
        [&] { return cusContourMapperCreate(&mapper, rows, cols, floats ? CUS_32FC1 : CUS_8UC1, call.space(), &options); });
    return new Mapper{{"ContourMapper", mapper, cusContourMapperDestroy}, call.device(), options.fill == CUS_FILL_RELAX};
}

static nb::tuple map(Mapper &self, nb::handle left_object, nb::handle right_object, nb::handle elevation_out,
                     bool contours_wanted, nb::handle contours_out, nb::handle stream) {
    const Use<cusContourMapper> mapper(self.handle);
    Call call("ContourMapper", stream);
    call.expect(self.device, "the ContourMapper");
    const Array left = call.in(left_object, "left"), right = call.in(right_object, "right");
    const cusMat a = left.matrix(), b = right.matrix();
    const Array heights = call.out(elevation_out, "elevation", {a.rows, a.cols}, self.relaxed ? F32 : U16);
    cusMat elevation_mat = heights.matrix(), contours_mat = CUS_MAT_INIT;
    Array contours;
    if (contours_wanted) {
        contours = call.out(contours_out, "contours", {a.rows, a.cols}, U8);
        contours_mat = contours.matrix();
    }
    call.run([&] {
        return cusContourMap(mapper, &a, &b, &elevation_mat, contours_wanted ? &contours_mat : nullptr, call.stream());
    });
    return nb::make_tuple(heights.object, contours_wanted ? contours.object : nb::none());
}

void addStereo(nb::module_ &module) {
    typedef cusStereoOptions O;
    Options<O>(module, "StereoOptions", "StereoOptions", cusStereoDefaults)
        .word("border", &O::border, wordsOf({{"wrap", CUS_STEREO_WRAP}, {"zero", CUS_STEREO_ZERO}}))
        .word("agreement", &O::agreement,
              wordsOf({{"equal", CUS_STEREO_EQUAL}, {"edge", CUS_STEREO_EDGE}, {"census", CUS_STEREO_CENSUS}}))
        .word("fill", &O::fill,
              wordsOf(
                  {{"none", CUS_FILL_NONE}, {"once", CUS_FILL_ONCE}, {"relax", CUS_FILL_RELAX}, {"lower", CUS_FILL_LOWER}}))
        .word("lines", &O::lines, wordsOf({{"modulo", CUS_LINES_MODULO}, {"crossing", CUS_LINES_CROSSING}}))
        .word("aggregation", &O::aggregation, wordsOf({{"window", CUS_STEREO_WINDOW}, {"paths", CUS_STEREO_PATHS}}))
        .numbers("threshold", &O::threshold, "shifts", &O::shifts, "direction", &O::direction, "window", &O::window,
                 "prefer_smaller", &O::prefer_smaller, "left_right_check", &O::left_right_check, "iterations",
                 &O::iterations, "tolerance", &O::tolerance, "median", &O::median, "levels", &O::levels, "subpixel_bits",
                 &O::subpixel_bits, "min_confidence", &O::min_confidence, "speckle_size", &O::speckle_size, "paths",
                 &O::paths, "p1", &O::p1, "p2", &O::p2, "p2_slope", &O::p2_slope);
    addStage(module, "stereo_edges", "image", cusStereoEdges, U8);
    addStage(module, "stereo_census", "image", cusStereoCensus, U8);
    addStage(module, "stereo_fill", "elevation", cusStereoFill, U16);
    addStage(module, "stereo_filter_speckles", "elevation", cusStereoFilterSpeckles, U16);
    addStage(module, "stereo_contours", "elevation", cusStereoContours, U8);
    module.def("stereo_elevation", &elevation, none("left"), none("right"), nb::arg("options"), none("out"),
               none("stream"));
    module.def("stereo_elevation_confidence", &elevationConfidence, none("left"), none("right"), nb::arg("options"),
               none("out"), none("confidence"), none("stream"));
    module.def("stereo_find_shifts", &findShifts, none("left"), none("right"), nb::arg("options"), none("stream"));
    module.def("stereo_median", &median, none("elevation"), nb::arg("size"), none("out"), none("stream"));
    module.def("stereo_picture", &picture, none("elevation"), none("contours"), none("out"), none("stream"));
    closeable<Mapper>(module, "ContourMapper")
        .def(nb::new_(&createMapper), nb::arg("rows"), nb::arg("cols"), nb::arg("floats"), nb::arg("device"),
             nb::arg("options"))
        .def("run", &map, none("left"), none("right"), none("elevation_out"), nb::arg("contours"), none("contours_out"),
             none("stream"));
}

} // namespace cuspy

// Elevation and contour maps: the stages, and all of them in one object.
#include "handle.hpp"
#include "modules.hpp"

namespace cuspy {

static nb::tuple numbersOf(const cusStereoOptions &o) {
    return nb::make_tuple(int(o.border), int(o.agreement), o.threshold, o.shifts, o.direction, o.window, o.prefer_smaller,
                          o.left_right_check, int(o.fill), o.iterations, o.tolerance, o.median, int(o.lines), o.levels,
                          o.subpixel_bits, o.min_confidence, o.speckle_size);
}

static cusStereoOptions optionsOf(const nb::tuple &n) {
    cusStereoOptions o = cusStereoDefaults();
    const auto number = [&n](size_t i) { return nb::cast<int>(n[i]); };
    o.border = static_cast<cusStereoBorder>(number(0));
    o.agreement = static_cast<cusStereoAgreement>(number(1));
    o.threshold = static_cast<float>(nb::cast<double>(n[2]));
    o.shifts = number(3);
    o.direction = number(4);
    o.window = number(5);
    o.prefer_smaller = number(6);
    o.left_right_check = number(7);
    o.fill = static_cast<cusStereoFillRule>(number(8));
    o.iterations = number(9);
    o.tolerance = static_cast<float>(nb::cast<double>(n[10]));
    o.median = number(11);
    o.lines = static_cast<cusStereoLines>(number(12));
    o.levels = number(13);
    o.subpixel_bits = number(14);
    o.min_confidence = number(15);
    o.speckle_size = number(16);
    return o;
}

using Stage = cusStatus (*)(const cusMat *, cusMat *, const cusStereoOptions *, cusStream);

static nb::object stage(const char *name, Stage function, const char *argument, nb::handle object, int out_type,
                        const cusStereoOptions &options, nb::handle out, nb::handle stream) {
    Call call(name, stream);
    const Array src = call.in(object, argument);
    const cusMat image = src.matrix();
    const Array result = call.out(out, "out", {image.rows, image.cols}, out_type);
    cusMat mat = result.matrix();
    call.run([&] { return function(&image, &mat, &options, call.stream()); });
    return result.object;
}

static nb::object elevation(nb::handle left_object, nb::handle right_object, const nb::tuple &numbers, nb::handle out,
                            nb::handle stream) {
    Call call("stereo_elevation", stream);
    const Array left = call.in(left_object, "left"), right = call.in(right_object, "right");
    const cusMat a = left.matrix(), b = right.matrix();
    const Array result = call.out(out, "out", {a.rows, a.cols}, U16);
    cusMat mat = result.matrix();
    const cusStereoOptions options = optionsOf(numbers);
    call.run([&] { return cusStereoElevation(&a, &b, &mat, &options, call.stream()); });
    return result.object;
}

// (elevation, confidence)
static nb::tuple elevationConfidence(nb::handle left_object, nb::handle right_object, const nb::tuple &numbers,
                                     nb::handle out, nb::handle confidence_out, nb::handle stream) {
    Call call("stereo_elevation", stream);
    const Array left = call.in(left_object, "left"), right = call.in(right_object, "right");
    const cusMat a = left.matrix(), b = right.matrix();
    const Array heights = call.out(out, "out", {a.rows, a.cols}, U16);
    const Array confidence = call.out(confidence_out, "confidence", {a.rows, a.cols}, U8);
    cusMat heights_mat = heights.matrix(), confidence_mat = confidence.matrix();
    const cusStereoOptions options = optionsOf(numbers);
    call.run([&] { return cusStereoElevationConfidence(&a, &b, &heights_mat, &confidence_mat, &options, call.stream()); });
    return nb::make_tuple(heights.object, confidence.object);
}

static int findShifts(nb::handle left_object, nb::handle right_object, const nb::tuple &numbers, nb::handle stream) {
    Call call("stereo_find_shifts", stream);
    const Array left = call.in(left_object, "left"), right = call.in(right_object, "right");
    const cusMat a = left.matrix(), b = right.matrix();
    const cusStereoOptions options = optionsOf(numbers);
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

static Mapper *createMapper(int rows, int cols, bool floats, const char *device, const nb::tuple &numbers) {
    Call call("ContourMapper");
    call.assume(parseDevice("ContourMapper", device), Framework::NumPy);
    const cusStereoOptions options = optionsOf(numbers);
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
    const auto none = [](const char *name) { return nb::arg(name).none(); };
    module.def(
        "stereo_numbers", [](bool classic) { return numbersOf(classic ? cusStereoClassic() : cusStereoDefaults()); },
        nb::arg("classic"));
    module.def(
        "stereo_edges",
        [](nb::handle image, const nb::tuple &numbers, nb::handle out, nb::handle stream) {
            return stage("stereo_edges", cusStereoEdges, "image", image, U8, optionsOf(numbers), out, stream);
        },
        none("image"), nb::arg("options"), none("out"), none("stream"));
    module.def(
        "stereo_census",
        [](nb::handle image, const nb::tuple &numbers, nb::handle out, nb::handle stream) {
            return stage("stereo_census", cusStereoCensus, "image", image, U8, optionsOf(numbers), out, stream);
        },
        none("image"), nb::arg("options"), none("out"), none("stream"));
    module.def(
        "stereo_fill",
        [](nb::handle elevation, const nb::tuple &numbers, nb::handle out, nb::handle stream) {
            const cusStereoOptions options = optionsOf(numbers);
            return stage("stereo_fill", cusStereoFill, "elevation", elevation, options.fill == CUS_FILL_RELAX ? F32 : U16,
                         options, out, stream);
        },
        none("elevation"), nb::arg("options"), none("out"), none("stream"));
    module.def(
        "stereo_filter_speckles",
        [](nb::handle elevation, const nb::tuple &numbers, nb::handle out, nb::handle stream) {
            return stage("stereo_filter_speckles", cusStereoFilterSpeckles, "elevation", elevation, U16, optionsOf(numbers),
                         out, stream);
        },
        none("elevation"), nb::arg("options"), none("out"), none("stream"));
    module.def(
        "stereo_contours",
        [](nb::handle elevation, const nb::tuple &numbers, nb::handle out, nb::handle stream) {
            return stage("stereo_contours", cusStereoContours, "elevation", elevation, U8, optionsOf(numbers), out, stream);
        },
        none("elevation"), nb::arg("options"), none("out"), none("stream"));
    module.def("stereo_elevation", &elevation, none("left"), none("right"), nb::arg("options"), none("out"),
               none("stream"));
    module.def("stereo_elevation_confidence", &elevationConfidence, none("left"), none("right"), nb::arg("options"),
               none("out"), none("confidence"), none("stream"));
    module.def("stereo_find_shifts", &findShifts, none("left"), none("right"), nb::arg("options"), none("stream"));
    module.def("stereo_median", &median, none("elevation"), nb::arg("size"), none("out"), none("stream"));
    module.def("stereo_picture", &picture, none("elevation"), none("contours"), none("out"), none("stream"));
    nb::class_<Mapper>(module, "ContourMapper")
        .def(nb::new_(&createMapper), nb::arg("rows"), nb::arg("cols"), nb::arg("floats"), nb::arg("device"),
             nb::arg("options"))
        .def("close", [](Mapper &self) { self.handle.close(); })
        .def_prop_ro("closed", [](Mapper &self) { return self.handle.closed(); })
        .def("run", &map, none("left"), none("right"), none("elevation_out"), nb::arg("contours"), none("contours_out"),
             none("stream"));
}

} // namespace cuspy

// Integral images and sums over rectangles.
#include "frameworks.hpp"
#include "handle.hpp"
#include "modules.hpp"

namespace cuspy {

struct Integrator {
    Handle<cusIntegrator> handle;
    Device device;
};

static Integrator *create(int rows, int cols, const char *device_name) {
    const Device device = parseDevice("Integrator", device_name);
    Call call("Integrator");
    call.assume(device, Framework::NumPy);
    cusIntegrator *integrator = nullptr;
    call.run([&] { return cusIntegratorCreate(&integrator, rows, cols, device.space); });
    return new Integrator{{"Integrator", integrator, cusIntegratorDestroy}, device};
}

// Returns (sum, squared sum); the second is None unless requested.
static nb::tuple compute(Call &call, cusIntegrator *integrator, nb::handle src_object, bool wide, bool reproducible,
                         double range, bool sum_wanted, nb::handle sum_out, bool squares_wanted, nb::handle squares_out) {
    const Images src(call, src_object, "src", integrator != nullptr);
    const cusMat &image = src.image();
    cusIntegralOptions options = cusIntegralDefaults();
    options.sum_depth = wide ? CUS_64F : CUS_32S;
    options.reproducible = reproducible;
    options.range = range;
    const int64_t rows = int64_t{image.rows} + 1, cols = int64_t{image.cols} + 1, channels = CUS_CHANNELS(image.type);
    const Shape shape = channels > 1 ? Shape{rows, cols, channels} : Shape{rows, cols};
    std::optional<Images> sum, squares;
    if (sum_wanted)
        sum = src.outputs(call, sum_out, "sum", shape, CUS_DEPTH(image.type) == CUS_8U && !wide ? I32 : F64);
    if (squares_wanted)
        squares = src.outputs(call, squares_out, "sqsum", shape, F64);
    cusMat *const sums = sum ? sum->mats() : nullptr, *const squared = squares ? squares->mats() : nullptr;
    call.run([&] {
        return src.many()
                   ? cusIntegratorRunBatch(integrator, src.count(), src.mats(), sums, squared, &options, call.stream())
               : integrator ? cusIntegratorRun(integrator, &image, sums, squared, &options, call.stream())
                            : cusIntegral(&image, sums, squared, &options, call.stream());
    });
    return nb::make_tuple(sum ? sum->object() : nb::none(), squares ? squares->object() : nb::none());
}

static nb::object boxSums(nb::handle table_object, nb::handle boxes_object, nb::handle out, nb::handle stream) {
    Call call("box_sums", stream);
    const Array table = call.in(table_object, "table");
    const Array boxes = call.in(boxes_object, "boxes");
    if (boxes.shape.size() != 2 || boxes.shape[1] != 4)
        fail(CUS_ERROR_SIZE, "box_sums: boxes has shape %s, expected (n, 4): x, y, width, height",
             shapeText(boxes.shape).c_str());
    const cusMat table_mat = table.matrix(), boxes_mat = boxes.matrix();
    const int channels = CUS_CHANNELS(table_mat.type);
    const Shape shape = channels > 1 ? Shape{boxes_mat.rows, channels} : Shape{boxes_mat.rows};
    Array sums = call.out(out, "out", shape, F64);
    cusMat sums_mat = channels > 1 ? sums.matrix() : sums.column();
    if (channels > 1) { // an axis in Python, channels in C
        sums_mat.type = CUS_MAKETYPE(CUS_64F, channels);
        sums_mat.cols = 1;
    }
    call.run([&] { return cusBoxSums(&table_mat, &boxes_mat, &sums_mat, call.stream()); });
    return sums.object;
}

void addIntegral(nb::module_ &module) {
    module.def(
        "integral",
        [](nb::handle src, bool wide, bool reproducible, double range, bool sum, nb::handle sum_out, bool squares,
           nb::handle squares_out, nb::handle stream) {
            Call call("integral", stream);
            return compute(call, nullptr, src, wide, reproducible, range, sum, sum_out, squares, squares_out);
        },
        none("src"), nb::arg("wide"), nb::arg("reproducible"), nb::arg("range"), nb::arg("sum"), none("sum_out"),
        nb::arg("squares"), none("squares_out"), none("stream"));
    module.def("box_sums", &boxSums, none("table"), none("boxes"), none("out"), none("stream"));
    closeable<Integrator>(module, "Integrator")
        .def(nb::new_(&create), nb::arg("rows"), nb::arg("cols"), nb::arg("device"))
        .def(
            "run",
            [](Integrator &self, nb::handle src, bool wide, bool reproducible, double range, bool sum, nb::handle sum_out,
               bool squares, nb::handle squares_out, nb::handle stream) {
                const Use<cusIntegrator> integrator(self.handle);
                Call call("Integrator", stream);
                call.expect(self.device, "the Integrator");
                return compute(call, integrator, src, wide, reproducible, range, sum, sum_out, squares, squares_out);
            },
            none("src"), nb::arg("wide"), nb::arg("reproducible"), nb::arg("range"), nb::arg("sum"), none("sum_out"),
            nb::arg("squares"), none("squares_out"), none("stream"));
}

} // namespace cuspy

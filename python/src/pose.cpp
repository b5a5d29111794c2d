// Template matching under rotation and scale.
#include "handle.hpp"
#include "modules.hpp"
#include "options.hpp"

namespace cuspy {

struct Poses {
    Handle<cusPoseMatcher> handle;
    Device device;
    Framework framework; // of the template
    int max_matches, angles, scales;
};

static cusPoseRange rangeOf(const std::vector<double> &values) {
    return {0, 0, 1, values.data(), static_cast<int>(values.size())};
}

static Poses *createPoses(nb::handle templ_object, int rows, int cols, const std::vector<double> &angles,
                          const std::vector<double> &scales, cusPoseOptions options, nb::handle mask, nb::handle stream) {
    Call call("PoseMatcher", stream);
    const Array array = call.in(templ_object, "template");
    const cusMat templ = array.matrix();
    options.angles = rangeOf(angles);
    options.scales = rangeOf(scales);
    const OptionalMatrix mask_mat(call, mask, "mask");
    options.mask = mask_mat;
    cusPoseMatcher *matcher = nullptr;
    call.run([&] { return cusPoseMatcherCreate(&matcher, &templ, rows, cols, &options, call.stream()); });
    return new Poses{{"PoseMatcher", matcher, cusPoseMatcherDestroy},
                     call.device(),
                     call.framework(),
                     options.max_matches,
                     static_cast<int>(angles.size()),
                     static_cast<int>(scales.size())};
}

static void runPoses(Poses &self, nb::handle frame_object, nb::handle stream) {
    const Use<cusPoseMatcher> matcher(self.handle);
    Call call("PoseMatcher", stream);
    call.expect(self.device, "the template");
    const Array array = call.in(frame_object, "frame");
    const cusMat frame = array.matrix();
    call.run([&] { return cusPoseMatcherRun(matcher, &frame, call.stream()); });
}

static nb::bytearray getPoses(Poses &self) {
    const Use<cusPoseMatcher> matcher(self.handle);
    std::vector<cusPoseMatch> matches(static_cast<size_t>(self.max_matches));
    int found = 0;
    check(cusPoseMatcherGet(matcher, matches.data(), self.max_matches, &found));
    return bytesOf(matches.data(), static_cast<size_t>(found));
}

static nb::bytearray getNearest(Poses &self) {
    const Use<cusPoseMatcher> matcher(self.handle);
    cusPoseMatch nearest;
    int found = 0;
    check(cusPoseMatcherNearest(matcher, &nearest, &found));
    return bytesOf(&nearest, static_cast<size_t>(found));
}

// (pixels, mask) of a pose, in host memory.
static nb::tuple templateOf(Poses &self, int angle_index, int scale_index) {
    const Use<cusPoseMatcher> matcher(self.handle);
    Call call("PoseMatcher.template");
    call.assume({}, self.device.space == CUS_HOST ? self.framework : Framework::NumPy); // poses are made on the host
    struct Pair {
        cusMat pixels = CUS_MAT_INIT, mask = CUS_MAT_INIT;
        ~Pair() {
            cusMatRelease(&pixels);
            cusMatRelease(&mask);
        }
    } pair;
    call.run([&] { return cusPoseMatcherTemplate(matcher, angle_index, scale_index, &pair.pixels, &pair.mask); });
    nb::object arrays[2];
    const cusMat *const from[] = {&pair.pixels, &pair.mask};
    for (int i = 0; i < 2; ++i) {
        const Array out = call.out(nb::none(), i ? "mask" : "pixels", imageShape(*from[i]), U8);
        cusMat to = out.matrix();
        check(cusMatCopy(from[i], &to, nullptr));
        arrays[i] = out.object;
    }
    return nb::make_tuple(arrays[0], arrays[1]);
}

void addPose(nb::module_ &module) {
    typedef cusPoseOptions O;
    Options<O>(module, "PoseOptions", "PoseMatcher", cusPoseDefaults)
        .word("method", &O::method,
              wordsOf({{"sqdiff", CUS_MATCH_SQDIFF},
                       {"sqdiff-normed", CUS_MATCH_SQDIFF_NORMED},
                       {"ccorr-normed", CUS_MATCH_CCORR_NORMED},
                       {"ccoeff-normed", CUS_MATCH_CCOEFF_NORMED}}))
        .numbers("max_matches", &O::max_matches, "min_distance", &O::min_distance, "min_angle", &O::min_angle,
                 "score_limit", &O::score_limit, "refine", &O::refine);
    closeable<Poses>(module, "PoseMatcher")
        .def(nb::new_(&createPoses), nb::arg("template"), nb::arg("rows"), nb::arg("cols"), nb::arg("angles"),
             nb::arg("scales"), nb::arg("options"), none("mask"), none("stream"))
        .def("run", &runPoses, nb::arg("frame"), none("stream"))
        .def("get", &getPoses)
        .def("nearest", &getNearest)
        .def("template", &templateOf, nb::arg("angle_index"), nb::arg("scale_index"));
}

} // namespace cuspy

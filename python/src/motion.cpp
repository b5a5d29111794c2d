// What moves in the frames of one or many cameras.
#include "handle.hpp"
#include "modules.hpp"
#include "options.hpp"

#include <vector>

namespace cuspy {

struct Motion {
    Handle<cusMotionDetector> handle;
    Device device;
    Framework framework; // of the last frames
    int cameras, max_boxes, rows, cols;
};

static Motion *createMotion(int cameras, int rows, int cols, int channels, cusMotionOptions o, const char *device) {
    Call call("MotionDetector");
    call.assume(parseDevice("MotionDetector", device), frameworkFor(device, nb::none()));
    o.space = call.space();
    cusMotionDetector *detector = nullptr;
    call.run([&] { return cusMotionDetectorCreate(&detector, cameras, rows, cols, CUS_MAKETYPE(CUS_8U, channels), &o); });
    return new Motion{{"MotionDetector", detector, cusMotionDetectorDestroy},
                      call.device(),
                      call.framework(),
                      cameras,
                      o.max_boxes,
                      rows,
                      cols};
}

static void watchMotion(Motion &self, nb::handle mask_object, int camera, nb::handle stream) {
    const Use<cusMotionDetector> detector(self.handle);
    Call call("MotionDetector.watch", stream);
    call.expect(self.device, "the MotionDetector");
    const OptionalMatrix mask(call, mask_object, "mask");
    if (!mask)
        call.assume(self.device, self.framework);
    call.run([&] { return cusMotionDetectorWatch(detector, camera, mask, call.stream()); });
}

// frames: an array or None for each camera; times: a list of as many integers, or None.
static void stepMotion(Motion &self, const nb::list &frames, nb::handle times_object, nb::handle stream) {
    const Use<cusMotionDetector> detector(self.handle);
    Call call("MotionDetector.step", stream);
    call.expect(self.device, "the MotionDetector");
    std::vector<Array> arrays;
    std::vector<cusMat> mats;
    for (const nb::handle frame : frames) {
        mats.push_back(CUS_MAT_INIT);
        if (frame.is_none())
            continue;
        arrays.push_back(call.in(frame, "frames"));
        mats.back() = arrays.back().matrix();
        self.framework = arrays.back().framework;
    }
    if (arrays.empty())
        return;
    std::vector<int64_t> times;
    if (!times_object.is_none())
        for (const nb::handle time : nb::cast<nb::list>(times_object))
            times.push_back(nb::cast<int64_t>(time));
    call.run(
        [&] { return cusMotionDetectorRun(detector, mats.data(), times.empty() ? nullptr : times.data(), call.stream()); });
}

// (status, boxes, tracks) as tuples of numbers. Waits.
static nb::tuple foundMotion(Motion &self, int camera, nb::handle stream) {
    const Use<cusMotionDetector> detector(self.handle);
    Call call("MotionDetector.found", stream);
    call.assume(self.device, self.framework);
    cusMotionStatus s = {};
    std::vector<cusMotionBox> boxes(static_cast<size_t>(self.max_boxes));
    std::vector<cusMotionTrack> tracks(boxes.size());
    call.run([&] { return cusMotionDetectorGet(detector, camera, 1, &s, boxes.data(), tracks.data(), call.stream()); });
    nb::list all_boxes, all_tracks;
    for (int i = 0; i < s.boxes; ++i) {
        const cusMotionBox &b = boxes[static_cast<size_t>(i)];
        all_boxes.append(nb::make_tuple(b.x, b.y, b.width, b.height, b.area, b.center_x / 256.0, b.center_y / 256.0,
                                        b.strength / 256.0, b.track));
    }
    for (int i = 0; i < s.tracks; ++i) {
        const cusMotionTrack &t = tracks[static_cast<size_t>(i)];
        all_tracks.append(nb::make_tuple(t.id, t.first, t.last, t.boxes, t.x, t.y, t.width, t.height, t.missed, t.box));
    }
    return nb::make_tuple(nb::make_tuple(s.time, s.steps, s.state, s.moving, s.components, s.threshold / 256.0,
                                         s.noise < 0 ? -1.0 : s.noise / 256.0),
                          all_boxes, all_tracks);
}

static nb::object maskMotion(Motion &self, int camera, nb::handle stream) {
    const Use<cusMotionDetector> detector(self.handle);
    Call call("MotionDetector.mask", stream);
    call.assume(self.device, self.framework);
    const Array out = call.out(nb::none(), "mask", {self.rows, self.cols}, U8);
    cusMat mask = out.matrix();
    call.run([&] { return cusMotionDetectorMask(detector, camera, &mask, call.stream()); });
    return out.object;
}

void addMotion(nb::module_ &module) {
    typedef cusMotionOptions O;
    Options<O>(module, "MotionOptions", "MotionDetector", cusMotionDefaults)
        .numbers("shift", &O::shift, "learn_us", &O::learn_us, "threshold", &O::threshold, "noise_factor", &O::noise_factor,
                 "erode", &O::erode, "dilate", &O::dilate, "min_area", &O::min_area, "max_boxes", &O::max_boxes, "merge",
                 &O::merge, "sudden_percent", &O::sudden_percent, "warmup", &O::warmup, "track_gap", &O::track_gap,
                 "shadows", &O::shadows, "ghosts", &O::ghosts, "tight", &O::tight, "split", &O::split);
    closeable<Motion>(module, "MotionDetector")
        .def(nb::new_(&createMotion), nb::arg("cameras"), nb::arg("rows"), nb::arg("cols"), nb::arg("channels"),
             nb::arg("options"), nb::arg("device"))
        .def("watch", &watchMotion, none("mask"), nb::arg("camera"), none("stream"))
        .def("step", &stepMotion, nb::arg("frames"), none("times"), none("stream"))
        .def("found", &foundMotion, nb::arg("camera"), none("stream"))
        .def("mask", &maskMotion, nb::arg("camera"), none("stream"));
}

} // namespace cuspy

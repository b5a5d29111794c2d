// Template matching and inspection.
#include "handle.hpp"
#include "modules.hpp"
#include "options.hpp"

#include <algorithm>
#include <cstring>

namespace cuspy {

struct Matcher {
    Handle<cusMatcher> handle;
    Device device;
    Framework framework;
    int maps, batch, rows, cols, max_matches; // maps: of a run
};

static Matcher *create(const std::vector<nb::object> &templates, int rows, int cols, cusMatcherOptions options,
                       nb::handle mask, nb::handle stream) {
    Call call("Matcher", stream);
    std::vector<Array> arrays;
    std::vector<cusMat> mats;
    for (const nb::object &item : templates) {
        arrays.push_back(call.in(item, "templates"));
        mats.push_back(arrays.back().matrix());
    }
    const OptionalMatrix mask_mat(call, mask, "mask");
    options.mask = mask_mat;
    cusMatcher *matcher = nullptr;
    const int count = static_cast<int>(mats.size());
    call.run([&] { return cusMatcherCreate(&matcher, mats.data(), count, rows, cols, &options, call.stream()); });
    return new Matcher{{"Matcher", matcher, cusMatcherDestroy},
                       call.device(),
                       call.framework(),
                       options.batch > 1 ? options.batch : count,
                       options.batch,
                       rows - mats[0].rows + 1,
                       cols - mats[0].cols + 1,
                       options.max_matches};
}

// The frames of a run.
struct Frames {
    std::vector<Array> arrays;
    std::vector<cusMat> mats;
    Frames(Call &call, const Matcher &self, const std::vector<nb::object> &objects) {
        call.expect(self.device, "the templates");
        for (const nb::object &object : objects) {
            arrays.push_back(call.in(object, "frame"));
            mats.push_back(arrays.back().matrix());
        }
        if (static_cast<int>(mats.size()) != self.batch)
            fail(CUS_ERROR_SIZE, "Matcher: frame has %zu arrays, expected %d, the batch", mats.size(), self.batch);
    }
};

// scores: None, or a list with None or an output for each template, or for each frame of a batch. Returns the score maps, or None.
static nb::object run(Matcher &self, const std::vector<nb::object> &frame_objects, nb::handle scores, nb::handle stream) {
    const Use<cusMatcher> matcher(self.handle);
    Call call("Matcher", stream);
    const Frames frames(call, self, frame_objects);
    if (scores.is_none()) {
        call.run([&] { return cusMatcherRun(matcher, frames.mats.data(), nullptr, call.stream()); });
        return nb::none();
    }
    std::vector<Array> maps;
    std::vector<cusMat> mats;
    nb::list result;
    for (nb::handle given : nb::cast<nb::list>(scores)) {
        maps.push_back(call.out(given, "scores", {self.rows, self.cols}, F32));
        mats.push_back(maps.back().matrix());
        result.append(maps.back().object);
    }
    if (static_cast<int>(mats.size()) != self.maps)
        fail(CUS_ERROR_SIZE, "Matcher: scores has %zu arrays, expected %d, one per %s", mats.size(), self.maps,
             self.batch > 1 ? "frame" : "template");
    call.run([&] { return cusMatcherRun(matcher, frames.mats.data(), mats.data(), call.stream()); });
    return result;
}

static void inspect(Matcher &self, const std::vector<nb::object> &frame_objects, const std::vector<int> &lower,
                    const std::vector<int> &upper, double min_fill, nb::handle stream) {
    const Use<cusMatcher> matcher(self.handle);
    Call call("Matcher.inspect", stream);
    const Frames frames(call, self, frame_objects);
    cusHsvRange range;
    for (size_t i = 0; i < 3; ++i) {
        range.lower[i] = static_cast<uint8_t>(lower.at(i));
        range.upper[i] = static_cast<uint8_t>(upper.at(i));
    }
    call.run([&] { return cusMatcherInspect(matcher, frames.mats.data(), &range, min_fill, call.stream()); });
}

// The matches of each template, or of each frame of a batch.
static nb::list get(Matcher &self, nb::handle stream) {
    const Use<cusMatcher> matcher(self.handle);
    Call call("Matcher.get", stream);
    call.assume(self.device, self.framework);
    const int most = self.max_matches;
    std::vector<cusMatch> matches(static_cast<size_t>(self.maps) * static_cast<size_t>(most),
                                  cusMatch{-1, -1, 0, 0, 0, 0, -1});
    call.run([&]() -> cusStatus { // the first call waits for the run, whatever its stream; one copy then has all others
        int found = 0;
        cusMat view = CUS_MAT_INIT, all = CUS_MAT_INIT;
        CUS_TRY(cusMatcherGet(matcher, 0, matches.data(), most, &found, call.stream()));
        if (self.maps == 1)
            return CUS_OK;
        CUS_TRY(cusMatcherResults(matcher, &view));
        CUS_TRY(cusMatWrap(&all, view.rows, view.cols, view.type, CUS_HOST, matches.data(), 0));
        return call.space() == CUS_DEVICE ? cusMatDownload(&view, &all, call.stream()) : cusMatCopy(&view, &all, nullptr);
    });
    nb::list result;
    for (int i = 0; i < self.maps; ++i) {
        const cusMatch *const first = matches.data() + static_cast<ptrdiff_t>(i) * most;
        result.append(bytesOf(
            first,
            static_cast<size_t>(std::find_if(first, first + most, [](const cusMatch &one) { return one.x < 0; }) - first)));
    }
    return result;
}

static nb::object results(Matcher &self, nb::handle stream) {
    const Use<cusMatcher> matcher(self.handle);
    Call call("Matcher.results", stream);
    call.assume(self.device, self.framework);
    cusMat view = CUS_MAT_INIT;
    check(cusMatcherResults(matcher, &view));
    return viewArray(view, imageShape(view), self.handle.owner(), self.framework, self.device, call.stream());
}

void addMatch(nb::module_ &module) {
    typedef cusMatcherOptions O;
    Options<O>(module, "MatcherOptions", "Matcher", cusMatcherDefaults)
        .word("method", &O::method,
              wordsOf({{"sqdiff", CUS_MATCH_SQDIFF},
                       {"sqdiff-normed", CUS_MATCH_SQDIFF_NORMED},
                       {"ccorr", CUS_MATCH_CCORR},
                       {"ccorr-normed", CUS_MATCH_CCORR_NORMED},
                       {"ccoeff", CUS_MATCH_CCOEFF},
                       {"ccoeff-normed", CUS_MATCH_CCOEFF_NORMED}}))
        .word("algorithm", &O::algorithm,
              wordsOf({{"auto", CUS_MATCH_AUTO}, {"direct", CUS_MATCH_DIRECT}, {"fft", CUS_MATCH_FFT}}))
        .numbers("max_matches", &O::max_matches, "min_distance", &O::min_distance, "score_limit", &O::score_limit,
                 "subpixel", &O::subpixel, "batch", &O::batch);
    closeable<Matcher>(module, "Matcher")
        .def(nb::new_(&create), nb::arg("templates"), nb::arg("rows"), nb::arg("cols"), nb::arg("options"), none("mask"),
             none("stream"))
        .def_prop_ro("algorithm",
                     [](Matcher &self) {
                         const Use<cusMatcher> matcher(self.handle);
                         return static_cast<int>(cusMatcherAlgorithm(matcher));
                     })
        .def("run", &run, nb::arg("frame"), none("scores"), none("stream"))
        .def("inspect", &inspect, nb::arg("frame"), nb::arg("lower"), nb::arg("upper"), nb::arg("min_fill"), none("stream"))
        .def("get", &get, none("stream"))
        .def("results", &results, none("stream"));
}

} // namespace cuspy

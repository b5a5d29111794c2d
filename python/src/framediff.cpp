// Sparse differences: encoder, decoder, and what passes between them.
#include "handle.hpp"
#include "modules.hpp"

#include <cstdint>
#include <deque>

namespace cuspy {

struct SparseDiff {
    Handle<cusSparseDiff> handle;
    Device device;
    Framework framework;
    int rows, cols, channels;
};

static void destroyDiff(cusSparseDiff *diff) {
    cusSparseDiffRelease(diff);
    delete diff;
}

static SparseDiff *makeDiff(Call &call, int rows, int cols, int channels, uint32_t capacity, bool mask) {
    auto diff = std::unique_ptr<cusSparseDiff>(new cusSparseDiff CUS_SPARSE_DIFF_INIT);
    call.run([&] {
        return cusSparseDiffCreate(diff.get(), rows, cols, CUS_MAKETYPE(CUS_8U, channels), capacity, mask, call.space());
    });
    return new SparseDiff{
        {"SparseDiff", diff.release(), destroyDiff}, call.device(), call.framework(), rows, cols, channels};
}

static SparseDiff *createDiff(int rows, int cols, int channels, uint32_t capacity, bool mask, const char *device) {
    Call call("SparseDiff");
    call.assume(parseDevice("SparseDiff", device), frameworkFor(device, nb::none()));
    return makeDiff(call, rows, cols, channels, capacity, mask);
}

// Makes a difference from its parts.
static SparseDiff *fromArrays(int rows, int cols, int channels, nb::handle positions_object, nb::handle values_object,
                              nb::handle stream) {
    Call call("SparseDiff.from_arrays", stream);
    const Array positions = call.in(positions_object, "positions"), values = call.in(values_object, "values");
    void *const from = positions.elements(U32, I32);
    void *const bytes = values.elements(U8);
    const int64_t n = positions.shape[0];
    if (values.shape[0] != n || n > INT32_MAX)
        fail(CUS_ERROR_SIZE,
             "SparseDiff.from_arrays: positions has %lld elements and values %lld, expected the same number below 2^31",
             static_cast<long long>(n), static_cast<long long>(values.shape[0]));
    auto made =
        std::unique_ptr<SparseDiff>(makeDiff(call, rows, cols, channels, n > 0 ? static_cast<uint32_t>(n) : 1, false));
    const Use<cusSparseDiff> use(made->handle);
    cusSparseDiff *const diff = use;
    auto count = static_cast<int32_t>(n);
    call.run([&]() -> cusStatus {
        cusMat number = CUS_MAT_INIT, target = CUS_MAT_INIT, source = CUS_MAT_INIT;
        CUS_TRY(cusMatWrap(&number, 1, 1, CUS_32SC1, CUS_HOST, &count, 0));
        CUS_TRY(call.space() == CUS_HOST ? cusMatCopy(&number, &diff->count, nullptr)
                                         : cusMatUpload(&number, &diff->count, call.stream()));
        if (count == 0)
            return CUS_OK;
        CUS_TRY(cusMatRegion(&diff->positions, 0, 0, count, 1, &target));
        CUS_TRY(cusMatWrap(&source, 1, count, CUS_32SC1, call.space(), from, 0));
        CUS_TRY(cusMatCopy(&source, &target, call.stream()));
        CUS_TRY(cusMatRegion(&diff->values, 0, 0, count, 1, &target));
        CUS_TRY(cusMatWrap(&source, 1, count, CUS_8UC1, call.space(), bytes, 0));
        return cusMatCopy(&source, &target, call.stream());
    });
    return made.release();
}

static uint32_t countOf(Call &call, cusSparseDiff *diff) {
    uint32_t count = 0;
    call.run([&] { return cusSparseDiffCount(diff, &count, call.stream()); });
    return count;
}

// (positions as int32, values, mask or None): views of the difference's memory.
static nb::tuple arraysOf(SparseDiff &self, nb::handle stream) {
    const Use<cusSparseDiff> diff(self.handle);
    Call call("SparseDiff", stream);
    call.assume(self.device, self.framework);
    const int64_t count = countOf(call, diff);
    const cusSparseDiff &fields = *static_cast<cusSparseDiff *>(diff);
    const nb::object owner = self.handle.owner();
    const auto view = [&](const cusMat &mat, const Shape &shape) {
        return viewArray(mat, shape, owner, self.framework, self.device, call.stream());
    };
    const nb::object positions =
        count ? view(fields.positions, {count}) : newArray({0}, I32, self.framework, self.device, call.stream());
    const nb::object values =
        count ? view(fields.values, {count}) : newArray({0}, U8, self.framework, self.device, call.stream());
    return nb::make_tuple(positions, values, fields.mask.data ? view(fields.mask, imageShape(fields.mask)) : nb::none());
}

struct Encoder {
    Handle<cusDiffEncoder> handle;
    Device device;
    Framework framework;
};

struct Decoder {
    Handle<cusDiffDecoder> handle;
    Device device;
    Framework framework;
};

static Encoder *createEncoder(int rows, int cols, int channels, const char *device, int threshold, int min_neighbors) {
    Call call("DiffEncoder");
    call.assume(parseDevice("DiffEncoder", device), frameworkFor(device, nb::none()));
    const cusDiffOptions options = {threshold, min_neighbors, {}};
    cusDiffEncoder *encoder = nullptr;
    call.run(
        [&] { return cusDiffEncoderCreate(&encoder, rows, cols, CUS_MAKETYPE(CUS_8U, channels), call.space(), &options); });
    return new Encoder{{"DiffEncoder", encoder, cusDiffEncoderDestroy}, call.device(), call.framework()};
}

static Decoder *createDecoder(int rows, int cols, int channels, const char *device) {
    Call call("DiffDecoder");
    call.assume(parseDevice("DiffDecoder", device), frameworkFor(device, nb::none()));
    cusDiffDecoder *decoder = nullptr;
    call.run([&] { return cusDiffDecoderCreate(&decoder, rows, cols, CUS_MAKETYPE(CUS_8U, channels), call.space()); });
    return new Decoder{{"DiffDecoder", decoder, cusDiffDecoderDestroy}, call.device(), call.framework()};
}

// Resets the reference or frame to `frame`; None: to black.
template<class Object, class Reset>
static void reset(Object &self, const char *name, Reset reset_call, nb::handle frame, nb::handle stream) {
    const Use<std::remove_pointer_t<decltype(self.handle.get())>> object(self.handle);
    Call call(name, stream);
    call.expect(self.device, name);
    const OptionalMatrix mat(call, frame, "frame");
    if (mat)
        self.framework = mat.framework();
    else
        call.assume(self.device, self.framework);
    call.run([&] { return reset_call(object, mat, call.stream()); });
}

static void encode(Encoder &self, nb::handle frame_object, SparseDiff &diff, nb::handle stream) {
    const Use<cusDiffEncoder> encoder(self.handle);
    const Use<cusSparseDiff> target(diff.handle);
    Call call("DiffEncoder.encode", stream);
    call.expect(self.device, "the encoder");
    const Array frame = call.in(frame_object, "frame");
    const cusMat mat = frame.matrix();
    call.run([&] { return cusDiffEncode(encoder, &mat, target, call.stream()); });
    self.framework = diff.framework = frame.framework; // views follow the frames
}

// Encodes frames[i] by encoders[i], which are different ones, into diffs[i], of which there are as many.
static void encodeBatch(const std::vector<Encoder *> &encoders, nb::handle frames_object,
                        const std::vector<SparseDiff *> &diffs, nb::handle stream) {
    Call call("DiffEncoder.encode_batch", stream);
    std::deque<Use<cusDiffEncoder>> used;
    std::deque<Use<cusSparseDiff>> targets;
    std::vector<cusDiffEncoder *> objects;
    objects.reserve(encoders.size());
    for (Encoder *encoder : encoders)
        objects.push_back(used.emplace_back(encoder->handle));
    for (SparseDiff *diff : diffs)
        targets.emplace_back(diff->handle);
    if (!encoders.empty())
        call.expect(encoders[0]->device, "the encoder");
    const Images frames(call, frames_object, "frames");
    if (static_cast<size_t>(frames.count()) != encoders.size())
        fail(CUS_ERROR_SIZE, "%s: frames has %d image%s, expected %zu like encoders", call.function(), frames.count(),
             frames.count() == 1 ? "" : "s", encoders.size());
    std::vector<cusSparseDiff> lists;
    lists.reserve(targets.size());
    for (const auto &target : targets)
        lists.push_back(*static_cast<cusSparseDiff *>(target));
    call.run(
        [&] { return cusDiffEncodeBatch(frames.count(), objects.data(), frames.mats(), lists.data(), call.stream()); });
    for (size_t i = 0; i < encoders.size(); ++i)
        encoders[i]->framework = diffs[i]->framework = call.framework();
}

static void decode(Decoder &self, SparseDiff &diff, nb::handle stream) {
    const Use<cusDiffDecoder> decoder(self.handle);
    const Use<cusSparseDiff> source(diff.handle);
    Call call("DiffDecoder.decode", stream);
    call.assume(self.device, self.framework);
    call.run([&] { return cusDiffDecode(decoder, source, call.stream()); });
    self.framework = diff.framework;
}

template<class Object, class View>
static nb::object viewOf(Object &self, const char *name, View view_call, nb::handle stream) {
    const Use<std::remove_pointer_t<decltype(self.handle.get())>> object(self.handle);
    Call call(name, stream);
    call.assume(self.device, self.framework);
    cusMat view = CUS_MAT_INIT;
    check(view_call(object, &view));
    return viewArray(view, imageShape(view), self.handle.owner(), self.framework, self.device, call.stream());
}

void addFramediff(nb::module_ &module) {
    closeable<SparseDiff>(module, "SparseDiff")
        .def(nb::new_(&createDiff), nb::arg("rows"), nb::arg("cols"), nb::arg("channels"), nb::arg("capacity"),
             nb::arg("mask"), nb::arg("device"))
        .def_static("from_arrays", &fromArrays, nb::arg("rows"), nb::arg("cols"), nb::arg("channels"), none("positions"),
                    none("values"), none("stream"), nb::rv_policy::take_ownership)
        .def(
            "count",
            [](SparseDiff &self, nb::handle stream) {
                const Use<cusSparseDiff> diff(self.handle);
                Call call("SparseDiff.count", stream);
                call.assume(self.device, self.framework);
                return countOf(call, diff);
            },
            none("stream"))
        .def("arrays", &arraysOf, none("stream"));
    closeable<Encoder>(module, "DiffEncoder")
        .def(nb::new_(&createEncoder), nb::arg("rows"), nb::arg("cols"), nb::arg("channels"), nb::arg("device"),
             nb::arg("threshold"), nb::arg("min_neighbors"))
        .def(
            "reset",
            [](Encoder &self, nb::handle frame, nb::handle stream) {
                reset(self, "DiffEncoder.reset", cusDiffEncoderReset, frame, stream);
            },
            none("frame"), none("stream"))
        .def("encode", &encode, none("frame"), nb::arg("diff"), none("stream"))
        .def_static("encode_batch", &encodeBatch, nb::arg("encoders"), none("frames"), nb::arg("diffs"), none("stream"))
        .def(
            "reference",
            [](Encoder &self, nb::handle stream) {
                return viewOf(self, "DiffEncoder.reference", cusDiffEncoderReference, stream);
            },
            none("stream"));
    closeable<Decoder>(module, "DiffDecoder")
        .def(nb::new_(&createDecoder), nb::arg("rows"), nb::arg("cols"), nb::arg("channels"), nb::arg("device"))
        .def(
            "reset",
            [](Decoder &self, nb::handle frame, nb::handle stream) {
                reset(self, "DiffDecoder.reset", cusDiffDecoderReset, frame, stream);
            },
            none("frame"), none("stream"))
        .def("decode", &decode, nb::arg("diff"), none("stream"))
        .def(
            "frame",
            [](Decoder &self, nb::handle stream) { return viewOf(self, "DiffDecoder.frame", cusDiffDecoderFrame, stream); },
            none("stream"));
}

} // namespace cuspy

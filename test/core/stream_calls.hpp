// Every public call that takes a stream, ready to be made: on matrices and objects of one space, with contents that change.
// The tests of misuse and of CUDA graphs go through this table; GraphTable checks that it is complete and that
// docs/memory-and-streams.md says the same.
#pragma once

#include "cusight/cusight.h"
#include "support.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>

namespace stream_calls {

enum class Capture {
    YES,     // becomes part of the graph
    REFUSED, // CUS_ERROR_UNSUPPORTED in a capture
    NONE     // queues nothing
};

struct Call {
    const char *function;
    Capture capture;
    const char *object; // the argument's name if the call uses an object, else NULL
    std::vector<cusMat *> mats;
    std::function<cusStatus(cusStream)> run; // empty: not in this space or build
};

class Calls {
  public:
    static constexpr int ROWS = 96, COLS = 163, EVENTS = 600, CONTENTS = 4;

    explicit Calls(cusSpace space) : space_(space) {
        frames();
        copies();
        integrals();
        matching();
        poses();
        differences();
        stereo();
        events();
        generating();
        motion();
        rawBytes();
        sending();
        streams();
        change(0);
    }
    ~Calls() {
        for (auto it = cleanup_.rbegin(); it != cleanup_.rend(); ++it)
            (*it)();
        for (cusMat &mat : mats_)
            cusMatRelease(&mat);
    }
    Calls(const Calls &) = delete;
    Calls &operator=(const Calls &) = delete;

    // New contents in all inputs; complete at return.
    void change(size_t round) {
        for (Input &input : inputs_) {
            cusMat &mat = *input.mat, host = CUS_MAT_INIT;
            CUS_EXPECT_OK(
                cusMatWrap(&host, mat.rows, mat.cols, mat.type, CUS_HOST, input.contents[round % CONTENTS].data(), 0));
            CUS_EXPECT_OK(mat.space == CUS_DEVICE ? cusMatUpload(&host, &mat, nullptr) : cusMatCopy(&host, &mat, nullptr));
        }
        synchronize();
    }

    // Makes all calls, or those that can be captured, in order.
    void run(cusStream stream = nullptr, bool captured = false) const {
        for (const Call &call : list_) {
            if (call.run && (!captured || call.capture == Capture::YES))
                CUS_EXPECT_OK(call.run(stream)) << call.function;
        }
    }

    void synchronize() const {
        if (space_ == CUS_DEVICE)
            CUS_EXPECT_OK(cusStreamSynchronize(nullptr));
    }

    // What the calls have written; waits for the device.
    std::vector<std::vector<uint8_t>> results() const {
        std::vector<std::vector<uint8_t>> all;
        for (const cusMat *mat : outputs_)
            all.push_back(mat->data ? support::elements(*mat) : std::vector<uint8_t>());
        return all;
    }

    const std::vector<Call> &list() const { return list_; }

    const Call &find(const std::string &function) const {
        return *std::find_if(list_.begin(), list_.end(), [&](const Call &call) { return function == call.function; });
    }

  private:
    using Run = std::function<cusStatus(cusStream)>;
    enum class Kind { BYTES, WORDS, FRAME, COLUMNS, BOXES, X, Y, TIMES, PLACES };
    struct Input {
        cusMat *mat;
        std::vector<uint8_t> contents[CONTENTS];
    };

    cusMat &empty() {
        mats_.emplace_back();
        return mats_.back();
    }
    cusMat &output() {
        cusMat &mat = empty();
        outputs_.push_back(&mat);
        return mat;
    }
    cusMat &input(int rows, int cols, int type, Kind kind = Kind::BYTES, bool pinned = false) {
        cusMat &mat = empty();
        CUS_EXPECT_OK(pinned ? cusMatCreatePinned(&mat, rows, cols, type) : cusMatCreate(&mat, rows, cols, type, space_));
        inputs_.push_back({&mat, {}});
        for (auto &bytes : inputs_.back().contents)
            fill(bytes, static_cast<size_t>(rows) * static_cast<size_t>(cols) * cusTypeSize(type), kind);
        return mat;
    }
    template<class T>
    static void put(std::vector<uint8_t> &bytes, size_t i, T value) {
        std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
    }
    void fill(std::vector<uint8_t> &bytes, size_t size, Kind kind) {
        bytes = support::randomBytes(size, random_);
        int64_t t = 1000;
        for (size_t i = 0; kind == Kind::WORDS && i < size / 2; ++i)
            put(bytes, i, static_cast<uint16_t>(random_() % 24));
        if (kind == Kind::FRAME) { // of a chunk with eight events at time 0, all packed
            const uint32_t words[] = {0x31464345, 1, 37, 8}, chunk[] = {8 << 2 | 2, 0, 0, 8};
            std::memcpy(bytes.data(), words, sizeof words);
            std::memcpy(&bytes[256], chunk, sizeof chunk);
        }
        if (kind ==
            Kind::
                COLUMNS) { // with eight events at time 0 too: x and y are not compressed, p and t are a zero and its copies
            const uint32_t words[] = {0x31465a4c, 1, 73, 8}, chunk[] = {8, 0, 0, 0, 16 | 0x80000000, 16 | 0x80000000, 4, 5};
            const uint8_t tokens[] = {0, 0, 5 << 5, 0, 0, 0, 7 << 5, 54, 0};
            std::memcpy(bytes.data(), words, sizeof words);
            std::memcpy(&bytes[256], chunk, sizeof chunk);
            std::memcpy(&bytes[256 + 64], tokens, sizeof tokens);
        }
        for (size_t i = 0; (kind == Kind::X || kind == Kind::Y) && i < size / 2; ++i)
            put(bytes, i, static_cast<uint16_t>(random_() % (kind == Kind::X ? COLS : ROWS)));
        for (size_t i = 0; kind == Kind::TIMES && i < size / 8; ++i)
            put(bytes, i, t += static_cast<int64_t>(random_() % 100));
        for (size_t i = 0; kind == Kind::BOXES && i < size / 16; ++i)
            for (size_t k = 0; k < 4; ++k)
                put(bytes, 4 * i + k, static_cast<int32_t>(random_() % 40));
        for (size_t i = 0; kind == Kind::PLACES && i < size / 4; ++i)
            put(bytes, i, static_cast<float>(random_() % (16 * COLS)) / 16.0f);
    }
    void add(const char *function, Capture capture, const char *object, std::vector<cusMat *> mats,
             std::function<cusStatus(cusStream)> run) {
        list_.push_back({function, capture, object, std::move(mats), std::move(run)});
    }

    void frames() {
        color_ = &input(ROWS, COLS, CUS_8UC3);
        former_ = &input(ROWS, COLS, CUS_8UC3);
        gray_ = &input(ROWS, COLS, CUS_8UC1);
        right_ = &input(ROWS, COLS, CUS_8UC1);
    }

    // Runs a batch of two, whose outputs are a and b. Only the first run, which creates them, writes them: later ones may come
    // from several threads.
    template<class Batch>
    static cusStatus intoTwo(cusMat &a, cusMat &b, const Batch &batch) {
        cusMat out[2] = {a, b};
        const cusStatus status = batch(out);
        if (a.data != out[0].data)
            a = out[0];
        if (b.data != out[1].data)
            b = out[1];
        return status;
    }

    void copies() {
        const bool device = space_ == CUS_DEVICE;
        cusMat &copy = output(), &zeroed = input(ROWS, COLS, CUS_8UC3);
        outputs_.push_back(&zeroed);
        cusMat *up = nullptr, *uploaded = nullptr, *downloaded = nullptr;
        if (device) {
            up = &input(ROWS, COLS, CUS_8UC1, Kind::BYTES, true);
            uploaded = &output();
            downloaded = &output();
            CUS_EXPECT_OK(cusMatCreatePinned(downloaded, ROWS, COLS, CUS_8UC3));
        }

        add("cusMatUpload", Capture::YES, nullptr, {up, uploaded},
            device ? Run([=](cusStream s) { return cusMatUpload(up, uploaded, s); }) : Run());
        add("cusMatDownload", Capture::YES, nullptr, {color_, downloaded},
            device ? Run([=](cusStream s) { return cusMatDownload(color_, downloaded, s); }) : Run());
        add("cusMatCopy", Capture::YES, nullptr, {color_, &copy},
            [=, &copy](cusStream s) { return cusMatCopy(color_, &copy, s); });
        add("cusMatSetZero", Capture::YES, nullptr, {&zeroed},
            [&zeroed](cusStream s) { return cusMatSetZero(&zeroed, s); });
    }

    void integrals() {
        cusIntegrator *integrator = nullptr;
        CUS_EXPECT_OK(cusIntegratorCreate(&integrator, ROWS, COLS, space_));
        cleanup_.push_back([=] { cusIntegratorDestroy(integrator); });
        cusMat &sum = output(), &sqsum = output(), &other = output(), &sums = output();
        cusMat &boxes = input(50, 4, CUS_32SC1, Kind::BOXES);
        add("cusIntegratorRun", Capture::YES, "integrator", {gray_, &sum, &sqsum},
            [=, &sum, &sqsum](cusStream s) { return cusIntegratorRun(integrator, gray_, &sum, &sqsum, nullptr, s); });
        add("cusIntegral", Capture::YES, nullptr, {right_, &other},
            [=, &other](cusStream s) { return cusIntegral(right_, &other, nullptr, nullptr, s); });
        add("cusBoxSums", Capture::YES, nullptr, {&sum, &boxes, &sums},
            [&sum, &boxes, &sums](cusStream s) { return cusBoxSums(&sum, &boxes, &sums, s); });
        cusMat &places = input(30, 40, CUS_32FC2, Kind::PLACES), &moved = output();
        add("cusRemap", Capture::YES, nullptr, {color_, &places, &moved},
            [=, &places, &moved](cusStream s) { return cusRemap(color_, &places, &moved, s); });
        cusMat &first_sum = output(), &second_sum = output(), &first_moved = output(), &second_moved = output();
        add("cusIntegratorRunBatch", Capture::YES, "integrator", {gray_, &first_sum, &second_sum},
            [=, &first_sum, &second_sum](cusStream s) {
                const cusMat src[2] = {*gray_, *gray_};
                return intoTwo(first_sum, second_sum, [&](cusMat *out) {
                    return cusIntegratorRunBatch(integrator, 2, src, out, nullptr, nullptr, s);
                });
            });
        add("cusRemapBatch", Capture::YES, nullptr, {color_, &places, &first_moved, &second_moved},
            [=, &places, &first_moved, &second_moved](cusStream s) {
                const cusMat src[2] = {*color_, *color_}, maps[2] = {places, places};
                return intoTwo(first_moved, second_moved, [&](cusMat *out) { return cusRemapBatch(2, src, maps, out, s); });
            });
        cusMat &chroma = input((ROWS + 1) / 2, (COLS + 1) / 2, CUS_8UC2), &bgr = output(), &luma = output();
        add("cusYuvToBgr", Capture::YES, nullptr, {gray_, &chroma, &bgr},
            [=, &chroma, &bgr](cusStream s) { return cusYuvToBgr(gray_, &chroma, nullptr, nullptr, &bgr, s); });
        add("cusYuvToGray", Capture::YES, nullptr, {gray_, &luma},
            [=, &luma](cusStream s) { return cusYuvToGray(gray_, nullptr, &luma, s); });
        cusMat &count = output(), &mask = output();
        add("cusHsvCount", Capture::YES, nullptr, {color_, &count, &mask}, [=, &count, &mask](cusStream s) {
            const cusHsvRange range = {{10, 20, 20}, {150, 255, 255}};
            return cusHsvCount(color_, &range, &count, &mask, s);
        });
    }

    void matching() {
        cusMat &templ = input(11, 13, CUS_8UC3);
        cusMatcher *matcher = nullptr;
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = CUS_MATCH_SQDIFF;
        options.max_matches = 5;
        options.algorithm = CUS_MATCH_FFT;
        change(0);
        CUS_EXPECT_OK(cusMatcherCreate(&matcher, &templ, 1, ROWS, COLS, &options, nullptr));
        cleanup_.push_back([=] { cusMatcherDestroy(matcher); });
        CUS_EXPECT_OK(cusMatcherResults(matcher, &output()));
        add("cusMatcherCreate", Capture::REFUSED, nullptr, {&templ}, [&templ](cusStream s) {
            cusMatcher *made = nullptr;
            const cusStatus status = cusMatcherCreate(&made, &templ, 1, ROWS, COLS, nullptr, s);
            cusMatcherDestroy(made);
            return status;
        });
        add("cusMatcherRun", Capture::YES, "matcher", {color_},
            [=](cusStream s) { return cusMatcherRun(matcher, color_, nullptr, s); });
        add("cusMatcherInspect", Capture::YES, "matcher", {color_}, [=](cusStream s) {
            const cusHsvRange range = {{0, 0, 128}, {179, 255, 255}};
            return cusMatcherInspect(matcher, color_, &range, 0.4, s);
        });
        add("cusMatcherGet", Capture::REFUSED, "matcher", {}, [=](cusStream s) {
            cusMatch matches[5];
            int found = 0;
            return cusMatcherGet(matcher, 0, matches, 5, &found, s);
        });
    }

    void poses() {
        cusMat &templ = input(9, 11, CUS_8UC1);
        cusPoseMatcher *matcher = nullptr;
        change(0);
        CUS_EXPECT_OK(cusPoseMatcherCreate(&matcher, &templ, ROWS, COLS, nullptr, nullptr));
        cleanup_.push_back([=] { cusPoseMatcherDestroy(matcher); });
        add("cusPoseMatcherCreate", Capture::REFUSED, nullptr, {&templ}, [&templ](cusStream s) {
            cusPoseMatcher *made = nullptr;
            const cusStatus status = cusPoseMatcherCreate(&made, &templ, ROWS, COLS, nullptr, s);
            cusPoseMatcherDestroy(made);
            return status;
        });
        add("cusPoseMatcherRun", Capture::REFUSED, "matcher", {gray_},
            [=](cusStream s) { return cusPoseMatcherRun(matcher, gray_, s); });
    }

    void differences() {
        cusDiffEncoder *encoder = nullptr;
        cusDiffDecoder *decoder = nullptr;
        diff_ = CUS_SPARSE_DIFF_INIT;
        CUS_EXPECT_OK(cusDiffEncoderCreate(&encoder, ROWS, COLS, CUS_8UC3, space_, nullptr));
        CUS_EXPECT_OK(cusDiffDecoderCreate(&decoder, ROWS, COLS, CUS_8UC3, space_));
        CUS_EXPECT_OK(cusSparseDiffCreate(&diff_, ROWS, COLS, CUS_8UC3, 0, 1, space_));
        cleanup_.push_back([=] {
            cusDiffEncoderDestroy(encoder);
            cusDiffDecoderDestroy(decoder);
            cusSparseDiffRelease(&diff_);
        });
        cusDiffEncoder *other = nullptr; // of a batch
        CUS_EXPECT_OK(cusDiffEncoderCreate(&other, ROWS, COLS, CUS_8UC3, space_, nullptr));
        for (cusSparseDiff &diff : diffs_)
            CUS_EXPECT_OK(cusSparseDiffCreate(&diff, ROWS, COLS, CUS_8UC3, 0, 1, space_));
        cleanup_.push_back([=] {
            cusDiffEncoderDestroy(other);
            for (cusSparseDiff &diff : diffs_)
                cusSparseDiffRelease(&diff);
        });
        outputs_.push_back(&diffs_[0].count);
        outputs_.push_back(&diffs_[0].mask);
        CUS_EXPECT_OK(cusDiffEncoderReference(other, &output()));
        CUS_EXPECT_OK(cusDiffEncoderReference(encoder, &output()));
        CUS_EXPECT_OK(cusDiffDecoderFrame(decoder, &output()));
        outputs_.push_back(&diff_.count);
        outputs_.push_back(&diff_.mask);
        cusMat &heat = output(), &noise = output();
        add("cusDiffEncoderReset", Capture::YES, "encoder", {former_},
            [=](cusStream s) { return cusDiffEncoderReset(encoder, former_, s); });
        add("cusDiffEncode", Capture::YES, "encoder", {color_, &diff_.mask},
            [=](cusStream s) { return cusDiffEncode(encoder, color_, &diff_, s); });
        add("cusDiffEncodeBatch", Capture::YES, "encoder[0]", {former_, color_, &diffs_[0].mask, &diffs_[1].mask},
            [=](cusStream s) {
                cusDiffEncoder *const encoders[2] = {encoder, other};
                const cusMat frames[2] = {*former_, *color_};
                return cusDiffEncodeBatch(2, encoders, frames, diffs_, s);
            });
        add("cusDiffDecoderReset", Capture::YES, "decoder", {former_},
            [=](cusStream s) { return cusDiffDecoderReset(decoder, former_, s); });
        add("cusDiffDecode", Capture::YES, "decoder", {&diff_.mask},
            [=](cusStream s) { return cusDiffDecode(decoder, &diff_, s); });
        add("cusSparseDiffCount", Capture::REFUSED, nullptr, {}, [=](cusStream s) {
            uint32_t count = 0;
            return cusSparseDiffCount(&diff_, &count, s);
        });
        add("cusHeatmap", Capture::YES, nullptr, {former_, color_, &heat},
            [=, &heat](cusStream s) { return cusHeatmap(former_, color_, &heat, nullptr, s); });
        cusMat &first_heat = output(), &second_heat = output();
        add("cusHeatmapBatch", Capture::YES, nullptr, {former_, color_, &first_heat, &second_heat},
            [=, &first_heat, &second_heat](cusStream s) {
                const cusMat prev[2] = {*former_, *color_}, cur[2] = {*color_, *former_};
                return intoTwo(first_heat, second_heat,
                               [&](cusMat *out) { return cusHeatmapBatch(2, prev, cur, out, nullptr, s); });
            });
        add("cusNoiseView", Capture::YES, nullptr, {former_, color_, &noise},
            [=, &noise](cusStream s) { return cusNoiseView(former_, color_, &noise, 30, s); });
    }

    void stereo() {
        cusStereoOptions options = cusStereoDefaults(), relax = options;
        relax.fill = CUS_FILL_RELAX;
        relax.iterations = 40;
        options.shifts = 40;
        cusContourMapper *mapper = nullptr;
        CUS_EXPECT_OK(cusContourMapperCreate(&mapper, ROWS, COLS, CUS_8UC1, space_, &options));
        cleanup_.push_back([=] { cusContourMapperDestroy(mapper); });
        cusMat &words = input(ROWS, COLS, CUS_16UC1, Kind::WORDS);
        cusMat *out[15];
        for (cusMat *&mat : out)
            mat = &output();
        cusMat *edges = out[0], *census = out[1], *elevation = out[2], *filled = out[3], *smoothed = out[4],
               *contours = out[5], *picture = out[6], *heights = out[7], *lines = out[8], *fine = out[9], *sure = out[10],
               *fine_map = out[11], *sure_map = out[12], *fine_lines = out[13], *unspeckled = out[14];
        cusStereoOptions speckles = options;
        speckles.speckle_size = 20;
        cusStereoOptions refined = options;
        refined.subpixel_bits = 4;
        cusContourMapper *refining = nullptr;
        CUS_EXPECT_OK(cusContourMapperCreate(&refining, ROWS, COLS, CUS_8UC1, space_, &refined));
        cleanup_.push_back([=] { cusContourMapperDestroy(refining); });
        add("cusStereoEdges", Capture::YES, nullptr, {gray_, edges},
            [=](cusStream s) { return cusStereoEdges(gray_, edges, nullptr, s); });
        add("cusStereoCensus", Capture::YES, nullptr, {gray_, census},
            [=](cusStream s) { return cusStereoCensus(gray_, census, nullptr, s); });
        add("cusStereoElevation", Capture::YES, nullptr, {gray_, right_, elevation},
            [=](cusStream s) { return cusStereoElevation(gray_, right_, elevation, &options, s); });
        add("cusStereoElevationConfidence", Capture::YES, nullptr, {gray_, right_, fine, sure},
            [=](cusStream s) { return cusStereoElevationConfidence(gray_, right_, fine, sure, &refined, s); });
        add("cusStereoFindShifts", Capture::REFUSED, nullptr, {gray_, right_}, [=](cusStream s) {
            int shifts = 0;
            return cusStereoFindShifts(gray_, right_, &shifts, &options, s);
        });
        add("cusStereoFilterSpeckles", Capture::YES, nullptr, {&words, unspeckled},
            [=, &words](cusStream s) { return cusStereoFilterSpeckles(&words, unspeckled, &speckles, s); });
        add("cusStereoFill", Capture::YES, nullptr, {&words, filled},
            [=, &words](cusStream s) { return cusStereoFill(&words, filled, &relax, s); });
        add("cusStereoMedian", Capture::YES, nullptr, {&words, smoothed},
            [=, &words](cusStream s) { return cusStereoMedian(&words, smoothed, 5, s); });
        add("cusStereoContours", Capture::YES, nullptr, {&words, contours},
            [=, &words](cusStream s) { return cusStereoContours(&words, contours, nullptr, s); });
        add("cusStereoPicture", Capture::YES, nullptr, {&words, picture},
            [=, &words](cusStream s) { return cusStereoPicture(&words, nullptr, picture, s); });
        add("cusContourMap", Capture::YES, "mapper", {gray_, right_, heights, lines},
            [=](cusStream s) { return cusContourMap(mapper, gray_, right_, heights, lines, s); });
        add("cusContourMapConfidence", Capture::YES, "mapper", {gray_, right_, fine_map, fine_lines, sure_map},
            [=](cusStream s) {
                return cusContourMapConfidence(refining, gray_, right_, fine_map, fine_lines, sure_map, s);
            });
    }

    void events() {
        const cusRepresentation kinds[] = {
            cusRepresentationDefaults(CUS_REPR_HISTOGRAM), cusRepresentationDefaults(CUS_REPR_VOXEL_GRID),
            cusRepresentationDefaults(CUS_REPR_STACKED_HISTOGRAM), cusRepresentationDefaults(CUS_REPR_TENCODE)};
        cusEventStacker *stacker = nullptr;
        CUS_EXPECT_OK(cusEventStackerCreate(&stacker, ROWS, COLS, space_, kinds, 4));
        cleanup_.push_back([=] { cusEventStackerDestroy(stacker); });
        const cusEventArrays arrays = {
            static_cast<const uint16_t *>(input(1, EVENTS, CUS_16UC1, Kind::X).data),
            static_cast<const uint16_t *>(input(1, EVENTS, CUS_16UC1, Kind::Y).data),
            static_cast<const uint8_t *>(input(1, EVENTS, CUS_8UC1).data),
            static_cast<const int64_t *>(input(1, EVENTS, CUS_64FC1 /* as wide */, Kind::TIMES).data),
            EVENTS,
            space_};
        for (cusMat &frame : eventFrames_)
            outputs_.push_back(&frame);
        cleanup_.push_back([this] {
            for (cusMat &frame : eventFrames_)
                cusMatRelease(&frame);
        });
        add("cusEventWindows", Capture::REFUSED, nullptr, {}, [=](cusStream s) {
            const cusWindowing windowing = {CUS_WINDOW_DURATION, 5000, 0, 1, {}};
            cusEventWindow windows[64];
            size_t count = 0;
            return cusEventWindows(&arrays, &windowing, windows, 64, &count, s);
        });
        add("cusEventStack", Capture::YES, "stacker", {}, [=](cusStream s) {
            const cusEventWindow windows[] = {{0, 300}, {100, 550}, {7, 7}};
            return cusEventStack(stacker, &arrays, windows, 3, eventFrames_, s);
        });
        add("cusEventStackSpans", Capture::YES, "stacker", {}, [=](cusStream s) {
            const cusEventWindow windows[] = {{0, 300}, {100, 550}, {7, 7}};
            const cusEventSpan spans[] = {{0, 1 << 20}, {0, 1 << 20}, {0, 1 << 20}};
            return cusEventStackSpans(stacker, &arrays, windows, spans, 3, eventFrames_, s);
        });
        add("cusEventStackerSkipped", Capture::REFUSED, "stacker", {}, [=](cusStream s) {
            uint64_t skipped = 0;
            return cusEventStackerSkipped(stacker, &skipped, s);
        });
    }

    // The background is the frame before, so that nothing depends on earlier runs.
    void motion() {
        cusMotionDetector *detector = nullptr;
        cusMotionOptions options = cusMotionDefaults();
        options.shift = options.warmup = 0;
        options.sudden_percent = 100;
        options.space = space_;
        CUS_EXPECT_OK(cusMotionDetectorCreate(&detector, 1, ROWS, COLS, CUS_8UC1, &options));
        cleanup_.push_back([=] { cusMotionDetectorDestroy(detector); });
        cusMat &mask = output();
        add("cusMotionDetectorWatch", Capture::YES, "detector", {right_},
            [=](cusStream s) { return cusMotionDetectorWatch(detector, -1, right_, s); });
        add("cusMotionDetectorRun", Capture::YES, "detector", {right_, gray_}, [=](cusStream s) {
            CUS_TRY(cusMotionDetectorRun(detector, right_, nullptr, s));
            return cusMotionDetectorRun(detector, gray_, nullptr, s);
        });
        add("cusMotionDetectorMask", Capture::YES, "detector", {&mask},
            [=, &mask](cusStream s) { return cusMotionDetectorMask(detector, 0, &mask, s); });
        add("cusMotionDetectorGet", Capture::REFUSED, "detector", {}, [=](cusStream s) {
            cusMotionStatus status;
            return cusMotionDetectorGet(detector, 0, 1, &status, nullptr, nullptr, s);
        });
    }

    void generating() {
        cusEventGenerator *generator = nullptr;
        cusEventGeneratorOptions options = cusEventGeneratorDefaults();
        options.positive = options.negative = 10; // no events
        options.space = space_;
        options.max_events = 1;
        CUS_EXPECT_OK(cusEventGeneratorCreate(&generator, ROWS, COLS, &options));
        cleanup_.push_back([=] { cusEventGeneratorDestroy(generator); });
        const auto last = std::make_shared<std::atomic<int64_t>>(0);
        add("cusEventGeneratorRun", Capture::REFUSED, "generator", {gray_}, [=](cusStream s) {
            const int64_t time = ++*last;
            const cusEventBuffers none = {};
            const cusStatus status = cusEventGeneratorRun(generator, gray_, &time, 1, &none, nullptr, s);
            return status == CUS_ERROR_VALUE ? CUS_OK : status; // the other thread's time was later
        });
        add("cusEventGeneratorCheck", Capture::REFUSED, "generator", {},
            [=](cusStream s) { return cusEventGeneratorCheck(generator, nullptr, s); });
    }

    // A decoder goes on from run to run, so what it writes is not compared.
    std::pair<cusEventDecoder *, Run> decoderOf(cusEventFormat format, size_t size, Kind kind) {
        cusEventDecoderOptions options = cusEventDecoderDefaults();
        options.format = format;
        options.bad_events = CUS_BAD_EVENTS_SKIP;
        options.space = space_;
        options.max_bytes = size;
        cusEventDecoder *decoder = nullptr;
        CUS_EXPECT_OK(cusEventDecoderCreate(&decoder, &options));
        cleanup_.push_back([=] { cusEventDecoderDestroy(decoder); });
        const void *bytes = input(1, int(size), CUS_8UC1, kind).data;
        cusMat &t = empty();
        CUS_EXPECT_OK(cusMatCreate(&t, 1, EVENTS, CUS_64FC1 /* as wide */, space_));
        cusEventBuffers buffers = {};
        buffers.t = static_cast<int64_t *>(t.data);
        buffers.capacity = EVENTS;
        return {decoder, [=](cusStream s) { return cusEventDecoderRun(decoder, bytes, size, &buffers, nullptr, s); }};
    }
    void rawBytes() {
        const auto of_words = decoderOf(CUS_EVENTS_EVT2, 4 * EVENTS, Kind::BYTES);
        Run of_frames, of_columns; // the device's alone
        if (space_ == CUS_DEVICE) {
            of_frames = decoderOf(CUS_EVENTS_METAVISION, 512, Kind::FRAME).second;
            of_columns = decoderOf(CUS_EVENTS_HDF5, 512, Kind::COLUMNS).second;
        }
        cusEventDecoder *decoder = of_words.first;
        add("cusEventDecoderRun", Capture::YES, "decoder", {}, [=](cusStream s) {
            CUS_TRY(of_words.second(s));
            if (of_frames)
                CUS_TRY(of_frames(s));
            return of_columns ? of_columns(s) : CUS_OK;
        });
        add("cusEventDecoderCheck", Capture::REFUSED, "decoder", {},
            [=](cusStream s) { return cusEventDecoderCheck(decoder, nullptr, s); });
        add("cusEventDecoderFinish", Capture::REFUSED, "decoder", {},
            [=](cusStream s) { return cusEventDecoderFinish(decoder, s); });
    }

    void sending() {
        cusSender *sender = nullptr;
        const cusStatus status = cusSenderCreate(&sender, ROWS, COLS, CUS_8UC3, space_, nullptr);
        EXPECT_TRUE(status == CUS_OK || status == CUS_ERROR_UNSUPPORTED) << cusLastError();
        cleanup_.push_back([=] { cusSenderDestroy(sender); });
        std::function<cusStatus(cusStream)> run;
        if (sender)
            run = [=](cusStream s) {
                cusSentFrame packed;
                CUS_TRY(cusSenderSubmit(sender, color_, 0, s));
                CUS_TRY(cusSenderFinish(sender, &packed));
                return cusSenderRelease(sender);
            };
        add("cusSenderSubmit", Capture::REFUSED, nullptr, {color_}, run);
    }

    void streams() {
        std::function<cusStatus(cusStream)> record, wait, synchronize;
        if (space_ == CUS_DEVICE) {
            cusStreamEvent event = nullptr;
            CUS_EXPECT_OK(cusStreamEventCreate(&event));
            cleanup_.push_back([=] { cusStreamEventDestroy(event); });
            record = [=](cusStream s) { return cusStreamEventRecord(event, s); };
            wait = [=](cusStream s) {
                CUS_TRY(cusStreamEventRecord(event, s));
                return cusStreamWaitEvent(s, event);
            };
            synchronize = [](cusStream s) { return cusStreamSynchronize(s); };
        }
        add("cusStreamEventRecord", Capture::YES, nullptr, {}, record);
        add("cusStreamWaitEvent", Capture::YES, nullptr, {}, wait);
        add("cusStreamSynchronize", Capture::REFUSED, nullptr, {}, synchronize);
        add("cusStreamDestroy", Capture::NONE, nullptr, {}, nullptr);
    }

    cusSpace space_;
    std::mt19937_64 random_{1};
    std::deque<cusMat> mats_;
    std::deque<Input> inputs_;
    std::vector<cusMat *> outputs_;
    std::vector<Call> list_;
    std::vector<std::function<void()>> cleanup_;
    cusMat *color_ = nullptr, *former_ = nullptr, *gray_ = nullptr, *right_ = nullptr;
    cusMat eventFrames_[4] = {};
    cusSparseDiff diff_ = CUS_SPARSE_DIFF_INIT, diffs_[2] = {};
};

} // namespace stream_calls

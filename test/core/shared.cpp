// Three threads make every call on one object at once. Each works or is refused, and ThreadSanitizer sees that nothing is read while
// another thread writes it. Objects and calls are those of the public interface's table: one that is missing here fails the test.
#include "cusight/cusight.h"
#include "eventio/support.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <thread>

namespace {

using Run = std::function<cusStatus()>;

struct Call {
    std::string function;
    Run run;
    std::set<cusStatus> also = {}; // what it may return besides CUS_OK and CUS_ERROR_BUSY
};

constexpr int ROWS = 40, COLS = 56;
constexpr size_t EVENTS = 500;

// Everything that a case's calls refer to, released in reverse order.
class Kept {
  public:
    Kept() : random_(support::generator("Shared")) {}
    ~Kept() {
        while (!all_.empty())
            all_.pop_back();
    }
    Kept(const Kept &) = delete;
    Kept &operator=(const Kept &) = delete;

    template<class T>
    T &add(T value = {}) {
        auto made = std::make_shared<T>(std::move(value));
        all_.push_back(made);
        return *made;
    }
    template<class T>
    T *object(cusStatus status, T *made, void (*destroy)(T *)) {
        EXPECT_EQ(status, CUS_OK) << cusLastError();
        all_.push_back(std::shared_ptr<void>(made, [destroy](void *p) { destroy(static_cast<T *>(p)); }));
        return made;
    }
    cusMat &matrix() {
        all_.push_back(std::shared_ptr<cusMat>(new cusMat(CUS_MAT_INIT), [](cusMat *mat) {
            cusMatRelease(mat);
            delete mat;
        }));
        return *static_cast<cusMat *>(all_.back().get());
    }
    cusMat &picture(int type, int rows = ROWS, int cols = COLS) {
        cusMat &mat = matrix();
        CUS_EXPECT_OK(cusMatCreate(&mat, rows, cols, type, CUS_HOST));
        for (size_t i = 0; i < static_cast<size_t>(rows) * mat.step; ++i)
            static_cast<uint8_t *>(mat.data)[i] = static_cast<uint8_t>(random_());
        return mat;
    }
    const reference::Events &events() {
        reference::Events &e = add<reference::Events>();
        for (size_t i = 0; i < EVENTS; ++i) {
            e.x.push_back(static_cast<uint16_t>(random_() % COLS));
            e.y.push_back(static_cast<uint16_t>(random_() % ROWS));
            e.p.push_back(random_() & 1);
            e.t.push_back(static_cast<int64_t>(10 * i));
        }
        return e;
    }
    cusEventArrays arrays() {
        const reference::Events &e = events();
        return {e.x.data(), e.y.data(), e.p.data(), e.t.data(), EVENTS, CUS_HOST};
    }
    std::string file(const std::string &name) {
        return add<std::shared_ptr<eventio_test::Folder>>(folder())->operator/(name);
    }

  private:
    std::shared_ptr<eventio_test::Folder> folder() {
        if (!folder_)
            folder_ = std::make_shared<eventio_test::Folder>();
        return folder_;
    }
    std::mt19937_64 random_;
    std::shared_ptr<eventio_test::Folder> folder_; // outlives what is in all_
    std::vector<std::shared_ptr<void>> all_;
};

// Room for events, of one call.
struct Room {
    std::vector<uint16_t> x = std::vector<uint16_t>(EVENTS), y = x;
    std::vector<uint8_t> p = std::vector<uint8_t>(EVENTS);
    std::vector<int64_t> t = std::vector<int64_t>(EVENTS);
    cusEventBuffers buffers() { return {x.data(), y.data(), p.data(), t.data(), EVENTS, nullptr, 0}; }
};

// ---- Images ------------------------------------------------------------------------------------------------------------

std::vector<Call> integrator(Kept &k) {
    cusIntegrator *o = nullptr;
    const cusStatus made = cusIntegratorCreate(&o, ROWS, COLS, CUS_HOST);
    k.object(made, o, cusIntegratorDestroy);
    cusMat &image = k.picture(CUS_8UC1), &sum = k.matrix(), &square = k.matrix();
    return {{"cusIntegratorRun",
             [=, &image, &sum, &square] { return cusIntegratorRun(o, &image, &sum, &square, nullptr, nullptr); }},
            {"cusIntegratorRunBatch",
             [=, &image, &sum, &square] { return cusIntegratorRunBatch(o, 1, &image, &sum, &square, nullptr, nullptr); }}};
}

std::vector<Call> matcher(Kept &k) {
    cusMat &image = k.picture(CUS_8UC3), &part = k.matrix();
    CUS_EXPECT_OK(cusMatRegion(&image, 7, 9, 12, 11, &part));
    cusMatcher *o = nullptr;
    cusMatcherOptions options = cusMatcherDefaults();
    options.max_matches = 3;
    const cusStatus made = cusMatcherCreate(&o, &part, 1, ROWS, COLS, &options, nullptr);
    k.object(made, o, cusMatcherDestroy);
    return {{"cusMatcherRun", [=, &image] { return cusMatcherRun(o, &image, nullptr, nullptr); }},
            {"cusMatcherInspect",
             [=, &image] {
                 const cusHsvRange range = {{0, 0, 0}, {90, 255, 255}};
                 return cusMatcherInspect(o, &image, &range, 0.5, nullptr);
             }},
            {"cusMatcherGet",
             [=] {
                 cusMatch matches[3];
                 int found = 0;
                 return cusMatcherGet(o, 0, matches, 3, &found, nullptr);
             }},
            {"cusMatcherResults",
             [=] {
                 cusMat view = CUS_MAT_INIT;
                 return cusMatcherResults(o, &view);
             }},
            {"cusMatcherAlgorithm", [=] { return cusMatcherAlgorithm(o) == CUS_MATCH_AUTO ? CUS_ERROR_VALUE : CUS_OK; }}};
}

std::vector<Call> poseMatcher(Kept &k) {
    cusMat &image = k.picture(CUS_8UC1), &part = k.matrix();
    CUS_EXPECT_OK(cusMatRegion(&image, 7, 9, 9, 8, &part));
    cusPoseOptions options = cusPoseDefaults();
    options.angles = {0, 180, 90, nullptr, 0};
    cusPoseMatcher *o = nullptr;
    const cusStatus made = cusPoseMatcherCreate(&o, &part, ROWS, COLS, &options, nullptr);
    k.object(made, o, cusPoseMatcherDestroy);
    cusMat &window = k.matrix(), &mask = k.matrix();
    return {{"cusPoseMatcherRun", [=, &image] { return cusPoseMatcherRun(o, &image, nullptr); }},
            {"cusPoseMatcherGet",
             [=] {
                 cusPoseMatch match;
                 int found = 0;
                 return cusPoseMatcherGet(o, &match, 1, &found);
             }},
            {"cusPoseMatcherNearest",
             [=] {
                 cusPoseMatch match;
                 int found = 0;
                 return cusPoseMatcherNearest(o, &match, &found);
             }},
            {"cusPoseMatcherTemplate", [=, &window, &mask] { return cusPoseMatcherTemplate(o, 1, 0, &window, &mask); }},
            {"cusPoseMatcherGrid", [=] {
                 int angles = 0, scales = 0;
                 return cusPoseMatcherGrid(o, &angles, &scales);
             }}};
}

std::vector<Call> diffEncoder(Kept &k) {
    cusDiffEncoder *o = nullptr;
    const cusStatus made = cusDiffEncoderCreate(&o, ROWS, COLS, CUS_8UC1, CUS_HOST, nullptr);
    k.object(made, o, cusDiffEncoderDestroy);
    cusMat &one = k.picture(CUS_8UC1), &two = k.picture(CUS_8UC1);
    cusSparseDiff &diff = k.add<cusSparseDiff>({});
    CUS_EXPECT_OK(cusSparseDiffCreate(&diff, ROWS, COLS, CUS_8UC1, ROWS * COLS, 1, CUS_HOST));
    k.object(CUS_OK, &diff, cusSparseDiffRelease);
    return {{"cusDiffEncode", [=, &one, &diff] { return cusDiffEncode(o, &one, &diff, nullptr); }},
            {"cusDiffEncodeBatch", [=, &two, &diff] { return cusDiffEncodeBatch(1, &o, &two, &diff, nullptr); }},
            {"cusDiffEncoderReset", [=, &two] { return cusDiffEncoderReset(o, &two, nullptr); }},
            {"cusDiffEncoderReference", [=] {
                 cusMat view = CUS_MAT_INIT;
                 return cusDiffEncoderReference(o, &view);
             }}};
}

std::vector<Call> diffDecoder(Kept &k) {
    cusDiffDecoder *o = nullptr;
    const cusStatus made = cusDiffDecoderCreate(&o, ROWS, COLS, CUS_8UC1, CUS_HOST);
    k.object(made, o, cusDiffDecoderDestroy);
    cusMat &frame = k.picture(CUS_8UC1);
    cusSparseDiff &diff = k.add<cusSparseDiff>({});
    CUS_EXPECT_OK(cusSparseDiffCreate(&diff, ROWS, COLS, CUS_8UC1, 10, 0, CUS_HOST));
    k.object(CUS_OK, &diff, cusSparseDiffRelease);
    *static_cast<uint32_t *>(diff.count.data) = 2;
    static_cast<uint32_t *>(diff.positions.data)[0] = 5;
    static_cast<uint32_t *>(diff.positions.data)[1] = 900;
    return {{"cusDiffDecode", [=, &diff] { return cusDiffDecode(o, &diff, nullptr); }},
            {"cusDiffDecoderReset", [=, &frame] { return cusDiffDecoderReset(o, &frame, nullptr); }},
            {"cusDiffDecoderFrame", [=] {
                 cusMat view = CUS_MAT_INIT;
                 return cusDiffDecoderFrame(o, &view);
             }}};
}

std::vector<Call> contourMapper(Kept &k) {
    cusStereoOptions options = cusStereoDefaults();
    options.shifts = 8;
    options.subpixel_bits = 4;
    cusContourMapper *o = nullptr;
    const cusStatus made = cusContourMapperCreate(&o, ROWS, COLS, CUS_8UC1, CUS_HOST, &options);
    k.object(made, o, cusContourMapperDestroy);
    cusMat &left = k.picture(CUS_8UC1), &right = k.picture(CUS_8UC1);
    cusMat &elevation = k.matrix(), &contours = k.matrix(), &confidence = k.matrix();
    return {{"cusContourMap", [=, &left, &right, &elevation,
                               &contours] { return cusContourMap(o, &left, &right, &elevation, &contours, nullptr); }},
            {"cusContourMapConfidence", [=, &left, &right, &elevation, &contours, &confidence] {
                 return cusContourMapConfidence(o, &left, &right, &elevation, &contours, &confidence, nullptr);
             }}};
}

std::vector<Call> motionDetector(Kept &k) {
    cusMotionDetector *o = nullptr;
    const cusStatus made = cusMotionDetectorCreate(&o, 1, ROWS, COLS, CUS_8UC1, nullptr);
    k.object(made, o, cusMotionDetectorDestroy);
    cusMat &frame = k.picture(CUS_8UC1), &watched = k.picture(CUS_8UC1), &mask = k.matrix();
    return {{"cusMotionDetectorRun", [=, &frame] { return cusMotionDetectorRun(o, &frame, nullptr, nullptr); }},
            {"cusMotionDetectorWatch", [=, &watched] { return cusMotionDetectorWatch(o, 0, &watched, nullptr); }},
            {"cusMotionDetectorGet",
             [=] {
                 cusMotionStatus status;
                 return cusMotionDetectorGet(o, 0, 1, &status, nullptr, nullptr, nullptr);
             },
             {CUS_ERROR_CAPACITY}},
            {"cusMotionDetectorMask", [=, &mask] { return cusMotionDetectorMask(o, 0, &mask, nullptr); }},
            {"cusMotionDetectorResults", [=] {
                 cusMotionResults results = {};
                 return cusMotionDetectorResults(o, &results);
             }}};
}

// ---- Events ------------------------------------------------------------------------------------------------------------

std::vector<Call> eventStacker(Kept &k) {
    const cusRepresentation kind = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    cusEventStacker *o = nullptr;
    const cusStatus made = cusEventStackerCreate(&o, ROWS, COLS, CUS_HOST, &kind, 1);
    k.object(made, o, cusEventStackerDestroy);
    const cusEventArrays events = k.arrays();
    cusMat &frames = k.matrix();
    return {{"cusEventStack",
             [=, &frames] {
                 const cusEventWindow window = {0, EVENTS};
                 return cusEventStack(o, &events, &window, 1, &frames, nullptr);
             }},
            {"cusEventStackSpans",
             [=, &frames] {
                 const cusEventWindow window = {0, EVENTS};
                 const cusEventSpan span = {0, 10 * EVENTS};
                 return cusEventStackSpans(o, &events, &window, &span, 1, &frames, nullptr);
             }},
            {"cusEventStackerSkipped", [=] {
                 uint64_t skipped = 0;
                 return cusEventStackerSkipped(o, &skipped, nullptr);
             }}};
}

std::vector<Call> eventPipeline(Kept &k) {
    cusEventPipelineOptions options = cusEventPipelineDefaults();
    options.windowing.length = 200;
    const cusRepresentation kind = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    const auto sink = [](void *, const cusFrameBatch *) { return CUS_OK; };
    cusEventPipeline *o = nullptr;
    const cusStatus made = cusEventPipelineCreate(&o, ROWS, COLS, &kind, 1, &options, sink, nullptr);
    k.object(made, o, cusEventPipelineDestroy);
    const cusEventArrays events = k.arrays();
    // Events in the order of time, or all at once after a flush; bytes need another pipeline, which says so.
    return {{"cusEventPipelinePush", [=] { return cusEventPipelinePush(o, &events); }, {CUS_ERROR_VALUE}},
            {"cusEventPipelineFlush", [=] { return cusEventPipelineFlush(o); }},
            {"cusEventPipelineAdvance", [=] { return cusEventPipelineAdvance(o, 5); }, {CUS_ERROR_VALUE}},
            {"cusEventPipelinePushBytes",
             [=] { return cusEventPipelinePushBytes(o, "", 0); },
             {CUS_ERROR_VALUE, CUS_ERROR_UNSUPPORTED}},
            {"cusEventPipelineDecoder", [=] { return cusEventPipelineDecoder(o) ? CUS_ERROR_VALUE : CUS_OK; }},
            {"cusEventPipelineQuery", [=] {
                 cusEventPipelineCounts counts;
                 return cusEventPipelineQuery(o, &counts);
             }}};
}

std::vector<Call> eventDecoder(Kept &k) {
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    options.format = CUS_EVENTS_DAT;
    cusEventDecoder *o = nullptr;
    const cusStatus made = cusEventDecoderCreate(&o, &options);
    k.object(made, o, cusEventDecoderDestroy);
    auto &bytes = k.add<std::vector<uint32_t>>(std::vector<uint32_t>(200));
    Room &room = k.add<Room>();
    return {{"cusEventDecoderRun",
             [=, &bytes, &room] {
                 cusEventDecoded decoded = {};
                 const cusEventBuffers buffers = room.buffers();
                 return cusEventDecoderRun(o, bytes.data(), 800, &buffers, &decoded, nullptr);
             }},
            {"cusEventDecoderCheck",
             [=] {
                 cusEventDecoded decoded = {};
                 return cusEventDecoderCheck(o, &decoded, nullptr);
             }},
            {"cusEventDecoderFinish", [=] { return cusEventDecoderFinish(o, nullptr); }},
            {"cusEventDecoderGetState",
             [=] {
                 cusEventDecoderState state;
                 return cusEventDecoderGetState(o, &state);
             }},
            {"cusEventDecoderSetState", [=] {
                 cusEventDecoderState state = {};
                 state.time_high = state.last_time = -1;
                 return cusEventDecoderSetState(o, &state);
             }}};
}

std::vector<Call> eventFilter(Kept &k) {
    cusEventFilterOptions options = cusEventFilterDefaults();
    options.width = COLS;
    options.height = ROWS;
    cusEventFilter *o = nullptr;
    const cusStatus made = cusEventFilterCreate(&o, &options);
    k.object(made, o, cusEventFilterDestroy);
    Room &room = k.add<Room>();
    return {{"cusEventFilterRun", [=, &room] {
                 size_t kept = 0;
                 return cusEventFilterRun(o, EVENTS, room.x.data(), room.y.data(), room.p.data(), room.t.data(), &kept);
             }}};
}

std::vector<Call> eventGenerator(Kept &k) {
    cusEventGenerator *o = nullptr;
    const cusStatus made = cusEventGeneratorCreate(&o, ROWS, COLS, nullptr);
    k.object(made, o, cusEventGeneratorDestroy);
    cusMat &frame = k.picture(CUS_8UC1);
    auto &time = k.add<std::shared_ptr<std::atomic<int64_t>>>(std::make_shared<std::atomic<int64_t>>(0));
    Room &room = k.add<Room>();
    const std::set<cusStatus> late = {CUS_ERROR_VALUE}; // another thread's frame was later
    return {{"cusEventGeneratorPush",
             [=, &frame, &time] {
                 cusEventArrays events = {};
                 return cusEventGeneratorPush(o, &frame, *time += 1000, &events);
             },
             late},
            {"cusEventGeneratorRun",
             [=, &frame, &time, &room] {
                 const int64_t at = *time += 1000;
                 const cusEventBuffers buffers = room.buffers();
                 cusEventsGenerated generated = {};
                 return cusEventGeneratorRun(o, &frame, &at, 1, &buffers, &generated, nullptr);
             },
             late},
            {"cusEventGeneratorCheck", [=] {
                 cusEventsGenerated generated = {};
                 return cusEventGeneratorCheck(o, &generated, nullptr);
             }}};
}

std::vector<Call> eventReader(Kept &k) {
    auto &bytes = k.add<std::string>(eventio_test::DAT);
    bytes += std::string("\0\x08", 2) + std::string(8 * EVENTS, '\0');
    cusEventReader *o = nullptr;
    const cusStatus made = cusEventReaderOpenMemory(&o, bytes.data(), bytes.size(), nullptr);
    k.object(made, o, cusEventReaderClose);
    cusEventPart &part = k.add<cusEventPart>();
    CUS_EXPECT_OK(cusEventReaderScan(o, 0, 1, &part));
    Room &room = k.add<Room>();
    return {{"cusEventReaderRead",
             [=, &room] {
                 size_t count = 0;
                 return cusEventReaderRead(o, EVENTS / 3, room.x.data(), room.y.data(), room.p.data(), room.t.data(),
                                           &count);
             }},
            {"cusEventReaderCounts",
             [=] {
                 cusEventCounts counts;
                 return cusEventReaderCounts(o, &counts);
             }},
            {"cusEventReaderInfo",
             [=] {
                 cusEventInfo info;
                 return cusEventReaderInfo(o, &info);
             }},
            {"cusEventReaderSeekIndex", [=] { return cusEventReaderSeekIndex(o, 3); }},
            {"cusEventReaderSeekTime", [=] { return cusEventReaderSeekTime(o, 0, nullptr); }},
            {"cusEventReaderScan",
             [=] {
                 cusEventPart scanned;
                 return cusEventReaderScan(o, 0, 1, &scanned);
             }},
            {"cusEventReaderMarks",
             [=, &part] {
                 cusEventMark marks[2];
                 return cusEventReaderMarks(o, &part, 1, marks);
             }},
            {"cusEventReaderSeekMark",
             [=, &part] {
                 cusEventMark marks[2] = {};
                 const cusStatus status = cusEventReaderMarks(o, &part, 1, marks);
                 return status == CUS_OK ? cusEventReaderSeekMark(o, &marks[0]) : status;
             }},
            {"cusEventReaderReadTriggers",
             [=] {
                 cusEventTrigger trigger;
                 size_t count = 0;
                 return cusEventReaderReadTriggers(o, 1, &trigger, &count);
             }},
            {"cusEventReaderRewindTriggers", [=] { return cusEventReaderRewindTriggers(o); }},
            {"cusEventReaderDecoder",
             [=] {
                 cusEventDecoderOptions options;
                 cusEventDecoderState state;
                 return cusEventReaderDecoder(o, &options, &state);
             }},
            {"cusEventReaderReadBytes",
             [=] {
                 uint8_t read[64];
                 size_t count = 0;
                 return cusEventReaderReadBytes(o, sizeof read, read, &count);
             },
             {CUS_ERROR_VALUE}}}; // after another thread's seek there is no decoder
}

cusEventFrames *openFrames(Kept &k) {
    const std::string path = k.file("recording.dat");
    std::ofstream(path, std::ios::binary) << eventio_test::DAT << std::string("\0\x08", 2) << std::string(8 * EVENTS, '\0');
    cusEventFramesOptions options = cusEventFramesDefaults();
    options.windowing.length = 50;
    options.batch_windows = 2;
    const cusRepresentation kind = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
    cusEventFrames *o = nullptr;
    const cusStatus made = cusEventFramesOpen(&o, path.c_str(), nullptr, &kind, 1, &options);
    return k.object(made, o, cusEventFramesClose);
}

std::vector<Call> eventFrames(Kept &k) {
    cusEventFrames *const o = openFrames(k);
    return {{"cusEventFramesNext",
             [=] {
                 cusFrameBatch batch;
                 return cusEventFramesNext(o, &batch);
             }},
            {"cusEventFramesRestart", [=] { return cusEventFramesRestart(o); }},
            {"cusEventFramesInfo",
             [=] {
                 cusEventInfo info;
                 return cusEventFramesInfo(o, &info);
             }},
            {"cusEventFramesQuery", [=] {
                 cusEventFramesCounts counts = {};
                 return cusEventFramesQuery(o, &counts);
             }}};
}

// Once for all: nothing else works afterwards.
std::vector<Call> eventFramesCanceled(Kept &k) {
    cusEventFrames *const o = openFrames(k);
    return {{"cusEventFramesCancel",
             [=] {
                 cusEventFramesCancel(o);
                 return CUS_OK;
             }},
            {"cusEventFramesNext",
             [=] {
                 cusFrameBatch batch;
                 return cusEventFramesNext(o, &batch);
             },
             {CUS_ERROR_CANCELLED}},
            {"cusEventFramesRestart", [=] { return cusEventFramesRestart(o); }, {CUS_ERROR_CANCELLED}}};
}

std::vector<Call> eventWriter(Kept &k) {
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.width = COLS;
    options.height = ROWS;
    options.format = CUS_EVENTS_DAT;
    cusEventWriter *o = nullptr;
    CUS_EXPECT_OK(cusEventWriterCreate(&o, k.file("events.dat").c_str(), &options));
    k.object(CUS_OK, o, cusEventWriterDiscard);
    const reference::Events &e = k.events();
    return {{"cusEventWriterWrite",
             [=, &e] { return cusEventWriterWrite(o, EVENTS, e.x.data(), e.y.data(), e.p.data(), e.t.data()); },
             {CUS_ERROR_VALUE}}, // the same times again
            {"cusEventWriterWriteTriggers",
             [=] {
                 const cusEventTrigger trigger = {};
                 return cusEventWriterWriteTriggers(o, 1, &trigger);
             },
             {CUS_ERROR_VALUE, CUS_ERROR_UNSUPPORTED}}};
}

std::vector<Call> frameWriter(Kept &k) {
    cusFrameWriter *o = nullptr;
    CUS_EXPECT_OK(cusFrameWriterCreate(&o, k.file("frames.h5").c_str(), ROWS, COLS, CUS_8UC1));
    k.object(CUS_OK, o, cusFrameWriterDiscard);
    cusMat &frame = k.picture(CUS_8UC1);
    return {{"cusFrameWriterWrite", [=, &frame] { return cusFrameWriterWrite(o, &frame); }},
            {"cusFrameWriterLabel", [=] { return cusFrameWriterLabel(o, "label"); }, {CUS_ERROR_IO}}}; // a second time
}

std::vector<Call> frameReader(Kept &k) {
    const std::string path = k.file("frames.h5");
    cusFrameWriter *writer = nullptr;
    CUS_EXPECT_OK(cusFrameWriterCreate(&writer, path.c_str(), ROWS, COLS, CUS_8UC1));
    for (int i = 0; i < 3; ++i)
        CUS_EXPECT_OK(cusFrameWriterWrite(writer, &k.picture(CUS_8UC1)));
    CUS_EXPECT_OK(cusFrameWriterFinish(writer));
    cusFrameFileInfo info;
    cusFrameReader *o = nullptr;
    const cusStatus made = cusFrameReaderOpen(&o, path.c_str(), &info);
    k.object(made, o, cusFrameReaderClose);
    return {{"cusFrameReaderStored", [=] {
                 std::vector<uint8_t> stored(ROWS * COLS);
                 size_t bytes = 0;
                 return cusFrameReaderStored(o, 1, stored.data(), &bytes);
             }}};
}

// ---- Live video --------------------------------------------------------------------------------------------------------

std::vector<Call> sender(Kept &k) {
    cusSender *o = nullptr;
    const cusStatus made = cusSenderCreate(&o, ROWS, COLS, CUS_8UC1, CUS_HOST, nullptr);
    k.object(made, o, cusSenderDestroy);
    cusMat &frame = k.picture(CUS_8UC1);
    const std::set<cusStatus> state = {CUS_ERROR_VALUE, CUS_ERROR_CAPACITY}; // too many frames, or none
    return {{"cusSenderSubmit", [=, &frame] { return cusSenderSubmit(o, &frame, 1, nullptr); }, state},
            {"cusSenderFinish",
             [=] {
                 cusSentFrame sent;
                 return cusSenderFinish(o, &sent);
             },
             state},
            {"cusSenderRelease", [=] { return cusSenderRelease(o); }, state},
            {"cusSenderReference", [=] {
                 cusMat view = CUS_MAT_INIT;
                 return cusSenderReference(o, &view);
             }}};
}

std::vector<Call> peer(Kept &k) {
    cusSender *video = nullptr;
    const cusStatus begun = cusSenderCreate(&video, ROWS, COLS, CUS_8UC1, CUS_HOST, nullptr);
    k.object(begun, video, cusSenderDestroy);
    cusSentFrame &frame = k.add<cusSentFrame>();
    CUS_EXPECT_OK(cusSenderSubmit(video, &k.picture(CUS_8UC1), 1, nullptr));
    CUS_EXPECT_OK(cusSenderFinish(video, &frame));
    cusPeer *o = nullptr;
    const cusStatus made = cusPeerCreate(&o, ROWS, COLS, CUS_8UC1, 25000);
    k.object(made, o, cusPeerDestroy);
    return {{"cusPeerInput", [=] { return cusPeerInput(o, "", 0); }},
            {"cusPeerOffer", [=, &frame] { return cusPeerOffer(o, &frame); }, {CUS_ERROR_VALUE}}, // the same frame again
            {"cusPeerOutput",
             [=] {
                 const uint8_t *data = nullptr;
                 size_t bytes = 0;
                 return cusPeerOutput(o, &data, &bytes);
             }},
            {"cusPeerSent", [=] { return cusPeerSent(o, 1); }, {CUS_ERROR_VALUE}},
            {"cusPeerFinish", [=] { return cusPeerFinish(o); }},
            {"cusPeerQuery", [=] {
                 cusPeerInfo info;
                 return cusPeerQuery(o, &info);
             }}};
}

std::vector<Call> viewer(Kept &k) {
    cusViewer *o = nullptr;
    const cusStatus made = cusViewerCreate(&o, nullptr);
    k.object(made, o, cusViewerDestroy);
    cusPeer *peer = nullptr;
    const cusStatus begun = cusPeerCreate(&peer, ROWS, COLS, CUS_8UC1, 25000);
    k.object(begun, peer, cusPeerDestroy);
    auto &hello = k.add<std::vector<uint8_t>>();
    const uint8_t *data = nullptr;
    size_t bytes = 0;
    CUS_EXPECT_OK(cusPeerOutput(peer, &data, &bytes));
    hello.assign(data, data + bytes);
    return {{"cusViewerInput",
             [=, &hello] {
                 size_t used = 0;
                 cusViewerUpdate update;
                 return cusViewerInput(o, hello.data(), hello.size(), &used, &update);
             },
             {CUS_ERROR_FORMAT}}, // a second hello
            {"cusViewerReconnect", [=] { return cusViewerReconnect(o); }},
            {"cusViewerOutput",
             [=] {
                 const uint8_t *waiting = nullptr;
                 size_t count = 0;
                 return cusViewerOutput(o, &waiting, &count);
             }},
            {"cusViewerSent", [=] { return cusViewerSent(o, 1); }, {CUS_ERROR_VALUE}},
            {"cusViewerFinish", [=] { return cusViewerFinish(o); }, {CUS_ERROR_FORMAT}},
            {"cusViewerQuery",
             [=] {
                 cusViewerInfo info;
                 return cusViewerQuery(o, &info);
             }},
            {"cusViewerFrame",
             [=] {
                 cusMat view = CUS_MAT_INIT;
                 return cusViewerFrame(o, &view);
             },
             {CUS_ERROR_VALUE}}}; // there is none
}

// ---- All of them -------------------------------------------------------------------------------------------------------

struct Case {
    const char *type;
    std::vector<Call> (*calls)(Kept &);
};

const Case CASES[] = {
    {"cusIntegrator", integrator},
    {"cusMatcher", matcher},
    {"cusPoseMatcher", poseMatcher},
    {"cusDiffEncoder", diffEncoder},
    {"cusDiffDecoder", diffDecoder},
    {"cusContourMapper", contourMapper},
    {"cusMotionDetector", motionDetector},
    {"cusEventStacker", eventStacker},
    {"cusEventPipeline", eventPipeline},
    {"cusEventDecoder", eventDecoder},
    {"cusEventFilter", eventFilter},
    {"cusEventGenerator", eventGenerator},
    {"cusEventReader", eventReader},
    {"cusEventFrames", eventFrames},
    {"cusEventFramesCanceled", eventFramesCanceled},
    {"cusEventWriter", eventWriter},
    {"cusFrameWriter", frameWriter},
    {"cusFrameReader", frameReader},
    {"cusSender", sender},
    {"cusPeer", peer},
    {"cusViewer", viewer},
};

// Live video needs libzstd.
bool isHere(const std::string &function) {
    support::Owned<cusViewerDestroy> made;
    static const bool have_zstd = cusViewerCreate(&made, nullptr) != CUS_ERROR_UNSUPPORTED;
    return have_zstd || !std::regex_match(function, std::regex("cus(Sender|Peer|Viewer)\\w*"));
}

class SharedObjects : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, SharedObjects, testing::ValuesIn(CASES),
                         [](const auto &each) { return std::string(each.param.type); });

TEST_P(SharedObjects, OnThreeThreads) {
    if (!isHere(GetParam().type))
        GTEST_SKIP() << "built without libzstd";
    Kept kept;
    const std::vector<Call> calls = GetParam().calls(kept);
    // One thread makes a single call again and again: what it does without the object's guard is ordered with nothing.
    std::string wrong[3];
    for (size_t own = 0; own < calls.size(); ++own) {
        std::atomic<int> waiting{3};
        const auto work = [&](size_t thread) {
            for (--waiting; waiting > 0;)
                std::this_thread::yield();
            for (size_t i = 0; i < 3 * calls.size() + 6; ++i) {
                const Call &call = calls[(thread ? i * thread + own : own) % calls.size()];
                const cusStatus status = call.run();
                if (status != CUS_OK && status != CUS_ERROR_BUSY && !call.also.count(status))
                    wrong[thread] = call.function + ": " + cusStatusName(status) + ", " + cusLastError();
            }
        };
        std::thread second(work, 1), third(work, 2);
        work(0);
        second.join();
        third.join();
    }
    for (const std::string &text : wrong)
        EXPECT_EQ(text, "");
}

// Functions whose first parameter is an object: a struct without fields in the headers. Those that end it are not called twice.
TEST(SharedObjectsTable, IsComplete) {
    std::ifstream table(support::sourceFile("test/packaging/interface.txt"));
    if (!table)
        GTEST_SKIP() << "the sources are not here";
    std::set<std::string> structs, expected, found;
    std::vector<std::pair<std::string, std::string>> functions;
    for (std::string line; std::getline(table, line);) {
        std::smatch parts;
        if (std::regex_match(line, parts, std::regex("struct (\\w+) .*")))
            structs.insert(parts[1]);
        else if (std::regex_match(
                     line, parts,
                     std::regex("function (\\w+) .*\\((?:int, )?(?:const )?(cus\\w+) \\*(?:const \\*)?(?:,.*)?\\)")))
            functions.emplace_back(parts[1], parts[2]);
    }
    ASSERT_TRUE(structs.count("cusMat"));
    const std::regex ending("\\w+(Create|Destroy|Close|Discard)|cus(Event|Frame)WriterFinish");
    for (const auto &[function, type] : functions)
        if (!structs.count(type) && !std::regex_match(function, ending) && isHere(function))
            expected.insert(function);
    for (const Case &c : CASES) {
        if (!isHere(c.type))
            continue;
        Kept kept;
        for (const Call &call : c.calls(kept))
            found.insert(call.function);
    }
    for (const std::string &function : expected)
        EXPECT_TRUE(found.erase(function)) << function << " has no case: no thread calls it beside another one";
    EXPECT_TRUE(found.empty()) << *found.begin() << " is no function of an object";
}

} // namespace

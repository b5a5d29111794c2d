// Rows of raw: bytes of event cameras in device memory to events, and the time from a camera's bytes on the host to a frame.
#include "harness/frames.hpp"

#include "cusight/eventframes.h"
#include "cusight/eventio.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>
#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace {

using perf::check;
using perf::Mat;

constexpr int WIDTH = 1280, HEIGHT = 720;

// splitmix64
class Numbers {
  public:
    uint32_t below(uint32_t n) {
        state_ += 0x9e3779b97f4a7c15u;
        uint64_t z = (state_ ^ state_ >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return static_cast<uint32_t>((z >> 32) * n >> 32);
    }

  private:
    uint64_t state_ = 7;
};

struct Recording {
    std::vector<uint8_t> bytes;
    size_t events = 0;
};

// EVT 3.0 of a moving scene: of four bursts in a row of the sensor three have two single events and a vector of half its 12 columns,
// one has two single events; `bursts_a_us` in a microsecond. 1.7 bytes an event. hot_pixel: a fifth of all events are on one pixel.
Recording evt3(size_t events, uint32_t bursts_a_us, bool hot_pixel = false) {
    Recording made;
    std::vector<uint16_t> words;
    words.reserve(events);
    Numbers random;
    int64_t last_high = -1;
    for (uint64_t burst = 0; made.events < events; ++burst) {
        const int64_t t = static_cast<int64_t>(burst / bursts_a_us);
        if (t >> 12 != last_high) {
            last_high = t >> 12;
            words.push_back(static_cast<uint16_t>(0x8000 | (last_high & 4095)));
        }
        if (burst % bursts_a_us == 0 || random.below(4) == 0)
            words.push_back(static_cast<uint16_t>(0x6000 | (t & 4095)));
        if (hot_pixel && random.below(3) == 0) {
            words.push_back(300);
            words.insert(words.end(), 5, 0x2000 | 0x800 | 777);
            made.events += 5;
        }
        words.push_back(static_cast<uint16_t>(random.below(HEIGHT)));
        const uint32_t x = random.below(WIDTH - 20), p = random.below(2) << 11;
        words.push_back(static_cast<uint16_t>(0x2000 | p | x));
        words.push_back(static_cast<uint16_t>(0x2000 | p | (x + 3)));
        made.events += 2;
        if (burst % 4) {
            const uint32_t mask = random.below(4096);
            words.push_back(static_cast<uint16_t>(0x3000 | p | (x + 6)));
            words.push_back(static_cast<uint16_t>(0x4000 | mask));
            made.events += static_cast<size_t>(__builtin_popcount(mask));
        }
    }
    words.push_back(0x8000 | 3500); // a long pause, after which the first time word is a wrap of the counter
    made.bytes.resize(words.size() * sizeof words[0]);
    std::memcpy(made.bytes.data(), words.data(), made.bytes.size());
    return made;
}

// EVT 2.0 at 50 million events a second.
Recording evt2(size_t events) {
    Recording made;
    std::vector<uint32_t> words;
    Numbers random;
    words.reserve(events + events / 3000);
    for (size_t i = 0; i < events; ++i) {
        const auto t = static_cast<uint32_t>(i / 50);
        if (i % 3200 == 0)
            words.push_back(8u << 28 | t >> 6);
        words.push_back(random.below(2) << 28 | (t & 63) << 22 | random.below(WIDTH) << 11 | random.below(HEIGHT));
    }
    words.push_back(8u << 28 | 0xfff0000); // a long pause
    made.events = events;
    made.bytes.resize(words.size() * sizeof words[0]);
    std::memcpy(made.bytes.data(), words.data(), made.bytes.size());
    return made;
}

// Device memory for events.
struct Arrays {
    explicit Arrays(size_t capacity)
        : x(1, static_cast<int>(capacity), CUS_16UC1, CUS_DEVICE), y(1, static_cast<int>(capacity), CUS_16UC1, CUS_DEVICE),
          p(1, static_cast<int>(capacity), CUS_8UC1, CUS_DEVICE), t(1, static_cast<int>(capacity), CUS_64FC1, CUS_DEVICE),
          buffers{x.as<uint16_t>(), y.as<uint16_t>(), p.as<uint8_t>(), t.as<int64_t>(), capacity, nullptr, 0} {}
    Mat x, y, p, t;
    cusEventBuffers buffers;
};

class Decoder {
  public:
    Decoder(cusEventFormat format, size_t max_bytes) {
        cusEventDecoderOptions options = cusEventDecoderDefaults();
        options.format = format;
        options.width = WIDTH;
        options.height = HEIGHT;
        options.space = CUS_DEVICE;
        options.max_bytes = max_bytes;
        check(cusEventDecoderCreate(&object_, &options));
        check(cusEventDecoderGetState(object_, &start_));
    }
    ~Decoder() { cusEventDecoderDestroy(object_); }
    Decoder(const Decoder &) = delete;
    Decoder &operator=(const Decoder &) = delete;
    operator cusEventDecoder *() const { return object_; }
    void restart() { check(cusEventDecoderSetState(object_, &start_)); }

  private:
    cusEventDecoder *object_ = nullptr;
    cusEventDecoderState start_ = {};
};

void upload(const std::vector<uint8_t> &bytes, const Mat &to) {
    cusMat from = CUS_MAT_INIT, there = to.mat;
    check(cusMatWrap(&from, 1, static_cast<int>(bytes.size()), CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
    check(cusMatUpload(&from, &there, nullptr));
    check(cusStreamSynchronize(nullptr));
}

// The same bytes over and over: after the pause at their end times go on.
void decode(const std::string &id, cusEventFormat format, const std::function<Recording()> &record) {
    if (!perf::wants(CUS_DEVICE) || !perf::haveGpu())
        return;
    const Recording recording = perf::listing() ? Recording() : record();
    const size_t size = std::max<size_t>(recording.bytes.size(), 1);
    const Mat bytes(1, static_cast<int>(size), CUS_8UC1, CUS_DEVICE);
    const Arrays events(std::max<size_t>(recording.events, 1));
    Decoder decoder(format, size);
    if (!perf::listing())
        upload(recording.bytes, bytes);
    perf::Row row("raw/" + id, CUS_DEVICE, static_cast<double>(size) + 13.0 * static_cast<double>(recording.events));
    row.note(std::to_string(size / 1000000) + " MB; bytes: read once, events written");
    row.measure([&](cusStream stream, int) {
        return cusEventDecoderRun(decoder, bytes.mat.data, recording.bytes.size(), &events.buffers, nullptr, stream);
    });
    row.report();
    if (!row.measured())
        return;
    cusEventDecoded done = {};
    check(cusEventDecoderCheck(decoder, &done, nullptr));
    EXPECT_EQ(done.count, recording.events);
}

TEST(Raw, Evt3) {
    decode("evt3/decode/250M", CUS_EVENTS_EVT3, [] { return evt3(250000000, 20); });
}

TEST(Raw, Evt2) {
    decode("evt2/decode/100M", CUS_EVENTS_EVT2, [] { return evt2(100000000); });
}

// Events of a moving scene: bursts of one to eight in a row of the sensor, or single ones.
class Scene {
  public:
    explicit Scene(bool bursts) : bursts_(bursts) {}
    void next(uint16_t &x, uint16_t &y, uint8_t &p, int64_t &t) {
        if (left_ == 0) {
            left_ = bursts_ ? 1 + random_.below(8) : 1;
            column_ = random_.below(WIDTH - 24);
            row_ = random_.below(HEIGHT);
            polarity_ = random_.below(2);
            now_ += random_.below(16) == 0;
        }
        x = static_cast<uint16_t>(column_);
        y = static_cast<uint16_t>(row_);
        p = static_cast<uint8_t>(polarity_);
        t = now_;
        column_ += 1 + random_.below(2);
        --left_;
    }

  private:
    const bool bursts_;
    Numbers random_;
    uint32_t left_ = 0, column_ = 0, row_ = 0, polarity_ = 0;
    int64_t now_ = 0;
};

// A file of Metavision's HDF5 with such events.
class ChunkedFile {
  public:
    ChunkedFile(cusEventFormat format, size_t events, bool bursts) : path_(testing::TempDir() + "cusight_perf.hdf5") {
        cusEventWriterOptions options = cusEventWriterDefaults();
        options.format = format;
        options.width = WIDTH;
        options.height = HEIGHT;
        cusEventWriter *writer = nullptr;
        check(cusEventWriterCreate(&writer, path_.c_str(), &options));
        constexpr size_t PIECE = 1 << 20;
        std::vector<uint16_t> x(PIECE), y(PIECE);
        std::vector<uint8_t> p(PIECE);
        std::vector<int64_t> t(PIECE);
        Scene scene(bursts);
        for (size_t first = 0; first < events; first += PIECE) {
            const size_t n = std::min(PIECE, events - first);
            for (size_t i = 0; i < n; ++i)
                scene.next(x[i], y[i], p[i], t[i]);
            check(cusEventWriterWrite(writer, n, x.data(), y.data(), p.data(), t.data()));
        }
        check(cusEventWriterFinish(writer));
        check(cusEventReaderOpen(&reader_, path_.c_str(), nullptr));
    }
    ~ChunkedFile() {
        cusEventReaderClose(reader_);
        std::remove(path_.c_str());
    }
    ChunkedFile(const ChunkedFile &) = delete;
    ChunkedFile &operator=(const ChunkedFile &) = delete;

    cusEventReader *reader() const { return reader_; }
    // The first bytes that a decoder takes.
    std::vector<uint8_t> bytes(size_t most) const {
        std::vector<uint8_t> made(most);
        cusEventDecoderOptions options;
        cusEventDecoderState start;
        size_t count = 0;
        check(cusEventReaderDecoder(reader_, &options, &start));
        check(cusEventReaderReadBytes(reader_, most, made.data(), &count));
        made.resize(count);
        return made;
    }

  private:
    const std::string path_;
    cusEventReader *reader_ = nullptr;
};

// Frames with up to so many events. Times do not wrap, so each run starts from the beginning.
void decodeFrames(const std::string &id, cusEventFormat format, size_t events,
                  const std::function<std::vector<uint8_t>()> &make) {
    if (!perf::wants(CUS_DEVICE) || !perf::haveGpu())
        return;
    const std::vector<uint8_t> stream = perf::listing() ? std::vector<uint8_t>() : make();
    const size_t size = std::max<size_t>(stream.size(), 1);
    const Mat bytes(1, static_cast<int>(size), CUS_8UC1, CUS_DEVICE);
    const Arrays arrays(perf::listing() ? 1 : events);
    Decoder decoder(format, size);
    cusEventDecoded done = {};
    if (!perf::listing()) { // how many events the bytes have
        upload(stream, bytes);
        check(cusEventDecoderRun(decoder, bytes.mat.data, size, &arrays.buffers, nullptr, nullptr));
        check(cusEventDecoderCheck(decoder, &done, nullptr));
    }
    perf::Row row("raw/" + id, CUS_DEVICE, static_cast<double>(size) + 13.0 * static_cast<double>(done.count));
    row.note(std::to_string(size / 1000000) + " MB, " + std::to_string(done.count / 1000000) +
             " M events; bytes: read once, events written; with SetState before and Check after");
    row.wallClock();
    row.measure([&](cusStream stream_, int) {
        decoder.restart();
        check(cusEventDecoderRun(decoder, bytes.mat.data, size, &arrays.buffers, nullptr, stream_));
        return cusEventDecoderCheck(decoder, nullptr, stream_);
    });
    row.report();
}

// Metavision's HDF5 in ECF, and M3ED's, whose columns are compressed by LZF.
void decodeFile(const std::string &id, cusEventFormat format, size_t events, bool bursts, size_t most) {
    decodeFrames(id, format == CUS_EVENTS_M3ED ? CUS_EVENTS_HDF5 : format, events,
                 [=] { return ChunkedFile(format, events, bursts).bytes(most); });
}

TEST(Raw, Ecf) {
    decodeFile("ecf/decode/bursts/100M", CUS_EVENTS_METAVISION, 100000000, true, size_t{1} << 29);
    decodeFile("ecf/decode/singles/50M", CUS_EVENTS_METAVISION, 50000000, false, size_t{1} << 29);
    decodeFile("ecf/decode/bursts/8MiB", CUS_EVENTS_METAVISION, 8000000, true, size_t{8} << 20); // a pipeline's piece
}

TEST(Raw, Hdf5Lzf) {
    decodeFile("hdf5-lzf/decode/bursts/100M", CUS_EVENTS_M3ED, 100000000, true, size_t{1} << 29);
    decodeFile("hdf5-lzf/decode/singles/50M", CUS_EVENTS_M3ED, 50000000, false, size_t{1} << 29);
    decodeFile("hdf5-lzf/decode/bursts/32MiB", CUS_EVENTS_M3ED, 12000000, true, size_t{32} << 20); // a pipeline's piece
}

#ifdef CUSIGHT_HAVE_CUDA
// Work in a stream, captured once and launched as one.
class Graph {
  public:
    explicit Graph(const std::function<void(cusStream)> &work) {
        cudaGraph_t graph = nullptr;
        expect(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        expect(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
        work(reinterpret_cast<cusStream>(stream_));
        expect(cudaStreamEndCapture(stream_, &graph));
        expect(cudaGraphInstantiate(&ready_, graph, 0));
        expect(cudaGraphDestroy(graph));
    }
    ~Graph() {
        cudaGraphExecDestroy(ready_);
        cudaStreamDestroy(stream_);
    }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;
    cusStream stream() const { return reinterpret_cast<cusStream>(stream_); }
    void launch() const { expect(cudaGraphLaunch(ready_, stream_)); }

  private:
    static void expect(cudaError_t status) {
        if (status != cudaSuccess)
            throw std::runtime_error(cudaGetErrorString(status));
    }
    cudaStream_t stream_ = nullptr;
    cudaGraphExec_t ready_ = nullptr;
};

// One millisecond of a camera's bytes at a billion events a second, in page-locked memory, to a histogram on the device: upload,
// decode, wait for the number of events, make the frame, wait for it.
class Camera {
  public:
    explicit Camera(const Recording &recording)
        : size_(std::max<size_t>(recording.bytes.size(), 1)), bytes_(1, static_cast<int>(size_), CUS_8UC1, CUS_DEVICE),
          events_(std::max<size_t>(recording.events, 1)), decoder_(CUS_EVENTS_EVT3, size_) {
        const cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        check(cusEventStackerCreate(&stacker_, HEIGHT, WIDTH, CUS_DEVICE, &histogram, 1));
        check(cusMatCreatePinned(&pinned_.mat, 1, static_cast<int>(size_), CUS_8UC1));
        check(cusMatCreatePinned(&decoded_.mat, 1, static_cast<int>(sizeof(cusEventDecoded)), CUS_8UC1));
        std::copy(recording.bytes.begin(), recording.bytes.end(), pinned_.as<uint8_t>());
    }
    ~Camera() { cusEventStackerDestroy(stacker_); }
    Camera(const Camera &) = delete;
    Camera &operator=(const Camera &) = delete;

    void decode(cusStream stream) {
        check(cusMatUpload(&pinned_.mat, &bytes_.mat, stream));
        check(
            cusEventDecoderRun(decoder_, bytes_.mat.data, size_, &events_.buffers, decoded_.as<cusEventDecoded>(), stream));
    }
    // The frame of what is being decoded in the stream.
    void finish(cusStream stream) {
        check(cusStreamSynchronize(stream));
        const auto &done = *decoded_.as<cusEventDecoded>();
        check(static_cast<cusStatus>(done.status));
        const cusEventArrays arrays = {events_.buffers.x, events_.buffers.y, events_.buffers.p,
                                       events_.buffers.t, done.count,        CUS_DEVICE};
        const cusEventWindow window = {0, done.count};
        check(cusEventStack(stacker_, &arrays, &window, 1, &frame_.mat, stream));
        check(cusStreamSynchronize(stream));
    }

  private:
    size_t size_;
    Mat bytes_;
    Arrays events_;
    Mat pinned_, decoded_, frame_;
    Decoder decoder_;
    cusEventStacker *stacker_ = nullptr;
};

// Packets of EVT3 to a pipeline with low_latency; each ends a window, whose histogram is on the device when the push returns.
class Packets {
  public:
    explicit Packets(const Recording &recording) : size_(std::max<size_t>(recording.bytes.size(), 1)) {
        cusEventDecoderOptions decoder = cusEventDecoderDefaults();
        decoder.format = CUS_EVENTS_EVT3;
        decoder.width = WIDTH;
        decoder.height = HEIGHT;
        cusEventPipelineOptions options = cusEventPipelineDefaults();
        options.windowing.length = std::max<size_t>(recording.events, 1);
        options.compute = options.deliver = CUS_DEVICE;
        options.decoder = &decoder;
        options.low_latency = 1;
        const cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        const cusFrameSink wait = [](void *frames, const cusFrameBatch *batch) {
            *static_cast<uint64_t *>(frames) += batch->count;
            return cusStreamSynchronize(batch->stream);
        };
        check(cusEventPipelineCreate(&pipeline_, HEIGHT, WIDTH, &histogram, 1, &options, wait, &frames_));
        check(cusMatCreatePinned(&pinned_.mat, 1, static_cast<int>(size_), CUS_8UC1));
        std::copy(recording.bytes.begin(), recording.bytes.end(), pinned_.as<uint8_t>());
    }
    ~Packets() { cusEventPipelineDestroy(pipeline_); }
    Packets(const Packets &) = delete;
    Packets &operator=(const Packets &) = delete;

    void push() {
        const uint64_t before = frames_;
        check(cusEventPipelinePushBytes(pipeline_, pinned_.mat.data, size_));
        if (frames_ != before + 1)
            throw std::runtime_error("a packet is not a frame");
    }

  private:
    size_t size_;
    Mat pinned_;
    uint64_t frames_ = 0;
    cusEventPipeline *pipeline_ = nullptr;
};

// 100,000 calls, or for so many seconds a call each millisecond, as a camera sends packets, timed from when it is due.
std::vector<double> latencies(const std::function<void()> &frame, const char *seconds) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> microseconds(seconds ? std::strtoul(seconds, nullptr, 10) * 1000 : 100000);
    frame();
    auto due = Clock::now();
    for (double &took : microseconds) {
        for (due += std::chrono::milliseconds(1); seconds && Clock::now() < due;) {
        }
        const auto start = seconds ? due : Clock::now();
        frame();
        took = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
    return microseconds;
}

void latency(const std::string &id, const std::string &what, const std::function<void()> &frame, bool many = false) {
    const char *const seconds = many ? std::getenv("CUSIGHT_LATENCY_SECONDS") : nullptr;
    perf::Row row(seconds ? id + "/" + seconds + "s" : id, CUS_DEVICE, 0);
    std::string note = what;
    if (many && !perf::listing()) {
        std::vector<double> took = latencies(frame, seconds);
        if (seconds) // a packet that is lost, and so no frame, ends the run
            note += "; 1,000 packets a second, 0 lost, " +
                    std::to_string(std::count_if(took.begin(), took.end(), [](double us) { return us > 1000; })) +
                    " took more than a millisecond";
        row.calls(std::move(took));
    }
    row.note(note);
    row.wallClock();
    row.measure([&](cusStream, int) { frame(); });
    row.report();
}

TEST(Raw, Latency) {
    if (!perf::wants(CUS_DEVICE) || !perf::haveGpu())
        return;
    const auto packet = [](const std::string &id, const std::string &what, size_t events, bool hot_pixel, bool many) {
        Packets packets(perf::listing() ? Recording() : evt3(events, 160, hot_pixel));
        latency(
            "raw/evt3/" + id, what + " from host memory to a frame; pipeline with low_latency", [&] { packets.push(); },
            many);
    };
    packet("latency-1ms", "1,000,000 events", 1000000, false, true);
    packet("latency-100k", "100,000 events", 100000, false, false);
    packet("latency-1ms-hot-pixel", "1,000,000 events, a fifth on one pixel,", 1000000, true, false);
    Camera camera(perf::listing() ? Recording() : evt3(1000000, 160));
    const std::string what = "1,000,000 events from host memory to a frame; decoder, then stacker";
    latency("raw/evt3/latency-1ms/stacker", what, [&] {
        camera.decode(nullptr);
        camera.finish(nullptr);
    });
    std::unique_ptr<Graph> graph;
    if (!perf::listing())
        graph = std::make_unique<Graph>([&](cusStream stream) { camera.decode(stream); });
    latency("raw/evt3/latency-1ms/graph", what + "; upload and decoder are a graph", [&] {
        graph->launch();
        camera.finish(graph->stream());
    });
}
#endif

// A pipeline that leaves histograms of a million events on the device; decoder NULL: it takes events.
class HistogramPipeline {
  public:
    explicit HistogramPipeline(const cusEventDecoderOptions *decoder) {
        cusEventPipelineOptions options = cusEventPipelineDefaults();
        options.windowing.length = 1000000;
        options.windowing.keep_incomplete = 0;
        options.compute = options.deliver = CUS_DEVICE;
        options.decoder = decoder;
        const cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        check(cusEventPipelineCreate(
            &object_, HEIGHT, WIDTH, &histogram, 1, &options, [](void *, const cusFrameBatch *) { return CUS_OK; },
            nullptr));
    }
    ~HistogramPipeline() { cusEventPipelineDestroy(object_); }
    HistogramPipeline(const HistogramPipeline &) = delete;
    HistogramPipeline &operator=(const HistogramPipeline &) = delete;
    operator cusEventPipeline *() const { return object_; }

  private:
    cusEventPipeline *object_ = nullptr;
};

cusEventDecoderOptions evt3Options() {
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    options.format = CUS_EVENTS_EVT3;
    options.width = WIDTH;
    options.height = HEIGHT;
    return options;
}

// All that a file in the page cache needs to get to the device: each thread reads pieces into two page-locked buffers of its own, from
// which they are copied.
class ReadAndCopy {
  public:
    ReadAndCopy(const std::string &path, size_t size) : size_(size), to_(1, static_cast<int>(size), CUS_8UC1, CUS_DEVICE) {
        file_ = open(path.c_str(), O_RDONLY);
        for (unsigned k = 0; k < std::max(1u, std::thread::hardware_concurrency()); ++k)
            lanes_.push_back(std::make_unique<Lane>());
    }
    ~ReadAndCopy() { close(file_); }
    ReadAndCopy(const ReadAndCopy &) = delete;
    ReadAndCopy &operator=(const ReadAndCopy &) = delete;

    void run() {
        next_ = 0;
        std::vector<std::thread> threads;
        for (const auto &lane : lanes_)
            threads.emplace_back([this, &lane] { copyAll(*lane); });
        for (std::thread &thread : threads)
            thread.join();
    }

  private:
    static constexpr size_t PIECE = size_t{4} << 20;
    struct Lane {
        Mat pinned[2];
        cusStream stream = nullptr;
        cusStreamEvent copied[2] = {};
        Lane() {
            check(cusStreamCreate(&stream));
            for (int k = 0; k < 2; ++k) {
                check(cusMatCreatePinned(&pinned[k].mat, 1, PIECE, CUS_8UC1));
                check(cusStreamEventCreate(&copied[k]));
            }
        }
        ~Lane() {
            for (cusStreamEvent event : copied)
                cusStreamEventDestroy(event);
            cusStreamDestroy(stream);
        }
        Lane(const Lane &) = delete;
        Lane &operator=(const Lane &) = delete;
    };

    void copyAll(Lane &lane) {
        for (int k = 0;; k = 1 - k) {
            const size_t at = next_.fetch_add(PIECE);
            if (at >= size_)
                break;
            const size_t n = std::min(PIECE, size_ - at);
            check(cusStreamEventSynchronize(lane.copied[k]));
            if (pread(file_, lane.pinned[k].mat.data, n, static_cast<off_t>(at)) != static_cast<ssize_t>(n))
                throw std::runtime_error("pread");
            cusMat from = CUS_MAT_INIT, to = CUS_MAT_INIT;
            check(cusMatWrap(&from, 1, static_cast<int>(n), CUS_8UC1, CUS_HOST, lane.pinned[k].mat.data, 0));
            check(cusMatWrap(&to, 1, static_cast<int>(n), CUS_8UC1, CUS_DEVICE, static_cast<char *>(to_.mat.data) + at, 0));
            check(cusMatUpload(&from, &to, lane.stream));
            check(cusStreamEventRecord(lane.copied[k], lane.stream));
        }
        check(cusStreamSynchronize(lane.stream));
    }

    size_t size_;
    int file_;
    Mat to_;
    std::atomic<size_t> next_{0};
    std::vector<std::unique_ptr<Lane>> lanes_;
};

// Frames of a recording in cusEventFrames: all of them, `length` events each, from where `reader` is.
class FramesOfAll {
  public:
    FramesOfAll(cusEventReader *reader, uint64_t length) {
        cusEventFramesOptions options = cusEventFramesDefaults();
        options.compute = options.deliver = CUS_DEVICE;
        options.windowing.length = length ? length : options.windowing.length;
        const cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        check(cusEventFramesOpenReader(&frames_, reader, &histogram, 1, &options));
    }
    ~FramesOfAll() { cusEventFramesClose(frames_); }
    FramesOfAll(const FramesOfAll &) = delete;
    FramesOfAll &operator=(const FramesOfAll &) = delete;

    void run() {
        cusFrameBatch batch;
        check(cusEventFramesRestart(frames_));
        do
            check(cusEventFramesNext(frames_, &batch));
        while (batch.count > 0);
    }

  private:
    cusEventFrames *frames_ = nullptr;
};

// From page-locked memory, beside the upload of the bytes alone; and from a file in the page cache.
TEST(Raw, BytesToHistograms) {
    if (!perf::wants(CUS_DEVICE) || !perf::haveGpu())
        return;
    const Recording recording = perf::listing() ? Recording() : evt3(250000000, 20);
    const size_t size = std::max<size_t>(recording.bytes.size(), 1);
    const std::string amount = std::to_string(size / 1000000) + " MB, 250 M events";
    Mat pinned;
    check(cusMatCreatePinned(&pinned.mat, 1, static_cast<int>(size), CUS_8UC1));
    if (!perf::listing())
        std::memcpy(pinned.mat.data, recording.bytes.data(), recording.bytes.size());
    {
        Mat bytes(1, static_cast<int>(size), CUS_8UC1, CUS_DEVICE);
        perf::Row row("raw/evt3/upload", CUS_DEVICE, static_cast<double>(size));
        row.note(amount + " from page-locked memory to the device");
        row.wallClock();
        row.measure([&](cusStream stream, int) {
            check(cusMatUpload(&pinned.mat, &bytes.mat, stream));
            check(cusStreamSynchronize(stream));
        });
        row.report();
    }
    const cusEventDecoderOptions how = evt3Options();
    const HistogramPipeline pipeline(&how);
    {
        perf::Row row("raw/evt3/host-to-histograms", CUS_DEVICE, static_cast<double>(size));
        row.note(amount + " from page-locked memory to histograms on the device");
        row.wallClock();
        row.measure([&](cusStream, int) {
            check(cusEventPipelinePushBytes(pipeline, pinned.mat.data, recording.bytes.size()));
            return cusEventPipelineFlush(pipeline);
        });
        row.report();
    }
    const std::string path = testing::TempDir() + "cusight_perf.raw";
    cusEventReader *reader = nullptr;
    if (!perf::listing()) {
        std::FILE *file = std::fopen(path.c_str(), "wb");
        ASSERT_NE(file, nullptr);
        std::fputs("% evt 3.0\n% geometry 1280x720\n% end\n", file);
        ASSERT_EQ(std::fwrite(recording.bytes.data(), 1, recording.bytes.size(), file), recording.bytes.size());
        ASSERT_EQ(std::fclose(file), 0);
        check(cusEventReaderOpen(&reader, path.c_str(), nullptr));
    }
    {
        perf::Row row("raw/evt3/file-to-histograms", CUS_DEVICE, static_cast<double>(size));
        row.note(amount + " from a file in the page cache to histograms on the device");
        row.wallClock();
        row.measure([&](cusStream, int) {
            cusEventDecoderOptions options;
            cusEventDecoderState state;
            check(cusEventReaderDecoder(reader, &options, &state));
            constexpr size_t PIECE = size_t{32} << 20;
            for (size_t count = PIECE; count == PIECE;) {
                check(cusEventReaderReadBytes(reader, PIECE, pinned.mat.data, &count));
                check(cusEventPipelinePushBytes(pipeline, pinned.mat.data, count));
            }
            return cusEventPipelineFlush(pipeline);
        });
        row.report();
    }
    {
        std::unique_ptr<FramesOfAll> frames;
        std::unique_ptr<ReadAndCopy> floor;
        if (!perf::listing()) {
            frames = std::make_unique<FramesOfAll>(reader, 0);
            floor = std::make_unique<ReadAndCopy>(path, size);
        }
        perf::Row row("frames/evt3/250M", CUS_DEVICE, static_cast<double>(size));
        row.note(amount + " from a file in the page cache to histograms on the device, by cusEventFrames");
        row.wallClock();
        row.measure([&](cusStream, int) { frames->run(); });
        row.peer("pread and copy", [&](cusStream, int) { floor->run(); });
        row.report();
    }
    cusEventReaderClose(reader);
    reader = nullptr;
    {
        std::unique_ptr<FramesOfAll> frames;
        if (!perf::listing()) {
            cusEventReaderOptions options = cusEventReaderDefaults();
            options.pin_file = 1;
            check(cusEventReaderOpen(&reader, path.c_str(), &options));
            FramesOfAll(reader, 0).run();
            check(cusEventReaderSeekIndex(reader, 0));
            frames = std::make_unique<FramesOfAll>(reader, 200000);
        }
        perf::Row row("frames/evt3/again", CUS_DEVICE, static_cast<double>(size));
        row.note(amount + " from a file that is pinned to histograms of 200,000 events, in a later pass of cusEventFrames");
        row.wallClock();
        row.measure([&](cusStream, int) { frames->run(); });
        row.report();
    }
    cusEventReaderClose(reader);
    std::remove(path.c_str());
}

// A file in the page cache to histograms on the device: its chunks are uploaded, or its events.
void fileToHistograms(const std::string &id, cusEventFormat format, size_t piece) {
    if (!perf::wants(CUS_DEVICE) || !perf::haveGpu())
        return;
    constexpr size_t EVENTS = 100000000, PIECE_EVENTS = 2000000;
    std::unique_ptr<ChunkedFile> file;
    cusEventDecoderOptions how = cusEventDecoderDefaults();
    cusEventDecoderState state;
    if (!perf::listing()) {
        file = std::make_unique<ChunkedFile>(format, EVENTS, true);
        check(cusEventReaderDecoder(file->reader(), &how, &state));
    } else {
        how.format = CUS_EVENTS_METAVISION;
    }
    Mat pinned;
    check(cusMatCreatePinned(&pinned.mat, 1, static_cast<int>(piece), CUS_8UC1));
    {
        const HistogramPipeline pipeline(&how);
        perf::Row row(id, CUS_DEVICE, 0);
        row.note("100 M events from a file in the page cache to histograms on the device; chunks are uploaded");
        row.wallClock();
        row.measure([&](cusStream, int) {
            check(cusEventReaderDecoder(file->reader(), &how, &state));
            for (size_t count = piece; count == piece;) {
                check(cusEventReaderReadBytes(file->reader(), piece, pinned.mat.data, &count));
                check(cusEventPipelinePushBytes(pipeline, pinned.mat.data, count));
            }
            return cusEventPipelineFlush(pipeline);
        });
        row.report();
    }
    Mat x, y, p, t;
    check(cusMatCreatePinned(&x.mat, 1, PIECE_EVENTS, CUS_16UC1));
    check(cusMatCreatePinned(&y.mat, 1, PIECE_EVENTS, CUS_16UC1));
    check(cusMatCreatePinned(&p.mat, 1, PIECE_EVENTS, CUS_8UC1));
    check(cusMatCreatePinned(&t.mat, 1, PIECE_EVENTS, CUS_64FC1));
    const HistogramPipeline pipeline(nullptr);
    perf::Row row(id + "/events", CUS_DEVICE, 0);
    row.note("the same; the CPU decodes on all cores, and events are uploaded");
    row.wallClock();
    row.measure([&](cusStream, int) {
        check(cusEventReaderSeekIndex(file->reader(), 0));
        for (size_t count = PIECE_EVENTS; count == PIECE_EVENTS;) {
            check(cusEventReaderRead(file->reader(), PIECE_EVENTS, x.as<uint16_t>(), y.as<uint16_t>(), p.as<uint8_t>(),
                                     t.as<int64_t>(), &count));
            const cusEventArrays events = {x.as<uint16_t>(), y.as<uint16_t>(), p.as<uint8_t>(), t.as<int64_t>(), count,
                                           CUS_HOST};
            check(cusEventPipelinePush(pipeline, &events));
        }
        return cusEventPipelineFlush(pipeline);
    });
    row.report();
}

TEST(Raw, EcfToHistograms) {
    fileToHistograms("raw/ecf/file-to-histograms", CUS_EVENTS_METAVISION, size_t{32} << 20);
}

TEST(Raw, Hdf5LzfToHistograms) {
    fileToHistograms("raw/hdf5-lzf/file-to-histograms", CUS_EVENTS_M3ED, size_t{64} << 20);
}

} // namespace

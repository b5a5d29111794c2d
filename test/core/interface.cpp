// What holds for every struct and function of the interface, which test/packaging/interface.txt lists: reserved fields must be 0, and
// are 0 in results; numbers that are out of range or not finite are refused. The test fails for a function with such a struct that it
// does not know.
#include "cusight/cusight.h"
#include "support.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <sstream>

namespace {

// ---- The table -----------------------------------------------------------------------------------------------------------

struct Field {
    std::string name, type; // of a struct within a struct: "windowing.unit"
    size_t offset, size;
};

struct Table {
    std::map<std::string, std::vector<Field>> structs; // as declared
    std::map<std::string, size_t> sizes;
    std::map<std::string, std::vector<int64_t>> enums;
    std::map<std::string, std::string> functions; // the types of their parameters

    Table() {
        std::ifstream file(support::sourceFile("test/packaging/interface.txt"));
        std::string line, owner;
        bool is_enum = false;
        while (std::getline(file, line)) {
            std::istringstream words(line);
            std::string kind, name, rest;
            words >> kind >> name;
            if (kind == "function") {
                functions[name] = line.substr(line.find('(') + 1);
            } else if (kind == "struct") {
                owner = name, is_enum = false;
                words >> sizes[name];
            } else if (kind == "enum") {
                owner = name, is_enum = true;
            } else if (is_enum) {
                enums[owner].push_back(std::stoll(name));
            } else if (line[0] == ' ') {
                Field field{kind, {}, std::stoul(name), 0};
                words >> field.size;
                std::getline(words >> std::ws, field.type);
                structs[owner].push_back(field);
            }
        }
    }

    // The fields of a struct and of the structs in it; elements of `reserved` one by one.
    std::vector<Field> flat(const std::string &name) const {
        std::vector<Field> found;
        for (const Field &field : structs.at(name))
            if (structs.count(field.type))
                for (Field inner : flat(field.type)) {
                    inner.name = field.name + "." + inner.name;
                    inner.offset += field.offset;
                    found.push_back(inner);
                }
            else if (isReserved(field))
                for (size_t i = 0; i < field.size / 8; ++i)
                    found.push_back({field.name + "[" + std::to_string(i) + "]", "reserved", field.offset + 8 * i, 8});
            else
                found.push_back(field);
        return found;
    }
    static bool isReserved(const Field &field) { return field.name == "reserved" && field.type.rfind("uint64_t[", 0) == 0; }
    bool mayGrow(const std::string &name) const { return structs.count(name) && isReserved(structs.at(name).back()); }

    // {function, struct} for all that take "const S *" (or "S *") with S that may grow, also by a pointer in such a struct.
    std::set<std::pair<std::string, std::string>> takers(const std::string &before) const {
        std::set<std::pair<std::string, std::string>> found;
        for (const auto &[name, fields] : structs)
            for (const auto &[function, parameters] : functions)
                if (mayGrow(name) && (", " + parameters).find(", " + before + name + " *") != std::string::npos &&
                    (", " + parameters).find(", " + before + name + " **") == std::string::npos) {
                    found.insert({function, name});
                    for (const Field &field : fields)
                        for (const auto &pointed : structs)
                            if (mayGrow(pointed.first) && field.type == "const " + pointed.first + " *")
                                found.insert({function, pointed.first});
                }
        return found;
    }
};

const Table &table() {
    static const Table read;
    return read;
}

// ---- Calls ---------------------------------------------------------------------------------------------------------------

// A struct that a function accepts, and the function's call with another one.
struct Use {
    std::string type, function, owner; // owner: "options->"
    std::vector<char> valid;
    std::function<cusStatus(const void *)> call;
};

// A function that fills a struct.
struct Result {
    std::string type, function;
    std::function<cusStatus(void *)> call;
};

// The status of a creation, whose object is destroyed at once.
template<class Object, class Create, class Destroy>
cusStatus created(Create create, Destroy destroy) {
    Object *object = nullptr;
    const cusStatus status = create(&object);
    destroy(object);
    return status;
}

class Interface : public testing::Test {
  protected:
    Interface()
        : gray(16, 24, CUS_8UC1, CUS_HOST), other(16, 24, CUS_8UC1, CUS_HOST), small(4, 4, CUS_8UC1, CUS_HOST),
          half(8, 12, CUS_8UC2, CUS_HOST), elevation(16, 24, CUS_16UC1, CUS_HOST) {
        pictures();
        searches();
        stereo();
        events();
        recordings();
        live();
    }
    template<class S, class Call>
    void use(const char *type, const char *function, const S &valid, Call call, const char *owner = "options->") {
        EXPECT_EQ(sizeof(S), table().sizes.at(type)) << type;
        const char *const bytes = reinterpret_cast<const char *>(&valid);
        uses.push_back({type, function, owner, {bytes, bytes + sizeof valid}, [call](const void *given) {
                            return call(static_cast<const S *>(given));
                        }});
    }
    template<class S, class Call>
    void fills(const char *type, const char *function, S, Call call) {
        results.push_back({type, function, [call](void *given) { return call(static_cast<S *>(given)); }});
    }

    void pictures() {
        const cusDeviceAllocator allocator = {[](size_t, int, cusStream, void *) -> void * { return nullptr; },
                                              [](void *, size_t, int, cusStream, void *) {},
                                              nullptr,
                                              {}};
        use(
            "cusDeviceAllocator", "cusSetDeviceAllocator", allocator,
            [](const cusDeviceAllocator *a) {
                const cusStatus status = cusSetDeviceAllocator(a);
                if (status == CUS_OK)
                    cusSetDeviceAllocator(nullptr);
                return status;
            },
            "allocator->");
        fills("cusDeviceInfo", "cusDeviceQuery", cusDeviceInfo(),
              [](cusDeviceInfo *info) { return cusDeviceQuery(0, info); });
        use("cusHeatmapOptions", "cusHeatmap", cusHeatmapDefaults(),
            [this](const cusHeatmapOptions *o) { return cusHeatmap(&gray.mat, &other.mat, &out, o, nullptr); });
        use("cusHeatmapOptions", "cusHeatmapBatch", cusHeatmapDefaults(),
            [this](const cusHeatmapOptions *o) { return cusHeatmapBatch(1, &gray.mat, &other.mat, &out, o, nullptr); });
        use("cusDiffOptions", "cusDiffEncoderCreate", cusDiffDefaults(), [](const cusDiffOptions *o) {
            return created<cusDiffEncoder>([&](auto e) { return cusDiffEncoderCreate(e, 16, 24, CUS_8UC1, CUS_HOST, o); },
                                           cusDiffEncoderDestroy);
        });
        use("cusIntegralOptions", "cusIntegral", cusIntegralDefaults(),
            [this](const cusIntegralOptions *o) { return cusIntegral(&gray.mat, &out, nullptr, o, nullptr); });
        use("cusIntegralOptions", "cusIntegratorRun", cusIntegralDefaults(), [this](const cusIntegralOptions *o) {
            cusStatus status = CUS_OK;
            CUS_TRY(created<cusIntegrator>(
                [&](auto i) {
                    const cusStatus made = cusIntegratorCreate(i, 16, 24, CUS_HOST);
                    status = cusIntegratorRun(*i, &gray.mat, &out, nullptr, o, nullptr);
                    return made;
                },
                cusIntegratorDestroy));
            return status;
        });
        use("cusIntegralOptions", "cusIntegratorRunBatch", cusIntegralDefaults(), [this](const cusIntegralOptions *o) {
            cusStatus status = CUS_OK;
            CUS_TRY(created<cusIntegrator>(
                [&](auto i) {
                    const cusStatus made = cusIntegratorCreate(i, 16, 24, CUS_HOST);
                    status = cusIntegratorRunBatch(*i, 1, &gray.mat, &out, nullptr, o, nullptr);
                    return made;
                },
                cusIntegratorDestroy));
            return status;
        });
        use("cusYuvOptions", "cusYuvToBgr", cusYuvDefaults(),
            [this](const cusYuvOptions *o) { return cusYuvToBgr(&gray.mat, &half.mat, nullptr, o, &out, nullptr); });
        use("cusYuvOptions", "cusYuvToGray", cusYuvDefaults(),
            [this](const cusYuvOptions *o) { return cusYuvToGray(&gray.mat, o, &out, nullptr); });
        const auto detector = [](const cusMotionOptions *o, cusMotionResults *filled) {
            return created<cusMotionDetector>(
                [&](auto d) {
                    CUS_TRY(cusMotionDetectorCreate(d, 1, 16, 24, CUS_8UC1, o));
                    return filled ? cusMotionDetectorResults(*d, filled) : CUS_OK;
                },
                cusMotionDetectorDestroy);
        };
        use("cusMotionOptions", "cusMotionDetectorCreate", cusMotionDefaults(),
            [detector](const cusMotionOptions *o) { return detector(o, nullptr); });
        fills("cusMotionResults", "cusMotionDetectorResults", cusMotionResults(),
              [detector](cusMotionResults *r) { return detector(nullptr, r); });
    }

    void searches() {
        use("cusMatcherOptions", "cusMatcherCreate", cusMatcherDefaults(), [this](const cusMatcherOptions *o) {
            return created<cusMatcher>([&](auto m) { return cusMatcherCreate(m, &small.mat, 1, 16, 24, o, nullptr); },
                                       cusMatcherDestroy);
        });
        cusPoseOptions poses = cusPoseDefaults();
        poses.angles = {0, 10, 5, nullptr, 0};
        poses.scales = {1, 1.5, 0.25, nullptr, 0};
        use("cusPoseOptions", "cusPoseMatcherCreate", poses, [this](const cusPoseOptions *o) {
            return created<cusPoseMatcher>([&](auto m) { return cusPoseMatcherCreate(m, &small.mat, 16, 24, o, nullptr); },
                                           cusPoseMatcherDestroy);
        });
    }

    void stereo() {
        cusStereoOptions options = cusStereoDefaults();
        options.shifts = 8;
        const auto stage = [&](const char *function, auto call) { use("cusStereoOptions", function, options, call); };
        using Options = const cusStereoOptions *;
        stage("cusStereoEdges", [this](Options o) { return cusStereoEdges(&gray.mat, &out, o, nullptr); });
        stage("cusStereoCensus", [this](Options o) { return cusStereoCensus(&gray.mat, &out, o, nullptr); });
        stage("cusStereoElevation",
              [this](Options o) { return cusStereoElevation(&gray.mat, &other.mat, &out, o, nullptr); });
        stage("cusStereoElevationConfidence",
              [this](Options o) { return cusStereoElevationConfidence(&gray.mat, &other.mat, &out, &second, o, nullptr); });
        stage("cusStereoFindShifts", [this](Options o) {
            int shifts = 0;
            return cusStereoFindShifts(&gray.mat, &other.mat, &shifts, o, nullptr);
        });
        stage("cusStereoFilterSpeckles",
              [this](Options o) { return cusStereoFilterSpeckles(&elevation.mat, &out, o, nullptr); });
        stage("cusStereoFill", [this](Options o) { return cusStereoFill(&elevation.mat, &out, o, nullptr); });
        stage("cusStereoContours", [this](Options o) { return cusStereoContours(&elevation.mat, &out, o, nullptr); });
        stage("cusContourMapperCreate", [](Options o) {
            return created<cusContourMapper>(
                [&](auto m) { return cusContourMapperCreate(m, 16, 24, CUS_8UC1, CUS_HOST, o); }, cusContourMapperDestroy);
        });
    }

    void events() {
        use("cusEventGeneratorOptions", "cusEventGeneratorCreate", cusEventGeneratorDefaults(),
            [](const cusEventGeneratorOptions *o) {
                return created<cusEventGenerator>([&](auto g) { return cusEventGeneratorCreate(g, 16, 24, o); },
                                                  cusEventGeneratorDestroy);
            });
        use(
            "cusWindowing", "cusEventWindows", cusWindowingDefaults(),
            [](const cusWindowing *w) {
                static const int64_t t[] = {5, 6};
                const cusEventArrays arrays = {nullptr, nullptr, nullptr, t, 2, CUS_HOST};
                size_t count = 0;
                return cusEventWindows(&arrays, w, nullptr, 0, &count, nullptr);
            },
            "windowing->");
        for (int kind = CUS_REPR_HISTOGRAM; cusRepresentationName(static_cast<cusRepresentationKind>(kind)); ++kind) {
            const cusRepresentation representation = cusRepresentationDefaults(static_cast<cusRepresentationKind>(kind));
            use(
                "cusRepresentation", "cusRepresentationType", representation,
                [](const cusRepresentation *r) {
                    int type = 0;
                    return cusRepresentationType(r, &type);
                },
                "representation->");
            use(
                "cusRepresentation", "cusEventStackerCreate", representation,
                [](const cusRepresentation *r) {
                    return created<cusEventStacker>(
                        [&](auto s) { return cusEventStackerCreate(s, 16, 24, CUS_HOST, r, 1); }, cusEventStackerDestroy);
                },
                "representations[0].");
            use(
                "cusRepresentation", "cusEventPipelineCreate", representation,
                [](const cusRepresentation *r) {
                    cusEventPipelineOptions options = cusEventPipelineDefaults();
                    options.windowing.unit = CUS_WINDOW_DURATION;
                    return pipeline(&options, r, nullptr);
                },
                "representations[0].");
        }
        use("cusEventPipelineOptions", "cusEventPipelineCreate", cusEventPipelineDefaults(),
            [](const cusEventPipelineOptions *o) { return pipeline(o, nullptr, nullptr); });
        cusEventDecoderOptions decoding = cusEventDecoderDefaults();
        decoding.format = CUS_EVENTS_EVT3;
        use(
            "cusEventDecoderOptions", "cusEventPipelineCreate", decoding,
            [](const cusEventDecoderOptions *o) {
                cusEventPipelineOptions options = cusEventPipelineDefaults();
                options.decoder = o;
                return pipeline(&options, nullptr, nullptr);
            },
            "options->decoder->");
        use("cusEventDecoderOptions", "cusEventDecoderCreate", decoding, [](const cusEventDecoderOptions *o) {
            return created<cusEventDecoder>([&](auto d) { return cusEventDecoderCreate(d, o); }, cusEventDecoderDestroy);
        });
        fills("cusEventPipelineCounts", "cusEventPipelineQuery", cusEventPipelineCounts(),
              [](cusEventPipelineCounts *counts) { return pipeline(nullptr, nullptr, counts); });
    }
    static cusStatus pipeline(const cusEventPipelineOptions *options, const cusRepresentation *representation,
                              cusEventPipelineCounts *counts) {
        const cusRepresentation usual = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        const auto sink = [](void *, const cusFrameBatch *) { return CUS_OK; };
        return created<cusEventPipeline>(
            [&](auto p) {
                CUS_TRY(
                    cusEventPipelineCreate(p, 16, 24, representation ? representation : &usual, 1, options, sink, nullptr));
                return counts ? cusEventPipelineQuery(*p, counts) : CUS_OK;
            },
            cusEventPipelineDestroy);
    }

    void recordings() {
        static const char text[] = "24 16\n10 1 1 1\n20 2 2 0\n";
        static const char raw[] = "% evt 3.0\n% geometry 24x16\n% end\n\0\0";
        static const std::string recording = support::sourceFile("test/data/m3ed_contiguous.h5");
        use("cusEventReaderOptions", "cusEventReaderOpen", cusEventReaderDefaults(), [](const cusEventReaderOptions *o) {
            return created<cusEventReader>([&](auto r) { return cusEventReaderOpen(r, recording.c_str(), o); },
                                           cusEventReaderClose);
        });
        use("cusEventReaderOptions", "cusEventReaderOpenMemory", cusEventReaderDefaults(),
            [](const cusEventReaderOptions *o) {
                return created<cusEventReader>(
                    [&](auto r) { return cusEventReaderOpenMemory(r, text, sizeof text - 1, o); }, cusEventReaderClose);
            });
        fills("cusEventInfo", "cusEventReaderInfo", cusEventInfo(), [](cusEventInfo *info) {
            return created<cusEventReader>(
                [&](auto r) {
                    CUS_TRY(cusEventReaderOpenMemory(r, text, sizeof text - 1, nullptr));
                    return cusEventReaderInfo(*r, info);
                },
                cusEventReaderClose);
        });
        fills("cusEventDecoderOptions", "cusEventReaderDecoder", cusEventDecoderOptions(), [](cusEventDecoderOptions *o) {
            return created<cusEventReader>(
                [&](auto r) {
                    cusEventDecoderState state;
                    CUS_TRY(cusEventReaderOpenMemory(r, raw, sizeof raw - 1, nullptr));
                    return cusEventReaderDecoder(*r, o, &state);
                },
                cusEventReaderClose);
        });
        for (const char *const function : {"cusEventFramesOpen", "cusEventFramesOpenReader"}) {
            const bool of_reader = std::string(function) == "cusEventFramesOpenReader";
            use("cusEventFramesOptions", function, cusEventFramesDefaults(), [=](const cusEventFramesOptions *o) {
                return frames(of_reader, o, nullptr, nullptr, [](cusEventFrames *) { return CUS_OK; });
            });
            use(
                "cusRepresentation", function, cusRepresentationDefaults(CUS_REPR_HISTOGRAM),
                [=](const cusRepresentation *r) {
                    return frames(of_reader, nullptr, r, nullptr, [](cusEventFrames *) { return CUS_OK; });
                },
                "representations[0].");
        }
        cusEventFilterOptions moving = cusEventFilterDefaults();
        moving.width = 24, moving.height = 16, moving.region_width = moving.region_height = 4;
        for (const char *const function : {"cusEventFramesOpen", "cusEventFramesOpenReader"})
            use("cusEventFilterOptions", function, moving, [=](const cusEventFilterOptions *filter) {
                cusEventFramesOptions o = cusEventFramesDefaults();
                o.filter = filter;
                const bool of_reader = std::string(function) == "cusEventFramesOpenReader";
                return frames(of_reader, &o, nullptr, nullptr, [](cusEventFrames *) { return CUS_OK; });
            });
        use("cusEventReaderOptions", "cusEventFramesOpen", cusEventReaderDefaults(), [](const cusEventReaderOptions *o) {
            return frames(false, nullptr, nullptr, o, [](cusEventFrames *) { return CUS_OK; });
        });
        fills("cusEventInfo", "cusEventFramesInfo", cusEventInfo(), [](cusEventInfo *info) {
            return frames(false, nullptr, nullptr, nullptr, [=](cusEventFrames *f) { return cusEventFramesInfo(f, info); });
        });
        fills("cusEventFramesCounts", "cusEventFramesQuery", cusEventFramesCounts(), [](cusEventFramesCounts *counts) {
            return frames(false, nullptr, nullptr, nullptr,
                          [=](cusEventFrames *f) { return cusEventFramesQuery(f, counts); });
        });
        cusEventWriterOptions writing = cusEventWriterDefaults();
        writing.width = 24, writing.height = 16;
        static const std::string path = testing::TempDir() + "cusight_interface_" + std::to_string(getpid());
        use("cusEventWriterOptions", "cusEventWriterCreate", writing, [](const cusEventWriterOptions *o) {
            return created<cusEventWriter>([&](auto w) { return cusEventWriterCreate(w, path.c_str(), o); },
                                           cusEventWriterDiscard);
        });
        cusEventFilterOptions filtering = cusEventFilterDefaults();
        filtering.width = 24, filtering.height = 16, filtering.region_width = filtering.region_height = 4;
        use("cusEventFilterOptions", "cusEventFilterCreate", filtering, [](const cusEventFilterOptions *o) {
            return created<cusEventFilter>([&](auto f) { return cusEventFilterCreate(f, o); }, cusEventFilterDestroy);
        });
        fills("cusFrameFileInfo", "cusFrameReaderOpen", cusFrameFileInfo(), [](cusFrameFileInfo *info) {
            std::ofstream(path).close();
            CUS_TRY(cusFrameFileLayout(path.c_str(), 16, 24, CUS_8UC1, 0, 1, nullptr, nullptr));
            const cusStatus status = created<cusFrameReader>(
                [&](auto r) { return cusFrameReaderOpen(r, path.c_str(), info); }, cusFrameReaderClose);
            std::remove(path.c_str());
            return status;
        });
    }

    static cusStatus frames(bool of_reader, const cusEventFramesOptions *options, const cusRepresentation *representation,
                            const cusEventReaderOptions *reading, const std::function<cusStatus(cusEventFrames *)> &then) {
        static const std::string recording = support::sourceFile("test/data/m3ed_contiguous.h5");
        const cusRepresentation usual = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        const cusRepresentation *const r = representation ? representation : &usual;
        support::Owned<cusEventReaderClose> reader;
        if (of_reader)
            CUS_TRY(cusEventReaderOpen(&reader, recording.c_str(), nullptr));
        return created<cusEventFrames>(
            [&](auto f) {
                CUS_TRY(of_reader ? cusEventFramesOpenReader(f, reader, r, 1, options)
                                  : cusEventFramesOpen(f, recording.c_str(), reading, r, 1, options));
                return then(*f);
            },
            cusEventFramesClose);
    }

    void live() {
        use("cusSenderOptions", "cusSenderCreate", cusSenderDefaults(),
            [this](const cusSenderOptions *o) { return sender(o, nullptr); });
        fills("cusSentFrame", "cusSenderFinish", cusSentFrame(),
              [this](cusSentFrame *frame) { return sender(nullptr, frame); });
        static const uint8_t byte = 0;
        const cusSentFrame sent = {1, &byte, 0, nullptr, 0, &byte, &byte, 0, 0, 0, 0, 0, 0, {}};
        use(
            "cusSentFrame", "cusPeerOffer", sent, [](const cusSentFrame *frame) { return peer(frame, nullptr); },
            "frame->");
        fills("cusPeerInfo", "cusPeerQuery", cusPeerInfo(), [](cusPeerInfo *info) { return peer(nullptr, info); });
        const auto viewer = [](const cusViewerOptions *options, cusViewerInfo *info) {
            return created<cusViewer>(
                [&](auto v) {
                    CUS_TRY(cusViewerCreate(v, options));
                    return info ? cusViewerQuery(*v, info) : CUS_OK;
                },
                cusViewerDestroy);
        };
        use("cusViewerOptions", "cusViewerCreate", cusViewerDefaults(),
            [viewer](const cusViewerOptions *o) { return viewer(o, nullptr); });
        fills("cusViewerInfo", "cusViewerQuery", cusViewerInfo(),
              [viewer](cusViewerInfo *info) { return viewer(nullptr, info); });
    }
    cusStatus sender(const cusSenderOptions *options, cusSentFrame *sent) {
        return created<cusSender>(
            [&](auto s) {
                CUS_TRY(cusSenderCreate(s, 16, 24, CUS_8UC1, CUS_HOST, options));
                if (!sent)
                    return CUS_OK;
                CUS_TRY(cusSenderSubmit(*s, &gray.mat, 0, nullptr));
                return cusSenderFinish(*s, sent);
            },
            cusSenderDestroy);
    }
    static cusStatus peer(const cusSentFrame *frame, cusPeerInfo *info) {
        return created<cusPeer>(
            [&](auto p) {
                CUS_TRY(cusPeerCreate(p, 16, 24, CUS_8UC1, 0));
                return frame ? cusPeerOffer(*p, frame) : cusPeerQuery(*p, info);
            },
            cusPeerDestroy);
    }

    support::TestMat gray, other, small, half, elevation;
    support::Mat out, second;
    std::vector<Use> uses;
    std::vector<Result> results;
};

// The name with which messages begin.
std::string shownName(const Use &use) {
    return use.function == "cusEventReaderOpenMemory" ? "cusEventReaderOpen" : use.function;
}

// A build may lack zstd or CUDA.
bool isFine(cusStatus status) {
    return status == CUS_OK || status == CUS_ERROR_UNSUPPORTED || status == CUS_ERROR_NO_CUDA;
}

std::string nameOf(const std::pair<std::string, std::string> &taker) {
    return taker.first + " with " + taker.second;
}

TEST_F(Interface, EveryStructThatMayGrowIsTested) {
    std::set<std::pair<std::string, std::string>> used, filled;
    for (const Use &use : uses) {
        used.insert({use.function, use.type});
        EXPECT_TRUE(isFine(use.call(use.valid.data()))) << use.function << ": " << cusLastError();
    }
    for (const Result &result : results)
        filled.insert({result.function, result.type});
    for (const auto &taker : table().takers("const "))
        EXPECT_TRUE(used.count(taker)) << "add a use() of " << nameOf(taker);
    for (const auto &taker : table().takers(""))
        EXPECT_TRUE(filled.count(taker)) << "add a fills() of " << nameOf(taker);
    EXPECT_GT(used.size(), 30u);
    EXPECT_GT(filled.size(), 8u);
}

TEST_F(Interface, ReservedFieldsMustBeZero) {
    std::set<std::string> unsupported; // without zstd
    for (const Use &use : uses)
        if (use.call(use.valid.data()) == CUS_ERROR_UNSUPPORTED)
            unsupported.insert(use.function);
    for (const Use &use : uses)
        for (const Field &field : table().flat(use.type)) {
            if (field.type != "reserved" || unsupported.count(use.function))
                continue;
            for (const uint64_t value : {uint64_t(5), uint64_t(1) << 63}) {
                std::vector<char> changed = use.valid;
                std::memcpy(&changed[field.offset], &value, sizeof value);
                CUS_EXPECT_ERROR(use.call(changed.data()), CUS_ERROR_VALUE,
                                 shownName(use) + ": " + use.owner + field.name + " is " + std::to_string(value) +
                                     ", expected 0 (an option of a later version?)");
            }
        }
}

// Fields of 0.3 in structs of 0.2. A program that was written for 0.2 leaves them 0.
const std::map<std::string, std::set<std::string>> ADDED = {
    {"cusEventGeneratorOptions",
     {"threshold_spread", "refractory_us", "leak_rate", "leak_jitter", "shot_rate", "seed", "space", "max_events"}},
    {"cusEventPipelineOptions", {"max_gap", "first_event", "origin", "decoder", "whole_batches", "low_latency"}},
    {"cusEventReaderOptions", {"pin_file"}},
    {"cusEventWriterOptions", {"format"}},
    {"cusHeatmapOptions", {"colors"}},
    {"cusIntegralOptions", {"range", "reproducible"}},
    {"cusMatcherOptions", {"batch"}},
    {"cusRepresentation", {"surface", "window_times", "lower", "upper", "clip_each_event", "scale", "clip", "map"}},
    {"cusStereoOptions",
     {"subpixel_bits", "min_confidence", "speckle_size", "aggregation", "paths", "p1", "p2", "p2_slope"}},
    {"cusViewerOptions", {"checksums"}},
};

TEST_F(Interface, AddedFieldsMayBeZero) {
    std::set<std::string> left; // nothing in ADDED is misspelled
    for (const auto &[type, fields] : ADDED)
        left.insert(type);
    for (const Use &use : uses) {
        const auto added = ADDED.find(use.type);
        cusRepresentation r = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
        if (use.type == "cusRepresentation")
            std::memcpy(&r, use.valid.data(), sizeof r);
        if (added == ADDED.end() || r.kind > CUS_REPR_EVENT_DIFF) // the last kind of 0.2
            continue;
        std::vector<char> changed = use.valid;
        size_t zeros = 0;
        for (const Field &field : table().flat(use.type))
            if (added->second.count(field.name)) {
                std::fill_n(&changed[field.offset], field.size, '\0');
                ++zeros;
            }
        EXPECT_EQ(zeros, added->second.size()) << use.type;
        EXPECT_EQ(use.call(changed.data()), use.call(use.valid.data())) << use.function << ": " << cusLastError();
        left.erase(use.type);
    }
    for (const std::string &type : left)
        ADD_FAILURE() << "no use() of " << type;
}

TEST_F(Interface, ResultsHaveZerosInReservedFields) {
    for (const Result &result : results) {
        std::vector<char> filled(table().sizes.at(result.type), '\xff');
        const cusStatus status = result.call(filled.data());
        EXPECT_TRUE(isFine(status)) << result.function << ": " << cusLastError();
        for (const Field &field : table().flat(result.type))
            EXPECT_TRUE(field.type != "reserved" || status != CUS_OK ||
                        std::string(&filled[field.offset], 8) == std::string(8, '\0'))
                << result.function << ": " << field.name;
    }
}

// ---- Numbers -------------------------------------------------------------------------------------------------------------

// Numbers that some fields take, as they say; nothing else does. max, min: those of the type.
const std::map<std::string, std::set<std::string>> ACCEPTED = {
    {"cusEventFilterOptions.begin", {"min", "max"}},          // the default
    {"cusEventFilterOptions.end", {"max", "min"}},            // likewise
    {"cusEventFilterOptions.hot_period", {"max"}},            // at least 1
    {"cusEventFilterOptions.activity", {"max"}},              // at least 0
    {"cusEventFramesOptions.from", {"min", "max"}},           // the default
    {"cusEventFramesOptions.to", {"max", "min"}},             // likewise
    {"cusEventPipelineOptions.origin", {"max", "min"}},       // any time
    {"cusMatcherOptions.min_distance", {"max"}},              // at least 1
    {"cusMatcherOptions.score_limit", {"nan", "max", "min"}}, // NaN: no limit
    {"cusMotionOptions.min_area", {"max"}},                   // at least 1
    {"cusPoseOptions.min_distance", {"max"}},                 // at least 1
    {"cusPoseOptions.score_limit", {"nan", "max", "min"}},    // NaN: no limit
    {"cusPoseOptions.angles.step", {"max"}},                  // above 0
    {"cusPoseOptions.scales.step", {"max"}},                  // above 0
    {"cusPoseOptions.angles.count", {"max", "min"}},          // of a list
    {"cusPoseOptions.scales.count", {"max", "min"}},          // of a list
    {"cusRepresentation.clip", {"inf", "max"}},               // the default, and above 0
    {"cusRepresentation.scale", {"max"}},                     // above 0
    {"cusRepresentation.tau", {"max"}},                       // above 0
    {"cusStereoOptions.speckle_size", {"max"}},               // at least 0
    {"cusStereoOptions.threshold", {"max"}},                  // at least 0
    {"cusStereoOptions.tolerance", {"max"}},                  // at least 0
};

// Structs with numbers that the library writes.
const std::set<std::string> WRITTEN = {"cusMatch", "cusPoseMatch", "cusSentFrame"};

struct Number {
    std::string name;
    std::vector<char> bytes;
};

template<class T>
Number number(const std::string &name, T value) {
    const char *const bytes = reinterpret_cast<const char *>(&value);
    return {name, {bytes, bytes + sizeof value}};
}

template<class T>
std::vector<Number> limits(std::vector<Number> more = {}) {
    more.push_back(number("max", std::numeric_limits<T>::max()));
    more.push_back(number("min", std::numeric_limits<T>::lowest()));
    return more;
}

template<class T>
std::vector<Number> reals() {
    const T infinity = std::numeric_limits<T>::infinity();
    return limits<T>(
        {number("nan", std::numeric_limits<T>::quiet_NaN()), number("inf", infinity), number("-inf", -infinity)});
}

// What a field of a type must refuse; nothing for pointers and unsigned numbers.
std::vector<Number> numbersOf(const std::string &type) {
    const auto values = table().enums.find(type);
    if (values != table().enums.end()) {
        const int last = static_cast<int>(*std::max_element(values->second.begin(), values->second.end()));
        return limits<int>({number("last + 1", last + 1), number("-1", -1)});
    }
    return type == "double"                     ? reals<double>()
           : type == "float"                    ? reals<float>()
           : type == "int64_t"                  ? limits<int64_t>()
           : type == "int" || type == "int32_t" ? limits<int>()
                                                : std::vector<Number>{};
}

bool isReal(const Field &field) {
    return field.type.rfind("double", 0) == 0 || field.type.rfind("float", 0) == 0;
}

TEST_F(Interface, NumbersOutOfRangeAreRefused) {
    std::map<std::string, bool> refused; // "cusDiffOptions.threshold max": by a function that uses it
    std::set<std::string> tested = WRITTEN;
    for (const Use &use : uses) {
        tested.insert(use.type);
        if (WRITTEN.count(use.type) || !isFine(use.call(use.valid.data())))
            continue;
        for (const Field &field : table().flat(use.type))
            for (const Number &number : numbersOf(field.type)) {
                const std::string path = use.type + "." + field.name, leaf = field.name.substr(field.name.rfind('.') + 1);
                std::vector<char> changed = use.valid;
                std::memcpy(&changed[field.offset], number.bytes.data(), field.size);
                const cusStatus status = use.call(changed.data());
                const std::string said = cusLastError();
                const bool right = status == CUS_ERROR_VALUE || (status == CUS_ERROR_TYPE && leaf == "depth");
                const bool named =
                    said.rfind(shownName(use) + ": ", 0) == 0 && said.find(leaf, said.find(':')) < said.size();
                EXPECT_TRUE(right ? named : isFine(status))
                    << path << " " << number.name << ", " << use.function << ": " << said;
                refused[path + " " + number.name] |= right;
            }
    }
    for (const auto &[what, right] : refused) {
        const size_t space = what.find(' ');
        const auto exception = ACCEPTED.find(what.substr(0, space));
        EXPECT_EQ(right, exception == ACCEPTED.end() || !exception->second.count(what.substr(space + 1))) << what;
    }
    for (const auto &[path, names] : ACCEPTED) // none for a field that is no more
        for (const std::string &name : names)
            EXPECT_TRUE(refused.count(path + " " + name)) << path << " " << name;
    for (const auto &[name, fields] : table().structs)
        for (const Field &field : fields) {
            const bool within = name == "cusPoseRange"; // of cusPoseOptions
            EXPECT_TRUE(!isReal(field) || within || tested.count(name)) << name << "." << field.name << " is in no test";
        }
}

} // namespace

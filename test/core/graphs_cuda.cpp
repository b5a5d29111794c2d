// CUDA graphs: every call of the table is captured and replayed, or refuses and leaves the capture intact. The table of
// stream_calls.hpp holds every function with a stream parameter, and docs/memory-and-streams.md says the same of each.
#include "core/stream_calls.hpp"
#include "events/support.hpp"

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime.h>
#endif

namespace {

using stream_calls::Call;
using stream_calls::Calls;
using stream_calls::Capture;

std::string textOf(const std::string &path) {
    std::ifstream file(support::sourceFile(path));
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_FALSE(text.str().empty()) << path;
    return text.str();
}

// Functions with a parameter `cusStream`.
std::set<std::string> streamFunctions() {
    std::set<std::string> found;
    const std::string text = textOf("test/packaging/interface.txt");
    const std::regex declaration("function (cus[A-Za-z0-9]+) .*[(, ]cusStream[,)]");
    for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it)
        found.insert((*it)[1].str());
    return found;
}

TEST(GraphTable, HoldsEveryFunctionWithAStream) {
    const Calls calls(CUS_HOST);
    std::set<std::string> listed;
    for (const Call &call : calls.list())
        EXPECT_TRUE(listed.insert(call.function).second) << call.function << " is listed twice";
    const std::set<std::string> declared = streamFunctions();
    EXPECT_GE(declared.size(), 35u);
    EXPECT_EQ(listed, declared);
}

TEST(GraphTable, IsThatOfTheDocument) {
    const Calls calls(CUS_HOST);
    const std::string document = textOf("docs/memory-and-streams.md");
    const std::string words[] = {"yes", "no", "no work"};
    for (const Call &call : calls.list()) {
        const std::string row = std::string("| `") + call.function + "` | " + words[static_cast<int>(call.capture)] + " |";
        EXPECT_NE(document.find(row), std::string::npos) << "docs/memory-and-streams.md lacks: " << row;
    }
}

// The calls of the table work, on the host too; another instance gives the same.
class GraphCalls : public support::SpaceTest {};
CUS_BOTH_SPACES(GraphCalls);

TEST_P(GraphCalls, GiveTheSameTwice) {
    Calls a(space()), b(space());
    for (size_t round = 0; round < 3; ++round)
        for (Calls *calls : {&a, &b}) {
            calls->change(round);
            calls->run();
        }
    EXPECT_EQ(a.results(), b.results());
    const auto before = a.results();
    a.change(3);
    a.run();
    EXPECT_NE(a.results(), before);
}

#ifdef CUSIGHT_HAVE_CUDA

class GraphCuda : public testing::Test {
  protected:
    void SetUp() override {
        CUS_NEEDS(CUS_DEVICE);
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    }
    void TearDown() override {
        for (cudaGraphExec_t graph : graphs)
            EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
        if (stream)
            EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    void begin() { ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess); }
    // The captured graph; its number of nodes without predecessors.
    void end(cudaGraphExec_t *ready, size_t *roots = nullptr) {
        cudaGraph_t graph = nullptr;
        ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << "the capture was broken";
        if (roots)
            EXPECT_EQ(cudaGraphGetRootNodes(graph, nullptr, roots), cudaSuccess);
        ASSERT_EQ(cudaGraphInstantiate(ready, graph, 0), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        graphs.push_back(*ready);
    }

    cudaStream_t stream = nullptr;
    std::vector<cudaGraphExec_t> graphs;
};

TEST_F(GraphCuda, ReplaysGiveWhatPlainCallsGive) {
    Calls replayed(CUS_DEVICE), plain(CUS_DEVICE);
    for (Calls *calls : {&replayed, &plain})
        calls->run(); // creates the outputs
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (const Call &call : replayed.list())
        if (call.capture == Capture::YES && call.run) {
            cudaGraphExec_t graph = nullptr;
            begin();
            CUS_EXPECT_OK(call.run(stream)) << call.function;
            end(&graph);
            ASSERT_FALSE(HasFailure()) << call.function;
        }
    EXPECT_GE(graphs.size(), 27u);
    auto random = support::generator();
    for (int round = 0; round < 1000; ++round) {
        const size_t contents = random() % Calls::CONTENTS;
        replayed.change(contents);
        plain.change(contents);
        for (cudaGraphExec_t graph : graphs)
            ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
        plain.run(stream, true);
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        ASSERT_EQ(replayed.results(), plain.results()) << "round " << round;
    }
}

TEST_F(GraphCuda, OtherCallsRefuseAndLeaveTheCaptureIntact) {
    Calls calls(CUS_DEVICE);
    calls.run();
    for (const Call &call : calls.list())
        if (call.capture == Capture::REFUSED && call.run) {
            cudaGraphExec_t graph = nullptr;
            begin();
            CUS_EXPECT_OK(calls.find("cusMatCopy").run(stream));
            EXPECT_EQ(call.run(stream), CUS_ERROR_UNSUPPORTED) << call.function << ": " << cusLastError();
            const std::string message = cusLastError();
            EXPECT_EQ(message.find(std::string(call.function) + ": stream is being captured, and "), 0u) << message;
            end(&graph);
            ASSERT_FALSE(HasFailure()) << call.function;
            CUS_EXPECT_OK(call.run(nullptr)) << call.function;
        }
    // Score maps
    support::Owned<cusMatcherDestroy> matcher;
    support::Mat frame, scores;
    CUS_ASSERT_OK(cusMatCreate(&frame, 20, 20, CUS_8UC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatSetZero(&frame, nullptr));
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &frame, 1, 20, 20, nullptr, nullptr));
    cudaGraphExec_t graph = nullptr;
    begin();
    CUS_REJECTS(cusMatcherRun(matcher, &frame, &scores, stream), UNSUPPORTED, "scores would not be part of");
    end(&graph);
}

// An output that does not exist yet is created during the capture.
TEST_F(GraphCuda, OutputsAreCreatedInACapture) {
    Calls filled(CUS_DEVICE), fresh(CUS_DEVICE);
    filled.run(nullptr, true);
    cudaGraphExec_t graph = nullptr;
    begin();
    fresh.run(stream, true);
    end(&graph);
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(fresh.results(), filled.results());
}

// Two branches of one capture that use the same object become one after the other.
TEST_F(GraphCuda, BranchesThatShareAnObjectAreOrdered) {
    Calls calls(CUS_DEVICE);
    calls.run();
    const auto before = calls.results();
    cudaStream_t branch = nullptr;
    cudaEvent_t fork = nullptr, join = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), cudaSuccess);
    for (const char *name :
         {"cusMatcherRun", "cusIntegratorRun", "cusContourMap", "cusEventStack", "cusDiffEncoderReset"}) {
        cudaGraphExec_t graph = nullptr;
        size_t roots = 0;
        begin();
        ASSERT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
        ASSERT_EQ(cudaStreamWaitEvent(branch, fork, 0), cudaSuccess);
        for (int i = 0; i < 3; ++i) {
            CUS_EXPECT_OK(calls.find(name).run(stream));
            CUS_EXPECT_OK(calls.find(name).run(branch));
        }
        ASSERT_EQ(cudaEventRecord(join, branch), cudaSuccess);
        ASSERT_EQ(cudaStreamWaitEvent(stream, join, 0), cudaSuccess);
        end(&graph, &roots);
        ASSERT_FALSE(HasFailure()) << name;
        ASSERT_EQ(roots, 1u) << name << ": the branches are not ordered";
        for (int i = 0; i < 20; ++i)
            ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    }
    calls.run(); // the stateful ones in order again
    EXPECT_EQ(calls.results(), before);
    EXPECT_EQ(cudaEventDestroy(fork), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(join), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(branch), cudaSuccess);
}

// A captured call of few events may be replayed with all of them on one pixel.
TEST_F(GraphCuda, EventsThatBecomeCrowded) {
    const uint64_t n = 150000;
    const cusEventWindow window = {0, n};
    std::mt19937_64 random = support::generator();
    const events::Events uniform = events::randomEvents(n, 200, 300, 0, random),
                         crowded = events::randomEvents(n, 1, 1, 100, random);
    for (const cusRepresentation &r : events::allKinds()) {
        SCOPED_TRACE(cusRepresentationName(r.kind));
        const events::Stacker on_host(200, 300, CUS_HOST, {r}), on_device(200, 300, CUS_DEVICE, {r});
        const events::SpaceEvents input(uniform, CUS_DEVICE), later(crowded, CUS_DEVICE), expected(crowded, CUS_HOST);
        support::Mat host, device;
        CUS_ASSERT_OK(cusEventStack(on_host.object, &expected.view, &window, 1, &host, nullptr));
        CUS_ASSERT_OK(cusEventStack(on_device.object, &input.view, &window, 1, &device, stream));
        cudaGraphExec_t graph = nullptr;
        begin();
        CUS_EXPECT_OK(cusEventStack(on_device.object, &input.view, &window, 1, &device, stream));
        end(&graph);
        ASSERT_FALSE(HasFailure());
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        events::copyOnDevice(later, input);
        ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        EXPECT_TRUE(support::elements(host) == support::elements(device));
    }
}

// The default stream cannot be used while a stream that synchronizes with it is captured: a call says so, and the capture
// goes on.
TEST_F(GraphCuda, DefaultStreamDuringACapture) {
    Calls calls(CUS_DEVICE);
    calls.run();
    cudaStream_t blocking = nullptr;
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    for (const Call &call : calls.list())
        if (call.object) {
            ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal), cudaSuccess);
            CUS_REJECTS(call.run(nullptr), UNSUPPORTED, "stream is the default stream");
            CUS_EXPECT_OK(calls.find("cusMatCopy").run(blocking));
            ASSERT_EQ(cudaStreamEndCapture(blocking, &graph), cudaSuccess) << call.function;
            EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
            CUS_EXPECT_OK(call.run(nullptr)) << call.function;
        }
    EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

#endif

} // namespace

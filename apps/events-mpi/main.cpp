// cusight-events-mpi: turns one recording of an event camera into frames, with many processes. The output equals that of
// cusight-events byte for byte.
#include "common/app.hpp"
#include "common/output.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/progress.hpp"
#include "common/terminal/report.hpp"
#include "events-mpi/files/journal.hpp"
#include "events-mpi/options.hpp"
#include "events-mpi/files/parallel.hpp"
#include "events-mpi/plan.hpp"
#include "events-mpi/files/recording.hpp"
#include "events-mpi/files/store.hpp"
#include "events-mpi/team.hpp"
#include "events-mpi/worker.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>

#include <unistd.h>
#ifdef CUSIGHT_HAVE_OPENMP
#include <omp.h>
#endif

namespace {

using namespace events_mpi;
using sample::Stop;

unsigned long long number(uint64_t value) {
    return value;
}

// ---- Devices -----------------------------------------------------------------------------------------------------------

// The ranks of a host share its processors, unless they are already bound to different ones.
void shareProcessors(const Team &team) {
#ifdef CUSIGHT_HAVE_OPENMP
    if (std::getenv("OMP_NUM_THREADS"))
        return;
    const int bound = omp_get_num_procs(); // processors that this rank may use
    const auto online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    omp_set_num_threads(std::max(1, std::min(bound, online / std::max(1, team.local_size))));
#else
    (void)team;
#endif
}

// Chooses where this rank computes: on its share of the host's GPUs, or on the CPU. All ranks choose the same kind, since the
// slowest ones decide the time.
sample::Device chooseDevice(Team &team, const std::string &wanted) {
    int count = 0;
    team.together([&] { check(cusDeviceCount(&count)); });
    const std::vector<int> counts = team.all(count);
    const bool any = *std::max_element(counts.begin(), counts.end()) > 0;
    sample::Device device;
    team.together([&] {
        if (wanted == "cuda" && count == 0)
            throw Stop(sample::DEVICE, "--device cuda: no usable GPU (no device, no driver, or built without CUDA)");
        if (wanted == "auto" && any && count == 0)
            throw Stop(sample::DEVICE,
                       "--device auto: no usable GPU here, but other ranks have one; use --device cpu for all, "
                       "or only hosts with GPUs");
        if (wanted == "cpu" || count == 0) {
            device.name = "CPU";
            return;
        }
        device.space = CUS_DEVICE;
        device.index = team.local_rank % count;
        cusDeviceInfo info;
        check(cusDeviceSet(device.index));
        check(cusDeviceQuery(device.index, &info));
        device.name = info.name;
    });
    return device;
}

// ---- The run -----------------------------------------------------------------------------------------------------------

FrameShape shapeOf(const Options &o, const Recording &recording) {
    FrameShape shape = {recording.grid.height, recording.grid.width, 0, 0};
    const cusRepresentation kind = events::representation(o);
    check(cusRepresentationType(&kind, &shape.type));
    shape.bytes = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.cols) * cusTypeSize(shape.type);
    return shape;
}

// The work of all ranks together.
struct Outcome {
    uint64_t frames = 0, outside = 0;
    uint32_t checksum = 0;
    std::string problem;
};

Outcome summarize(Team &team, const Worker &worker, const Plan &plan) {
    Outcome outcome;
    const std::vector<Result> results = team.all(worker.result());
    size_t damaged = 0;
    outcome.frames = plan.windows;
    for (size_t r = 0; r < results.size(); ++r) {
        outcome.outside += results[r].outside;
        if (results[r].end < outcome.frames || (results[r].end <= outcome.frames && !damaged)) {
            outcome.frames = results[r].end;
            damaged = r + 1;
        }
    }
    for (const Result &r : results)
        if (r.first < outcome.frames)
            outcome.checksum = joinChecksums(outcome.checksum, r.checksum, r.checksum_bytes);
    if (damaged) { // that rank says why
        std::vector<char> mine;
        const auto culprit = static_cast<int>(damaged - 1);
        if (team.rank == culprit)
            mine.assign(worker.problem().begin(), worker.problem().end());
        std::vector<char> text = team.gather(mine);
        outcome.problem.assign(text.begin(), text.end());
        team.share(outcome.problem);
    }
    return outcome;
}

// Seconds from the start to the end of each step.
struct Times {
    double scan = 0, work = 0, store = 0;
};

void report(const Team &team, const Options &o, const Recording &recording, const Plan &plan, const sample::Device &device,
            const Outcome &outcome, const Times &times) {
    using sample::Json;
    const double seconds = times.store, rate = static_cast<double>(plan.events) / std::max(seconds, 1e-9);
    const char *const format = cusEventFormatName(recording.info.format);
    sample::figure("input",
                   Json()
                       .add("input", o.input + ", " + format)
                       .add("width", recording.sensor.width)
                       .add("height", recording.sensor.height),
                   "%s, %s, %d x %d", o.input.c_str(), format, recording.sensor.width, recording.sensor.height);
    sample::figure("device", "%s", device.name.c_str());
    sample::figure("ranks", Json().add("ranks", team.size), "%d", team.size);
    sample::figure("frames",
                   Json()
                       .add("frames", outcome.frames)
                       .add("representation", o.representation)
                       .add("frame_width", recording.grid.width)
                       .add("frame_height", recording.grid.height),
                   "%llu of %s, %d x %d", number(outcome.frames), o.representation.c_str(), recording.grid.width,
                   recording.grid.height);
    sample::figure("events", Json().add("events", plan.events), "%llu", number(plan.events));
    if (outcome.outside)
        sample::figure("outside the frame", Json().add("outside", outcome.outside), "%llu", number(outcome.outside));
    const auto time = [](const char *name, const char *key, const char *unit, double value) {
        sample::figure(name, Json().add(key, value), "%.3f%s", value, unit);
    };
    time("seconds", "seconds", "", seconds);
    time("scan", "scan_seconds", " s", times.scan);
    time("making frames", "making_seconds", " s", times.work - times.scan);
    time("storing", "storing_seconds", " s", times.store - times.work);
    sample::figure("rate", Json().add("events_per_second", rate), "%.2f million events/s", 1e-6 * rate);
    if (o.checksum)
        sample::figure("checksum", "%08x", outcome.checksum);
    if (!o.output.empty())
        sample::figure("frames in", "%s", o.output.c_str());
}

// All ranks together.
void make(Team &team, const Options &o) {
    shareProcessors(team);
    const sample::Device device = chooseDevice(team, o.device);
    std::unique_ptr<Recording> recording;
    team.together([&] { recording = std::make_unique<Recording>(o, device.space == CUS_DEVICE); });
    const OutputLock lock(team, o.output);
    const sample::Progress clock("events", 0);
    Times times;
    std::string fingerprint;
    team.onFirst([&] {
        if (o.resume)
            fingerprint = std::string("cusight ") + cusVersion() + "\n" + fingerprintOf(o.input) + describeOptions(o) +
                          "device " + (device.space == CUS_DEVICE ? "cuda" : "cpu") + "\n";
    });
    Journal journal(team, o.resume, o.output, fingerprint);
    recording->index(team);
    const Plan plan = makePlan(team, *recording, o);
    const FrameShape shape = shapeOf(o, *recording);
    const std::unique_ptr<Store> store = makeStore(team, o, shape, plan, journal);
    std::vector<uint64_t> done;
    for (const Done &each : journal.earlier())
        if (each.window + 1 < plan.windows) // the last one is made again, to see whether the recording is complete
            done.push_back(each.window);
    const std::vector<Interval> share = shareOf(team, *recording, plan, done);

    std::unique_ptr<sample::Progress> progress;
    if (team.first())
        progress = std::make_unique<sample::Progress>("events", static_cast<long long>(plan.events));
    times.scan = clock.seconds();
    Watch watch(team);
    Worker worker(o, *recording, plan, shape, device.space, store.get());
    int code = 0;
    std::string message;
    try {
        worker.run(share, watch, progress.get());
    } catch (const Stop &stop) {
        code = stop.code();
        message = stop.what();
    } catch (const std::bad_alloc &) {
        code = sample::FAILED;
        message = "out of memory";
    }
    watch.finish(code, message, [&] {
        const Watch::Totals sum = watch.totals();
        progress->update(static_cast<long long>(std::min(sum.events, plan.events)),
                         sample::text("%llu frames", number(sum.frames)));
    });
    times.work = clock.seconds();
    const Outcome outcome = summarize(team, worker, plan);
    team.onFirst([&] {
        if (outcome.frames == 0)
            throw Stop(sample::INPUT, outcome.problem + "; there is no frame before that");
    });
    if (store)
        store->finish(team, outcome.frames);
    if (team.first()) {
        progress->finish();
        times.store = clock.seconds();
        report(team, o, *recording, plan, device, outcome, times);
    }
    team.onFirst([&] {
        if (!outcome.problem.empty())
            throw Stop(sample::INPUT, outcome.problem);
    });
}

// --help and --version work where MPI cannot start.
bool onlyText(int argc, char **argv) {
    return std::any_of(argv + 1, argv + argc, [](const char *argument) {
        const std::string word = argument;
        return word == "--help" || word == "-h" || word == "--version" || word == "--generate-man" ||
               word == "--generate-files";
    });
}

// Whether a launcher started this process: Open MPI's or MPICH's mpirun, or a batch system's.
bool launched() {
    const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK",      "PMI_RANK", "PMI_SIZE",
                                 "SLURM_PROCID",         "MPI_LOCALNRANKS"};
    return std::any_of(std::begin(names), std::end(names), [](const char *name) { return std::getenv(name) != nullptr; });
}

int run(int argc, char **argv) {
    Options unused;
    std::string said;
    if (argc > 1 && onlyText(argc, argv) && !parseOptions(argc, argv, unused, said)) {
        std::fputs(said.c_str(), stdout);
        return sample::OK;
    }
    const bool alone = !launched(); // asked first, since MPI sets such variables itself
    Team team(&argc, &argv);
    endOnSignals();
    if (team.first())
        sample::startReport("cusight-events-mpi");
    try {
        Options options;
        std::string text;
        bool wanted = true;
        team.together([&] { wanted = parseOptions(argc, argv, options, text); });
        if (wanted && alone)
            sample::note("one process only; for N of them: mpirun -n N cusight-events-mpi ...");
        if (wanted)
            make(team, options);
        else if (team.first())
            std::fputs(text.c_str(), stdout);
        sample::flushStdout();
        return sample::OK;
    } catch (const Quiet &quiet) {
        return quiet.code;
    } catch (const Stop &stop) {
        // Printed here, since the other ranks leave only when this one does.
        std::fprintf(stderr, "cusight-events-mpi: %s\n", sample::printable(stop.what()).c_str());
        sample::currentFiles().report();
        sample::finishReport(stop.code(), stop.what());
        sample::flushStdout();
        return stop.code();
    }
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}

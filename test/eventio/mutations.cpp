// Many damaged recordings of every format, each read in full. A crash, a broken promise of the interface, more than 2 s of computing
// and more memory than a reader may use are failures. CUSIGHT_TEST_MUTATIONS: how many of each format (default 400; scripts/mutate
// reads 100,000).
#include "eventio/support.hpp"

#include "../../fuzz/eventio_input.hpp"

#include <cinttypes>
#include <ctime>
#include <filesystem>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

using namespace eventio_test;

namespace {

constexpr double MAX_SECONDS = 2;
constexpr long MAX_KILOBYTES = long(fuzz::MAX_MEMORY / 1024) + 32 * 1024; // and the arrays of the events read
constexpr int BATCH = 500;                                                // inputs of one process

double seconds() {
    timespec t = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

long peakKilobytes() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

// Overwrites a field of 1, 2, 4 or 8 bytes with a value at which sizes and counts go wrong.
void spoilField(Bytes &bytes, std::mt19937_64 &random) {
    const size_t width = size_t(1) << random() % 4;
    const uint64_t values[] = {
        0, 1, UINT64_MAX, UINT64_MAX >> 1, uint64_t(1) << random() % 64, bytes.size(), bytes.size() - 1, random()};
    const uint64_t value = values[random() % std::size(values)];
    const size_t at = random() % bytes.size();
    for (size_t i = 0; i < width && at + i < bytes.size(); ++i)
        bytes[at + i] = uint8_t(value >> 8 * i);
}

// One change of a recording; its first byte says how to read it and stays.
void change(Bytes &bytes, const Bytes &other, std::mt19937_64 &random) {
    const size_t size = bytes.size(), at = 1 + random() % (size - 1), from = 1 + random() % (size - 1);
    const size_t length = std::min(size - std::max(at, from), size_t(1 + random() % 64));
    const auto offset = [](Bytes &b, size_t i) { return b.begin() + std::ptrdiff_t(i); };
    const uint8_t first = bytes[0];
    switch (random() % 10) {
    case 0:
    case 1:
        bytes[at] = uint8_t(random());
        break;
    case 2:
        bytes[at] = uint8_t(bytes[at] ^ 1u << random() % 8);
        break;
    case 3:
    case 4:
    case 5:
        spoilField(bytes, random);
        break;
    case 6:
        std::copy_n(Bytes(bytes).begin() + std::ptrdiff_t(from), length, offset(bytes, at));
        break;
    case 7:
        bytes.resize(std::max<size_t>(2, at));
        break;
    case 8: { // a part twice, or a part less
        const Bytes part(offset(bytes, from), offset(bytes, from + length));
        if (random() % 2)
            bytes.insert(offset(bytes, at), part.begin(), part.end());
        else if (size > length + 2)
            bytes.erase(offset(bytes, from), offset(bytes, from + length));
        break;
    }
    default: // the start of one recording, the end of another
        if (other.size() > at) {
            bytes.resize(at);
            bytes.insert(bytes.end(), other.begin() + std::ptrdiff_t(at), other.end());
        }
    }
    bytes[0] = first;
}

Bytes mutation(const std::vector<Bytes> &seeds, uint64_t seed, uint64_t number) {
    std::mt19937_64 random(seed * 1000003 + number);
    Bytes bytes = seeds[random() % seeds.size()];
    for (uint64_t k = 1 + random() % 4; k-- > 0;)
        change(bytes, seeds[random() % seeds.size()], random);
    return bytes;
}

// Progress that a process that reads mutations shares with the one that watches it.
struct Progress {
    uint64_t number;
    double slowest;
    long largest; // kilobytes
    bool over;
};

// Reads, in a separate process, mutations from progress->number to end - 1.
[[noreturn]] void readMutations(const std::vector<Bytes> &seeds, uint64_t seed, uint64_t end, Progress *progress) {
    const long before = peakKilobytes();
    for (; progress->number < end; ++progress->number) {
        const Bytes bytes = mutation(seeds, seed, progress->number);
        alarm(60);
        const double start = seconds();
        fuzz::eventInput(bytes.data(), bytes.size());
        const double took = seconds() - start;
        const long grown = peakKilobytes() - before;
        progress->slowest = std::max(progress->slowest, took);
        progress->largest = std::max(progress->largest, grown);
        if (MEASURED && (took > MAX_SECONDS || grown > MAX_KILOBYTES)) {
            progress->over = true;
            _exit(1);
        }
    }
    _exit(0);
}

// The seeds of each format, with the byte in front that says how to read them.
std::map<std::string, std::vector<Bytes>> seedsOfFormats() {
    std::map<std::string, std::vector<Bytes>> seeds;
    const auto add = [&](Bytes bytes) {
        cusEventReaderOptions options = cusEventReaderDefaults();
        const int as = bytes[0] >> 1 & 3;
        options.format = as == 1   ? (bytes[0] & 8 ? CUS_EVENTS_EVT21 : CUS_EVENTS_EVT2)
                         : as == 2 ? (bytes[0] & 8 ? CUS_EVENTS_EVT4 : CUS_EVENTS_EVT3)
                                   : CUS_EVENTS_ANY;
        const Reader reader(Bytes(bytes.begin() + 1, bytes.end()), options);
        if ((bytes[0] & 7) < 6 && reader.opened == CUS_OK)
            seeds[cusEventFormatName(reader.info.format)].push_back(std::move(bytes));
    };
    for (const char *folder : {"eventio", "eventio_hdf5", "eventio_packets"})
        for (const auto &entry : std::filesystem::directory_iterator(support::sourceFile("fuzz/seeds/") + folder))
            add(load(entry.path()));
    for (const char *name : {"dsec_blosc.h5", "m3ed_gzip.h5"}) {
        Bytes bytes = load(support::sourceFile("test/data/") + name);
        bytes.insert(bytes.begin(), 0);
        add(bytes);
    }
    for (auto &format : seeds) // folders have no order
        std::sort(format.second.begin(), format.second.end());
    return seeds;
}

void keep(const Bytes &bytes, const std::string &format, uint64_t number) {
    const std::string path = "mutation-" + format + "-" + std::to_string(number);
    save(path, bytes);
    ADD_FAILURE() << "the input is kept as " << path << " (scripts/fuzz and fuzz_eventio read it)";
}

TEST(EventMutations, EveryFormatWithinItsLimits) {
    const char *wanted = getenv("CUSIGHT_TEST_MUTATIONS");
    const uint64_t count = wanted ? strtoull(wanted, nullptr, 10) : 400, seed = support::generator()();
    auto *progress =
        static_cast<Progress *>(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void *>(progress), MAP_FAILED);
    const auto formats = seedsOfFormats();
    for (const char *format : {"EVT2", "EVT2.1", "EVT3", "EVT4", "DAT", "text"})
        EXPECT_EQ(formats.count(format), 1u) << format;
    EXPECT_EQ(formats.size(), 14u);
    for (const auto &[format, seeds] : formats) {
        *progress = {};
        const double start = double(time(nullptr));
        int findings = 0;
        while (progress->number < count && findings < 10) {
            const uint64_t end = std::min(count, progress->number + BATCH);
            const pid_t child = fork();
            ASSERT_GE(child, 0);
            if (child == 0)
                readMutations(seeds, seed, end, progress);
            int status = 0;
            waitpid(child, &status, 0);
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                continue;
            ++findings;
            ADD_FAILURE() << "mutation " << progress->number << " of " << format << ", seed " << seed << ": "
                          << (progress->over        ? "too slow or too large"
                              : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                                    : "ended early");
            keep(mutation(seeds, seed, progress->number), format, progress->number);
            progress->over = false;
            ++progress->number;
        }
        printf("%s: %" PRIu64 " mutations of %zu seeds, %d findings, slowest %.3f s, at most %ld MiB more, %.0f s in all\n",
               format.c_str(), progress->number, seeds.size(), findings, progress->slowest, progress->largest / 1024,
               double(time(nullptr)) - start);
        fflush(stdout);
    }
    munmap(progress, sizeof(Progress));
}

} // namespace

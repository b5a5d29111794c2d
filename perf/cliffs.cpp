// The search itself: draws scenes, times them beside the typical one, keeps the worst of each function and law.
#include "cliffs.hpp"
#include "harness_internal.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>

namespace perf::cliffs {
namespace {

constexpr int SAMPLES = 5; // of each piece of work: the least of them counts, unless the case is timed again

struct Law {
    const char *name;
    double limit;
};
constexpr Law CONTENT = {"content", 4}, ALIGNMENT = {"alignment", 1.25}, SHAPE = {"shape", 4};

// Milliseconds of the typical call and of the one beside it.
struct Pair {
    double typical, other;
    double ratio() const { return other / typical; }
};

struct Worst {
    double ratio = 0, limit = 0, typical_ms = 0, ms = 0;
    std::string text;
    int cases = 0;
};

using Key = std::pair<std::string, std::string>; // function with its backend, law

class Search {
  public:
    explicit Search(unsigned seed) : random_(seed) {}

    void trial(const Subject &subject, cusSpace space) {
        // A square of 1 to 4 megapixels whose sides are multiples of 64.
        const int side = 64 * drawn(random_, 16, space == CUS_DEVICE ? 32 : 20);
        Scene typical;
        typical.size = {side, side};
        std::string options;
        const Maker make = subject.draw(random_, space, typical.size, options);
        if (subject.contents.size() > 1) {
            Scene scene = typical;
            scene.content = static_cast<size_t>(drawn(random_, 1, static_cast<int>(subject.contents.size()) - 1));
            scene.seed = static_cast<unsigned>(random_());
            compare(subject, space, CONTENT, make, typical, scene, options + subject.contents[scene.content]);
        }
        if (subject.alignments) {
            Scene scene = typical;
            scene.offset = drawn(random_, 0, 15);
            scene.out_offset = drawn(random_, scene.offset ? 0 : 1, 15);
            compare(subject, space, ALIGNMENT, make, typical, scene,
                    options + "input + " + std::to_string(scene.offset) + " bytes, output + " +
                        std::to_string(scene.out_offset));
        }
        if (subject.shapes) {
            Scene scene = typical;
            scene.size = shape(subject.smallest_side, typical.size.pixels());
            compare(subject, space, SHAPE, make, typical, scene, options + scene.size.text());
        }
    }

    int report() const {
        std::printf("\n%-34s %-9s %5s %8s %8s  %-10s %s\n", "function", "law", "cases", "worst", "limit", "typical ms",
                    "case");
        for (const auto &[key, worst] : worst_) {
            std::printf("%-34s %-9s %5d %7.2fx %7.2fx  %-10.4g %s%s\n", key.first.c_str(), key.second.c_str(), worst.cases,
                        worst.ratio, worst.limit, worst.typical_ms, worst.text.c_str(),
                        worst.ratio > worst.limit ? "  OVER" : "");
            JsonObject json;
            json.add("cliff", key.first).add("law", key.second).add("cases", worst.cases).add("ratio", worst.ratio);
            json.add("limit", worst.limit).add("typical_ms", worst.typical_ms).add("ms", worst.ms).add("case", worst.text);
            json_lines.write(json.text());
        }
        return failed_ ? 1 : 0;
    }

  private:
    // As many pixels with sides between smallest_side and the rest, evenly in the logarithm of the aspect.
    Size shape(int smallest_side, size_t pixels) {
        const double least = std::log(static_cast<double>(smallest_side)), all = std::log(static_cast<double>(pixels));
        const double cols = std::round(std::exp(std::uniform_real_distribution<double>(least, all - least)(random_)));
        return {static_cast<int>(cols), static_cast<int>(std::ceil(static_cast<double>(pixels) / cols))};
    }

    void compare(const Subject &subject, cusSpace space, const Law &law, const Maker &make, const Scene &typical,
                 const Scene &scene, const std::string &text) {
        Worst &worst = worst_[{subject.name + (space == CUS_DEVICE ? " cuda" : " host"), law.name}];
        worst.limit = law.limit;
        ++worst.cases;
        try {
            const Work usual = make(typical), other = make(scene);
            std::vector<Timing> timings = timeInTurn(space, false, {&usual, &other}, 0);
            Pair ms = {timings[0].min_ms, timings[1].min_ms};
            // If it breaks the law, again, for longer and by the medians too: others use the machine and its shared caches, and
            // one side may have had the only quiet moment.
            if (ms.ratio() > std::max(worst.ratio, law.limit)) {
                timings = timeInTurn(space, false, {&usual, &other});
                for (const Pair &again :
                     {Pair{timings[0].min_ms, timings[1].min_ms}, Pair{timings[0].median_ms, timings[1].median_ms}})
                    if (again.ratio() < ms.ratio())
                        ms = again;
            }
            if (ms.ratio() > worst.ratio) {
                worst = {ms.ratio(), law.limit, ms.typical, ms.other, typical.size.text() + ": " + text, worst.cases};
                if (ms.ratio() > law.limit)
                    std::printf("%s, %s: %.2f times %.4g ms: %s\n", subject.name.c_str(), law.name, ms.ratio(), ms.typical,
                                worst.text.c_str());
            }
        } catch (const std::exception &error) {
            std::printf("%s, %s: %s: %s\n", subject.name.c_str(), law.name, text.c_str(), error.what());
            failed_ = true;
        }
        std::fflush(stdout);
    }

    Random random_;
    std::map<Key, Worst> worst_;
    bool failed_ = false;
};

// Searches for `seconds` on each backend that is wanted, and prints the worst case of each function and law. 1 if a piece of
// work failed, else 0.
int search(double seconds, unsigned seed) {
    using Clock = std::chrono::steady_clock;
    seed = seed ? seed : static_cast<unsigned>(Clock::now().time_since_epoch().count());
    std::printf("searching for cliffs, --seed %u\n", seed);
    options.min_samples = SAMPLES;
    std::vector<Subject> subjects;
    addImages(subjects);
    addMatch(subjects);
    addEvents(subjects);
    const auto &names = options.rows;
    if (!names.empty())
        subjects.erase(std::remove_if(subjects.begin(), subjects.end(),
                                      [&](const Subject &subject) {
                                          return std::find(names.begin(), names.end(), subject.name) == names.end();
                                      }),
                       subjects.end());
    if (subjects.empty())
        throw std::runtime_error("--perf_rows names no function that the search knows");
    Search found(seed);
    for (const cusSpace space : {CUS_HOST, CUS_DEVICE}) {
        if (!wants(space))
            continue;
        const auto end = Clock::now() + std::chrono::duration<double>(seconds);
        for (size_t i = 0; Clock::now() < end; ++i)
            found.trial(subjects[i % subjects.size()], space);
    }
    return found.report();
}

[[maybe_unused]] const bool registered = (search_cliffs = search, true);

} // namespace

} // namespace perf::cliffs

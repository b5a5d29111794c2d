#include "events/convert.hpp"

#include "events/recording.hpp"
#include "events/source.hpp"

#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/progress.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace events {

using sample::Stop;

namespace {

// Takes a recording's triggers over to another, each before the events that are later.
class Triggers {
  public:
    Triggers(EventSource &source, EventFile &file, bool all) : source_(source), file_(file), all_(all) {}

    // Before these events are written. Of a part of a recording, triggers from its first event to its last are taken.
    void before(const cusEventArrays &e) {
        if (first_ < 0)
            first_ = all_ ? 0 : e.t[0];
        writeUpTo(e.t[e.count - 1]);
    }
    void finish() {
        if (all_)
            writeUpTo(INT64_MAX);
        if (written_ || left_out_)
            sample::figure("triggers", {{"triggers", written_}, {"triggers_left_out", left_out_}},
                           left_out_ ? "%lld, and %lld that the format cannot store" : "%lld", written_, left_out_);
    }

  private:
    void writeUpTo(int64_t t) {
        for (;; ++next_) {
            if (next_ == some_.size()) {
                some_ = source_.triggers();
                next_ = 0;
                if (some_.empty())
                    return;
            }
            if (some_[next_].t > t)
                return;
            if (some_[next_].t >= first_)
                ++(file_.write(some_[next_]) ? written_ : left_out_);
        }
    }

    EventSource &source_;
    EventFile &file_;
    const bool all_;
    int64_t first_ = -1;
    std::vector<cusEventTrigger> some_; // read ahead, from next_ on
    size_t next_ = 0;
    long long written_ = 0, left_out_ = 0;
};

} // namespace

void convert(const Settings &s, const ConvertSettings &how) {
    const cusEventFormat format = recordingFormat("OUTPUT", how.output, how.format);
    const std::unique_ptr<EventSource> source = openEvents(s, false);
    Selection selection(*source, s);
    EventFile file(how.output, selection.grid, format, how.compression);
    sample::Progress progress("events", selection.whole() && source->count > 0 ? source->count : 0);
    Triggers triggers(*source, file, selection.whole());
    long long events = 0;
    cusEventArrays e;
    while (!sample::interrupted() && selection.next(e)) {
        if (e.count == 0)
            continue;
        triggers.before(e);
        file.write(e);
        progress.update(events += static_cast<long long>(e.count));
    }
    const double seconds = progress.seconds();
    progress.finish();
    if (sample::interrupted())
        return;
    if (!events && !source->problem().empty())
        throw Stop(sample::INPUT, source->problem() + "; there is no event before that");
    if (!events && !selection.whole())
        throw Stop(sample::INPUT, "no event: " + selection.whyEmpty(false));
    sample::figure("input", {{"input", source->describe()}}, "%s", source->describe().c_str());
    sample::figure("events", {{"events", events}}, "%lld", events);
    triggers.finish();
    if (source->info())
        source->reportOutside({});
    file.finish();
    const double rate = static_cast<double>(events) / std::max(seconds, 1e-9);
    sample::figure("rate", {{"events_per_second", rate}}, "%.2f million events/s", 1e-6 * rate);
    sample::figure("events in", {{"events_in", how.output}, {"format", cusEventFormatName(format)}}, "%s, %s",
                   how.output.c_str(), cusEventFormatName(format));
    if (!source->problem().empty())
        throw Stop(sample::INPUT, source->problem());
}

} // namespace events

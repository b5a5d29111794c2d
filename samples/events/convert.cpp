#include "events/convert.hpp"

#include "events/recording.hpp"
#include "events/source.hpp"

#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/progress.hpp"

#include <algorithm>
#include <memory>

namespace events {

using sample::Json;
using sample::Stop;

void convert(const Settings &s, const ConvertSettings &how) {
    sample::Files files;
    files.read("INPUT", s.input);
    files.write("OUTPUT", how.output);
    files.check();
    const cusEventFormat format = recordingFormat("OUTPUT", how.output, how.format);
    const std::unique_ptr<EventSource> source = openEvents(s, false);
    Selection selection(*source, s);
    EventFile file(how.output, selection.grid, format, how.compression);
    sample::Progress progress("events", selection.whole() && source->count > 0 ? source->count : 0);
    long long events = 0;
    cusEventArrays e;
    while (!sample::interrupted() && selection.next(e)) {
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
        throw Stop(sample::INPUT, "no event: --range contains no events");
    file.finish();
    sample::figure("input", Json().add("input", source->describe()), "%s", source->describe().c_str());
    sample::figure("events", Json().add("events", events), "%lld", events);
    const double rate = static_cast<double>(events) / std::max(seconds, 1e-9);
    sample::figure("rate", Json().add("events_per_second", rate), "%.2f million events/s", 1e-6 * rate);
    sample::figure("events in", Json().add("events_in", how.output).add("format", cusEventFormatName(format)), "%s, %s",
                   how.output.c_str(), cusEventFormatName(format));
    if (!source->problem().empty())
        throw Stop(sample::INPUT, source->problem());
}

} // namespace events

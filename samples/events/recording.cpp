#include "events/recording.hpp"

#include "common/app.hpp"
#include "common/output.hpp"
#include "common/terminal/files.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace events {

using sample::Stop;

namespace {

// The first format of an ending is its default.
const struct {
    const char *ending, *name;
    cusEventFormat format;
} FORMATS[] = {{".h5", "m3ed", CUS_EVENTS_M3ED},
               {".h5", "metavision", CUS_EVENTS_METAVISION},
               {".hdf5", "metavision", CUS_EVENTS_METAVISION},
               {".hdf5", "m3ed", CUS_EVENTS_M3ED},
               {".raw", "evt3", CUS_EVENTS_EVT3},
               {".raw", "evt2", CUS_EVENTS_EVT2},
               {".aedat4", "aedat4", CUS_EVENTS_AEDAT4},
               {".dat", "dat", CUS_EVENTS_DAT},
               {".csv", "text", CUS_EVENTS_TEXT},
               {".txt", "text", CUS_EVENTS_TEXT}};

void checkWritten(cusStatus status) {
    if (status != CUS_OK)
        throw Stop(sample::OUTPUT, sample::lastMessage());
}

} // namespace

cusEventFormat recordingFormat(const std::string &role, const std::string &path, const std::string &format) {
    sample::requireEnding(role, path, {".h5", ".hdf5", ".raw", ".aedat4", ".dat", ".csv", ".txt"});
    sample::requireFile(role, path);
    std::string expected;
    for (const auto &known : FORMATS) {
        if (sample::ending(path) != known.ending)
            continue;
        if (format.empty() || format == known.name)
            return known.format;
        expected += (expected.empty() ? "" : " or ") + std::string(known.name);
    }
    if (expected.empty()) // a device or pipe, which no recording can replace
        return CUS_EVENTS_M3ED;
    throw Stop(sample::USAGE, "--format is " + format + ", expected " + expected + " for " + role + " '" + path + "'");
}

EventFile::EventFile(const std::string &path, sample::Size size, cusEventFormat format, const std::string &compression)
    : path_(path) {
    if (path.empty())
        return;
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.width = size.width;
    options.height = size.height;
    options.format = format;
    const bool is_aedat4 = format == CUS_EVENTS_AEDAT4;
    if (compression == (is_aedat4 ? "gzip" : "zstd"))
        throw Stop(sample::USAGE, "--compression is " + compression + ", expected own, none or " +
                                      (is_aedat4 ? "zstd" : "gzip") + " for " + cusEventFormatName(format));
    options.compress = compression == "none" ? 0 : compression == "gzip" || compression == "zstd" ? 2 : 1;
    sample::currentFiles().isDerived(path);
    checkWritten(cusEventWriterCreate(&writer_, path.c_str(), &options));
}

EventFile::~EventFile() {
    cusEventWriterDiscard(writer_);
}

void EventFile::write(const cusEventArrays &e) {
    if (writer_)
        checkWritten(cusEventWriterWrite(writer_, e.count, e.x, e.y, e.p, e.t));
}

bool EventFile::write(const cusEventTrigger &trigger) {
    const cusStatus status = cusEventWriterWriteTriggers(writer_, 1, &trigger);
    if (status != CUS_ERROR_VALUE && status != CUS_ERROR_UNSUPPORTED)
        checkWritten(status);
    return status == CUS_OK;
}

void EventFile::finish() {
    if (writer_)
        checkWritten(cusEventWriterFinish(std::exchange(writer_, nullptr)));
    sample::currentFiles().wrote(path_);
}

} // namespace events

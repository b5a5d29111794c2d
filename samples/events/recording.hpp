// Recordings that are written: the file of --save-events and of `cusight-events convert`.
#pragma once

#include "common/values.hpp"

#include "cusight/eventio.h"
#include "cusight/events.h"

#include <string>

namespace events {

// The format that a name's ending and --format ("": by the ending) give. Throws Stop(USAGE) if there is none. `role`: "OUTPUT".
cusEventFormat recordingFormat(const std::string &role, const std::string &path, const std::string &format);

// Does nothing for the path "".
class EventFile {
  public:
    EventFile(const std::string &path, sample::Size size, cusEventFormat format, const std::string &compression);
    ~EventFile();
    EventFile(const EventFile &) = delete;
    EventFile &operator=(const EventFile &) = delete;

    void write(const cusEventArrays &events);
    // Returns false if the format cannot store the trigger.
    bool write(const cusEventTrigger &trigger);
    void finish();

  private:
    const std::string path_;
    cusEventWriter *writer_ = nullptr;
};

} // namespace events

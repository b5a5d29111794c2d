// What carries the bytes of a viewer's connection.
#pragma once

#include <cstddef>
#include <string>

namespace diffstream {

// One end of a connection. Everything is non-blocking; the caller polls.
class Transport {
  public:
    Transport() = default;
    virtual ~Transport() = default;
    Transport(const Transport &) = delete;
    Transport &operator=(const Transport &) = delete;

    // Return the number of bytes transferred; 0: none at present. Throw NetError, also at the end of the connection.
    virtual size_t read(void *data, size_t bytes) = 0;
    virtual size_t write(const void *data, size_t bytes) = 0;

    // Whether everything written has left for the socket. If not, read() and write() continue with it.
    virtual bool flushed() const { return true; }

    // The next frame of the video is offered to the viewer, who may send messages again.
    virtual void nextFrame() {}

    // Announces the end of the data, if that is possible without waiting.
    virtual void shutdown() = 0;

    virtual int socket() const = 0;
    // The events to poll() for. writing: there is data to write.
    virtual short events(bool writing) const = 0;
    virtual const std::string &name() const = 0;
};

} // namespace diffstream

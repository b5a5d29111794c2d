// A file that is written beside the stream: where it cannot be written, the stream goes on without it.
#pragma once

#include "common/app.hpp"
#include "diffstream/log.hpp"

#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace diffstream {

template<class File>
class SideFile {
  public:
    explicit SideFile(std::string option) : option_(std::move(option)) {}

    void open(std::unique_ptr<File> file) { file_ = std::move(file); }
    explicit operator bool() const { return file_ != nullptr; }

    // Calls work(file), if there still is one. Its first Stop is logged and kept, and there is no file any more.
    template<class F>
    void write(Log &log, F &&work) {
        const std::string why = attempt(work);
        if (!why.empty())
            log.line(option_, why + "; the stream goes on without it");
    }
    // The same with the last work, after which the file is closed; the program's last words say why it failed.
    template<class F>
    void finish(F &&work) {
        attempt(work);
        file_.reset();
    }

    // Why the file was given up, for the end of the program; nullptr if it was not.
    const std::exception_ptr &error() const { return error_; }

  private:
    template<class F>
    std::string attempt(F &&work) {
        try {
            if (file_)
                work(*file_);
        } catch (const sample::Stop &stop) {
            error_ = std::current_exception();
            file_.reset();
            const std::string why = stop.what(), named = option_ + ": ";
            return why.compare(0, named.size(), named) == 0 ? why.substr(named.size()) : why; // the log names the option
        }
        return "";
    }

    const std::string option_;
    std::unique_ptr<File> file_;
    std::exception_ptr error_;
};

} // namespace diffstream

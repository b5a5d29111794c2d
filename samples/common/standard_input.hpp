// stdin as an input ("-"): a picture, a video, a recording.
#pragma once

#include <string>
#include <vector>

namespace sample {

// Reads the first bytes of stdin. One of readAll(), read() and spool() reads everything, once. All throw
// Stop(INPUT).
class StandardInput {
  public:
    StandardInput();

    const std::string &start() const { return start_; }
    // Waits for more first bytes; returns false at the end.
    bool extend();
    // Whether stdin is a regular file, which can be read again.
    static bool isFile();
    // Checks the first bytes: PNG, JPEG, BMP, TIFF, WebP, PNM.
    bool isImage() const;

    // Everything, up to a gigabyte.
    std::vector<unsigned char> readAll();
    // Fills the buffer with the next bytes as they come; 0 at the end. Throws Stop(INTERRUPTED) while it waits.
    size_t read(char *buffer, size_t bytes);
    // Returns the name of a regular file with everything: stdin itself if it is one, otherwise an unnamed temporary file.
    std::string spool() const;

  private:
    std::string start_;
    size_t taken_ = 0; // of it, by read()
};

} // namespace sample

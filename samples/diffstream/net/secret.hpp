// Secrets in files: keys and tokens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace diffstream {

// A secret from a file. It is never copied, and wiped at the end.
class Secret {
  public:
    // Throws Stop(USAGE) if the file cannot be read, has more than max_bytes, is open to others, or is no regular file.
    Secret(const std::string &option, const std::string &file, size_t max_bytes);
    ~Secret();
    Secret(const Secret &) = delete;
    Secret &operator=(const Secret &) = delete;

    const char *begin() const { return bytes_.data(); }
    const char *end() const { return bytes_.data() + size_; }
    size_t size() const { return size_; }

  private:
    std::string read(int descriptor, size_t max_bytes);

    std::vector<char> bytes_; // never grows, which would leave a copy
    size_t size_ = 0;
};

} // namespace diffstream

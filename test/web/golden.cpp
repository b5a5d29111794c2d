// The golden rows as a WebAssembly module of their own: it makes the inputs and calls the functions of the shipped module, whose memory
// it uses and which are its imports. golden.mjs runs it.
#include "golden/golden.hpp"

#include "cusight/live.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

uint64_t support::seed() {
    return 1;
}
int support::fewer() {
    return 1;
}
testing::AssertionResult support::gives(cusStatus got, cusStatus expected, std::string_view) {
    return testing::AssertionResult(got == expected);
}

namespace {

std::vector<golden::Row> rows;
std::string failures, text;

const struct Module {
    const char *name;
    std::vector<golden::Row> (*rows)();
} MODULES[] = {{"integral", golden::integralRows}, {"match", golden::matchRows},   {"framediff", golden::framediffRows},
               {"hsv", golden::hsvRows},           {"stereo", golden::stereoRows}, {"events", golden::eventsRows},
               {"eventgen", golden::eventgenRows}, {"raw", golden::rawRows},       {"motion", golden::motionRows},
               {"remap", golden::remapRows},       {"pose", golden::poseRows},     {"video", golden::videoRows}};

} // namespace

void testing::failed(const char *file, int line, const std::string &what) {
    failures += std::string(file) + ":" + std::to_string(line) + " " + what + "; ";
}
bool testing::Test::HasFailure() {
    return !failures.empty();
}

extern "C" {

// Makes the rows of module `index`. Returns their number, -1 past the last module; golden_text() is its name.
int EXPORT(golden_module)(int index) {
    if (index >= static_cast<int>(std::size(MODULES)))
        return -1;
    rows = MODULES[index].rows();
    text = MODULES[index].name;
    return static_cast<int>(rows.size());
}

// Runs row `index`, tight or padded; golden_text() is then its line in the table, or what failed.
int EXPORT(golden_run)(int index, int padded) {
    const golden::Row &row = rows[static_cast<size_t>(index)];
    text = row.key();
    if (row.promise == golden::Promise::DEVICE_ONLY)
        return 0;
    failures.clear();
    const golden::Data data = row.computed(CUS_HOST, padded ? golden::Layout{8 + 5, 8 + 3} : golden::Layout{});
    char checksum[10];
    std::snprintf(checksum, sizeof checksum, ",%08x", cusCrc32c(0, data.data(), data.size()));
    text += failures.empty() ? checksum : "," + failures;
    return 1;
}

const char *EXPORT(golden_text)() {
    return text.c_str();
}
}

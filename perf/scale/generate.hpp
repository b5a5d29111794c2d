// Recordings of any length. Three quarters of the events lie on moving edges, the rest anywhere. Event number i depends
// only on i, so all processors make events at once.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace scale {

constexpr int ROWS = 720, COLS = 1280;

struct Columns {
    std::vector<uint16_t> x, y;
    std::vector<uint8_t> p;
    std::vector<int64_t> t;
};

// Events first .. first + count - 1, into arrays. `rate`: events in a second.
void makeEvents(uint64_t first, size_t count, double rate, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t);

// Calls work(first, last) for parts of 0 .. n on `threads` threads.
template<class F>
void inParallel(size_t n, size_t threads, const F &work) {
    std::vector<std::thread> workers;
    for (size_t k = 0; k < threads; ++k)
        workers.emplace_back([&, k] { work(n * k / threads, n * (k + 1) / threads); });
    for (auto &thread : workers)
        thread.join();
}

// Writes a recording; `format`: evt2, evt3, dat, text or m3ed. Throws std::runtime_error.
void generate(const std::string &path, const std::string &format, uint64_t events, double rate, unsigned threads);

} // namespace scale

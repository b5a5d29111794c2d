// Slows down who guesses the page's token.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

namespace diffstream {

// Each address may give BURST wrong tokens at once, then one a second. Beyond that its tokens are not looked at, right or wrong,
// so that nothing is learned from them. Right tokens use up nothing. Addresses do not hold up each other; who shares one with
// somebody who guesses gets in once the page, which tries again by itself, finds a second that is not used up.
class Guesses {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr int BURST = 10;
    static constexpr size_t ADDRESSES = 1024; // that are remembered: the memory has a limit

    // Whether a token that comes from this address now is looked at.
    bool allowed(const std::string &address, Clock::time_point now) const {
        const auto found = free_.find(address);
        return found == free_.end() || found->second <= now + std::chrono::seconds(BURST - 1);
    }
    // It was wrong.
    void failed(const std::string &address, Clock::time_point now) {
        if (free_.size() >= ADDRESSES && free_.count(address) == 0)
            forget(now);
        Clock::time_point &free = free_[address];
        free = std::max(free, now) + std::chrono::seconds(1);
    }

  private:
    // Forgets who has nothing used up any more or, if there is nobody, who has used up least.
    void forget(Clock::time_point now) {
        auto least = free_.begin();
        for (auto a = free_.begin(); a != free_.end();) {
            least = a->second < least->second ? a : least;
            a = a->second <= now && a != least ? free_.erase(a) : std::next(a);
        }
        free_.erase(least);
    }

    std::map<std::string, Clock::time_point> free_; // when nothing is used up any more
};

} // namespace diffstream

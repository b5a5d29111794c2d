// Runs of words (event_words.h): however a stream is cut and its runs are joined, the whole is the same, and so is the state after it.
#include "../support.hpp"

#include "event_words.h"

namespace {

CusiTimeRun emptyTimes() {
    return {0, 0, 0, 0, 0, 0, CUSI_UNSET, CUSI_UNSET};
}

bool same(const CusiTimeRun &a, const CusiTimeRun &b) {
    const auto same_early = !a.timed || a.early == b.early; // unspecified without a time word
    return a.events == b.events && same_early && a.timed == b.timed && a.wraps == b.wraps && a.early_low == b.early_low &&
           a.low == b.low && (!a.timed || (a.first == b.first && a.last == b.last));
}

// Words of three kinds: an event, lower bits, a time word.
struct Word {
    int kind;
    uint32_t value;
};

void add(CusiTimeRun &run, const Word &word, int bits) {
    if (word.kind == 0)
        ++run.events;
    else if (word.kind == 1)
        (run.timed ? run.low : run.early_low) = word.value;
    else
        cusi_addTime(&run, word.value, bits);
}

TEST(RawWords, TimesJoinInAnyGrouping) {
    auto random = support::generator();
    for (const int bits : {CUSI_EVT3_TIME_BITS, CUSI_EVT_TIME_BITS, CUSI_DAT_TIME_BITS})
        for (int round = 0; round < 2000; ++round) {
            std::vector<Word> words(random() % 20);
            const uint32_t most = uint32_t(UINT32_MAX >> (32 - bits)), base = uint32_t(random()) & most;
            for (Word &word : words)
                word = {int(random() % 3), (random() % 2 ? uint32_t(random()) : base + uint32_t(random() % 3)) & most};
            CusiTimeRun whole = emptyTimes(), joined = emptyTimes();
            int64_t high = -1; // step by step
            for (const Word &word : words) {
                add(whole, word, bits);
                high = word.kind == 2 ? cusi_unwrapTime(high, word.value, bits) : high;
            }
            for (size_t at = 0; at < words.size();) {
                CusiTimeRun part = emptyTimes(); // itself of two runs
                for (int half = 0; half < 2; ++half) {
                    CusiTimeRun run = emptyTimes();
                    for (size_t n = random() % 5; n-- && at < words.size();)
                        add(run, words[at++], bits);
                    cusi_appendTimes(&part, &run, bits);
                }
                cusi_appendTimes(&joined, &part, bits);
            }
            ASSERT_TRUE(same(whole, joined)) << bits << " bits, round " << round;
            if (whole.timed)
                ASSERT_EQ(high, int64_t(whole.wraps) << bits | whole.last) << bits << " bits, round " << round;
        }
}

TEST(RawWords, RowsJoinInAnyGrouping) {
    auto random = support::generator();
    for (int round = 0; round < 2000; ++round) {
        CusiRowRun whole = {CUSI_UNSET, 0}, joined = whole;
        uint32_t y = 5, x = 7, p = 1; // step by step
        for (int part = 0; part < 5; ++part) {
            CusiRowRun run = {CUSI_UNSET, 0};
            for (size_t n = random() % 5; n--;) {
                const auto word = uint32_t(random() & 4095);
                switch (random() % 4) {
                case 0:
                    whole.y = run.y = y = cusi_evt3Place(word);
                    break;
                case 1:
                    whole.x = run.x = cusi_evt3Base(word);
                    x = word & 2047, p = word >> 11;
                    break;
                default:
                    const uint32_t columns = word % 2 ? 12 : 8;
                    cusi_passColumns(&whole, columns), cusi_passColumns(&run, columns);
                    x += columns;
                }
            }
            cusi_appendRows(&joined, &run);
        }
        ASSERT_EQ(whole.y, joined.y) << round;
        ASSERT_EQ(whole.x, joined.x) << round;
        CusiRowRun state = {5, CUSI_EVT3_BASE | CUSI_EVT3_POSITIVE | 7};
        cusi_appendRows(&state, &whole);
        ASSERT_EQ(state.y, y) << round;
        ASSERT_EQ(state.x, CUSI_EVT3_BASE | (p ? CUSI_EVT3_POSITIVE : 0) | x) << round;
    }
}

// Vectors without end stay beyond every sensor, and no sum wraps.
TEST(RawWords, ColumnsPassedStayBeyond) {
    CusiRowRun run = {CUSI_UNSET, 0};
    for (int i = 0; i < 100000; ++i)
        cusi_passColumns(&run, 12);
    const CusiRowRun once = run;
    for (int i = 0; i < 100000; ++i)
        cusi_appendRows(&run, &once);
    EXPECT_EQ(run.x, uint32_t{CUSI_EVT3_MAX_X + 11});
}

} // namespace

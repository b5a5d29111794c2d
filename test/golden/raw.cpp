#include "golden/golden.hpp"

#include "raw/support.hpp"

namespace golden {
namespace {

using raw_test::Bytes;
using raw_test::Kind;

// Events, triggers and counts, of a run that skips what is bad.
Data all(const reference::Events &events, const std::vector<cusEventTrigger> &triggers, const cusEventCounts &counts,
         uint64_t index) {
    Data data;
    append(data, events.x);
    append(data, events.y);
    append(data, events.p);
    append(data, events.t);
    append(data, triggers);
    append(data, std::vector<cusEventCounts>{counts});
    append(data, std::vector<uint64_t>{index});
    return data;
}

Data expected(const Kind &kind, const Bytes &stream) {
    reference::Raw raw(raw_test::optionsOf(kind, CUS_HOST, CUS_BAD_EVENTS_SKIP));
    raw.run(stream);
    return all(raw.events, raw.triggers, raw.counts, raw.index);
}

// The padding is the largest piece, the offset its capacity.
Data computed(const Kind &kind, const Bytes &stream, cusSpace space, Layout layout) {
    const auto options = raw_test::optionsOf(kind, space, CUS_BAD_EVENTS_SKIP);
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_EXPECT_OK(cusEventDecoderCreate(&decoder, &options));
    if (!decoder)
        return {};
    std::mt19937_64 random(layout.padding);
    raw_test::Bench bench(space, 1 << 16, 1 << 16);
    const size_t most = layout.padding ? 60 * layout.padding : size_t(1) << 16, capacity = layout.offset ? 300 : 1 << 16;
    const raw_test::Result result = bench.decode(decoder, stream, random, most, 32, capacity);
    return all(result.events, result.triggers, result.last.counts, result.last.index);
}

Row row(const Kind &kind, const std::string &name, size_t words, const raw_test::Damage &damage, uint32_t seed) {
    std::mt19937_64 random(seed);
    const Bytes stream = raw_test::randomStream(kind, words, damage, random);
    return {"cusEventDecoderRun",
            std::string(kind.name) + name,
            seed,
            std::to_string(words) + " words",
            "8UC1",
            [=] { return expected(kind, stream); },
            [=](cusSpace space, Layout layout) { return computed(kind, stream, space, layout); }};
}

Row framesRow(cusEventFormat format, const std::string &name, size_t events, const raw_test::Damage &damage,
              uint32_t seed) {
    const Kind kind = {format, 0, cusEventFormatName(format)};
    std::mt19937_64 random(seed);
    const Bytes stream = raw_test::randomFrames(events, damage, random, 1280, 720, format);
    return {"cusEventDecoderRun",
            std::string(kind.name) + name,
            seed,
            std::to_string(events) + " events",
            "8UC1",
            [=] {
                reference::Frames frames(raw_test::optionsOf(kind, CUS_HOST, CUS_BAD_EVENTS_SKIP));
                frames.run(stream);
                return all(frames.events, frames.triggers, frames.counts, frames.index);
            },
            [=](cusSpace space, Layout layout) { return computed(kind, stream, space, layout); },
            Promise::DEVICE_ONLY};
}

} // namespace

Row anyRaw(Choices &choices) {
    const Kind &kind = raw_test::KINDS[choices.below(int(std::size(raw_test::KINDS)))];
    const bool damaged = choices.yes();
    const raw_test::Damage damage = damaged ? raw_test::Damage{20, 40, 60, 20, 50} : raw_test::Damage{};
    const auto words = static_cast<size_t>(choices.below(3000));
    return row(kind, " any", words, damage, choices.seed());
}

std::vector<Row> rawRows() {
    std::vector<Row> rows;
    for (const Kind &kind : raw_test::KINDS)
        for (const size_t words : {1, 37, 1000, 12000}) {
            rows.push_back(row(kind, "", words, {}, 70));
            rows.push_back(row(kind, " damaged", words, {20, 40, 60, 20, 10}, 71));
        }
    for (const size_t events : {1, 37, 1000, 12000}) {
        rows.push_back(framesRow(CUS_EVENTS_METAVISION, "", events, {}, 72));
        rows.push_back(framesRow(CUS_EVENTS_METAVISION, " damaged", events, {0, 40, 60, 0, 0}, 73));
    }
    for (const size_t events : {1, 37, 1000, 12000}) {
        rows.push_back(framesRow(CUS_EVENTS_HDF5, "", events, {}, 74));
        rows.push_back(framesRow(CUS_EVENTS_HDF5, " damaged", events, {0, 40, 60, 20, 0}, 75));
    }
    return rows;
}

} // namespace golden

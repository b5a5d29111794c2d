#include "events-mpi/files/recording.hpp"

#include <algorithm>

#include <sys/stat.h>

namespace events_mpi {

using sample::Stop;

namespace {

// Parts are so small that starting at any event is quick, and so many that shares are even.
constexpr uint64_t PART_BYTES = uint64_t{8} << 20, PARTS_PER_RANK = 64, MAX_PARTS = uint64_t{1} << 20;

uint64_t fileSize(const std::string &path) {
    struct stat about;
    return ::stat(path.c_str(), &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
}

// Maps each coordinate below `from` to a grid of `to`.
std::vector<uint16_t> scaleTable(int from, int to) {
    std::vector<uint16_t> table(65536, 65535); // outside remains outside
    for (int i = 0; i < from; ++i)
        table[static_cast<size_t>(i)] = static_cast<uint16_t>(static_cast<int64_t>(i) * to / from);
    return table;
}

} // namespace

void check(cusStatus status) {
    if (status == CUS_OK)
        return;
    throw Stop(status == CUS_ERROR_CUDA || status == CUS_ERROR_NO_CUDA ? sample::DEVICE : sample::FAILED,
               events::inOptions(cusLastError()));
}

Recording::Recording(const Options &o, bool pinned) : path_(o.input), indexed_(!o.skip_bad), pinned_(pinned) {
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.width = o.sensor.width;
    options.height = o.sensor.height;
    options.camera = o.camera.empty() ? nullptr : o.camera.c_str();
    options.bad_events = o.skip_bad ? CUS_BAD_EVENTS_SKIP : CUS_BAD_EVENTS_STOP;
    if (cusEventReaderOpen(&reader_, path_.c_str(), &options) != CUS_OK)
        throw Stop(sample::INPUT, path_ + ": " + sample::lastMessage());
    check(cusEventReaderInfo(reader_, &info));
    sensor = {info.width, info.height};
    grid = o.resize;
    const int types[] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1}; // x, y, p; t is int64_t, as large as 64F
    for (int k = 0; k < 4; ++k)
        check(pinned ? cusMatCreatePinned(&column_[k], 1, PIECE, types[k])
                     : cusMatCreate(&column_[k], 1, PIECE, types[k], CUS_HOST));
}

Recording::~Recording() {
    cusEventReaderClose(reader_);
    for (cusMat &m : column_)
        cusMatRelease(&m);
    cusMatRelease(&bytes_);
}

// ---- Marks -------------------------------------------------------------------------------------------------------------

void Recording::index(Team &team) {
    const uint64_t bytes = fileSize(path_);
    const std::vector<uint64_t> sizes = team.all(bytes);
    team.together([&] {
        if (sizes[0] != bytes)
            throw Stop(sample::INPUT,
                       sample::text("%s has %llu bytes here and %llu on rank 0's host: is it the same file?", path_.c_str(),
                                    static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(sizes[0])));
    });
    const auto ranks = static_cast<uint64_t>(team.size), rank = static_cast<uint64_t>(team.rank);
    uint64_t parts = std::min(MAX_PARTS, std::max(bytes / PART_BYTES + 1, PARTS_PER_RANK * ranks));
    if (!indexed_)
        parts = 1;
    std::vector<cusEventPart> mine;
    team.together([&] {
        for (uint64_t k = parts * rank / ranks; k < parts * (rank + 1) / ranks && indexed_; ++k) {
            mine.emplace_back();
            if (cusEventReaderScan(reader_, k, parts, &mine.back()) != CUS_OK)
                throw Stop(sample::INPUT, path_ + ": " + sample::lastMessage());
        }
    });
    if (indexed_) {
        std::vector<cusEventPart> summaries = team.gather(mine);
        team.share(summaries);
        marks_.resize(parts + 1);
        team.together([&] { check(cusEventReaderMarks(reader_, summaries.data(), parts, marks_.data())); });
        times_.assign(marks_.size(), -1);
    }
    if (!sensor.width)
        measureSensor(team);
    if (grid.width) {
        to_column_ = scaleTable(sensor.width, grid.width);
        to_row_ = scaleTable(sensor.height, grid.height);
    } else {
        grid = sensor;
    }
    rewind();
}

// For recordings that give no size: covers all events, up to any damage.
void Recording::measureSensor(Team &team) {
    struct Reach {
        int width, height, damaged;
    } mine = {0, 0, 0};
    const auto ranks = static_cast<size_t>(team.size), rank = static_cast<size_t>(team.rank);
    const size_t parts = marks_.size() - 1;
    uint64_t end = UINT64_MAX;
    if (indexed_) {
        seekMark(parts * rank / ranks);
        end = marks_[parts * (rank + 1) / ranks].index + (rank + 1 == ranks); // the last rank: the end of the file too
    } else {
        rewind();
    }
    cusEventArrays e;
    while ((indexed_ || rank == 0) && position_ < end &&
           next(static_cast<size_t>(std::min<uint64_t>(PIECE, end - position_)), e))
        for (size_t i = 0; i < e.count; ++i) {
            mine.width = std::max(mine.width, e.x[i] + 1);
            mine.height = std::max(mine.height, e.y[i] + 1);
        }
    mine.damaged = !problem_.empty();
    for (const Reach &r : team.all(mine)) {
        sensor.width = std::max(sensor.width, r.width);
        sensor.height = std::max(sensor.height, r.height);
        if (r.damaged)
            break;
    }
    team.together([&] {
        if (!sensor.width)
            throw Stop(sample::INPUT, path_ + " contains no events" + (problem_.empty() ? "" : ": " + problem_));
    });
}

size_t Recording::markBefore(uint64_t event) const {
    const auto after = std::upper_bound(marks_.begin(), marks_.end(), event,
                                        [](uint64_t value, const cusEventMark &mark) { return value < mark.index; });
    return static_cast<size_t>(after - marks_.begin()) - (after != marks_.begin());
}

size_t Recording::markBeforeTime(int64_t time) {
    size_t low = 0, high = marks_.size(); // the mark is in [low, high)
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (timeAt(middle) < time)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t Recording::timeAt(size_t mark) {
    if (times_[mark] >= 0)
        return times_[mark];
    seekMark(mark);
    cusEventArrays e;
    times_[mark] = next(1, e) ? e.t[0] : INT64_MAX;
    return times_[mark];
}

// ---- Reading -----------------------------------------------------------------------------------------------------------

// Keeps the message of a call that failed.
bool Recording::note(cusStatus status) {
    if (status != CUS_OK)
        problem_ = path_ + ": " + sample::lastMessage();
    return status == CUS_OK;
}

void Recording::rewind() {
    problem_.clear();
    position_ = 0;
    note(cusEventReaderSeekIndex(reader_, 0));
}

void Recording::seekMark(size_t mark) {
    problem_.clear();
    position_ = marks_[mark].index;
    note(cusEventReaderSeekMark(reader_, &marks_[mark]));
}

void Recording::seek(uint64_t event) {
    seekMark(markBefore(event));
    if (position_ < event && problem_.empty() && note(cusEventReaderSeekIndex(reader_, static_cast<int64_t>(event))))
        position_ = event;
}

bool Recording::next(size_t most, cusEventArrays &events) {
    if (!problem_.empty())
        return false;
    auto *x = static_cast<uint16_t *>(column_[0].data), *y = static_cast<uint16_t *>(column_[1].data);
    auto *p = static_cast<uint8_t *>(column_[2].data);
    auto *t = static_cast<int64_t *>(column_[3].data);
    size_t got = 0;
    note(cusEventReaderRead(reader_, std::min<size_t>(most, PIECE), x, y, p, t, &got));
    position_ += got;
    if (!to_column_.empty())
        for (size_t i = 0; i < got; ++i) {
            x[i] = to_column_[x[i]];
            y[i] = to_row_[y[i]];
        }
    events = {x, y, p, t, got, CUS_HOST};
    return got > 0;
}

// ---- Bytes -------------------------------------------------------------------------------------------------------------

bool Recording::decoder(cusEventDecoderOptions &options, cusEventDecoderState &state) {
    if (!to_column_.empty() || cusEventReaderDecoder(reader_, &options, &state) != CUS_OK)
        return false;
    // Chunks of HDF5 are for a GPU; the reader decodes them on all cores.
    const bool ecf = options.format == CUS_EVENTS_METAVISION, framed = ecf || options.format == CUS_EVENTS_HDF5;
    if (framed && !pinned_)
        return false;
    if (!bytes_.data)
        check(pinned_ ? cusMatCreatePinned(&bytes_, 1, PIECE_BYTES, CUS_8UC1)
                      : cusMatCreate(&bytes_, 1, PIECE_BYTES, CUS_8UC1, CUS_HOST));
    next_byte_ = framed ? state.index : state.offset;
    bytes_per_unit_ = ecf ? 2 : framed ? 8 : 1;
    return true;
}

bool Recording::nextBytes(uint64_t end, const void *&bytes, size_t &size) {
    const uint64_t left = std::min<uint64_t>(end > next_byte_ ? end - next_byte_ : 0, PIECE_BYTES);
    const uint64_t wanted = left ? left * bytes_per_unit_ : PART_BYTES / 8;
    bytes = bytes_.data;
    size = 0;
    if (!problem_.empty())
        return false;
    note(
        cusEventReaderReadBytes(reader_, static_cast<size_t>(std::min<uint64_t>(wanted, PIECE_BYTES)), bytes_.data, &size));
    next_byte_ += size / bytes_per_unit_;
    return size > 0;
}

} // namespace events_mpi

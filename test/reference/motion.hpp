// Motion in its plainest form: one camera, pixel by pixel; components by flood fill. cusight/motion.h has the definition.
#pragma once

#include "cusight/motion.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <tuple>
#include <utility>
#include <vector>

namespace reference {

struct MotionStepResult {
    cusMotionStatus status = {};
    std::vector<cusMotionBox> boxes;
    std::vector<cusMotionTrack> tracks;
    std::vector<uint8_t> mask; // 0 or 255
};

class Motion {
  public:
    Motion(int rows, int cols, int channels, const cusMotionOptions &options)
        : rows_(rows), cols_(cols), channels_(channels), o_(options), background_(pixels()), watched_(pixels(), 1) {}

    void watch(const std::vector<uint8_t> &mask) { watched_ = mask; }

    MotionStepResult step(const std::vector<uint8_t> &frame, int64_t time) {
        MotionStepResult r;
        cusMotionStatus &s = r.status;
        r.mask.assign(pixels(), 0);
        s.time = time;
        s.steps = ++steps_;
        s.threshold = 256 * o_.threshold;
        if (o_.noise_factor > 0 && noise_ >= 0)
            s.threshold = std::max(s.threshold, std::min(255 * 256, o_.noise_factor * noise_));
        std::vector<int> differences(pixels());
        std::vector<uint8_t> moves(pixels());
        const int64_t mean = learn(frame, time, s.threshold, differences, moves);
        int64_t watched = 0;
        for (size_t i = 0; i < pixels(); ++i) {
            watched += watched_[i] != 0;
            s.moving += moves[i];
        }
        std::vector<Blob> found;
        if (int64_t(s.moving) * 100 > watched * o_.sudden_percent) {
            s.state = CUS_MOTION_SUDDEN;
        } else if (age_ <= o_.warmup) {
            s.state = CUS_MOTION_LEARNING;
        } else {
            dropShadows(frame, moves);
            const auto mask = dilated(eroded(moves));
            for (size_t i = 0; i < pixels(); ++i)
                r.mask[i] = mask[i] ? 255 : 0;
            found = components(mask, moves, differences);
            s.components = uint32_t(found.size());
            s.state = found.size() > CUS_MOTION_MAX_COMPONENTS ? CUS_MOTION_CROWDED : CUS_MOTION_WATCHING;
            if (s.state == CUS_MOTION_CROWDED)
                found.clear();
        }
        if (age_ > 0 && s.state != CUS_MOTION_SUDDEN && s.components == 0 && watched > 0)
            noise_ = noise_ < 0 ? int(mean) : noise_ + floorShift(mean - noise_ + 8, 4);
        s.noise = noise_;
        age_ = s.state == CUS_MOTION_SUDDEN ? 0 : age_ + 1;
        time_ = time;
        r.boxes = boxes(std::move(found));
        if (o_.split)
            r.boxes = split(r.boxes, r.mask, moves, differences);
        if (o_.ghosts)
            learnGhosts(frame, moves, r);
        track(r.boxes, time);
        r.tracks = tracks_;
        s.boxes = int32_t(r.boxes.size());
        s.tracks = int32_t(tracks_.size());
        return r;
    }

  private:
    // A component, or several that were merged.
    struct Blob {
        int left, top, right, bottom, first; // first: column of the first pixel
        uint64_t area, sum_x, sum_y, differences, moving;
    };

    size_t pixels() const { return size_t(rows_) * size_t(cols_); }
    size_t at(int y, int x) const { return size_t(y) * size_t(cols_) + size_t(x); }
    bool inside(int y, int x) const { return y >= 0 && y < rows_ && x >= 0 && x < cols_; }
    static int floorShift(int64_t v, int bits) {
        const int64_t d = int64_t(1) << bits;
        return int(v >= 0 ? v / d : -((-v + d - 1) / d));
    }

    int luma(const std::vector<uint8_t> &frame, size_t i) const {
        const uint8_t *p = &frame[i * size_t(channels_)];
        return channels_ == 1 ? p[0] : (29 * p[0] + 150 * p[1] + 77 * p[2] + 128) >> 8;
    }
    int gray(size_t i) const { return (background_[i] + 128) / 256; }

    void dropShadows(const std::vector<uint8_t> &frame, std::vector<uint8_t> &moves) const {
        for (int v = 0; v < rows_ && o_.shadows; ++v)
            for (int u = 0; u < cols_; ++u) {
                const size_t i = at(v, u);
                const int y = luma(frame, i), b = gray(i);
                if (!moves[i] || y >= b || 100 * y < o_.shadows * b)
                    continue;
                bool shadow = true;
                for (const auto &[dv, du] : {std::pair(0, 1), {0, -1}, {1, 0}, {-1, 0}})
                    if (inside(v + dv, u + du)) {
                        const size_t k = at(v + dv, u + du);
                        shadow = shadow && std::abs(luma(frame, k) * b - y * gray(k)) <= 8 * b;
                    }
                moves[i] = !shadow;
            }
    }

    // Learns the places of boxes where something has left.
    void learnGhosts(const std::vector<uint8_t> &frame, const std::vector<uint8_t> &moves, const MotionStepResult &r) {
        std::vector<cusMotionBox> ghosts;
        for (const cusMotionBox &box : r.boxes) {
            int64_t in_frame = 0, in_background = 0;
            for (int v = std::max(0, box.y - 1); v < std::min(rows_, box.y + box.height + 1); ++v)
                for (int u = std::max(0, box.x - 1); u < std::min(cols_, box.x + box.width + 1); ++u)
                    for (const auto &[dv, du] : {std::pair(0, 1), {1, 0}}) {
                        if (v + dv >= std::min(rows_, box.y + box.height + 1) ||
                            u + du >= std::min(cols_, box.x + box.width + 1))
                            continue;
                        const size_t i = at(v, u), k = at(v + dv, u + du);
                        if (moves[i] == moves[k])
                            continue;
                        in_frame += std::abs(luma(frame, i) - luma(frame, k));
                        in_background += std::abs(gray(i) - gray(k));
                    }
            if (in_frame < in_background)
                ghosts.push_back(box);
        }
        for (const cusMotionBox &box : ghosts)
            for (int v = box.y; v < box.y + box.height; ++v)
                for (int u = box.x; u < box.x + box.width; ++u)
                    if (r.mask[at(v, u)])
                        background_[at(v, u)] = 256 * luma(frame, at(v, u));
    }

    // Updates the background; returns the mean difference of the watched pixels.
    int64_t learn(const std::vector<uint8_t> &frame, int64_t time, int threshold, std::vector<int> &differences,
                  std::vector<uint8_t> &moves) {
        int64_t weight = 32768 >> o_.shift, sum = 0, watched = 0;
        if (o_.learn_us > 0)
            weight = std::clamp<int64_t>(std::min(time - time_, o_.learn_us) * 32768 / o_.learn_us, 1, 32768);
        weight = std::max<int64_t>(weight, 32768 / (age_ + 1));
        for (size_t i = 0; i < pixels(); ++i) {
            const int y = luma(frame, i);
            if (age_ == 0) {
                background_[i] = 256 * y;
                continue;
            }
            differences[i] = std::abs(256 * y - background_[i]);
            moves[i] = watched_[i] && differences[i] > threshold;
            sum += watched_[i] ? std::min(differences[i], 8191) : 0;
            watched += watched_[i] != 0;
            const int learned = 256 * y - background_[i];
            background_[i] +=
                floorShift(weight * (o_.ghosts ? std::clamp(learned, -threshold, threshold) : learned) + 16384, 15);
        }
        return watched ? sum / watched : 0;
    }

    std::vector<uint8_t> eroded(const std::vector<uint8_t> &mask) const { return window(mask, o_.erode, true); }
    std::vector<uint8_t> dilated(const std::vector<uint8_t> &mask) const { return window(mask, o_.dilate, false); }
    // Whether all, or else any, of the pixels around each pixel are set.
    std::vector<uint8_t> window(const std::vector<uint8_t> &mask, int radius, bool all) const {
        std::vector<uint8_t> out(pixels());
        for (int y = 0; y < rows_; ++y)
            for (int x = 0; x < cols_; ++x) {
                bool result = all;
                for (int v = y - radius; v <= y + radius; ++v)
                    for (int u = x - radius; u <= x + radius; ++u)
                        if (inside(v, u) && (mask[at(v, u)] != 0) != all)
                            result = !all;
                out[at(y, x)] = result;
            }
        return out;
    }

    // Components of at least min_area pixels, by first pixel.
    std::vector<Blob> components(std::vector<uint8_t> mask, const std::vector<uint8_t> &moves,
                                 const std::vector<int> &differences) const {
        std::vector<Blob> found;
        std::vector<std::pair<int, int>> stack;
        for (int y = 0; y < rows_; ++y)
            for (int x = 0; x < cols_; ++x) {
                if (!mask[at(y, x)])
                    continue;
                Blob blob = {x, y, x, y, x, 0, 0, 0, 0, 0};
                Blob hull = {cols_, rows_, -1, -1, cols_, 0, 0, 0, 0, 0}; // of its moving pixels
                mask[at(y, x)] = 0;
                stack.push_back({y, x});
                while (!stack.empty()) {
                    const auto [v, u] = stack.back();
                    stack.pop_back();
                    blob = joined(blob, {u, v, u, v, u, 1, uint64_t(u), uint64_t(v),
                                         moves[at(v, u)] ? uint64_t(differences[at(v, u)] / 256) : 0, moves[at(v, u)]});
                    if (moves[at(v, u)])
                        hull = joined(hull, {u, v, u, v, u, 0, 0, 0, 0, 0});
                    for (int b = v - 1; b <= v + 1; ++b)
                        for (int a = u - 1; a <= u + 1; ++a)
                            if (inside(b, a) && mask[at(b, a)]) {
                                mask[at(b, a)] = 0;
                                stack.push_back({b, a});
                            }
                }
                if (o_.tight)
                    blob = {hull.left, hull.top,   hull.right, hull.bottom,      hull.first,
                            blob.area, blob.sum_x, blob.sum_y, blob.differences, blob.moving};
                if (blob.area >= uint64_t(o_.min_area))
                    found.push_back(blob);
            }
        return found;
    }

    static Blob joined(const Blob &a, const Blob &b) {
        return {std::min(a.left, b.left),
                std::min(a.top, b.top),
                std::max(a.right, b.right),
                std::max(a.bottom, b.bottom),
                std::tie(a.top, a.first) < std::tie(b.top, b.first) ? a.first : b.first,
                a.area + b.area,
                a.sum_x + b.sum_x,
                a.sum_y + b.sum_y,
                a.differences + b.differences,
                a.moving + b.moving};
    }

    static bool before(const Blob &a, const Blob &b) {
        return std::tie(b.area, a.top, a.left, a.first) < std::tie(a.area, b.top, b.left, b.first);
    }

    std::vector<cusMotionBox> boxes(std::vector<Blob> found) const {
        std::sort(found.begin(), found.end(), before);
        found.resize(std::min(found.size(), size_t(o_.max_boxes)));
        for (bool again = o_.merge != 0; again;) {
            again = false;
            for (size_t i = 0; i < found.size() && !again; ++i)
                for (size_t j = i + 1; j < found.size() && !again; ++j) {
                    const Blob a = found[i], b = found[j];
                    if (a.left > b.right || b.left > a.right || a.top > b.bottom || b.top > a.bottom)
                        continue;
                    found[i] = joined(a, b);
                    found.erase(found.begin() + std::ptrdiff_t(j));
                    again = true;
                }
        }
        std::sort(found.begin(), found.end(), before);
        std::vector<cusMotionBox> boxes;
        for (const Blob &b : found)
            boxes.push_back(boxOf(b));
        return boxes;
    }

    static cusMotionBox boxOf(const Blob &b) {
        return {b.left,
                b.top,
                b.right - b.left + 1,
                b.bottom - b.top + 1,
                uint32_t(b.area),
                int32_t(256 * b.sum_x / b.area),
                int32_t(256 * b.sum_y / b.area),
                uint32_t(256 * b.differences / b.moving),
                0,
                uint32_t(b.first)};
    }

    // Where a box is cut, its left and its right edge among them.
    std::vector<int> cutsOf(const cusMotionBox &box, const std::vector<uint8_t> &mask,
                            const std::vector<uint8_t> &moves) const {
        std::vector<int> moving(size_t(box.width)), area(size_t(box.width)), cuts = {box.x};
        for (int x = 0; x < box.width; ++x)
            for (int y = box.y; y < box.y + box.height; ++y) {
                area[size_t(x)] += mask[at(y, box.x + x)] != 0;
                moving[size_t(x)] += mask[at(y, box.x + x)] && moves[at(y, box.x + x)];
            }
        const int most = *std::max_element(moving.begin(), moving.end());
        int last = -1; // where a core has ended
        for (int first = 0, end; first < box.width; first = end + 1) {
            int pixels = 0;
            for (end = first; end < box.width && 100 * moving[size_t(end)] >= o_.split * most; ++end)
                pixels += area[size_t(end)];
            if (10 * (end - first) < most || pixels < o_.min_area)
                continue;
            if (last >= 0)
                cuts.push_back((2 * box.x + last + first) / 2);
            last = end;
        }
        cuts.push_back(box.x + box.width);
        return cuts;
    }

    // Cuts boxes between their cores.
    std::vector<cusMotionBox> split(const std::vector<cusMotionBox> &boxes, const std::vector<uint8_t> &mask,
                                    const std::vector<uint8_t> &moves, const std::vector<int> &differences) const {
        std::vector<cusMotionBox> all;
        for (const cusMotionBox &box : boxes) {
            const std::vector<int> cuts = cutsOf(box, mask, moves);
            if (cuts.size() == 2)
                all.push_back(box);
            for (size_t i = 0; i + 1 < cuts.size() && cuts.size() > 2; ++i) {
                const Blob none = {cols_, rows_, -1, -1, cols_, 0, 0, 0, 0, 0};
                Blob sum = none, hull = none;
                for (int y = box.y; y < box.y + box.height; ++y)
                    for (int x = cuts[i]; x < cuts[i + 1]; ++x) {
                        if (!mask[at(y, x)])
                            continue;
                        const bool moves_here = moves[at(y, x)];
                        sum = joined(sum, {x, y, x, y, x, 1, uint64_t(x), uint64_t(y),
                                           moves_here ? uint64_t(differences[at(y, x)] / 256) : 0, moves_here});
                        if (moves_here || !o_.tight)
                            hull = joined(hull, {x, y, x, y, x, 0, 0, 0, 0, 0});
                    }
                all.push_back(boxOf({hull.left, hull.top, hull.right, hull.bottom, hull.first, sum.area, sum.sum_x,
                                     sum.sum_y, sum.differences, sum.moving}));
            }
        }
        all.resize(std::min(all.size(), size_t(o_.max_boxes)));
        return all;
    }

    void track(std::vector<cusMotionBox> &boxes, int64_t time) {
        const auto follow = [&](cusMotionTrack &t, size_t i) {
            cusMotionBox &b = boxes[i];
            t = {t.first, time, t.id, t.boxes + 1, b.x, b.y, b.width, b.height, 0, int32_t(i)};
            b.track = t.id;
        };
        for (cusMotionTrack &t : tracks_) {
            std::vector<int64_t> shared;
            for (const cusMotionBox &b : boxes) {
                const int64_t w = std::min(t.x + t.width, b.x + b.width) - std::max(t.x, b.x);
                const int64_t h = std::min(t.y + t.height, b.y + b.height) - std::max(t.y, b.y);
                shared.push_back(b.track == 0 && w > 0 && h > 0 ? w * h : 0);
            }
            const auto best = std::max_element(shared.begin(), shared.end());
            t.box = -1;
            if (best != shared.end() && *best > 0)
                follow(t, size_t(best - shared.begin()));
            else
                ++t.missed;
        }
        const auto drop = [&](const auto &drops) {
            tracks_.erase(std::remove_if(tracks_.begin(), tracks_.end(), drops), tracks_.end());
        };
        drop([&](const cusMotionTrack &t) { return t.missed > o_.track_gap; });
        size_t all = boxes.size();
        for (const cusMotionTrack &t : tracks_)
            all += t.box < 0;
        drop([&](const cusMotionTrack &t) { return t.box < 0 && all > size_t(o_.max_boxes) && all-- > 0; });
        for (size_t i = 0; i < boxes.size(); ++i)
            if (boxes[i].track == 0) {
                tracks_.push_back({time, time, ++ids_, 0, 0, 0, 0, 0, 0, 0});
                follow(tracks_.back(), i);
            }
    }

    int rows_, cols_, channels_;
    cusMotionOptions o_;
    std::vector<int> background_;
    std::vector<uint8_t> watched_;
    std::vector<cusMotionTrack> tracks_;
    int64_t age_ = 0, time_ = 0;
    uint32_t steps_ = 0, ids_ = 0;
    int noise_ = -1;
};

} // namespace reference

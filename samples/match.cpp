// cusight-match: finds templates in an image, a video or the pictures of a camera, draws the matches, and tells filled objects
// from empty ones by the color inside them.
#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/video/legend.hpp"
#include "common/many_devices.hpp"
#include "common/terminal/options.hpp"
#include "common/output.hpp"
#include "common/terminal/progress.hpp"
#include "common/window/select.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"
#include "common/stages.hpp"
#include "common/video/image.hpp"
#include "match/method.hpp"
#include "match/poses.hpp"
#include "match/results.hpp"

#include "cusight/match.h"
#include "cusight/opencv.hpp"

#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#if __has_include(<opencv2/geometry.hpp>) // OpenCV 5: boundingRect()
#include <opencv2/geometry.hpp>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using cusight::check;
using match::Found;
using match::GREEN;
using match::Hit;
using match::ORANGE;
using match::RED;

struct Settings {
    sample::Common common;
    sample::Input input;
    std::string mask, matches_file, method = "ccoeff-normed";
    std::vector<std::string> templates, rois;
    bool gray = false, subpixel = false, fail_without_match = false;
    int top_k = 1, min_distance = 0, frames = 0;
    std::optional<double> limit; // in the units of the method; without a value, its default or none
    bool inspect = false;        // count a color inside the matches
    cusHsvRange range = {{0, 0, 0}, {179, 255, 255}};
    double min_fill = 0.3;
    match::PoseSettings poses; // if any: under rotation and scale
};

using Templates = std::vector<sample::Masked>;

// Whether two masks are the same; empty: none.
bool equal(const cv::Mat &a, const cv::Mat &b) {
    return a.size() == b.size() && (a.empty() || cv::norm(a, b, cv::NORM_INF) == 0);
}

// Templates of the same size and mask, which share a matcher.
struct Group {
    std::vector<size_t> members; // indices of the templates
    std::vector<cusMat> mats;
    cv::Size size;
    cv::Mat mask; // empty: none
    cusMatcher *matcher = nullptr;
    double values = 0; // that count towards a score
    explicit Group(const sample::Masked &templ) : size(templ.picture.size()), mask(templ.mask) {}
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;
    ~Group() {
        cusMatcherDestroy(matcher);
        for (cusMat &m : mats)
            cusMatRelease(&m);
    }
};

// Finds the templates on one device, in one frame at a time.
class UprightFinder : public match::Finder {
  public:
    UprightFinder(const Settings &settings, const sample::Device &device, const Templates &templates, cv::Size frame)
        : settings_(settings), method_(match::methodOf(settings.method)), space_(device.space), count_(templates.size()) {
        if (space_ == CUS_DEVICE)
            check(cusStreamCreate(&stream_));
        for (size_t i = 0; i < templates.size(); ++i) {
            const cv::Mat &t = templates[i].picture;
            if (t.cols > frame.width || t.rows > frame.height)
                throw sample::Stop(sample::USAGE, sample::text("template %zu is %d x %d, larger than the frames, %d x %d",
                                                               i, t.cols, t.rows, frame.width, frame.height));
            Group &group = groupOf(templates[i]);
            group.members.push_back(i);
            group.mats.push_back(place(toType(t)));
        }
        for (Group &group : groups_)
            createMatcher(group, templates, frame);
    }
    ~UprightFinder() override {
        if (stream_)
            cusStreamSynchronize(stream_);
        groups_.clear();
        cusMatRelease(&color_);
        cusMatRelease(&gray_);
        cusStreamDestroy(stream_);
    }

    // What is found of each template.
    std::vector<Found> find(const cv::Mat &frame) override {
        if (settings_.inspect || !settings_.gray)
            send(frame, color_);
        if (settings_.gray) {
            cv::cvtColor(frame, host_gray_, cv::COLOR_BGR2GRAY);
            send(host_gray_, gray_);
        }
        for (Group &group : groups_) {
            check(cusMatcherRun(group.matcher, settings_.gray ? &gray_ : &color_, nullptr, stream_));
            if (settings_.inspect)
                check(cusMatcherInspect(group.matcher, &color_, &settings_.range, settings_.min_fill, stream_));
        }
        std::vector<Found> found(count_);
        for (Group &group : groups_)
            for (size_t i = 0; i < group.members.size(); ++i) {
                std::vector<cusMatch> matches(static_cast<size_t>(candidates()));
                int n = 0;
                check(cusMatcherGet(group.matcher, static_cast<int>(i), matches.data(), candidates(), &n, stream_));
                matches.resize(static_cast<size_t>(n));
                found[group.members[i]] = select(std::move(matches), group);
            }
        return found;
    }

  private:
    // Without --min-distance, matches that overlap a better one are dropped, so more are asked for.
    int candidates() const { return settings_.min_distance ? settings_.top_k : std::min(1024, 4 * settings_.top_k); }

    // The matches within the limit. The matcher has none, so that the best is known if it is beyond the limit.
    Found select(std::vector<cusMatch> matches, const Group &group) const {
        Found found;
        for (cusMatch &m : matches)
            m.score = method_.fromSum(m.score, group.values);
        if (!matches.empty() && !method_.accepts(matches.front().score, settings_.limit))
            found.best = Hit{matches.front(), {}};
        matches.erase(std::find_if(matches.begin(), matches.end(),
                                   [&](const cusMatch &m) { return !method_.accepts(m.score, settings_.limit); }),
                      matches.end());
        if (!settings_.min_distance)
            dropOverlapping(matches, group.size);
        matches.resize(std::min(matches.size(), static_cast<size_t>(settings_.top_k)));
        for (const cusMatch &m : matches)
            found.matches.push_back({m, {}});
        return found;
    }

    // Keeps a match unless it overlaps a better one by more than a twentieth of the box: neighbors may touch.
    static void dropOverlapping(std::vector<cusMatch> &matches, cv::Size size) {
        std::vector<cusMatch> kept;
        for (const cusMatch &m : matches) {
            const cv::Rect box({m.x, m.y}, size);
            if (std::none_of(kept.begin(), kept.end(), [&](const cusMatch &other) {
                    return 20 * (box & cv::Rect({other.x, other.y}, size)).area() > size.area();
                }))
                kept.push_back(m);
        }
        matches = kept;
    }

    Group &groupOf(const sample::Masked &templ) {
        for (Group &group : groups_)
            if (group.size == templ.picture.size() && equal(group.mask, templ.mask))
                return group;
        return groups_.emplace_back(templ);
    }

    void createMatcher(Group &group, const Templates &templates, cv::Size frame) {
        const cv::Size size = group.size;
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = method_.method;
        options.max_matches = candidates();
        options.subpixel = settings_.subpixel;
        options.min_distance =
            settings_.min_distance ? settings_.min_distance : std::max(1, std::min(size.width, size.height) / 2);
        group.values = size.area() * (settings_.gray ? 1.0 : 3.0);
        for (const size_t i : group.members)
            match::rejectOneColor(method_, i, toType(templates[i].picture), group.mask);
        cusMat mask = CUS_MAT_INIT;
        if (!group.mask.empty()) {
            group.values *= static_cast<double>(cv::countNonZero(group.mask)) / static_cast<double>(group.mask.total());
            mask = place(group.mask);
            options.mask = &mask;
        }
        const cusStatus status = cusMatcherCreate(&group.matcher, group.mats.data(), static_cast<int>(group.mats.size()),
                                                  frame.height, frame.width, &options, stream_);
        cusMatRelease(&mask);
        if (status == CUS_ERROR_SIZE || status == CUS_ERROR_VALUE)
            throw sample::Stop(sample::USAGE, cusLastError());
        check(status);
    }

    cv::Mat toType(const cv::Mat &picture) const {
        cv::Mat result = picture;
        if (settings_.gray)
            cv::cvtColor(picture, result, cv::COLOR_BGR2GRAY);
        return result;
    }
    // Copies to memory of the device in use.
    void send(const cv::Mat &picture, cusMat &mat) const {
        const cusMat view = cusight::view(picture);
        check(space_ == CUS_DEVICE ? cusMatUpload(&view, &mat, stream_) : cusMatCopy(&view, &mat, nullptr));
    }
    cusMat place(const cv::Mat &picture) const {
        cusMat mat = CUS_MAT_INIT;
        send(picture, mat);
        return mat;
    }

    const Settings &settings_;
    const match::Method &method_;
    const cusSpace space_;
    const size_t count_; // templates
    cusStream stream_ = nullptr;
    std::list<Group> groups_;
    cusMat color_ = CUS_MAT_INIT, gray_ = CUS_MAT_INIT;
    cv::Mat host_gray_;
};

// A frame and its matches.
struct Job {
    cv::Mat frame;
    double seconds = 0; // its time
    std::vector<Found> found;
    sample::Stopwatch computing; // over all frames that the job has held

    // `pinned`: in page-locked memory, which frames are decoded into and GPUs read from.
    Job(cv::Size size, bool pinned) {
        check(pinned ? cusMatCreatePinned(&memory_, size.height, size.width, CUS_8UC3)
                     : cusMatCreate(&memory_, size.height, size.width, CUS_8UC3, CUS_HOST));
        frame = cusight::toMat(memory_);
    }
    ~Job() { cusMatRelease(&memory_); }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

  private:
    cusMat memory_ = CUS_MAT_INIT;
};

// Finds the templates in frame after frame, and counts. Frames are dealt to the devices in turn.
class Run {
  public:
    Run(const Settings &settings, const Templates &templates)
        : settings_(settings), method_(match::methodOf(settings.method)), templates_(templates), poses_(settings.poses),
          file_(settings.matches_file, settings.poses.any()), counts_(templates.size()), best_(templates.size()) {}

    // Processes all frames, from `first`, which was already read, to the end.
    void process(const cv::Mat &first, const std::vector<sample::Device> &devices, sample::Source &source,
                 sample::Sink &sink) {
        still_ = source.isPicture();
        pictures_ = namesOf(source.pictures());
        poses_.names_best = still_ || !pictures_.empty();
        file_.begin(!pictures_.empty());
        long long total = source.frames();
        if (settings_.frames)
            total = total ? std::min<long long>(total, settings_.frames) : settings_.frames;
        // One device gets the next frame only once this one's picture is shown; several always have one waiting.
        const size_t depth = devices.size() > 1 ? 2 : 1;
        std::list<Job> memory;
        std::vector<Job *> jobs;
        while (jobs.size() < depth * devices.size())
            jobs.push_back(&memory.emplace_back(first.size(), devices.front().space == CUS_DEVICE));
        sample::Dealer<Job *> dealer(devices, depth, [&](size_t w) {
            return [this, w, &devices, finders = std::list<Sized>()](Job *job) mutable {
                job->computing([&] { job->found = longFind(finders, devices[w], job->frame); });
            };
        });
        const double opening = source.decodingSeconds(); // before the clock starts
        sample::Progress progress("frames", total);
        long long read = 0;
        const auto fill = [&](Job &job) {
            if ((settings_.frames && read == settings_.frames) || (read > 0 && sample::interrupted()))
                return false;
            if (read++ > 0) {
                const bool more = source.read(job.frame);
                job.seconds = source.seconds();
                return more;
            }
            first.copyTo(job.frame);
            job.seconds = source.seconds();
            return true;
        };
        const std::exception_ptr ended_early = dealer.process(jobs, fill, [&](Job &job) {
            drawn_.clear();
            sample::Json json = named({{"frame", frames_}, {"seconds", job.seconds}}, frames_);
            if (job.found.empty())
                sample::note("%s is smaller than a template, so nothing is found in it", nameOf(frames_).c_str());
            const long long before = matches_;
            for (size_t t = 0; t < job.found.size(); ++t) {
                for (size_t rank = 0; rank < job.found[t].matches.size(); ++rank)
                    record(t, rank, job.found[t].matches[rank], json);
                if (job.found[t].best)
                    recordBest(t, *job.found[t].best);
            }
            without_ += matches_ == before;
            sample::reportFrame(json);
            drawing_([&] { match::draw(job.frame, drawn_); });
            progress.update(++frames_, sample::text("%lld matches", matches_));
            return writing_([&] { return sink.writeAt(job.frame, job.seconds); });
        });
        for (const Job &job : memory)
            computing_ += job.computing.seconds;
        writing_([&] {
            file_.finish();
            sink.finish();
        });
        seconds_ = progress.seconds();
        overall_ = opening + seconds_;
        decoding_ = source.decodingSeconds();
        progress.finish();
        if (ended_early)
            std::rethrow_exception(ended_early);
    }

    bool any() const { return matches_ > 0; }
    long long frames() const { return frames_; }

    void report() const {
        sample::Json sizes;
        for (const sample::Masked &t : templates_) {
            sample::Json size = {{"width", t.picture.cols}, {"height", t.picture.rows}};
            if (!t.mask.empty())
                size["counted"] = countedOf(t);
            sizes["templates"].push_back(size);
        }
        sizes["method"] = settings_.method;
        if (settings_.limit)
            sizes["limit"] = *settings_.limit;
        for (size_t i = 0; i < templates_.size(); ++i)
            sample::figure("template", i ? sample::Json() : sizes, "%d x %d%s, method %s%s", templates_[i].picture.cols,
                           templates_[i].picture.rows, maskOf(templates_[i]).c_str(), settings_.method.c_str(),
                           settings_.limit ? (", " + method_.describe(*settings_.limit)).c_str() : "");
        if (settings_.poses.any())
            reportPoses();
        const double rate = static_cast<double>(frames_) / seconds_;
        sample::figure("frames", {{"frames", frames_}, {"frames_per_second", rate}}, "%lld, %.1f frames/s", frames_, rate);
        sample::figureStages(
            {{"decode", decoding_}, {"compute", computing_}, {"draw", drawing_.seconds}, {"write", writing_.seconds}},
            overall_, static_cast<double>(frames_));
        sample::figure("matches", {{"matches", matches_}}, "%lld", matches_);
        if (!pictures_.empty())
            sample::figure("pictures without a match", {{"pictures_without_match", without_}}, "%lld of %lld", without_,
                           frames_);
        if (matches_)
            sample::figure("first match", {{"first_match", named(asJson(first_template_, 0, first_), first_frame_)}},
                           "%s, %s%s", placeOf(first_).c_str(), method_.text(first_.score).c_str(),
                           pictures_.empty() ? "" : (", in " + nameOf(first_frame_)).c_str());
        if (so_far_)
            sample::figure("interrupted", {{"best_so_far", asJson(so_far_->first, 0, so_far_->second)}},
                           "in a frame whose best so far is %s at %s", method_.text(so_far_->second.score).c_str(),
                           placeOf(so_far_->second).c_str());
        reportMissing();
        if (settings_.inspect)
            sample::figure("filled", {{"filled", filled_}}, "%lld of %lld", filled_, matches_);
    }

  private:
    // A finder for frames of one size.
    struct Sized {
        cv::Size size;
        std::shared_ptr<match::Finder> finder;
    };
    static constexpr size_t MAX_SIZES = 8; // whose finders are kept

    // Of a search that is interrupted, keeps the best so far.
    std::vector<Found> longFind(std::list<Sized> &finders, const sample::Device &device, const cv::Mat &frame) {
        return sample::longCalls([&] {
            try {
                return find(finders, device, frame);
            } catch (const match::Interrupted &interrupted) {
                const std::lock_guard<std::mutex> lock(so_far_mutex_);
                if (!so_far_ || method_.better(interrupted.best.score, so_far_->second.score))
                    so_far_ = {interrupted.index, interrupted.best};
                throw;
            }
        });
    }

    // Empty if a template is larger than this picture of a folder.
    std::vector<Found> find(std::list<Sized> &finders, const sample::Device &device, const cv::Mat &frame) const {
        auto at = std::find_if(finders.begin(), finders.end(), [&](const Sized &s) { return s.size == frame.size(); });
        if (at == finders.end()) {
            if (!pictures_.empty() && !fits(frame.size()))
                return {};
            if (finders.size() == MAX_SIZES)
                finders.pop_back();
            finders.push_front({frame.size(), makeFinder(device, frame.size())});
        } else {
            finders.splice(finders.begin(), finders, at);
        }
        return finders.front().finder->find(frame);
    }

    bool fits(cv::Size frame) const {
        const double scale = settings_.poses.scales ? settings_.poses.scales->first : 1;
        return std::all_of(templates_.begin(), templates_.end(), [&](const sample::Masked &t) {
            if (!settings_.poses.any())
                return t.picture.cols <= frame.width && t.picture.rows <= frame.height;
            return std::min(t.picture.cols, t.picture.rows) * scale <= std::min(frame.width, frame.height);
        });
    }

    // Without their folder, if it is the same.
    static std::vector<std::string> namesOf(std::vector<std::string> paths) {
        const auto folder = [&](const std::string &path) { return path.substr(0, path.rfind('/') + 1); };
        const std::string first = paths.empty() ? "" : folder(paths.front());
        if (std::all_of(paths.begin(), paths.end(), [&](const std::string &path) { return folder(path) == first; }))
            for (std::string &path : paths)
                path.erase(0, first.size());
        return paths;
    }
    // The picture of this frame; "" in a video.
    std::string nameOf(long long frame) const { return pictures_.empty() ? "" : pictures_[static_cast<size_t>(frame)]; }
    sample::Json named(sample::Json json, long long frame) const {
        if (!pictures_.empty())
            json["picture"] = nameOf(frame);
        return json;
    }

    static double countedOf(const sample::Masked &t) {
        return static_cast<double>(cv::countNonZero(t.mask)) / static_cast<double>(t.mask.total());
    }
    std::string maskOf(const sample::Masked &t) const {
        return t.mask.empty() ? ""
                              : sample::text(", mask of %s (%.0f %% of the pixels count)",
                                             settings_.mask.empty() ? "its alpha channel" : "--mask", 100 * countedOf(t));
    }

    std::shared_ptr<match::Finder> makeFinder(const sample::Device &device, cv::Size frame) const {
        if (settings_.poses.any())
            return match::poseFinder(poses_, device, templates_, frame);
        return std::make_shared<UprightFinder>(settings_, device, templates_, frame);
    }

    void reportPoses() const {
        const int angles = settings_.poses.angles ? match::countOf(*settings_.poses.angles) : 1,
                  scales = settings_.poses.scales ? match::countOf(*settings_.poses.scales) : 1;
        sample::figure("poses", {{"angles", angles}, {"scales", scales}}, "%d angle%s, %d scale%s", angles,
                       angles > 1 ? "s" : "", scales, scales > 1 ? "s" : "");
    }

    static std::string placeOf(const Hit &m) {
        if (!m.pose)
            return sample::text("x %d, y %d", m.x, m.y);
        return sample::text("x %.6g, y %.6g, angle %.4g, scale %.4g", m.pose->x, m.pose->y, m.pose->angle, m.pose->scale);
    }

    sample::Json asJson(size_t index, size_t rank, const Hit &m) const {
        if (m.pose)
            return {{"template", index},      {"rank", rank},           {"x", m.pose->x},  {"y", m.pose->y},
                    {"angle", m.pose->angle}, {"scale", m.pose->scale}, {"score", m.score}};
        sample::Json json = {{"template", index},
                             {"rank", rank},
                             {"x", m.x + static_cast<double>(m.dx)},
                             {"y", m.y + static_cast<double>(m.dy)},
                             {"score", m.score}};
        if (settings_.inspect)
            json.update({{"pixels", m.pixels}, {"filled", m.filled != 0}});
        return json;
    }

    // The best of a template that is nowhere within the limit.
    struct Best {
        long long frame;
        Hit match;
    };

    // A line for each template that was not found.
    void reportMissing() const {
        sample::Json json;
        std::vector<std::string> lines;
        for (size_t t = 0; t < templates_.size(); ++t) {
            const std::string of = templates_.size() > 1 ? sample::text("of template %zu ", t) : "";
            if (!counts_[t] && !best_[t] && settings_.limit &&
                frames_ > 0) { // a video of poses, whose best is not looked for
                json["no_match"].push_back({{"template", t}});
                lines.push_back(of + method_.beyond(*settings_.limit));
            }
            if (counts_[t] || !best_[t])
                continue;
            const Hit &m = best_[t]->match;
            sample::Json best = asJson(t, 0, m);
            best["frame"] = best_[t]->frame;
            json["no_match"].push_back(named(best, best_[t]->frame));
            const std::string where = !pictures_.empty() ? " of " + nameOf(best_[t]->frame)
                                      : still_           ? ""
                                                         : sample::text(" of frame %lld", best_[t]->frame);
            const std::string place = m.pose ? placeOf(m) : sample::text("%d,%d", m.x, m.y);
            lines.push_back(sample::text("%s%s (best %s at %s%s)", of.c_str(), method_.beyond(*settings_.limit).c_str(),
                                         method_.text(m.score).c_str(), place.c_str(), where.c_str()));
        }
        for (size_t i = 0; i < lines.size(); ++i)
            sample::figure("no match", i ? sample::Json() : json, "%s", lines[i].c_str());
    }

    // In a picture the best is drawn, marked; in a video it would be a box that jumps about wherever there is nothing.
    void recordBest(size_t index, const Hit &m) {
        const cv::Size size = templates_[index].picture.size();
        const std::vector<cv::Point> shape = m.pose ? match::cornersOf(*m.pose, size) : std::vector<cv::Point>();
        if (still_ || !pictures_.empty())
            drawn_.push_back({m.pose ? cv::boundingRect(shape) : cv::Rect({m.x, m.y}, size), shape,
                              "no match: " + method_.text(m.score) + ", " + method_.wanted(*settings_.limit), ORANGE,
                              cv::Scalar(90, 190, 255)});
        if (!best_[index] || method_.better(m.score, best_[index]->match.score))
            best_[index] = {frames_, m};
    }

    void record(size_t index, size_t rank, const Hit &m, sample::Json &json) {
        const cv::Size size = templates_[index].picture.size();
        std::string label = method_.text(m.score);
        if (m.pose)
            label = sample::text("%.1f deg", m.pose->angle) +
                    (settings_.poses.scales ? sample::text(", %.2f x", m.pose->scale) : "") + ", " + label;
        if (settings_.inspect)
            label = sample::text("%s %.0f %%", m.filled ? "filled" : "empty", 100.0 * m.pixels / size.area());
        const bool empty = settings_.inspect && !m.filled;
        std::vector<cv::Point> shape;
        if (m.pose)
            shape = match::cornersOf(*m.pose, size);
        const cv::Rect box = m.pose ? cv::boundingRect(shape) : cv::Rect({m.x, m.y}, size);
        drawn_.push_back(
            {box, shape, label, empty ? RED : GREEN, empty ? cv::Scalar(80, 80, 255) : cv::Scalar(90, 255, 90)});
        ++counts_[index];
        json["matches"].push_back(asJson(index, rank, m));
        file_.write(frames_, index, rank, m, nameOf(frames_));
        if (matches_++ == 0) {
            first_ = m;
            first_template_ = index;
            first_frame_ = frames_;
        }
        filled_ += m.filled == 1;
    }

    const Settings &settings_;
    const match::Method &method_;
    const Templates &templates_;
    match::PoseSettings poses_;
    match::MatchFile file_;
    bool still_ = false;                    // the input is one picture
    std::vector<std::string> pictures_;     // those of a folder or a list
    std::vector<long long> counts_;         // matches of each template
    std::vector<std::optional<Best>> best_; // of each template
    std::vector<match::Drawn> drawn_;
    std::mutex so_far_mutex_;                      // of the workers
    std::optional<std::pair<size_t, Hit>> so_far_; // in interrupted searches: a template, and where it is
    Hit first_;
    size_t first_template_ = 0;
    long long frames_ = 0, matches_ = 0, filled_ = 0, without_ = 0, first_frame_ = 0;
    sample::Stopwatch drawing_, writing_;
    double decoding_ = 0, computing_ = 0, seconds_ = 0, overall_ = 0;
};

// ---- The command line --------------------------------------------------------------------------------------------------

// "a,b,c" as integers; false unless there are exactly `count` of them.
bool parseIntegers(const std::string &text, int count, int *values) {
    const char *at = text.c_str();
    for (int i = 0; i < count; ++i) {
        char *end = nullptr;
        values[i] = static_cast<int>(std::strtol(at, &end, 10));
        if (end == at || *end != (i + 1 < count ? ',' : '\0'))
            return false;
        at = end + 1;
    }
    return true;
}

bool parseRoi(const std::string &text, cv::Rect &roi) {
    int n[4];
    if (!parseIntegers(text, 4, n) || n[2] < 1 || n[3] < 1)
        return false;
    roi = cv::Rect(n[0], n[1], n[2], n[3]);
    return true;
}

bool parseHsv(const std::string &text, uint8_t *color) {
    int n[3];
    if (!parseIntegers(text, 3, n) || n[0] < 0 || n[0] > 179 || n[1] < 0 || n[1] > 255 || n[2] < 0 || n[2] > 255)
        return false;
    for (int i = 0; i < 3; ++i)
        color[i] = static_cast<uint8_t>(n[i]);
    return true;
}

void addColor(CLI::App &app, const std::string &name, Settings &s, uint8_t *color, const std::string &help) {
    const auto set = [&s, color](const std::string &text) { return parseHsv(text, color) && (s.inspect = true); };
    sample::addValue(app, name, set, "H,S,V", "three integers H,S,V: 0..179, 0..255, 0..255", help);
}

// Returns false if --help or --version was printed.
bool parse(int argc, char **argv, Settings &s) {
    const auto app = sample::makeApp(
        "cusight-match",
        "Finds templates in pictures and draws the matches with their scores. With --hsv-lower and --hsv-upper it counts "
        "the pixels of that color inside each match and marks it as filled (green) or empty (red). " +
            std::string(sample::SELECTION_HELP),
        "  cusight-match picture.png --template part.png --output found.png\n"
        "  cusight-match tray.png --template part.png --angles -180:179:1 --scales 0.9:1.1:0.02 --top-k 5\n"
        "  cusight-match shots/ --template part.png --fail-without-match --save-matches found.csv --output found/\n"
        "  cusight-match video.mp4 --roi 319,209,58,58 --top-k 8 --limit 0.6\n"
        "  cusight-match belt.avi --template capsule.png --mask capsule-mask.png --top-k 4 \\\n"
        "      --hsv-lower 100,120,60 --hsv-upper 130,255,255 --min-fill 0.2 --save-matches matches.csv\n");
    sample::addInput(*app, s.input);
    sample::names(
        sample::addList(*app, "--template", s.templates, "FILE",
                        "an image to find, without its transparent pixels if it has an alpha channel; may be repeated"),
        sample::Names::INPUT);
    const auto is_roi = [](const std::string &text) {
        cv::Rect unused;
        return parseRoi(text, unused);
    };
    sample::addList(*app, "--roi", s.rois, "X,Y,W,H", "a rectangle of the first frame to find; may be repeated", is_roi,
                    "four integers X,Y,W,H");
    sample::addFile(*app, "--mask", sample::Names::INPUT, s.mask, "FILE",
                    "image of the template's size: black pixels are ignored, instead of transparent ones");
    sample::addChoice(*app, "--method", s.method, match::methodNames(), "how to score: " + match::unitsHelp());
    sample::addFlag(*app, "--gray", s.gray, "match in gray; --hsv-lower and --hsv-upper still use the color");
    sample::addNumber(*app, "--top-k,--max-matches", s.top_k, 1, 1024, "matches to find per template");
    sample::addNumber(
        *app, "--min-distance", s.min_distance, 0, 100000,
        "minimum distance of two matches in pixels, across or down; 0: half the template, and no boxes that overlap");
    sample::addNumber(*app, "--limit", s.limit, -1e300, 1e300,
                      "drop worse matches; N has the units of the method; without this option " + match::limitsHelp());
    sample::addFlag(*app, "--subpixel", s.subpixel, "refine positions to fractions of a pixel in --save-matches");
    const auto addRange = [&](const std::string &name, std::optional<cusPoseRange> &range, double low, double high,
                              const std::string &expected, const std::string &help) {
        const auto set = [&range, low, high](const std::string &text) {
            return match::parseRange(text, low, high, range.emplace());
        };
        sample::addValue(*app, name, set, "FIRST:LAST:STEP", expected, help);
    };
    addRange("--angles", s.poses.angles, -360, 360,
             "FIRST:LAST:STEP within -360..360 and upwards, such as -180:179:1, or one number",
             "find the template turned by these angles, degrees counterclockwise; matches in gray; positions are then "
             "those of the center");
    addRange("--scales", s.poses.scales, 0.0625, 16,
             "FIRST:LAST:STEP within 0.0625..16 and upwards, such as 0.9:1.1:0.02, or one number",
             "find the template at these scales; 2 is twice as large");
    sample::addFlag(*app, "--refine", s.poses.refine,
                    "with --angles or --scales: refine angle, scale and position between the steps");
    addColor(*app, "--hsv-lower", s, s.range.lower, "lower end of the colors to count: H 0..179, S and V 0..255");
    addColor(*app, "--hsv-upper", s, s.range.upper,
             "upper end of the colors to count; a hue below the lower end's wraps around through red");
    sample::addNumber(*app, "--min-fill", s.min_fill, 0, 1, "a match is filled if this share of its pixels has the color");
    sample::addFile(*app, "--save-matches", sample::Names::OUTPUT, s.matches_file, "FILE",
                    "write all matches as CSV: frame, template, rank, x, y, score in the units of the method, pixels, "
                    "filled; with --angles "
                    "or --scales: frame, template, rank, x, y, angle, scale, score; of a folder or a list of pictures also "
                    "the picture's name");
    sample::addFlag(*app, "--fail-without-match", s.fail_without_match,
                    "exit with 1, as grep does, if nothing is found in the whole input");
    sample::addFrames(*app, s.frames);
    sample::addCommon(*app, s.common,
                      "match.mp4, match.png for one picture, match/ for a folder or a list of pictures, which may have any "
                      "size; a folder gets files with the names of theirs",
                      true);
    if (!sample::parse(*app, argc, argv))
        return false;
    s.input.fps = s.common.video.fps;
    s.input.any_size = true;
    const match::Method &method = match::methodOf(s.method);
    s.limit = method.checkedLimit(s.limit);
    if (s.poses.refine && !s.poses.any())
        throw sample::Stop(sample::USAGE, "--refine needs --angles or --scales; try --subpixel");
    if (!s.poses.any())
        return true;
    if (!match::comparesPoses(method))
        throw sample::Stop(sample::USAGE,
                           sample::text("--method is %s, which does not compare poses, expected sqdiff, "
                                        "sqdiff-normed, ccorr-normed or ccoeff-normed with --angles or --scales",
                                        method.name));
    if (s.inspect)
        throw sample::Stop(sample::USAGE,
                           "--hsv-lower and --hsv-upper count in upright boxes, not with --angles or --scales");
    if (s.subpixel)
        throw sample::Stop(sample::USAGE, "--subpixel is for upright matches; with --angles or --scales try --refine");
    s.poses.method = &method;
    s.poses.top_k = s.top_k;
    s.poses.min_distance = s.min_distance;
    s.poses.limit = s.limit;
    return true;
}

// ---- The program -------------------------------------------------------------------------------------------------------

// The templates of --template and --roi; without either and with a display, those that the user selects: none if that is canceled.
Templates loadTemplates(const Settings &s, const cv::Mat &frame, bool display) {
    Templates templates;
    for (const std::string &file : s.templates)
        templates.push_back(sample::readMasked(file));
    std::vector<cv::Rect> rois(s.rois.size());
    for (size_t i = 0; i < rois.size(); ++i)
        parseRoi(s.rois[i], rois[i]);
    if (templates.empty() && rois.empty()) {
        if (!display)
            throw sample::Stop(sample::USAGE, "nothing to find: --template or --roi is required");
        rois = sample::selectRectangles("cusight-match: what to find", frame);
    }
    for (const cv::Rect &roi : rois) {
        if (roi.area() == 0 || (roi & cv::Rect({0, 0}, frame.size())) != roi)
            throw sample::Stop(sample::USAGE,
                               sample::text("--roi is %d,%d,%d,%d, expected a rectangle inside the frame, %d x %d", roi.x,
                                            roi.y, roi.width, roi.height, frame.cols, frame.rows));
        templates.push_back({frame(roi).clone(), {}});
    }
    if (s.mask.empty())
        return templates;
    const cv::Mat mask = sample::readImage(s.mask, cv::IMREAD_GRAYSCALE);
    for (sample::Masked &t : templates) {
        if (mask.size() != t.picture.size())
            throw sample::Stop(sample::USAGE, sample::text("--mask is %d x %d, expected %d x %d like the template",
                                                           mask.cols, mask.rows, t.picture.cols, t.picture.rows));
        t.mask = mask;
    }
    return templates;
}

int run(int argc, char **argv) {
    Settings s;
    if (!parse(argc, argv, s))
        return sample::OK;
    sample::requireEnding("--save-matches", s.matches_file, {".csv"});
    // The display check forks, so it must come before any threads and CUDA.
    const bool display = !s.common.headless && sample::displayProblem().empty();
    const std::vector<sample::Device> devices = sample::chooseDevices(s.common.device);
    sample::chooseDecoder(s.input, devices.front());
    const std::unique_ptr<sample::Source> source = sample::openSource(s.input);
    cv::Mat frame;
    if (!source->read(frame))
        throw sample::Stop(sample::INPUT, source->name() + " contains no frame");
    const Templates templates = loadTemplates(s, frame, display);
    if (templates.empty()) {
        sample::note("nothing was selected, so there is nothing to find");
        return sample::OK;
    }
    Run matching(s, templates);
    sample::Playback playback = sample::playbackOf(*source);
    if (s.common.output.empty() || s.common.output.back() == '/' || sample::kindOfFile(s.common.output) == "a folder")
        playback.names = sample::namesLike(source->pictures());
    const char *const by_default = !source->pictures().empty() ? "match/" : source->isPicture() ? "match.png" : "match.mp4";
    const std::unique_ptr<sample::Sink> sink =
        sample::openSink(s.common, "cusight-match", by_default, source->size(), playback);
    matching.process(frame, devices, *source, *sink);

    sample::figureInput(*source);
    sample::figureText("device", "%s", sample::deviceNames(devices).c_str());
    matching.report();
    if (matching.frames() > 0)
        sample::figureText("output", "%s", sink->name().c_str());
    sink->hold();
    return s.fail_without_match && !matching.any() ? sample::FAILED : sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}

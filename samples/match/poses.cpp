#include "match/poses.hpp"

#include "cusight/algorithms.hpp"
#include "cusight/opencv.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace match {

namespace {

using cusight::check;

// A number and where it ends; false for none or one that is not finite.
bool readNumber(const char *&at, double &value) {
    char *end = nullptr;
    value = std::strtod(at, &end);
    if (end == at || !std::isfinite(value))
        return false;
    at = end;
    return true;
}

cv::Mat grayOf(const cv::Mat &picture) {
    cv::Mat gray;
    cv::cvtColor(picture, gray, cv::COLOR_BGR2GRAY);
    return gray;
}

class PoseFinder : public Finder {
  public:
    PoseFinder(const PoseSettings &settings, const sample::Device &device, const std::vector<sample::Masked> &templates,
               cv::Size frame)
        : method_(*settings.method), space_(device.space), limit_(settings.limit) {
        if (space_ == CUS_DEVICE)
            stream_.emplace();
        for (size_t i = 0; i < templates.size(); ++i)
            add(settings, i, templates[i], frame);
    }

    std::vector<Found> find(const cv::Mat &frame) override {
        cv::cvtColor(frame, host_gray_, cv::COLOR_BGR2GRAY);
        send(host_gray_, gray_);
        std::vector<Found> found(searches_.size());
        for (size_t i = 0; i < searches_.size(); ++i) {
            Search &search = searches_[i];
            if (search.best) {
                found[i].matches = run(*search.best, i);
                if (!found[i].matches.empty() && !method_.accepts(found[i].matches.front().score, limit_)) {
                    found[i].best = found[i].matches.front();
                    found[i].matches.clear();
                }
            }
            if (search.matches && !found[i].best)
                found[i].matches = run(*search.matches, i);
        }
        return found;
    }

  private:
    // Of one template: first the best without a limit, if it is to be named, then all that are wanted, unless that is the one.
    struct Search {
        std::optional<cusight::PoseMatcher> best, matches;
    };

    std::vector<Hit> run(cusight::PoseMatcher &matcher, size_t index) const {
        try {
            matcher.run(gray_, stream());
        } catch (const cusight::Error &error) {
            const std::vector<Hit> so_far = error.status() == CUS_ERROR_CANCELLED ? hitsOf(matcher) : std::vector<Hit>();
            if (so_far.empty())
                throw;
            throw Interrupted(index, so_far.front());
        }
        return hitsOf(matcher);
    }

    std::vector<Hit> hitsOf(cusight::PoseMatcher &matcher) const {
        std::vector<Hit> hits;
        for (const cusPoseMatch &m : matcher.matches()) {
            Hit hit = {};
            hit.x = m.col;
            hit.y = m.row;
            hit.score = method_.fromSum(m.score, 1);
            hit.pixels = static_cast<uint32_t>(m.pixels);
            hit.filled = -1;
            hit.pose = Pose{m.x, m.y, m.angle, m.scale};
            hits.push_back(hit);
        }
        return hits;
    }

    void add(const PoseSettings &settings, size_t index, const sample::Masked &given, cv::Size frame) {
        const cv::Mat &picture = given.picture;
        cusPoseOptions options = cusPoseDefaults();
        options.method = method_.method;
        if (settings.angles)
            options.angles = *settings.angles;
        if (settings.scales)
            options.scales = *settings.scales;
        options.max_matches = settings.top_k;
        const int side = std::min(picture.cols, picture.rows);
        options.min_distance = settings.min_distance ? settings.min_distance : std::max(1, side / 2);
        if (settings.limit)
            options.score_limit = method_.unit == Method::RMS ? *settings.limit * *settings.limit : *settings.limit;
        options.refine = settings.refine;
        if (side * options.scales.first > std::min(frame.width, frame.height))
            throw sample::Stop(
                sample::USAGE,
                sample::text("template %zu is %d x %d, at scale %g larger than the frames, %d x %d, at any angle", index,
                             picture.cols, picture.rows, options.scales.first, frame.width, frame.height));
        const cv::Mat gray = grayOf(picture);
        rejectOneColor(method_, index, gray, given.mask);
        cusight::Matrix templ, mask;
        send(gray, templ);
        if (!given.mask.empty()) {
            send(given.mask, mask);
            options.mask = &mask.get();
        }
        cusPoseOptions best = options;
        best.score_limit = cusPoseDefaults().score_limit;
        best.max_matches = 1;
        best.refine = 0;
        const bool names_best = settings.names_best && settings.limit;
        Search search;
        try {
            if (names_best)
                search.best.emplace(templ, frame.height, frame.width, best, stream());
            if (!names_best || options.max_matches > 1 || options.refine)
                search.matches.emplace(templ, frame.height, frame.width, options, stream());
            searches_.push_back(std::move(search));
        } catch (const cusight::Error &error) {
            if (error.status() == CUS_ERROR_SIZE || error.status() == CUS_ERROR_VALUE)
                throw sample::Stop(sample::USAGE, error.message());
            throw;
        }
    }

    cusight::StreamRef stream() const { return stream_ ? cusight::StreamRef(*stream_) : cusight::StreamRef(); }

    // Copies to memory of the device in use. Waits, since the picture may change.
    void send(const cv::Mat &picture, cusight::Matrix &mat) const {
        const cusMat view = cusight::view(picture);
        if (space_ == CUS_DEVICE) {
            check(cusMatUpload(&view, &mat.get(), stream()));
            check(cusStreamSynchronize(stream()));
        } else {
            check(cusMatCopy(&view, &mat.get(), nullptr));
        }
    }

    const Method &method_;
    const cusSpace space_;
    std::optional<cusight::Stream> stream_;
    const std::optional<double> limit_;
    std::vector<Search> searches_;
    cv::Mat host_gray_;
    cusight::Matrix gray_;
};

} // namespace

bool parseRange(const std::string &text, double low, double high, cusPoseRange &range) {
    const char *at = text.c_str();
    if (!readNumber(at, range.first))
        return false;
    range.last = range.first;
    range.step = 1;
    range.list = nullptr;
    range.count = 0;
    if (*at && (*at++ != ':' || !readNumber(at, range.last) || *at++ != ':' || !readNumber(at, range.step)))
        return false;
    return !*at && range.first >= low && range.last <= high && range.first <= range.last && range.step > 0;
}

int countOf(const cusPoseRange &range) {
    const double steps = (range.last - range.first) / range.step + 0.001; // as the library counts
    return steps < 65536 ? static_cast<int>(steps) + 1 : 65537;
}

bool comparesPoses(const Method &method) {
    return method.unit != Method::MEAN;
}

std::unique_ptr<Finder> poseFinder(const PoseSettings &settings, const sample::Device &device,
                                   const std::vector<sample::Masked> &templates, cv::Size frame) {
    return std::make_unique<PoseFinder>(settings, device, templates, frame);
}

std::vector<cv::Point> cornersOf(const Pose &pose, cv::Size size) {
    const double radians = pose.angle * CV_PI / 180, c = pose.scale * std::cos(radians), s = pose.scale * std::sin(radians);
    const double w = (size.width - 1) / 2.0, h = (size.height - 1) / 2.0;
    std::vector<cv::Point> corners;
    for (const cv::Point2d &at : {cv::Point2d(-w, -h), cv::Point2d(w, -h), cv::Point2d(w, h), cv::Point2d(-w, h)})
        corners.emplace_back(cvRound(pose.x + c * at.x + s * at.y), cvRound(pose.y - s * at.x + c * at.y));
    return corners;
}

void rejectOneColor(const Method &method, size_t index, const cv::Mat &values, const cv::Mat &mask) {
    cv::Scalar mean, deviation;
    cv::meanStdDev(values, mean, deviation, mask);
    if (method.method == CUS_MATCH_CCOEFF_NORMED && cv::norm(deviation) == 0)
        throw sample::Stop(sample::USAGE,
                           sample::text("template %zu has one color%s, which --method ccoeff-normed cannot find; "
                                        "try --method sqdiff",
                                        index, mask.empty() ? "" : " inside the mask"));
}

} // namespace match

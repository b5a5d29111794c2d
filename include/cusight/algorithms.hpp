// cusight/algorithms.hpp: the objects of integral.h, match.h, pose.h, framediff.h, motion.h and stereo.h as C++ classes.
//
// Each class owns one object of the C interface, whose header documents shapes, types, cost and errors; a failed call
// throws cusight::Error. Objects can be moved, not copied. Matrices are cusMat, cusight::Matrix, and with opencv.hpp
// cv::Mat and cv::cuda::GpuMat; outputs are created. Streams are cudaStream_t, cusight::Stream, and with opencv.hpp
// cv::cuda::Stream.
#ifndef CUSIGHT_ALGORITHMS_HPP
#define CUSIGHT_ALGORITHMS_HPP

#include "framediff.h"
#include "integral.h"
#include "match.h"
#include "matrix.hpp"
#include "motion.h"
#include "pose.h"
#include "stereo.h"

#include <limits>
#include <string>
#include <vector>

namespace cusight {

// ---- Integral images ---------------------------------------------------------------------------------------------------

// See cusIntegrator: integral images without allocating.
class Integrator {
  public:
    // Serves images up to max_rows x max_cols in `space`; C channels need C times their columns.
    Integrator(int max_rows, int max_cols, cusSpace space) {
        cusIntegrator *made = nullptr;
        check(cusIntegratorCreate(&made, max_rows, max_cols, space));
        handle_.reset(made);
    }
    // Makes the table of sums.
    void sum(const Input &src, Output sum, StreamRef stream = {},
             const cusIntegralOptions &options = cusIntegralDefaults()) {
        check(cusIntegratorRun(get(), src.get(), table(src, sum, sumType(src, options)), nullptr, &options, stream));
    }
    // Makes the table of squared sums.
    void squares(const Input &src, Output sqsum, StreamRef stream = {},
                 const cusIntegralOptions &options = cusIntegralDefaults()) {
        check(cusIntegratorRun(get(), src.get(), nullptr, table(src, sqsum, squaresType(src)), &options, stream));
    }
    // Makes both tables in one pass.
    void both(const Input &src, Output sum, Output sqsum, StreamRef stream = {},
              const cusIntegralOptions &options = cusIntegralDefaults()) {
        cusMat *first = table(src, sum, sumType(src, options)), *second = table(src, sqsum, squaresType(src));
        check(cusIntegratorRun(get(), src.get(), first, second, &options, stream));
    }
    // Returns the C object.
    cusIntegrator *get() const noexcept { return handle_.get(); }

    // Returns the type of the table of sums: 32S or 64F, with the channels of src.
    static int sumType(const Input &src, const cusIntegralOptions &options) {
        const bool wide = CUS_DEPTH(src->type) == CUS_32F || options.sum_depth == CUS_64F;
        return CUS_MAKETYPE(wide ? CUS_64F : CUS_32S, CUS_CHANNELS(src->type));
    }
    // Returns the type of the table of squared sums: 64F, with the channels of src.
    static int squaresType(const Input &src) { return CUS_MAKETYPE(CUS_64F, CUS_CHANNELS(src->type)); }

  private:
    static cusMat *table(const Input &src, Output &out, int type) {
        const bool accepted = src->data && CUS_CHANNELS(src->type) <= 4 &&
                              (CUS_DEPTH(src->type) == CUS_8U || CUS_DEPTH(src->type) == CUS_32F);
        return accepted ? out.create(src->rows + 1, src->cols + 1, type, src->space) : out.create(0, 0, type, src->space);
    }
    detail::Handle<cusIntegrator, &cusIntegratorDestroy> handle_;
};

// ---- Template matching -------------------------------------------------------------------------------------------------

// See cusMatcher: template matching with the exact best match.
class Matcher {
  public:
    // Takes one template or several of one size and type, for frames of rows x cols; with options.batch one, or one for
    // each frame.
    Matcher(const Inputs &templates, int rows, int cols, const cusMatcherOptions &options = cusMatcherDefaults(),
            StreamRef stream = {})
        : batch_(static_cast<size_t>(options.batch)), count_(static_cast<int>(templates.size())),
          max_matches_(options.max_matches) {
        cusMatcher *made = nullptr;
        check(cusMatcherCreate(&made, templates.data(), count_, rows, cols, &options, stream));
        handle_.reset(made);
        map_rows_ = rows - templates.data()->rows + 1;
        map_cols_ = cols - templates.data()->cols + 1;
    }
    // Matches one frame, or options.batch frames.
    void run(const Inputs &frames, StreamRef stream = {}) {
        expectFrames(frames.size());
        check(cusMatcherRun(get(), frames.data(), nullptr, stream));
    }
    // Matches one frame and writes the score map; for a matcher with one template.
    void run(const Input &frame, Output scores, StreamRef stream = {}) {
        expectFrames(1);
        if (count_ != 1)
            throw Error(CUS_ERROR_SIZE, "Matcher::run: the matcher has " + std::to_string(count_) +
                                            " templates, expected 1; pass an array to cusMatcherRun");
        check(cusMatcherRun(get(), frame.get(), scores.create(map_rows_, map_cols_, CUS_32FC1, frame->space), stream));
    }
    // Counts the pixels in a color range inside each match, in one frame or options.batch frames: see cusMatcherInspect.
    void inspect(const Inputs &frames, const cusHsvRange &range, double min_fill, StreamRef stream = {}) {
        expectFrames(frames.size());
        check(cusMatcherInspect(get(), frames.data(), &range, min_fill, stream));
    }
    // Returns the matches, best first, at most max_matches; waits for the stream of the run. index: of the template, or
    // of a batch's frame.
    std::vector<cusMatch> matches(StreamRef stream = {}, int index = 0) {
        std::vector<cusMatch> found(static_cast<size_t>(max_matches_));
        int count = 0;
        check(cusMatcherGet(get(), index, found.data(), max_matches_, &count, stream));
        found.resize(static_cast<size_t>(count));
        return found;
    }
    // Returns the best match; x = y = -1 and a score of NaN if there is none. Waits for the stream of the run.
    cusMatch best(StreamRef stream = {}, int index = 0) {
        const auto found = matches(stream, index);
        if (!found.empty())
            return found[0];
        cusMatch none = {};
        none.x = none.y = none.filled = -1;
        none.score = std::numeric_limits<double>::quiet_NaN();
        return none;
    }
    // Returns all results in place: see cusMatcherResults.
    cusMat results() const {
        cusMat view = CUS_MAT_INIT;
        check(cusMatcherResults(get(), &view));
        return view;
    }
    // See cusMatcherAlgorithm.
    cusMatchAlgorithm algorithm() const noexcept { return cusMatcherAlgorithm(get()); }
    // Returns the C object.
    cusMatcher *get() const noexcept { return handle_.get(); }

  private:
    void expectFrames(size_t frames) const {
        if (frames != batch_)
            throw Error(CUS_ERROR_SIZE, "Matcher: " + std::to_string(frames) + " frames given, expected " +
                                            std::to_string(batch_) + ", the batch of the matcher");
    }

    detail::Handle<cusMatcher, &cusMatcherDestroy> handle_;
    size_t batch_ = 1;
    int count_ = 0, max_matches_ = 0, map_rows_ = 0, map_cols_ = 0;
};

// See cusPoseMatcher: template matching under rotation and scale.
class PoseMatcher {
  public:
    // The pixels with which a pose is compared.
    struct Window {
        Matrix templ; // resampled
        Matrix mask;  // 255 where a pixel counts, else 0
    };
    // Takes frames of rows x cols. The template and options.mask are not needed afterwards.
    PoseMatcher(const Input &templ, int rows, int cols, const cusPoseOptions &options = cusPoseDefaults(),
                StreamRef stream = {})
        : max_matches_(options.max_matches) {
        cusPoseMatcher *made = nullptr;
        check(cusPoseMatcherCreate(&made, templ.get(), rows, cols, &options, stream));
        handle_.reset(made);
        check(cusPoseMatcherGrid(made, &angles_, &scales_));
    }
    // Finds the template in a frame. Waits for the stream.
    void run(const Input &frame, StreamRef stream = {}) { check(cusPoseMatcherRun(get(), frame.get(), stream)); }
    // Returns the matches of the last run, best first, at most max_matches.
    std::vector<cusPoseMatch> matches() {
        std::vector<cusPoseMatch> found(static_cast<size_t>(max_matches_));
        int count = 0;
        check(cusPoseMatcherGet(get(), found.data(), max_matches_, &count));
        found.resize(static_cast<size_t>(count));
        return found;
    }
    // Returns the best match; if there is none, row = col = -1 and x, y, angle, scale and score are NaN.
    cusPoseMatch best() {
        const auto found = matches();
        if (!found.empty())
            return found[0];
        cusPoseMatch none = {};
        none.x = none.y = none.angle = none.scale = none.score = std::numeric_limits<double>::quiet_NaN();
        none.row = none.col = none.angle_index = none.scale_index = -1;
        return none;
    }
    // Returns the best match or, if none reaches the limit, the best that was tried: see cusPoseMatcherNearest. Like
    // best() if there is none.
    cusPoseMatch nearest() {
        cusPoseMatch found = {};
        int count = 0;
        check(cusPoseMatcherNearest(get(), &found, &count));
        return count > 0 ? found : best();
    }
    // Returns the resampled template of a pose, in host memory: see cusPoseMatcherTemplate.
    Window window(int angle_index, int scale_index) {
        Window made;
        check(cusPoseMatcherTemplate(get(), angle_index, scale_index, &made.templ.get(), &made.mask.get()));
        return made;
    }
    // Returns the number of angles.
    int angles() const noexcept { return angles_; }
    // Returns the number of scales.
    int scales() const noexcept { return scales_; }
    // Returns the C object.
    cusPoseMatcher *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusPoseMatcher, &cusPoseMatcherDestroy> handle_;
    int max_matches_, angles_ = 0, scales_ = 0;
};

// ---- Frame differences -------------------------------------------------------------------------------------------------

// Makes the heatmap of each frame against the one before. Keeps a copy of the last frame, in its space.
class Heatmap {
  public:
    // Starts without a frame.
    explicit Heatmap(const cusHeatmapOptions &options = cusHeatmapDefaults()) : options_(options) {}
    // The first frame, and one of another size, type or space, is compared with itself: a map without changes.
    void apply(const Input &frame, Output map, StreamRef stream = {}) {
        const cusMat &p = previous_.get();
        const bool first =
            p.rows != frame->rows || p.cols != frame->cols || p.type != frame->type || p.space != frame->space;
        const cusMat *before = first ? frame.get() : &p;
        cusMat *to = map.create(frame->rows, frame->cols, CUS_8UC3, frame->space);
        check(cusHeatmap(before, frame.get(), to, &options_, stream));
        if (first && p.space != frame->space)
            previous_.release();
        check(cusMatCopy(frame.get(), &previous_.get(), stream));
    }
    // The next frame is a first frame again.
    void reset() noexcept { previous_.release(); }

  private:
    cusHeatmapOptions options_;
    Matrix previous_;
};

// One encoded frame: see cusSparseDiff.
class SparseDiff {
  public:
    SparseDiff() = default;
    // See cusSparseDiffCreate.
    SparseDiff(int rows, int cols, int type, cusSpace space, uint32_t capacity = 0, bool with_mask = false) {
        check(cusSparseDiffCreate(&diff_, rows, cols, type, capacity, with_mask, space));
    }
    // Leaves `other` empty.
    SparseDiff(SparseDiff &&other) noexcept : diff_(std::exchange(other.diff_, cusSparseDiff CUS_SPARSE_DIFF_INIT)) {}
    // Releases what this diff held, and leaves `other` empty.
    SparseDiff &operator=(SparseDiff &&other) noexcept {
        if (this != &other) {
            cusSparseDiffRelease(&diff_);
            diff_ = std::exchange(other.diff_, cusSparseDiff CUS_SPARSE_DIFF_INIT);
        }
        return *this;
    }
    ~SparseDiff() { cusSparseDiffRelease(&diff_); }
    // Returns the number of changed bytes; waits for the stream.
    uint32_t count(StreamRef stream = {}) const {
        uint32_t n = 0;
        check(cusSparseDiffCount(&diff_, &n, stream));
        return n;
    }
    // Returns the C struct.
    const cusSparseDiff &get() const noexcept { return diff_; }
    // Returns the C struct.
    cusSparseDiff &get() noexcept { return diff_; }

  private:
    cusSparseDiff diff_ = CUS_SPARSE_DIFF_INIT;
};

// See cusDiffEncoder: what changed since the frame that the receiver has.
class DiffEncoder {
  public:
    // See cusDiffEncoderCreate.
    DiffEncoder(int rows, int cols, int type, cusSpace space, const cusDiffOptions &options = cusDiffDefaults()) {
        cusDiffEncoder *made = nullptr;
        check(cusDiffEncoderCreate(&made, rows, cols, type, space, &options));
        handle_.reset(made);
    }
    // Writes the changes of `frame` to `diff`.
    void encode(const Input &frame, SparseDiff &diff, StreamRef stream = {}) {
        check(cusDiffEncode(get(), frame.get(), &diff.get(), stream));
    }
    // Writes the changes of each frame to its diff, with its encoder: see cusDiffEncodeBatch.
    static void encodeAll(std::vector<DiffEncoder> &encoders, const Inputs &frames, std::vector<SparseDiff> &diffs,
                          StreamRef stream = {}) {
        if (frames.size() != encoders.size() || diffs.size() != encoders.size())
            throw Error(CUS_ERROR_SIZE, "DiffEncoder: " + std::to_string(frames.size()) + " frames and " +
                                            std::to_string(diffs.size()) + " diffs given, expected " +
                                            std::to_string(encoders.size()) + ", one for each encoder");
        std::vector<cusDiffEncoder *> objects;
        std::vector<cusSparseDiff> lists;
        for (size_t i = 0; i < encoders.size(); ++i) {
            objects.push_back(encoders[i].get());
            lists.push_back(diffs[i].get());
        }
        check(cusDiffEncodeBatch(static_cast<int>(objects.size()), objects.data(), frames.data(), lists.data(), stream));
    }
    // The reference becomes black.
    void resetToBlack(StreamRef stream = {}) { check(cusDiffEncoderReset(get(), nullptr, stream)); }
    // The reference becomes `frame`.
    void reset(const Input &frame, StreamRef stream = {}) { check(cusDiffEncoderReset(get(), frame.get(), stream)); }
    // Returns a view of what the receiver has.
    cusMat reference() const {
        cusMat view = CUS_MAT_INIT;
        check(cusDiffEncoderReference(get(), &view));
        return view;
    }
    // Returns the C object.
    cusDiffEncoder *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusDiffEncoder, &cusDiffEncoderDestroy> handle_;
};

// See cusDiffDecoder: keeps the frame that differences are applied to.
class DiffDecoder {
  public:
    // The frame starts black.
    DiffDecoder(int rows, int cols, int type, cusSpace space) {
        cusDiffDecoder *made = nullptr;
        check(cusDiffDecoderCreate(&made, rows, cols, type, space));
        handle_.reset(made);
    }
    // Applies a difference.
    void decode(const SparseDiff &diff, StreamRef stream = {}) { decode(diff.get(), stream); }
    // Applies a difference.
    void decode(const cusSparseDiff &diff, StreamRef stream = {}) { check(cusDiffDecode(get(), &diff, stream)); }
    // The frame becomes black.
    void resetToBlack(StreamRef stream = {}) { check(cusDiffDecoderReset(get(), nullptr, stream)); }
    // The frame becomes `frame`.
    void reset(const Input &frame, StreamRef stream = {}) { check(cusDiffDecoderReset(get(), frame.get(), stream)); }
    // Returns a view of the frame.
    cusMat frame() const {
        cusMat view = CUS_MAT_INIT;
        check(cusDiffDecoderFrame(get(), &view));
        return view;
    }
    // Returns the C object.
    cusDiffDecoder *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusDiffDecoder, &cusDiffDecoderDestroy> handle_;
};

// ---- Motion ------------------------------------------------------------------------------------------------------------

// See cusMotionDetector: what moves in the frames of one or many cameras.
class MotionDetector {
  public:
    // What a camera's last step found.
    struct Found {
        cusMotionStatus status;             // state, counts, threshold
        std::vector<cusMotionBox> boxes;    // largest first
        std::vector<cusMotionTrack> tracks; // by increasing id
    };
    // See cusMotionDetectorCreate.
    MotionDetector(int cameras, int rows, int cols, int type, const cusMotionOptions &options = cusMotionDefaults())
        : cameras_(static_cast<size_t>(cameras)), max_boxes_(static_cast<size_t>(options.max_boxes)), rows_(rows),
          cols_(cols), space_(options.space) {
        cusMotionDetector *made = nullptr;
        check(cusMotionDetectorCreate(&made, cameras, rows, cols, type, &options));
        handle_.reset(made);
    }
    // Watches only pixels whose mask is not 0, of one camera, or of all with -1.
    void watch(const Input &mask, int camera = -1, StreamRef stream = {}) {
        check(cusMotionDetectorWatch(get(), camera, mask.get(), stream));
    }
    // Makes a step of the only camera; its time is the number of the step.
    void run(const Input &frame, StreamRef stream = {}) {
        expectFrames(1);
        check(cusMotionDetectorRun(get(), frame.get(), nullptr, stream));
    }
    // Makes a step of the only camera with the frame's time in microseconds.
    void run(const Input &frame, int64_t time, StreamRef stream = {}) {
        expectFrames(1);
        check(cusMotionDetectorRun(get(), frame.get(), &time, stream));
    }
    // Makes a step of all cameras; without times these are the numbers of the steps.
    void runAll(const Inputs &frames, const std::vector<int64_t> &times = {}, StreamRef stream = {}) {
        expectFrames(frames.size());
        if (!times.empty())
            expectFrames(times.size());
        check(cusMotionDetectorRun(get(), frames.data(), times.empty() ? nullptr : times.data(), stream));
    }
    // Returns what a camera's last step has found. Waits for the stream of the run.
    Found found(int camera = 0, StreamRef stream = {}) {
        Found result = {{}, std::vector<cusMotionBox>(max_boxes_), std::vector<cusMotionTrack>(max_boxes_)};
        check(cusMotionDetectorGet(get(), camera, 1, &result.status, result.boxes.data(), result.tracks.data(), stream));
        result.boxes.resize(static_cast<size_t>(result.status.boxes));
        result.tracks.resize(static_cast<size_t>(result.status.tracks));
        return result;
    }
    // Copies the mask of a camera's last step.
    void mask(Output mask, int camera = 0, StreamRef stream = {}) {
        check(cusMotionDetectorMask(get(), camera, mask.create(rows_, cols_, CUS_8UC1, space_), stream));
    }
    // Returns all results in place: see cusMotionDetectorResults.
    cusMotionResults results() const {
        cusMotionResults view;
        check(cusMotionDetectorResults(get(), &view));
        return view;
    }
    // Returns the C object.
    cusMotionDetector *get() const noexcept { return handle_.get(); }

  private:
    void expectFrames(size_t count) const {
        if (count != cameras_)
            throw Error(CUS_ERROR_SIZE, "MotionDetector: " + std::to_string(count) + " frames or times given, expected " +
                                            std::to_string(cameras_) + ", one for each camera");
    }
    detail::Handle<cusMotionDetector, &cusMotionDetectorDestroy> handle_;
    size_t cameras_, max_boxes_;
    int rows_, cols_;
    cusSpace space_;
};

// ---- Stereo ------------------------------------------------------------------------------------------------------------

// See cusContourMapper: elevation and contour lines of stereo pairs.
class ContourMapper {
  public:
    // See cusContourMapperCreate.
    ContourMapper(int rows, int cols, int type, cusSpace space, const cusStereoOptions &options = cusStereoDefaults())
        : elevation_type_(options.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1) {
        cusContourMapper *made = nullptr;
        check(cusContourMapperCreate(&made, rows, cols, type, space, &options));
        handle_.reset(made);
    }
    // Maps the elevation alone.
    void map(const Input &left, const Input &right, Output elevation, StreamRef stream = {}) {
        check(cusContourMap(get(), left.get(), right.get(),
                            elevation.create(left->rows, left->cols, elevation_type_, left->space), nullptr, stream));
    }
    // Maps the elevation and its contour lines.
    void map(const Input &left, const Input &right, Output elevation, Output contours, StreamRef stream = {}) {
        cusMat *heights = elevation.create(left->rows, left->cols, elevation_type_, left->space),
               *lines = contours.create(left->rows, left->cols, CUS_8UC1, left->space);
        check(cusContourMap(get(), left.get(), right.get(), heights, lines, stream));
    }
    // Returns the C object.
    cusContourMapper *get() const noexcept { return handle_.get(); }

  private:
    detail::Handle<cusContourMapper, &cusContourMapperDestroy> handle_;
    int elevation_type_;
};

} // namespace cusight

#endif // CUSIGHT_ALGORITHMS_HPP

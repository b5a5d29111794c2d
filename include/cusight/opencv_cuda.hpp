// cusight/opencv_cuda.hpp: the algorithms with cv::cuda's names and signatures. Included by opencv.hpp.
//
// A program that calls cv::cuda::integral, sqrIntegral or createTemplateMatching changes the namespace. cv::cuda::GpuMat
// works on the device in stream order; cv::Mat (and whatever else has a cv::Mat inside) works on the host and is ready at
// return: nothing is uploaded behind your back. Outputs are created; regions, buffers of a cv::cuda::BufferPool and wrapped
// memory that fit are written in place. Errors are cv::Exception, whose `err` is the library's message. Without a stream
// argument work is queued in the default stream, as in OpenCV. Use an object in one stream (or thread) at a time; different
// objects are independent. docs/opencv.md says where results differ from cv::cuda's.
#ifndef CUSIGHT_OPENCV_CUDA_HPP
#define CUSIGHT_OPENCV_CUDA_HPP

#include "opencv_arrays.hpp"

#if __has_include(<opencv2/cudaimgproc.hpp>)
#include <opencv2/cudaimgproc.hpp>
#define CUSIGHT_HAVE_CV_TEMPLATE_MATCHING 1
#endif

#include <cstring>

namespace cusight {
namespace cuda {

// ---- Integral images ---------------------------------------------------------------------------------------------------

// As cv::integral with two tables: sum 32S from 8U and 64F from 32F, sqsum 64F, of 1 to 4 channels. Either may be
// cv::noArray().
inline void integral(cv::InputArray src, cv::OutputArray sum, cv::OutputArray sqsum, StreamRef stream = {}) {
    detail::translated("cusight::cuda::integral", [&] {
        const detail::ArrayView in(src);
        detail::ArrayOutput sums(sum), squares(sqsum);
        // Creates no output for input that will be rejected.
        const int rows = detail::isTableSource(in) ? in->rows + 1 : 0, cols = rows > 0 ? in->cols + 1 : 0;
        const int type = Integrator::sumType(in, cusIntegralDefaults());
        cusMat *first = sum.needed() ? sums.create(rows, cols, type, in->space) : nullptr;
        cusMat *second = sqsum.needed() ? squares.create(rows, cols, Integrator::squaresType(in), in->space) : nullptr;
        check(cusIntegral(in.get(), first, second, nullptr, stream));
    });
}

// As cv::cuda::integral: 8UC1 to 32SC1, exact modulo 2^32. Also 32FC1 to 64FC1, and up to 4 channels of either.
inline void integral(cv::InputArray src, cv::OutputArray sum, StreamRef stream = {}) {
    integral(src, sum, cv::noArray(), stream);
}

// As cv::cuda::sqrIntegral: 8UC1 to 64FC1, exact. Also 32FC1, and up to 4 channels of either.
inline void sqrIntegral(cv::InputArray src, cv::OutputArray sqsum, StreamRef stream = {}) {
    integral(src, cv::noArray(), sqsum, stream);
}

// ---- Heatmaps ----------------------------------------------------------------------------------------------------------

// See cusHeatmap: 8UC1, 8UC3 or 8UC4 to 8UC3.
inline void heatmap(cv::InputArray prev, cv::InputArray cur, cv::OutputArray dst, StreamRef stream = {},
                    const cusHeatmapOptions &options = cusHeatmapDefaults()) {
    detail::translated("cusight::cuda::heatmap", [&] {
        const detail::ArrayView p(prev), c(cur);
        detail::ArrayOutput out(dst);
        check(cusHeatmap(p.get(), c.get(), out.create(c->rows, c->cols, CUS_8UC3, c->space), &options, stream));
    });
}

// See cusNoiseView: red where the summed difference is above `threshold`, 0..765.
inline void noiseView(cv::InputArray prev, cv::InputArray cur, cv::OutputArray dst, int threshold, StreamRef stream = {}) {
    detail::translated("cusight::cuda::noiseView", [&] {
        const detail::ArrayView p(prev), c(cur);
        detail::ArrayOutput out(dst);
        check(cusNoiseView(p.get(), c.get(), out.create(c->rows, c->cols, CUS_8UC3, c->space), threshold, stream));
    });
}

// ---- Template matching -------------------------------------------------------------------------------------------------

#ifdef CUSIGHT_HAVE_CV_TEMPLATE_MATCHING
using TemplateMatchingBase = cv::cuda::TemplateMatching; // so that a cv::Ptr<cv::cuda::TemplateMatching> may hold ours
#else
using TemplateMatchingBase = cv::Algorithm;
#endif

// Score maps as cv::cuda::TemplateMatching makes them, and the exact best match, which needs no search of the map.
class TemplateMatching : public TemplateMatchingBase {
  public:
    // type: of images and templates. createTemplateMatching checks the arguments.
    explicit TemplateMatching(int type, const cusMatcherOptions &options) : type_(type), options_(options) {}

    // The template is prepared if its pixels, or size or space of the image, differ from the last call's. They are compared
    // on the host: with a GpuMat the call downloads the template and waits for the stream. setTemplate and match without a
    // template do not. result: 32FC1, or cv::noArray() if only the best match is wanted (faster).
    void match(cv::InputArray image, cv::InputArray templ, cv::OutputArray result, StreamRef stream = {}) {
        detail::translated("cusight::cuda::TemplateMatching::match", [&] {
            const detail::ArrayView in(image), t(templ);
            prepare(t, in->rows, in->cols, stream);
            run(in, result, stream);
        });
    }
#ifdef CUSIGHT_HAVE_CV_TEMPLATE_MATCHING
    // As cv::cuda::TemplateMatching::match.
    void match(cv::InputArray image, cv::InputArray templ, cv::OutputArray result, cv::cuda::Stream &stream) override {
        match(image, templ, result, StreamRef(stream));
    }
#endif

    // Prepares a template for images of this size, in the template's space. Allocates, and waits for the stream of a
    // GpuMat.
    void setTemplate(cv::InputArray templ, cv::Size image, StreamRef stream = {}) {
        detail::translated("cusight::cuda::TemplateMatching::setTemplate",
                           [&] { prepare(detail::ArrayView(templ), image.height, image.width, stream); });
    }
    // Matches that template. Does not wait, and allocates only a result that does not fit.
    void match(cv::InputArray image, cv::OutputArray result, StreamRef stream = {}) {
        detail::translated("cusight::cuda::TemplateMatching::match", [&] {
            if (!matcher_)
                throw Error(CUS_ERROR_NULL, "TemplateMatching::match: no template; call setTemplate first");
            run(detail::ArrayView(image), result, stream);
        });
    }

    // Finds the exact best match of the last run, smallest for SQDIFF and SQDIFF_NORMED, else largest; false if there
    // is none (a limit on the score, float images with NaN). Waits for the stream of the run. Pass NULL for values you
    // do not need.
    bool best(double *score, cv::Point *location, StreamRef stream = {}) {
        const auto found = matches(stream);
        if (found.empty())
            return false;
        if (score)
            *score = found[0].score;
        if (location)
            *location = {found[0].x, found[0].y};
        return true;
    }
    // Returns all matches of the last run, best first, at most options.max_matches.
    std::vector<cusMatch> matches(StreamRef stream = {}) {
        return detail::translated("cusight::cuda::TemplateMatching::matches", [&] { return matcher().matches(stream); });
    }
    // Returns the matcher of the last template, for everything else: inspection, results in place.
    Matcher &matcher() {
        if (!matcher_)
            throw Error(CUS_ERROR_NULL, "TemplateMatching: no match yet");
        return *matcher_;
    }

    // Releases the prepared template. cv::Algorithm.
    void clear() override {
        matcher_.reset();
        template_.release();
    }

  private:
    void prepare(const detail::ArrayView &templ, int rows, int cols, cusStream stream) {
        if (templ->data && toCvType(templ->type) != type_)
            throw Error(CUS_ERROR_TYPE, "TemplateMatching: templ has type " + cv::typeToString(toCvType(templ->type)) +
                                            ", expected " + cv::typeToString(type_) + " as created");
        if (!templ->data)
            throw Error(CUS_ERROR_NULL, "TemplateMatching: templ is empty");
        cv::Mat pixels;
        copy(templ, pixels, CUS_HOST, stream);
        if (templ->space == CUS_DEVICE)
            check(cusStreamSynchronize(stream));
        if (matcher_ && rows == rows_ && cols == cols_ && templ->space == space_ && same(pixels, template_))
            return;
        // A matcher on the host prepares from the host's copy; one on the device reads templates there.
        auto made = std::make_unique<Matcher>(templ, rows, cols, options_, stream);
        matcher_ = std::move(made);
        template_ = pixels;
        rows_ = rows;
        cols_ = cols;
        space_ = templ->space;
    }
    void run(const detail::ArrayView &image, cv::OutputArray result, cusStream stream) {
        if (!result.needed())
            return matcher_->run(image, stream);
        detail::ArrayOutput scores(result);
        matcher_->run(image, scores, stream);
    }
    static bool same(const cv::Mat &a, const cv::Mat &b) {
        return a.size() == b.size() && a.type() == b.type() && std::memcmp(a.data, b.data, a.total() * a.elemSize()) == 0;
    }

    int type_, rows_ = 0, cols_ = 0;
    cusSpace space_ = CUS_HOST;
    cusMatcherOptions options_;
    cv::Mat template_; // its pixels, continuous
    std::unique_ptr<Matcher> matcher_;
};

// With all options: several matches, sub-pixel positions, a mask (which must exist as long as the object). srcType:
// CV_8UC1 to CV_8UC4 or CV_32FC1 to CV_32FC4. options.batch is 1; batches are Matcher's.
inline cv::Ptr<TemplateMatching> createTemplateMatching(int srcType, const cusMatcherOptions &options) {
    return detail::translated("cusight::cuda::createTemplateMatching", [&] {
        if ((CV_MAT_DEPTH(srcType) != CV_8U && CV_MAT_DEPTH(srcType) != CV_32F) || CV_MAT_CN(srcType) > 4)
            throw Error(CUS_ERROR_TYPE, "createTemplateMatching: srcType is " + cv::typeToString(srcType) +
                                            ", expected CV_8UC1 to CV_8UC4 or CV_32FC1 to CV_32FC4");
        if (options.batch != 1)
            throw Error(CUS_ERROR_VALUE, "createTemplateMatching: options.batch is " + std::to_string(options.batch) +
                                             ", expected 1; cusight::Matcher takes batches");
        if (options.method < CUS_MATCH_SQDIFF || options.method > CUS_MATCH_CCOEFF_NORMED)
            throw Error(CUS_ERROR_VALUE, "createTemplateMatching: method is " +
                                             std::to_string(static_cast<int>(options.method)) +
                                             ", expected cv::TM_SQDIFF .. cv::TM_CCOEFF_NORMED");
        return cv::makePtr<TemplateMatching>(srcType, options);
    });
}

// As cv::cuda::createTemplateMatching. method: cv::TM_SQDIFF and so on. user_block_size is ignored.
inline cv::Ptr<TemplateMatching> createTemplateMatching(int srcType, int method, cv::Size user_block_size = {}) {
    static_cast<void>(user_block_size);
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = static_cast<cusMatchMethod>(method);
    return createTemplateMatching(srcType, options);
}

// ---- Stereo ------------------------------------------------------------------------------------------------------------

// Elevation and contour maps of rectified pairs, 8UC1 or 32FC1, with the call of cv::cuda::StereoBM.
class StereoContour : public cv::Algorithm {
  public:
    // createStereoContour makes one.
    explicit StereoContour(const cusStereoOptions &options) : options_(options) {}

    // elevation: 16UC1, 1 + disparity in whole pixels, 0 for a hole (32FC1 with CUS_FILL_RELAX).
    void compute(cv::InputArray left, cv::InputArray right, cv::OutputArray elevation, StreamRef stream = {}) {
        detail::translated("cusight::cuda::StereoContour::compute", [&] {
            const detail::ArrayView l(left), r(right);
            detail::ArrayOutput heights(elevation);
            prepare(l).map(l, r, heights, stream);
        });
    }
    // contours: 8UC1, 255 on a line.
    void compute(cv::InputArray left, cv::InputArray right, cv::OutputArray elevation, cv::OutputArray contours,
                 StreamRef stream = {}) {
        detail::translated("cusight::cuda::StereoContour::compute", [&] {
            const detail::ArrayView l(left), r(right);
            detail::ArrayOutput heights(elevation), lines(contours);
            prepare(l).map(l, r, heights, lines, stream);
        });
    }
    // Returns the options it was made with.
    const cusStereoOptions &options() const { return options_; }
    // Releases the memory of the last size. cv::Algorithm.
    void clear() override { mapper_.reset(); }

  private:
    // Allocates for the first pair, and for one of another size, type or space.
    ContourMapper &prepare(const detail::ArrayView &left) {
        if (!left->data)
            throw Error(CUS_ERROR_NULL, "StereoContour::compute: left is empty");
        if (!mapper_ || rows_ != left->rows || cols_ != left->cols || type_ != left->type || space_ != left->space) {
            auto made = std::make_unique<ContourMapper>(left->rows, left->cols, left->type, left->space, options_);
            mapper_ = std::move(made);
            rows_ = left->rows;
            cols_ = left->cols;
            type_ = left->type;
            space_ = left->space;
        }
        return *mapper_;
    }

    cusStereoOptions options_;
    int rows_ = 0, cols_ = 0, type_ = 0;
    cusSpace space_ = CUS_HOST;
    std::unique_ptr<ContourMapper> mapper_;
};

// With all options.
inline cv::Ptr<StereoContour> createStereoContour(const cusStereoOptions &options = cusStereoDefaults()) {
    return cv::makePtr<StereoContour>(options);
}

// The defaults with this number of disparities (1..256) and this window (odd, 1..63), like createStereoBM.
inline cv::Ptr<StereoContour> createStereoContour(int numDisparities, int blockSize) {
    cusStereoOptions options = cusStereoDefaults();
    options.shifts = numDisparities;
    options.window = blockSize;
    return createStereoContour(options);
}

// For cv::cuda::createStereoSGM: cusStereoBest() with this number of disparities (1..1024), and 4 or 8 paths.
inline cv::Ptr<StereoContour> createStereoPaths(int numDisparities, int paths = 4) {
    cusStereoOptions options = cusStereoBest();
    options.shifts = numDisparities;
    options.paths = paths;
    return createStereoContour(options);
}

// ---- Sparse frame differences ------------------------------------------------------------------------------------------

namespace detail {

inline void copyTo(const cusMat &from, cv::OutputArray to, cusStream stream) {
    ArrayOutput out(to);
    const bool device = to.kind() == cv::_InputArray::CUDA_GPU_MAT;
    copy(from, out, device ? CUS_DEVICE : CUS_HOST, stream);
    if (!device && from.space == CUS_DEVICE)
        check(cusStreamSynchronize(stream));
}

} // namespace detail

// The sending end of framediff.h's sparse difference. The first frame allocates everything and changes from black; so does
// a frame of another size, type or space.
class SparseDiff {
  public:
    // Without a frame yet.
    explicit SparseDiff(const cusDiffOptions &options = cusDiffDefaults()) : options_(options) {}

    // Finds what changed since the earlier frames; queued in `stream`.
    void encode(cv::InputArray frame, StreamRef stream = {}) {
        detail::translated("cusight::cuda::SparseDiff::encode", [&] {
            const detail::ArrayView in(frame);
            if (!in->data)
                throw Error(CUS_ERROR_NULL, "SparseDiff::encode: frame is empty");
            if (!encoder_ || rows_ != in->rows || cols_ != in->cols || type_ != in->type || space_ != in->space) {
                auto made = std::make_unique<DiffEncoder>(in->rows, in->cols, in->type, in->space, options_);
                diff_ = cusight::SparseDiff(in->rows, in->cols, in->type, in->space);
                encoder_ = std::move(made);
                rows_ = in->rows;
                cols_ = in->cols;
                type_ = in->type;
                space_ = in->space;
            }
            encoder_->encode(in, diff_, stream);
        });
    }
    // Returns the number of changed bytes in the last frame; waits for `stream`.
    uint32_t count(StreamRef stream = {}) const {
        return detail::translated("cusight::cuda::SparseDiff::count", [&] { return diff_.count(stream); });
    }
    // The changes of the last frame, 1 x n: positions 32SC1 (uint32 values), values 8UC1; empty if nothing changed. To
    // cv::Mat or GpuMat, wherever the frames are. Waits for `stream` to learn n, and returns it.
    uint32_t changes(cv::OutputArray positions, cv::OutputArray values, StreamRef stream = {}) const {
        return detail::translated("cusight::cuda::SparseDiff::changes", [&] {
            const uint32_t n = diff_.count(stream);
            deliver(diff_.get().positions, n, positions, stream);
            deliver(diff_.get().values, n, values, stream);
            return n;
        });
    }
    // Copies what the receiver has after the last frame.
    void reference(cv::OutputArray frame, StreamRef stream = {}) const {
        detail::translated("cusight::cuda::SparseDiff::reference", [&] {
            if (!encoder_)
                throw Error(CUS_ERROR_NULL, "SparseDiff::reference: no frame yet");
            detail::copyTo(encoder_->reference(), frame, stream);
        });
    }
    // Returns the last frame's changes in place, for SparseDiffDecoder.
    const cusSparseDiff &diff() const { return diff_.get(); }

  private:
    static void deliver(const cusMat &list, uint32_t n, cv::OutputArray to, cusStream stream) {
        if (!to.needed())
            return;
        if (n == 0)
            return to.release();
        cusMat used = CUS_MAT_INIT;
        check(cusMatRegion(&list, 0, 0, static_cast<int>(n), 1, &used));
        detail::copyTo(used, to, stream);
    }

    cusDiffOptions options_;
    int rows_ = 0, cols_ = 0, type_ = 0;
    cusSpace space_ = CUS_HOST;
    cusight::SparseDiff diff_;
    std::unique_ptr<DiffEncoder> encoder_;
};

// The receiving end: keeps the frame, which starts black, in `space`.
class SparseDiffDecoder {
  public:
    // For frames of this size and type.
    SparseDiffDecoder(cv::Size size, int type, cusSpace space)
        : decoder_(detail::translated("cusight::cuda::SparseDiffDecoder",
                                      [&] { return DiffDecoder(size.height, size.width, fromCvType(type), space); })),
          space_(space) {}

    // frame[positions[k]] += values[k] modulo 256; both 1 x n in the decoder's space, or both empty. Queued in `stream`.
    void decode(cv::InputArray positions, cv::InputArray values, StreamRef stream = {}) {
        detail::translated("cusight::cuda::SparseDiffDecoder::decode", [&] {
            const detail::ArrayView p(positions), v(values);
            if (!p->data && !v->data)
                return;
            if (p->rows != 1 || v->rows != 1 || p->cols != v->cols)
                throw Error(CUS_ERROR_SIZE, "SparseDiffDecoder::decode: positions are " + sizeOf(p) + ", values " +
                                                sizeOf(v) + " (rows x cols), expected 1 x n both");
            int n = p->cols;
            copy(Matrix::wrap(1, 1, CUS_32SC1, CUS_HOST, &n), count_, space_, stream); // n has been read when this returns
            cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
            diff.positions = *p.get();
            diff.values = *v.get();
            diff.count = count_.get();
            diff.capacity = static_cast<uint32_t>(n);
            decoder_.decode(diff, stream);
        });
    }
    // From an encoder in the same space.
    void decode(const SparseDiff &encoder, StreamRef stream = {}) {
        detail::translated("cusight::cuda::SparseDiffDecoder::decode", [&] { decoder_.decode(encoder.diff(), stream); });
    }
    // Copies the decoded frame.
    void frame(cv::OutputArray to, StreamRef stream = {}) const {
        detail::translated("cusight::cuda::SparseDiffDecoder::frame",
                           [&] { detail::copyTo(decoder_.frame(), to, stream); });
    }
    // Continues from this frame.
    void reset(cv::InputArray frame, StreamRef stream = {}) {
        detail::translated("cusight::cuda::SparseDiffDecoder::reset",
                           [&] { decoder_.reset(detail::ArrayView(frame), stream); });
    }

  private:
    static std::string sizeOf(const detail::ArrayView &m) {
        return std::to_string(m->rows) + " x " + std::to_string(m->cols);
    }
    DiffDecoder decoder_;
    cusSpace space_;
    Matrix count_;
};

} // namespace cuda
} // namespace cusight

#endif // CUSIGHT_OPENCV_CUDA_HPP

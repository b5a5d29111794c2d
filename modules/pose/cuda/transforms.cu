// The fallback of a search. Transforms correlate windows of poses with the frame, in batches, and every position is
// scored.
#include "pose/cuda/transforms.cuh"

#include "pose/cuda/exact.cuh"
#include "progress.h"

#include <algorithm>
#include <cmath>

extern "C" const char *match_cufftProblem(void); // match/cuda/cufft/open.c

namespace cusi::pose {

namespace {

constexpr int TEMPLATES = 2, MAX_BATCH = 64; // planes of a pose: pixels and mask
constexpr size_t BATCH_BYTES = size_t{1} << 30;
constexpr int MIN_SCREENED = 16;      // poses from which screening pays
constexpr double LOADS_OF_POINT = 10; // loads of the search that a point of a transform takes; measured on an H100
constexpr double CUFFT_UNITS = 4;     // rounding of a transform in units of 2^-53, per log2 of its points

struct Sizes {
    int rows, cols, sums;
    size_t points, spectrum;
};

// ---- Spectra --------------------------------------------------------------------------------------------------------

// Fills planes of I^2 and of I, 0 beyond the frame.
__global__ void __launch_bounds__(THREADS) frameKernel(const __grid_constant__ Field f, Sizes s, double *planes) {
    for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < s.points;
         i += static_cast<size_t>(gridDim.x) * THREADS) {
        const int y = static_cast<int>(i / s.cols), x = static_cast<int>(i % s.cols);
        const int v = y < f.frame_rows && x < f.frame_cols ? f.frame[static_cast<size_t>(y) * f.frame_step + x] : 0;
        planes[i] = v * v;
        planes[s.points + i] = v;
    }
}

__global__ void __launch_bounds__(THREADS)
    scaleKernel(Sizes s, double of_image, const cufftDoubleComplex *in, cufftDoubleComplex *out) {
    const double scale = 1 / static_cast<double>(s.points);
    for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < 2 * s.spectrum;
         i += static_cast<size_t>(gridDim.x) * THREADS) {
        const double factor = i < s.spectrum ? scale : of_image * scale;
        out[i] = {in[i].x * factor, in[i].y * factor};
    }
}

// Fills the planes of the pixels and the mask of poses[blockIdx.y]; SCREENS: of the pixels less their mean. Blocks
// share the rows.
template<bool SCREENS>
__global__ void __launch_bounds__(THREADS)
    windowKernel(const __grid_constant__ Field f, Sizes s, const int *poses, double *planes) {
    const Pose &p = f.poses[poses[blockIdx.y]];
    const int tid = static_cast<int>(threadIdx.x);
    const int64_t du = 2 * THREADS * p.transform.cosine, dv = 2 * THREADS * p.transform.sine;
    const double mean = SCREENS ? static_cast<double>(p.t1) / static_cast<double>(p.n) : 0;
    double *const pixels = planes + (SCREENS ? 1 : TEMPLATES) * blockIdx.y * s.points, *const mask = pixels + s.points;
    for (int y = blockIdx.x; y < s.rows; y += gridDim.x) {
        RowSampler sample(f, p.transform, p.left + tid, p.top + y);
        for (int x = tid; x < s.cols; x += THREADS, sample.advance(du, dv)) {
            const int v = y < p.rows && x < p.cols ? sample() : -1;
            const size_t at = static_cast<size_t>(y) * s.cols + x;
            pixels[at] = v < 0 ? 0 : v - mean;
            if constexpr (!SCREENS)
                mask[at] = v < 0 ? 0 : 1;
        }
    }
}

// a conj(b)
__device__ __forceinline__ cufftDoubleComplex correlated(cufftDoubleComplex a, cufftDoubleComplex b) {
    return {a.x * b.x + a.y * b.y, a.y * b.x - a.x * b.y};
}

// Computes the spectra of pose blockIdx.y's sums over each window: I T (SQDIFF: I^2 - 2 I T), I^2 and I; SCREENS: only
// the first.
template<bool SCREENS>
__global__ void __launch_bounds__(THREADS) productKernel(Sizes s, const cufftDoubleComplex *frame,
                                                         const cufftDoubleComplex *spectra, cufftDoubleComplex *products) {
    const cufftDoubleComplex *const pixels = spectra + (SCREENS ? 1 : TEMPLATES) * blockIdx.y * s.spectrum, *const mask =
                                                                                                                pixels +
                                                                                                                s.spectrum;
    cufftDoubleComplex *const out = products + (SCREENS ? 1 : s.sums) * blockIdx.y * s.spectrum;
    for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < s.spectrum;
         i += static_cast<size_t>(gridDim.x) * THREADS) {
        const cufftDoubleComplex image = frame[s.spectrum + i], product = correlated(image, pixels[i]);
        if constexpr (SCREENS) {
            out[i] = product;
        } else {
            const cufftDoubleComplex m = mask[i], squares = correlated(frame[i], m);
            if (s.sums == 1) {
                out[i] = {product.x + squares.x, product.y + squares.y};
                continue;
            }
            out[i] = product;
            out[s.spectrum + i] = squares;
            if (s.sums == 3)
                out[2 * s.spectrum + i] = correlated(image, m);
        }
    }
}

// ---- Scores ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned long long rounded(double v) {
    return static_cast<unsigned long long>(__double2ll_rd(v + 0.5));
}

// Offers the best values of pose poses[blockIdx.y] in the block's rows.
template<bool DIFFERS>
__global__ void __launch_bounds__(THREADS)
    scoreKernel(const __grid_constant__ Field f, Sizes s, const int *poses, const double *planes) {
    __shared__ PoseBest of_threads[THREADS];
    const int pose = poses[blockIdx.y];
    const Pose &p = f.poses[pose];
    const Lists &lists = f.lists[pose];
    const double *const sums = planes + s.sums * blockIdx.y * s.points;
    PoseBest best = {0, 1, 0, -1, 0, 0};
    for (int y = blockIdx.x; y < lists.rows; y += gridDim.x)
        for (int x = static_cast<int>(threadIdx.x); x < lists.cols; x += THREADS) {
            const size_t at = static_cast<size_t>(y) * s.cols + x;
            PoseBest value = {0, 1, 0, pose, y, x};
            if constexpr (DIFFERS)
                value.ssd = rounded(sums[at] + static_cast<double>(p.t2)), value.n = static_cast<uint64_t>(p.n);
            else
                value.cost = pose_normed(f.method, &p, s.sums == 3 ? rounded(sums[2 * s.points + at]) : 0,
                                         rounded(sums[s.points + at]), rounded(sums[at]));
            if (pose_isBetter(&value, &best) && !pose_isSuppressed(&f.picks, pose, y, x))
                best = value;
        }
    of_threads[threadIdx.x] = best;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half)
            continue;
        const PoseBest &other = of_threads[threadIdx.x + half];
        if (other.pose >= 0 && pose_isBetter(&other, &best))
            best = of_threads[threadIdx.x] = other;
    }
    if (threadIdx.x == 0 && best.pose >= 0)
        offer(f, best);
}

// ---- Screening ------------------------------------------------------------------------------------------------------
//
// CCOEFF_NORMED without a mask. The score is C / sqrt(E F), where C is the sum of I (T - mean of T), E the energy of I
// about its mean in the window and F that of T. Rectangles R of the window that do not overlap have at least the sum of
// their own energies, E >= sum over R of (sum of I^2 - (sum of I)^2 / pixels), by integral images. So a pose is ruled
// out by two transforms instead of five if C + error < goal sqrt(F sum) everywhere, or C + error <= 0.

__device__ __forceinline__ int partRow(const Pose &p, int part) {
    return part * p.rows / PARTS;
}

// Finds the columns where all rows of a part count. Without a mask, those that count in a row are an interval.
__global__ void __launch_bounds__(THREADS)
    insideKernel(const __grid_constant__ Field f, const int *poses, Inside *of_batch) {
    __shared__ Inside own;
    const Pose &p = f.poses[poses[blockIdx.x]];
    const int tid = static_cast<int>(threadIdx.x);
    const auto counts = [&](int x, int y) {
        return pose_isInside(&p.transform, pose_source(&p.transform, p.left + x, p.top + y)) != 0;
    };
    if (tid < PARTS)
        own.first[tid] = 0, own.last[tid] = p.cols;
    __syncthreads();
    for (int part = 0; part < PARTS; ++part)
        for (int y = partRow(p, part) + tid; y < partRow(p, part + 1); y += THREADS) {
            int first = 0, last = p.cols;
            while (first < last && !counts(first, y))
                ++first;
            while (first < last && !counts(last - 1, y))
                --last;
            atomicMax(&own.first[part], first);
            atomicMin(&own.last[part], last);
        }
    __syncthreads();
    if (tid < PARTS)
        of_batch[blockIdx.x].first[tid] = own.first[tid], of_batch[blockIdx.x].last[tid] = own.last[tid];
}

struct Tables {
    const double *squares;
    size_t step; // in entries
};

// Returns a lower bound of the energy of the window at (y, x); stops once it reaches `enough`.
__device__ __forceinline__ double leastEnergy(const Field &f, const Tables &t, const Pose &p, const Inside &inside, int y,
                                              int x, double enough) {
    double energy = 0;
    for (int k = 0; k < PARTS && energy <= enough; ++k) {
        const int part = (k + 1) % PARTS; // wide parts first
        const int top = partRow(p, part), bottom = partRow(p, part + 1), first = inside.first[part],
                  width = inside.last[part] - first;
        if (top >= bottom || width <= 0)
            continue;
        const size_t upper = static_cast<size_t>(y + top), lower = static_cast<size_t>(y + bottom), left = x + first;
        const uint32_t *const a = f.table + upper * f.table_step + left, *const b = f.table + lower * f.table_step + left;
        const double *const c = t.squares + upper * t.step + left, *const d = t.squares + lower * t.step + left;
        const double s1 = b[width] - b[0] - a[width] + a[0]; // modulo 2^32; sums of a part are smaller
        const double s2 = d[width] - d[0] - c[width] + c[0];
        energy += s2 * (1 - 0x1p-48) - s1 * s1 / (static_cast<double>(width) * (bottom - top)); // rounded down
    }
    return energy;
}

// Appends pose poses[blockIdx.y] to `left` if a position may reach the goal. is_left: one flag per pose of the batch, 0
// before.
__global__ void __launch_bounds__(THREADS)
    screenKernel(const __grid_constant__ Field f, Sizes s, Tables tables, double error, const int *poses,
                 const Inside *of_batch, const double *planes, int *is_left, int *left) {
    const int pose = poses[blockIdx.y];
    const Pose &p = f.poses[pose];
    const Lists &lists = f.lists[pose];
    const Inside inside = of_batch[blockIdx.y];
    const double *const sums = planes + blockIdx.y * s.points;
    const PoseGoal goal = pose_goal(f.method, &f.state->best, f.limit_cost);
    const uint64_t n = static_cast<uint64_t>(p.n), t1 = static_cast<uint64_t>(p.t1); // as in pose_normed()
    const double flat = static_cast<double>(n * static_cast<uint64_t>(p.t2) - t1 * t1) / static_cast<double>(n);
    const double least = goal.score * goal.score * flat * (1 - 0x1p-30);
    bool any = !(goal.score > 0 && least > 0);
    for (int y = blockIdx.x; y < lists.rows && !any && __ldcg(&is_left[blockIdx.y]) == 0; y += gridDim.x)
        for (int x = static_cast<int>(threadIdx.x); x < lists.cols; x += THREADS) {
            const double c = sums[static_cast<size_t>(y) * s.cols + x] + error;
            if (c > 0) {
                const double enough = c * c / least;
                any |=
                    leastEnergy(f, tables, p, inside, y, x, enough) <= enough && !pose_isSuppressed(&f.picks, pose, y, x);
            }
        }
    if (any && atomicExch(&is_left[blockIdx.y], 1) == 0)
        left[atomicAdd(&f.state->left, 1)] = pose;
}

// ---- Host -----------------------------------------------------------------------------------------------------------

// Returns the smallest multiple of `multiple` from n on that cuFFT transforms fast.
int goodSize(int n, int multiple) {
    for (n = divUp(n, multiple) * multiple;; n += multiple) {
        int rest = n;
        for (const int prime : {2, 3, 5, 7})
            while (rest % prime == 0)
                rest /= prime;
        if (rest == 1)
            return n;
    }
}

unsigned blocksFor(size_t count) {
    return static_cast<unsigned>(std::min<size_t>(divUp(count, size_t{THREADS}), 1 << 12));
}

} // namespace

// Sums have at most `most_pixels` products, of I and T or of I^2 and the mask. By Cauchy-Schwarz the transforms round
// by so many units of 2^-53 of |I| |T| <= 255^2 sqrt(pixels of the frame * most_pixels), or three times that for
// SQDIFF's I^2 - 2 I T. Each of the three transforms rounds by at most 4 units a level (Higham, Accuracy and Stability,
// ch. 24).
Transforms::Transforms(const Field &field, double most_pixels)
    : frame_rows_(field.frame_rows), frame_cols_(field.frame_cols), poses_(field.pose_count),
      rows_(goodSize(field.frame_rows, 1)), cols_(goodSize(field.frame_cols, 2)),
      sums_(field.method == CUS_MATCH_SQDIFF          ? 1
            : field.method == CUS_MATCH_CCOEFF_NORMED ? 3
                                                      : 2) {
    const double norms = 255.0 * 255.0 * std::sqrt(static_cast<double>(field.frame_rows) * field.frame_cols * most_pixels);
    error_ = (3 * CUFFT_UNITS * std::log2(static_cast<double>(points())) + 8) * 0x1p-53 * 3 * norms;
    const size_t planes = static_cast<size_t>(TEMPLATES + std::max(TEMPLATES, sums_) + sums_);
    const size_t bytes = planes * sizeof(double) * points();
    batch_ = static_cast<int>(std::clamp<size_t>(BATCH_BYTES / bytes, 1, MAX_BATCH));
    screened_ = field.method == CUS_MATCH_CCOEFF_NORMED && !field.mask ? TEMPLATES * batch_ : 0;
}

Transforms::~Transforms() {
    release();
}

void Transforms::release() {
    for (Plan *plan : {&forward_, &inverse_, &screen_}) {
        if (plan->exists)
            (void)cufftDestroy(plan->handle);
        *plan = {};
    }
    memory_.release();
    cusMatRelease(&squares_);
    work_bytes_ = 0;
}

double Transforms::loadsOfPose() const {
    return LOADS_OF_POINT * (TEMPLATES + sums_) * static_cast<double>(points());
}

bool Transforms::makePlan(Plan &plan, cufftType type, int planes) {
    long long n[2] = {rows_, cols_}, real[2] = {rows_, cols_}, complex[2] = {rows_, cols_ / 2 + 1};
    const auto plane = static_cast<long long>(points()), of_spectrum = static_cast<long long>(spectrum());
    const bool is_forward = type == CUFFT_D2Z;
    size_t work = 0;
    plan.exists = cufftCreate(&plan.handle) == CUFFT_SUCCESS;
    const bool ok = plan.exists && cufftSetAutoAllocation(plan.handle, 0) == CUFFT_SUCCESS &&
                    cufftMakePlanMany64(plan.handle, 2, n, is_forward ? real : complex, 1, is_forward ? plane : of_spectrum,
                                        is_forward ? complex : real, 1, is_forward ? of_spectrum : plane, type, planes,
                                        &work) == CUFFT_SUCCESS;
    work_bytes_ = std::max(work_bytes_, work);
    return ok;
}

template<class T>
bool Transforms::allocate(const char *function, T **memory, size_t count) {
    return memory_.allocate(function, count, memory) == CUS_OK;
}

// Creates what only screening needs. Its plan shares the others' work area.
bool Transforms::createScreening(const char *function) {
    const size_t room = work_bytes_, screened = static_cast<size_t>(screened_);
    return makePlan(screen_, CUFFT_Z2D, screened_) && work_bytes_ <= room &&
           cufftSetWorkArea(screen_.handle, work_) == CUFFT_SUCCESS && allocate(function, &inside_, screened) &&
           allocate(function, &is_left_, screened) && allocate(function, &left_, static_cast<size_t>(poses_)) &&
           cusMatCreate(&squares_, frame_rows_ + 1, frame_cols_ + 1, CUS_64FC1, CUS_DEVICE) == CUS_OK;
}

bool Transforms::create(const char *function, int count, cudaStream_t stream) {
    const size_t batch = static_cast<size_t>(batch_), sums = static_cast<size_t>(sums_);
    if (!is_created_)
        is_created_ =
            makePlan(forward_, CUFFT_D2Z, TEMPLATES * batch_) && makePlan(inverse_, CUFFT_Z2D, sums_ * batch_) &&
            allocate(function, &work_, work_bytes_) && cufftSetWorkArea(forward_.handle, work_) == CUFFT_SUCCESS &&
            cufftSetWorkArea(inverse_.handle, work_) == CUFFT_SUCCESS &&
            // Plans also transform the planes of a batch that it does not fill: these hold zeros.
            memory_.allocateZeros(function, batch * std::max<size_t>(TEMPLATES, sums) * points(), &planes_, stream) ==
                CUS_OK &&
            memory_.allocateZeros(function, batch * sums * spectrum(), &products_, stream) == CUS_OK &&
            allocate(function, &spectra_, batch * TEMPLATES * spectrum()) && allocate(function, &frame_, 2 * spectrum());
    if (is_created_ && screened_ > 0 && !screen_.exists && count >= MIN_SCREENED && !createScreening(function)) {
        if (screen_.exists)
            (void)cufftDestroy(screen_.handle);
        screen_ = {}, screened_ = 0;
    }
    if (!is_created_) {
        release();
        (void)match_cufftProblem(); // later calls must not report this problem
    }
    return is_created_;
}

#define POSE_CUFFT(function, call)                                                                       \
    do {                                                                                                 \
        const cufftResult result = (call);                                                               \
        CUSI_REQUIRE(result == CUFFT_SUCCESS, CUS_ERROR_CUDA, "%s: %s: cuFFT error %d", function, #call, \
                     static_cast<int>(result));                                                          \
    } while (0)

cusStatus Transforms::transformFrame(const char *function, const Field &field, cudaStream_t stream) {
    const Sizes sizes = {rows_, cols_, sums_, points(), spectrum()};
    CUS_TRY(launch(function, frameKernel, blocksFor(points()), THREADS, 0, stream, field, sizes, planes_));
    // The plan also transforms its other planes; this happens once a frame.
    POSE_CUFFT(function, cufftExecD2Z(forward_.handle, planes_, spectra_));
    const double of_image = field.method == CUS_MATCH_SQDIFF ? -2 : 1;
    CUS_TRY(
        launch(function, scaleKernel, blocksFor(2 * spectrum()), THREADS, 0, stream, sizes, of_image, spectra_, frame_));
    has_frame_ = true;
    return CUS_OK;
}

// Waits and reports progress between two batches.
cusStatus Transforms::endBatch(const char *function, const Field &field, int count, cudaStream_t stream) {
    CusiProgress *const progress = cusi_progress();
    if (progress->callback) // the callback is called during the wait
        CUS_TRY(cusi_deviceWait(function, stream, &field.state->stop));
    cusi_step(progress, count);
    return CUS_OK;
}

// Screens batches for as long as it pays: *done poses, of which it lists *left.
cusStatus Transforms::screen(const char *function, const Field &field, const int *poses, int count, int *done, int *left,
                             cudaStream_t stream) {
    const Sizes sizes = {rows_, cols_, sums_, points(), spectrum()};
    const Tables tables = {static_cast<const double *>(squares_.data), squares_.step / sizeof(double)};
    const auto rows = static_cast<unsigned>(std::min(rows_, 1 << 10));
    CUSI_CUDA(function, cudaMemsetAsync(&field.state->left, 0, sizeof field.state->left, stream));
    while (*done < count && 2 * *left <= *done) {
        const int *const at = poses + *done;
        const auto batch = static_cast<unsigned>(std::min(screened_, count - *done));
        CUSI_CUDA(function, cudaMemsetAsync(is_left_, 0, batch * sizeof *is_left_, stream));
        CUS_TRY(launch(function, insideKernel, batch, THREADS, 0, stream, field, at, inside_));
        CUS_TRY(launch(function, windowKernel<true>, dim3(rows, batch), THREADS, 0, stream, field, sizes, at, planes_));
        POSE_CUFFT(function, cufftExecD2Z(forward_.handle, planes_, spectra_));
        CUS_TRY(launch(function, productKernel<true>, dim3(blocksFor(spectrum()), batch), THREADS, 0, stream, sizes, frame_,
                       spectra_, products_));
        POSE_CUFFT(function, cufftExecZ2D(screen_.handle, products_, planes_));
        CUS_TRY(launch(function, screenKernel, dim3(rows, batch), THREADS, 0, stream, field, sizes, tables, error_, at,
                       inside_, planes_, is_left_, left_));
        CUS_TRY(endBatch(function, field, 0, stream));
        const int before = *left;
        CUSI_CUDA(function, cudaMemcpyAsync(left, &field.state->left, sizeof *left, cudaMemcpyDeviceToHost, stream));
        CUSI_CUDA(function, cudaStreamSynchronize(stream));
        *done += static_cast<int>(batch);
        cusi_step(cusi_progress(), static_cast<int64_t>(batch) - (*left - before)); // screening has finished these
    }
    return CUS_OK;
}

cusStatus Transforms::compute(const char *function, const Field &field, const int *poses, int count, cudaStream_t stream) {
    const Sizes sizes = {rows_, cols_, sums_, points(), spectrum()};
    const auto rows = static_cast<unsigned>(std::min(rows_, 1 << 10));
    for (int first = 0; first < count; first += batch_) {
        const auto batch = static_cast<unsigned>(std::min(batch_, count - first));
        CUS_TRY(launch(function, windowKernel<false>, dim3(rows, batch), THREADS, 0, stream, field, sizes, poses + first,
                       planes_));
        POSE_CUFFT(function, cufftExecD2Z(forward_.handle, planes_, spectra_));
        CUS_TRY(launch(function, productKernel<false>, dim3(blocksFor(spectrum()), batch), THREADS, 0, stream, sizes,
                       frame_, spectra_, products_));
        POSE_CUFFT(function, cufftExecZ2D(inverse_.handle, products_, planes_));
        CUS_TRY(launch(function, field.method == CUS_MATCH_SQDIFF ? scoreKernel<true> : scoreKernel<false>,
                       dim3(rows, batch), THREADS, 0, stream, field, sizes, poses + first, planes_));
        CUS_TRY(endBatch(function, field, static_cast<int>(batch), stream));
    }
    return CUS_OK;
}

cusStatus Transforms::run(const char *function, const Field &field, cusIntegrator *integrator, bool screens,
                          const int *poses, int count, cudaStream_t stream) {
    for (const Plan *plan : {&forward_, &inverse_, &screen_})
        if (plan->exists)
            POSE_CUFFT(function, cufftSetStream(plan->handle, stream));
    if (!has_frame_)
        CUS_TRY(transformFrame(function, field, stream));
    int done = 0, left = 0;
    if (screens && screen_.exists && count >= MIN_SCREENED) {
        if (!has_squares_) {
            cusMat frame = CUS_MAT_INIT;
            CUS_TRY(cusMatWrap(&frame, frame_rows_, frame_cols_, CUS_8UC1, CUS_DEVICE,
                               const_cast<unsigned char *>(field.frame), field.frame_step));
            CUS_TRY(cusIntegratorRun(integrator, &frame, nullptr, &squares_, nullptr, stream));
            has_squares_ = true;
        }
        CUS_TRY(screen(function, field, poses, count, &done, &left, stream));
    }
    CUS_TRY(compute(function, field, left_, left, stream));
    return compute(function, field, poses + done, count - done, stream);
}

} // namespace cusi::pose

// The fallback of a search: windows of poses and the frame are correlated by transforms in batches, and every position is scored.
#include "pose/cuda/transforms.cuh"

#include "device.h"
#include "pose/cuda/exact.cuh"
#include "progress.h"

#include <algorithm>
#include <cmath>

namespace cusi::pose {

namespace {

constexpr int TEMPLATES = 2, MAX_BATCH = 64; // planes of a pose: its pixels and its mask
constexpr size_t MOST_POINTS = size_t{1} << 26, BATCH_BYTES = size_t{2} << 30;
constexpr double LOADS_OF_POINT = 10; // of a transform; measured on an H100
constexpr double CUFFT_UNITS = 4;     // rounding of a transform in units of 2^-53, for each bit of its number of points

struct Sizes {
    int rows, cols, sums;
    size_t points, spectrum;
};

// Planes of I^2 and of I, 0 beyond the frame.
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

// Planes of the pixels and of the mask of poses[blockIdx.y]. Blocks take rows.
__global__ void __launch_bounds__(THREADS)
    windowKernel(const __grid_constant__ Field f, Sizes s, const int *poses, double *planes) {
    const Pose &p = f.poses[poses[blockIdx.y]];
    const int tid = static_cast<int>(threadIdx.x);
    const int64_t du = 2 * THREADS * p.transform.cosine, dv = 2 * THREADS * p.transform.sine;
    double *const pixels = planes + TEMPLATES * blockIdx.y * s.points, *const mask = pixels + s.points;
    for (int y = blockIdx.x; y < s.rows; y += gridDim.x) {
        RowSampler sample(f, p.transform, p.left + tid, p.top + y);
        for (int x = tid; x < s.cols; x += THREADS, sample.advance(du, dv)) {
            const int v = y < p.rows && x < p.cols ? sample() : -1;
            const size_t at = static_cast<size_t>(y) * s.cols + x;
            pixels[at] = v < 0 ? 0 : v;
            mask[at] = v < 0 ? 0 : 1;
        }
    }
}

// a conj(b)
__device__ __forceinline__ cufftDoubleComplex correlated(cufftDoubleComplex a, cufftDoubleComplex b) {
    return {a.x * b.x + a.y * b.y, a.y * b.x - a.x * b.y};
}

// Spectra of the sums of pose blockIdx.y: of I T (for SQDIFF of I^2 - 2 I T), I^2 and I over each window.
__global__ void __launch_bounds__(THREADS) productKernel(Sizes s, const cufftDoubleComplex *frame,
                                                         const cufftDoubleComplex *spectra, cufftDoubleComplex *products) {
    const cufftDoubleComplex *const pixels = spectra + TEMPLATES * blockIdx.y * s.spectrum, *const mask =
                                                                                                pixels + s.spectrum;
    cufftDoubleComplex *const out = products + s.sums * blockIdx.y * s.spectrum;
    for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < s.spectrum;
         i += static_cast<size_t>(gridDim.x) * THREADS) {
        const cufftDoubleComplex t = pixels[i], m = mask[i], image = frame[s.spectrum + i];
        const cufftDoubleComplex product = correlated(image, t), squares = correlated(frame[i], m);
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

__device__ __forceinline__ unsigned long long rounded(double v) {
    return static_cast<unsigned long long>(__double2ll_rd(v + 0.5));
}

// Offers the best values of pose poses[blockIdx.y] in the rows that a block takes.
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
        const PoseBest &other = of_threads[threadIdx.x + half];
        if (threadIdx.x < half && other.pose >= 0 && pose_isBetter(&other, &of_threads[threadIdx.x]))
            of_threads[threadIdx.x] = other;
    }
    if (threadIdx.x == 0 && of_threads[0].pose >= 0)
        offer(f, of_threads[0]);
}

// The smallest n' >= n, a multiple of `multiple`, of which cuFFT has fast transforms.
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

// Blocks for work of so many threads.
unsigned blocksFor(size_t count) {
    return static_cast<unsigned>(std::min<size_t>(divUp(count, size_t{THREADS}), 1 << 12));
}

} // namespace

Transforms::Transforms(const Field &field, double most_pixels)
    : rows_(goodSize(field.frame_rows, 1)), cols_(goodSize(field.frame_cols, 2)),
      sums_(field.method == CUS_MATCH_SQDIFF          ? 1
            : field.method == CUS_MATCH_CCOEFF_NORMED ? 3
                                                      : 2) {
    const double norms = 255.0 * 255.0 * std::sqrt(static_cast<double>(field.frame_rows) * field.frame_cols * most_pixels);
    const double units = 3 * CUFFT_UNITS * std::log2(static_cast<double>(points())) + 8;
    are_exact_ = points() <= MOST_POINTS && units * 0x1p-53 * 3 * norms < 0.25;
    const size_t bytes = (2 * TEMPLATES + 2 * static_cast<size_t>(sums_)) * sizeof(double) * points();
    batch_ = static_cast<int>(std::clamp<size_t>(BATCH_BYTES / bytes, 1, MAX_BATCH));
}

Transforms::~Transforms() {
    release();
}

void Transforms::release() {
    for (Plan *plan : {&forward_, &inverse_}) {
        if (plan->exists)
            (void)cufftDestroy(plan->handle);
        *plan = {};
    }
    for (void *memory : {static_cast<void *>(planes_), static_cast<void *>(spectra_), static_cast<void *>(products_),
                         static_cast<void *>(frame_), static_cast<void *>(work_)})
        cusi_deviceFree(memory);
    planes_ = nullptr, spectra_ = products_ = frame_ = nullptr, work_ = nullptr;
}

double Transforms::loadsOfPose() const {
    return LOADS_OF_POINT * (TEMPLATES + sums_) * static_cast<double>(points());
}

bool Transforms::makePlan(Plan &plan, cufftType type, int planes, size_t *work) {
    long long n[2] = {rows_, cols_}, real[2] = {rows_, cols_}, complex[2] = {rows_, cols_ / 2 + 1};
    const auto plane = static_cast<long long>(points()), of_spectrum = static_cast<long long>(spectrum());
    const bool is_forward = type == CUFFT_D2Z;
    plan.exists = cufftCreate(&plan.handle) == CUFFT_SUCCESS;
    return plan.exists && cufftSetAutoAllocation(plan.handle, 0) == CUFFT_SUCCESS &&
           cufftMakePlanMany64(plan.handle, 2, n, is_forward ? real : complex, 1, is_forward ? plane : of_spectrum,
                               is_forward ? complex : real, 1, is_forward ? of_spectrum : plane, type, planes,
                               work) == CUFFT_SUCCESS;
}

template<class T>
bool Transforms::allocate(const char *function, T **memory, size_t count) {
    void *data = nullptr;
    const bool ok = cusi_deviceAllocate(function, std::max<size_t>(count, 1) * sizeof(T), &data) == CUS_OK;
    *memory = static_cast<T *>(data);
    return ok;
}

bool Transforms::create(const char *function) {
    if (is_created_)
        return true;
    const size_t batch = static_cast<size_t>(batch_), sums = static_cast<size_t>(sums_);
    size_t work[2] = {0, 0};
    is_created_ = makePlan(forward_, CUFFT_D2Z, TEMPLATES * batch_, &work[0]) &&
                  makePlan(inverse_, CUFFT_Z2D, sums_ * batch_, &work[1]) &&
                  allocate(function, &planes_, batch * std::max<size_t>(TEMPLATES, sums) * points()) &&
                  allocate(function, &spectra_, batch * TEMPLATES * spectrum()) &&
                  allocate(function, &products_, batch * sums * spectrum()) &&
                  allocate(function, &frame_, 2 * spectrum()) && allocate(function, &work_, std::max(work[0], work[1])) &&
                  cufftSetWorkArea(forward_.handle, work_) == CUFFT_SUCCESS &&
                  cufftSetWorkArea(inverse_.handle, work_) == CUFFT_SUCCESS;
    if (!is_created_)
        release();
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
    POSE_CUFFT(function, cufftExecD2Z(forward_.handle, planes_, spectra_));
    const double of_image = field.method == CUS_MATCH_SQDIFF ? -2 : 1;
    CUS_TRY(
        launch(function, scaleKernel, blocksFor(2 * spectrum()), THREADS, 0, stream, sizes, of_image, spectra_, frame_));
    has_frame_ = true;
    return CUS_OK;
}

cusStatus Transforms::run(const char *function, const Field &field, const int *poses, int count, cudaStream_t stream) {
    const Sizes sizes = {rows_, cols_, sums_, points(), spectrum()};
    POSE_CUFFT(function, cufftSetStream(forward_.handle, stream));
    POSE_CUFFT(function, cufftSetStream(inverse_.handle, stream));
    if (!has_frame_)
        CUS_TRY(transformFrame(function, field, stream));
    CusiProgress *const progress = cusi_progress();
    for (int first = 0; first < count; first += batch_) {
        const auto batch = static_cast<unsigned>(std::min(batch_, count - first));
        const unsigned rows = static_cast<unsigned>(std::min(rows_, 1 << 10));
        CUS_TRY(
            launch(function, windowKernel, dim3(rows, batch), THREADS, 0, stream, field, sizes, poses + first, planes_));
        POSE_CUFFT(function, cufftExecD2Z(forward_.handle, planes_, spectra_));
        CUS_TRY(launch(function, productKernel, dim3(blocksFor(spectrum()), batch), THREADS, 0, stream, sizes, frame_,
                       spectra_, products_));
        POSE_CUFFT(function, cufftExecZ2D(inverse_.handle, products_, planes_));
        CUS_TRY(launch(function, field.method == CUS_MATCH_SQDIFF ? scoreKernel<true> : scoreKernel<false>,
                       dim3(rows, batch), THREADS, 0, stream, field, sizes, poses + first, planes_));
        if (progress->callback) // which is asked while this waits
            CUS_TRY(cusi_deviceWait(function, stream, &field.state->stop));
        cusi_step(progress, static_cast<int64_t>(batch));
    }
    return CUS_OK;
}

} // namespace cusi::pose

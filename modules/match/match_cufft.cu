// Frames whose rows or columns do not fit into shared memory: cuFFT's plans and size, and the product of the spectra.
#include "match_windows.cuh"

namespace match {

namespace {

constexpr int ITEMS = 4;                    // of a thread of multiplySpectra
constexpr long long TIMED_POINTS = 1 << 19; // smaller frames use cuFFT's smallest size without timing others

// Product of the frame's spectra with the templates' conjugate spectra. PLANES 0: the number is the model's.
template<int PLANES>
__device__ void multiplySpectra(const MatchModel &m, const CuFft &fft, int block, int blocks) {
    constexpr int N = PLANES ? ITEMS : 1, MAX_PLANES = PLANES ? PLANES : MATCH_MAX_PLANES;
    const int planes = PLANES ? PLANES : m.planes;
    const size_t spectrum = static_cast<size_t>(fft.rows) * (fft.cols / 2 + 1);
    for (size_t i0 = static_cast<size_t>(block) * THREADS * N + threadIdx.x; i0 < spectrum;
         i0 += static_cast<size_t>(blocks) * THREADS * N) {
        cufftComplex image[MAX_PLANES][N];
#pragma unroll
        for (int p = 0; p < MAX_PLANES; ++p)
#pragma unroll
            for (int u = 0; u < N; ++u)
                if (p < planes && i0 + u * THREADS < spectrum)
                    image[p][u] = fft.spectra[p * spectrum + i0 + u * THREADS];
        for (int k = 0; k < m.count; ++k) {
            cufftComplex sum[N];
#pragma unroll
            for (int u = 0; u < N; ++u)
                sum[u] = {0, 0};
#pragma unroll
            for (int p = 0; p < MAX_PLANES; ++p) {
                if (p >= planes)
                    break;
                const cufftComplex *t = fft.template_spectra + (static_cast<size_t>(k) * planes + p) * spectrum + i0;
#pragma unroll
                for (int u = 0; u < N; ++u)
                    if (i0 + u * THREADS < spectrum) {
                        const cufftComplex a = image[p][u], b = t[u * THREADS];
                        sum[u].x += a.x * b.x + a.y * b.y;
                        sum[u].y += a.y * b.x - a.x * b.y;
                    }
            }
#pragma unroll
            for (int u = 0; u < N; ++u)
                if (i0 + u * THREADS < spectrum)
                    fft.products[k * spectrum + i0 + u * THREADS] = sum[u];
        }
    }
}

// Blocks: the window sums, the energy, then the product.
template<class T>
__global__ void __launch_bounds__(THREADS)
    columnsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ CuFft fft,
                  const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                  const __grid_constant__ Energy energy, int window_blocks, int energy_blocks) {
    cusi::startInOrder();
    const int block = blockIdx.x;
    if (block < window_blocks)
        sumWindowRow<T>(m, windows, block);
    else if (block < window_blocks + energy_blocks)
        addEnergy(m, templates, energy);
    else if (m.planes == 1)
        multiplySpectra<1>(m, fft, block - window_blocks - energy_blocks, gridDim.x - window_blocks - energy_blocks);
    else
        multiplySpectra<0>(m, fft, block - window_blocks - energy_blocks, gridDim.x - window_blocks - energy_blocks);
}

// ---- Choice of the size

// Is n 2^a 3^b 5^c 7^d?
bool isSmooth(int n) {
    for (int prime : {2, 3, 5, 7})
        while (n % prime == 0)
            n /= prime;
    return n == 1;
}

// The smallest `max` smooth sizes from n up, multiples of `multiple`; all but the first exceed n by 7 % at most. Returns how many.
constexpr int MOST_SIZES = 6;
int smoothSizes(int n, int multiple, int max, int (&sizes)[MOST_SIZES]) {
    int count = 0;
    for (int size = cusi::divUp(n, multiple) * multiple; count == 0 || (count < max && size <= n + n / 14);
         size += multiple)
        if (isSmooth(size))
            sizes[count++] = size;
    return count;
}

// A transform of one plane and its inverse, with everything that timing them needs.
struct TimedFft {
    cufftHandle forward = NO_PLAN, inverse = NO_PLAN;
    void *plane = nullptr, *spectrum = nullptr, *work = nullptr;
    cudaEvent_t start = nullptr, stop = nullptr;

    TimedFft() = default;
    TimedFft(const TimedFft &) = delete;
    TimedFft &operator=(const TimedFft &) = delete;
    ~TimedFft() {
        for (cudaEvent_t event : {start, stop})
            if (event)
                (void)cudaEventDestroy(event);
        for (cufftHandle plan : {forward, inverse})
            if (plan != NO_PLAN)
                (void)cufftDestroy(plan);
        for (void *memory : {plane, spectrum, work})
            cusi_deviceFree(memory);
        (void)cudaGetLastError();
    }
    static bool allocate(void **memory, size_t bytes) {
        return cusi_deviceAllocate("cusMatcherCreate", bytes, memory) == CUS_OK;
    }
    bool create(int rows, int cols, cudaStream_t stream) {
        long long n[2] = {rows, cols}, complex[2] = {n[0], n[1] / 2 + 1};
        const long long points = n[0] * n[1], half = n[0] * complex[1];
        size_t sizes[2] = {0, 0};
        return cufftCreate(&forward) == CUFFT_SUCCESS && cufftSetAutoAllocation(forward, 0) == CUFFT_SUCCESS &&
               cufftMakePlanMany64(forward, 2, n, n, 1, points, complex, 1, half, CUFFT_R2C, 1, &sizes[0]) ==
                   CUFFT_SUCCESS &&
               cufftCreate(&inverse) == CUFFT_SUCCESS && cufftSetAutoAllocation(inverse, 0) == CUFFT_SUCCESS &&
               cufftMakePlanMany64(inverse, 2, n, complex, 1, half, n, 1, points, CUFFT_C2R, 1, &sizes[1]) ==
                   CUFFT_SUCCESS &&
               allocate(&work, std::max<size_t>(std::max(sizes[0], sizes[1]), 1)) &&
               cufftSetWorkArea(forward, work) == CUFFT_SUCCESS && cufftSetWorkArea(inverse, work) == CUFFT_SUCCESS &&
               allocate(&plane, points * sizeof(float)) && allocate(&spectrum, half * sizeof(cufftComplex)) &&
               cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&stop) == cudaSuccess &&
               cudaMemsetAsync(plane, 0, points * sizeof(float), stream) == cudaSuccess;
    }
    bool run(cudaStream_t stream) const {
        return cufftSetStream(forward, stream) == CUFFT_SUCCESS &&
               cufftExecR2C(forward, static_cast<float *>(plane), static_cast<cufftComplex *>(spectrum)) == CUFFT_SUCCESS &&
               cufftSetStream(inverse, stream) == CUFFT_SUCCESS &&
               cufftExecC2R(inverse, static_cast<cufftComplex *>(spectrum), static_cast<float *>(plane)) == CUFFT_SUCCESS;
    }
};

// Milliseconds of a transform and its inverse, several times; infinity on any failure.
float timeFft(int rows, int cols, cudaStream_t stream) {
    constexpr int WARMUP = 2, TIMED = 8;
    TimedFft fft;
    bool ok = fft.create(rows, cols, stream);
    for (int i = 0; ok && i < WARMUP + TIMED; ++i)
        ok = (i != WARMUP || cudaEventRecord(fft.start, stream) == cudaSuccess) && fft.run(stream);
    float milliseconds = INFINITY;
    if (!ok || cudaEventRecord(fft.stop, stream) != cudaSuccess || cudaEventSynchronize(fft.stop) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, fft.start, fft.stop) != cudaSuccess)
        return INFINITY;
    return milliseconds;
}

} // namespace

// cuFFT's time is no simple function of the size, so for larger frames the nearby sizes are timed: first the rows, then the
// columns. A size must be 2 % faster to win, so that noise does not decide.
void chooseCufftSize(const MatchModel &m, int *rows, int *cols, cudaStream_t stream) {
    int row_sizes[MOST_SIZES], col_sizes[MOST_SIZES];
    const int row_count = smoothSizes(m.rows, 1, 6, row_sizes), col_count = smoothSizes(m.cols, 4, 5, col_sizes);
    // Of columns multiples of 4: rows of floats begin at 16 bytes.
    *rows = row_sizes[0];
    *cols = col_sizes[0];
    if (static_cast<long long>(*rows) * *cols < TIMED_POINTS)
        return;
    float best = INFINITY;
    for (int i = 0; i < row_count; ++i) {
        const int size = row_sizes[i];
        const float time = timeFft(size, col_sizes[0], stream);
        if (time < best * 0.98f)
            best = time, *rows = size;
    }
    for (int i = 0; i < col_count; ++i) {
        const int size = col_sizes[i];
        const float time = size == col_sizes[0] ? best : timeFft(*rows, size, stream);
        if (time < best * 0.98f)
            best = time, *cols = size;
    }
}

// Plans of the frame's planes and of the templates' products; they share one work area.
cusStatus makeCufftPlans(MatchCuda *cuda, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    const MatchModel &m = cuda->stages.model;
    long long n[2] = {cuda->stages.cufft.rows, cuda->stages.cufft.cols}, real[2] = {n[0], n[1]};
    long long complex[2] = {n[0], n[1] / 2 + 1};
    const long long plane = n[0] * n[1], spectrum = n[0] * complex[1];
    size_t sizes[2] = {0, 0};
    MATCH_CUFFT(f, cufftCreate(&cuda->forward));
    MATCH_CUFFT(f, cufftSetAutoAllocation(cuda->forward, 0));
    MATCH_CUFFT(
        f, cufftMakePlanMany64(cuda->forward, 2, n, real, 1, plane, complex, 1, spectrum, CUFFT_R2C, m.planes, &sizes[0]));
    MATCH_CUFFT(f, cufftCreate(&cuda->inverse));
    MATCH_CUFFT(f, cufftSetAutoAllocation(cuda->inverse, 0));
    MATCH_CUFFT(
        f, cufftMakePlanMany64(cuda->inverse, 2, n, complex, 1, spectrum, real, 1, plane, CUFFT_C2R, m.count, &sizes[1]));
    char *work = nullptr;
    CUS_TRY(allocate(cuda, &work, std::max(sizes[0], sizes[1]), stream));
    MATCH_CUFFT(f, cufftSetWorkArea(cuda->forward, work));
    MATCH_CUFFT(f, cufftSetWorkArea(cuda->inverse, work));
    return CUS_OK;
}

cusStatus runCufftForward(const MatchCuda &cuda, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    MATCH_CUFFT(f, cufftSetStream(cuda.forward, stream));
    MATCH_CUFFT(f, cufftExecR2C(cuda.forward, cuda.stages.cufft.planes, cuda.stages.cufft.spectra));
    return CUS_OK;
}

cusStatus runCufftInverse(const MatchCuda &cuda, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    MATCH_CUFFT(f, cufftSetStream(cuda.inverse, stream));
    MATCH_CUFFT(f, cufftExecC2R(cuda.inverse, cuda.stages.cufft.products, cuda.stages.cufft.correlations));
    return CUS_OK;
}

int productBlocks(const Stages &stages, int multiprocessors) {
    const long long spectrum = static_cast<long long>(stages.cufft.rows) * (stages.cufft.cols / 2 + 1);
    const int points = stages.model.planes == 1 ? THREADS * ITEMS : THREADS;
    return static_cast<int>(std::min<long long>(16LL * multiprocessors, cusi::divUp<long long>(spectrum, points)));
}

cusStatus launchColumns(const Stages &stages, int window_blocks, int energy_blocks, int product_blocks,
                        cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", stages.model.integer ? columnsKernel<uint8_t> : columnsKernel<float>,
                                  window_blocks + energy_blocks + product_blocks, THREADS, prefixBytes(stages), stream,
                                  stages.model, stages.cufft, stages.templates, stages.windows, stages.energy,
                                  window_blocks, energy_blocks);
}

} // namespace match

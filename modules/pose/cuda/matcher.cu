// The matcher of pose on the GPU, and the launches of a search.
#include "pose/cuda/search.cuh"
#include "pose/cuda/transforms.cuh"

#include "pose/backend.h"
#include "progress.h"

#include "cusight/integral.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

using namespace cusi;
using namespace cusi::pose;

namespace {

constexpr size_t MIN_STRIPS = 1 << 20;
constexpr double BOUND_SHARE = 0.5;               // share of a pose's transforms that bounds may take
constexpr unsigned long long MIN_LOADS = 1 << 20; // bounds may always take these; plans and launches take longer

struct Matcher {
    cusIntegrator *integrator = nullptr;
    cusMat table = CUS_MAT_INIT;
    Field field = {};
    PoseBest *picks = nullptr, *values = nullptr;
    std::unique_ptr<Transforms> transforms;
    int transformed = 0; // poses transformed in this frame
    size_t strips_of_pose = 1, strips = 0;
    Arena memory;
};

// Host memory used while a matcher is created.
template<class T>
class HostArray {
  public:
    explicit HostArray(size_t count) : data_(static_cast<T *>(std::calloc(std::max<size_t>(count, 1), sizeof(T)))) {}
    ~HostArray() { std::free(data_); }
    HostArray(const HostArray &) = delete;
    HostArray &operator=(const HostArray &) = delete;
    T *get() const { return data_; }

  private:
    T *data_;
};

// Returns how many blocks of a pose are used: at most 2^16, so that sums fit.
uint32_t usedBlocks(const cusPoseMatcher &host, int pose, int level) {
    return static_cast<uint32_t>(std::min(host.blocks[pose * host.levels + level].count, 1 << 16));
}

// Uploads the blocks of all poses; each pose has whole chunks.
cusStatus uploadBlocks(const char *function, Matcher &m, const cusPoseMatcher &host) {
    const size_t poses = static_cast<size_t>(pose_count(&host));
    size_t total = 0;
    for (int i = 0; i < pose_count(&host); ++i)
        for (int l = 0; l < host.levels; ++l)
            total += divUp(usedBlocks(host, i, l), uint32_t{POSE_CHUNK}) * POSE_CHUNK;
    CUSI_REQUIRE(total < UINT32_MAX, CUS_ERROR_SIZE, "%s: poses have %zu blocks, expected fewer than 2^32", function,
                 total);
    const HostArray<PoseBlock> blocks(total);
    const HostArray<Chunk> chunks(total / POSE_CHUNK);
    const HostArray<Lists> lists(poses);
    CUSI_REQUIRE(blocks.get() && chunks.get() && lists.get(), CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    size_t at = 0;
    for (int i = 0; i < pose_count(&host); ++i) {
        Lists &own = lists.get()[i];
        own.rows = pose_positionRows(&host, &host.poses[i]);
        own.cols = pose_positionCols(&host, &host.poses[i]);
        if (own.rows > 0)
            m.field.most_slices = std::max(m.field.most_slices, divUp(host.poses[i].rows, SLICE));
        for (int l = 0; l < host.levels; ++l) {
            own.first[l] = static_cast<uint32_t>(at);
            own.count[l] = usedBlocks(host, i, l);
            int64_t t1 = 0, t2 = 0;
            for (uint32_t k = 0; k < own.count[l]; ++k) {
                const PoseBlock &b = blocks.get()[at + k] = host.blocks[i * host.levels + l].at[k];
                t1 += b.value;
                t2 += b.value * b.value;
                chunks.get()[(at + k) / POSE_CHUNK] = {i, l, static_cast<int32_t>(k + 1), t1, t2};
            }
            at += divUp(own.count[l], uint32_t{POSE_CHUNK}) * POSE_CHUNK;
        }
        m.strips_of_pose =
            std::max(m.strips_of_pose, static_cast<size_t>(divUp(own.rows, host.level[0].cell)) *
                                           static_cast<size_t>(divUp(divUp(own.cols, host.level[0].cell), 32)));
    }
    m.field.chunk_count = static_cast<unsigned>(total / POSE_CHUNK);
    CUS_TRY(m.memory.upload(function, lists.get(), poses, &m.field.lists, nullptr));
    CUS_TRY(m.memory.upload(function, chunks.get(), total / POSE_CHUNK, &m.field.chunks, nullptr));
    return m.memory.upload(function, blocks.get(), total, &m.field.blocks, nullptr);
}

// Uploads what RowSampler loads. The template is repeated beyond its end, where weights are 0.
cusStatus uploadSources(const char *function, Matcher &m, const cusPoseMatcher &host, const uint8_t *from, bool is_mask,
                        const uint32_t **data) {
    const size_t rows = static_cast<size_t>(host.templ_rows), cols = static_cast<size_t>(host.templ_cols);
    const HostArray<uint32_t> sources(rows * cols);
    CUSI_REQUIRE(sources.get(), CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    for (size_t y = 0; y < rows; ++y)
        for (size_t x = 0; x < cols; ++x)
            for (size_t k = 0; k < 4; ++k) {
                const uint32_t v = from[std::min(y + k / 2, rows - 1) * cols + std::min(x + k % 2, cols - 1)];
                sources.get()[y * cols + x] |= (is_mask && v ? 255 : v) << (8 * k);
            }
    return m.memory.upload(function, sources.get(), rows * cols, data, nullptr);
}

cusStatus fill(const char *function, Matcher &m, cusPoseMatcher &host) {
    CUS_TRY(cusIntegratorCreate(&m.integrator, host.rows, host.cols, CUS_DEVICE));
    CUS_TRY(cusMatCreate(&m.table, host.rows + 1, host.cols + 1, CUS_32SC1, CUS_DEVICE));
    Field &f = m.field;
    f.table = static_cast<const uint32_t *>(m.table.data);
    f.table_step = m.table.step / sizeof(uint32_t);
    CUS_TRY(pose_prepare(function, &host, f.table_step));
    const size_t poses = static_cast<size_t>(pose_count(&host));
    f.frame_rows = host.rows;
    f.frame_cols = host.cols;
    f.method = host.options.method;
    f.limit_cost = pose_limitCost(&host);
    f.pose_count = pose_count(&host);
    f.levels = host.levels;
    std::copy_n(host.level, host.levels, f.level);
    const size_t cells = static_cast<size_t>(f.level[0].rows) * f.level[0].step + POSE_PADDING;
    CUS_TRY(m.memory.allocateZeros(function, cells, &f.plane, nullptr));
    CUS_TRY(uploadSources(function, m, host, host.templ, false, &f.templ));
    if (host.mask)
        CUS_TRY(uploadSources(function, m, host, host.mask, true, &f.mask));
    CUS_TRY(m.memory.upload(function, host.poses, poses, &f.poses, nullptr));
    CUS_TRY(m.memory.upload(function, host.angles, static_cast<size_t>(host.angle_count), &f.picks.angles, nullptr));
    CUS_TRY(uploadBlocks(function, m, host));
    CUS_TRY(m.memory.allocate(function, f.chunk_count, &f.tests));
    CUS_TRY(m.memory.allocate(function, poses, &f.guesses));
    CUS_TRY(m.memory.allocate(function, poses, &f.loads));
    CUS_TRY(m.memory.allocate(function, poses, &f.given_up));
    CUS_TRY(m.memory.allocateZeros(function, 1, &f.state, nullptr)); // zeros, since padding is copied to the host too
    CUS_TRY(m.memory.allocate(function, MAX_GROUPS, &f.groups));
    const double *const angles = f.picks.angles;
    f.picks = pose_picks(&host, nullptr, 0);
    f.picks.poses = f.poses;
    f.picks.angles = angles;
    CUS_TRY(m.memory.allocate(function, static_cast<size_t>(host.options.max_matches), &m.picks));
    CUS_TRY(m.memory.allocate(function, POSE_MAX_VALUES, &m.values));
    f.picks.at = m.picks;
    double most_pixels = 0;
    for (size_t i = 0; i < poses; ++i)
        most_pixels = std::max(most_pixels, static_cast<double>(host.poses[i].n));
    m.transforms.reset(new (std::nothrow) Transforms(f, most_pixels));
    CUSI_REQUIRE(m.transforms, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    if (m.transforms->areExact())
        f.most_loads = std::max(MIN_LOADS, static_cast<unsigned long long>(BOUND_SHARE * m.transforms->loadsOfPose()));
    else
        f.most_loads = ~0ull;
    m.strips = std::min(std::max(MIN_STRIPS, m.strips_of_pose), m.strips_of_pose * poses);
    return m.memory.allocate(function, m.strips, &f.strips);
}

unsigned gridSide(size_t blocks) {
    return static_cast<unsigned>(std::min<size_t>(std::max<size_t>(blocks, 1), 65535));
}

cusStatus fillPlanes(const char *function, Matcher &m, const cusMat &frame, cudaStream_t stream) {
    CUS_TRY(cusIntegratorRun(m.integrator, &frame, &m.table, nullptr, nullptr, stream));
    const Field &f = m.field;
    if (f.level[0].rows <= 0 || f.level[0].cols <= 0)
        return CUS_OK;
    const size_t cell = static_cast<size_t>(f.level[0].cell);
    const dim3 grid(static_cast<unsigned>(divUp(static_cast<size_t>(f.level[0].cols) * cell, size_t{PLANE_COLS})),
                    gridSide(divUp(static_cast<size_t>(f.level[0].rows) * cell, size_t{PLANE_ROWS})));
    return launch(function, planeKernel, grid, dim3(PLANE_COLS, PLANE_ROWS), 0, stream, f);
}

cusStatus readState(const char *function, const Field &f, State *state, cudaStream_t stream) {
    CUSI_CUDA(function, cudaMemcpyAsync(state, f.state, sizeof *state, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA(function, cudaStreamSynchronize(stream));
    return CUS_OK;
}

// Searches all poses by bounds. is_first: the best value so far is that of the trials.
template<bool DIFFERS>
cusStatus searchAll(const char *function, const Matcher &m, unsigned count, bool is_first, cudaStream_t stream) {
    const Field &f = m.field;
    const unsigned poses = static_cast<unsigned>(f.pose_count);
    const unsigned step = gridSide(m.strips / m.strips_of_pose), cells = static_cast<unsigned>(f.level[0].cell);
    CusiProgress *const progress = cusi_progress();
    CUSI_CUDA(function, cudaMemsetAsync(f.loads, 0, poses * sizeof *f.loads, stream));
    for (unsigned first = 0; first < poses; first += step) {
        CUS_TRY(launch(function, testKernel, divUp(f.chunk_count + 1, unsigned{THREADS}), THREADS, 0, stream, f,
                       is_first && first == 0));
        const dim3 grid(gridSide(divUp(divUp(static_cast<unsigned>(f.frame_cols), cells), 32u)),
                        gridSide(divUp(divUp(static_cast<unsigned>(f.frame_rows), cells), unsigned{WARPS})),
                        std::min(step, poses - first));
        CUS_TRY(launch(function, f.levels == 1 ? boundKernel<DIFFERS, true> : boundKernel<DIFFERS, false>, grid, THREADS, 0,
                       stream, f, static_cast<int>(first)));
        CUS_TRY(launch(function, searchKernel<DIFFERS>, 3 * count, THREADS, 0, stream, f));
        CUS_TRY(launch(function, exactKernel<DIFFERS>, 3 * count, THREADS, 0, stream, f));
        if (progress->callback) // the callback is called during the wait
            CUS_TRY(cusi_deviceWait(function, stream, &f.state->stop));
        cusi_step(progress, std::min(step, poses - first));
    }
    return CUS_OK;
}

// Transforms the `count` poses that bounds have given up. Without memory or cuFFT, this and later searches use bounds
// alone.
template<bool DIFFERS>
cusStatus transformLeft(const char *function, Matcher &m, int count, unsigned multiprocessors, cudaStream_t stream) {
    CusiProgress *const progress = cusi_progress();
    if (m.transforms->create(function, count, stream)) {
        m.transformed += count;
        cusi_part(progress, 1, count);
        return m.transforms->run(function, m.field, m.integrator, true, m.field.given_up, count, stream);
    }
    m.field.most_loads = ~0ull;
    cusi_part(progress, 1, m.field.pose_count);
    return searchAll<DIFFERS>(function, m, multiprocessors, false, stream);
}

template<bool DIFFERS>
cusStatus findBest(const char *function, Matcher &m, State *state, cudaStream_t stream) {
    const Field &f = m.field;
    int multiprocessors = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&multiprocessors));
    const unsigned count = static_cast<unsigned>(multiprocessors), poses = static_cast<unsigned>(f.pose_count);
    CUSI_CUDA(function, cudaMemsetAsync(f.guesses, 0xff, poses * sizeof *f.guesses, stream));
    const dim3 shares(divUp(16 * count, std::min(poses, 16 * count)), gridSide(poses));
    CUS_TRY(launch(function, guessKernel<DIFFERS>, shares, THREADS, 0, stream, f));
    if (f.levels > 1) // otherwise cells are positions
        CUS_TRY(launch(function, sharpenKernel<DIFFERS>, gridSide(poses), THREADS, 0, stream, f));
    CUS_TRY(launch(function, trialKernel, 1, THREADS, 0, stream, f));
    CUS_TRY(launch(function, exactKernel<DIFFERS>, 3 * count, THREADS, 0, stream, f));
    for (int i = 0; i < POSE_CLIMBS; ++i) {
        CUS_TRY(launch(function, climbKernel<DIFFERS>, 1, THREADS, 0, stream, f));
        CUS_TRY(launch(function, exactKernel<DIFFERS>, 3 * count, THREADS, 0, stream, f));
    }
    cusi_part(cusi_progress(), 0.5, poses);
    CUS_TRY(searchAll<DIFFERS>(function, m, count, true, stream));
    CUS_TRY(launch(function, givenUpKernel, divUp(poses, unsigned{THREADS}), THREADS, 0, stream, f));
    CUS_TRY(readState(function, f, state, stream));
    if (state->given_up == 0)
        return CUS_OK;
    CUS_TRY(transformLeft<DIFFERS>(function, m, state->given_up, count, stream));
    return readState(function, f, state, stream);
}

Matcher &matcherOf(const cusPoseMatcher *matcher) {
    return *static_cast<Matcher *>(matcher->state);
}

} // namespace

cusStatus pose_cuda_create(const char *function, cusPoseMatcher *matcher) {
    Matcher *const m = new (std::nothrow) Matcher();
    matcher->state = m;
    CUSI_REQUIRE(m, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    return fill(function, *m, *matcher);
}

void pose_cuda_destroy(cusPoseMatcher *matcher) {
    Matcher *const m = static_cast<Matcher *>(matcher->state);
    if (!m)
        return;
    cusIntegratorDestroy(m->integrator);
    cusMatRelease(&m->table);
    delete m;
}

cusStatus pose_cuda_search(cusPoseMatcher *matcher, const cusMat *frame, const PoseBest *picks, int count, PoseBest *best,
                           cusStream stream) {
    const char *const function = "cusPoseMatcherRun";
    Matcher &m = matcherOf(matcher);
    Field &f = m.field;
    f.frame = static_cast<const unsigned char *>(frame->data);
    f.frame_step = frame->step;
    f.picks.count = count;
    if (count == 0) {
        m.transforms->forget();
        m.transformed = 0;
        CUS_TRY(fillPlanes(function, m, *frame, stream));
    } else {
        CUSI_CUDA(function,
                  cudaMemcpyAsync(m.picks + count - 1, picks + count - 1, sizeof *picks, cudaMemcpyHostToDevice, stream));
    }
    State state;
    const cusStatus status = f.method == CUS_MATCH_SQDIFF ? findBest<true>(function, m, &state, stream)
                                                          : findBest<false>(function, m, &state, stream);
    if (status == CUS_ERROR_CANCELLED)
        CUS_TRY(readState(function, f, &state, stream));
    else if (status != CUS_OK)
        return status;
    *best = state.best;
    matcher->transformed = m.transformed;
    if (count == 0)
        matcher->seen = state.seen;
    return status;
}

cusStatus pose_cuda_bestByTransforms(cusPoseMatcher *matcher, const cusMat *frame, PoseBest *best, cusStream stream) {
    const char *const function = "cusPoseMatcherRun";
    Matcher &m = matcherOf(matcher);
    Field &f = m.field;
    f.frame = static_cast<const unsigned char *>(frame->data);
    f.frame_step = frame->step;
    f.picks.count = 0;
    CUSI_REQUIRE(m.transforms->areExact() && m.transforms->create(function, 0, stream), CUS_ERROR_NO_MEMORY,
                 "%s: no memory for transforms, or no cuFFT", function);
    m.transforms->forget();
    const unsigned poses = static_cast<unsigned>(f.pose_count);
    CUSI_CUDA(function, cudaMemsetAsync(f.guesses, 0xff, poses * sizeof *f.guesses, stream)); // no guesses yet
    CUS_TRY(launch(function, trialKernel, 1, THREADS, 0, stream, f));
    Field all = f; // gives up all poses
    all.most_loads = 0;
    CUSI_CUDA(function, cudaMemsetAsync(f.loads, 0xff, poses * sizeof *f.loads, stream));
    CUSI_CUDA(function, cudaMemsetAsync(&f.state->given_up, 0, sizeof f.state->given_up, stream));
    CUS_TRY(launch(function, givenUpKernel, divUp(poses, unsigned{THREADS}), THREADS, 0, stream, all));
    CUS_TRY(m.transforms->run(function, f, m.integrator, false, f.given_up, f.pose_count, stream));
    State state;
    CUS_TRY(readState(function, f, &state, stream));
    *best = state.best;
    return CUS_OK;
}

cusStatus pose_cuda_values(cusPoseMatcher *matcher, const cusMat *, PoseBest *values, int count, cusStream stream) {
    const char *const function = "cusPoseMatcherRun";
    const Matcher &m = matcherOf(matcher);
    const Field &f = m.field;
    const size_t bytes = static_cast<size_t>(count) * sizeof *values;
    PoseBest *const there = m.values;
    CUSI_CUDA(function, cudaMemcpyAsync(there, values, bytes, cudaMemcpyHostToDevice, stream));
    const auto kernel = f.method == CUS_MATCH_SQDIFF ? valueKernel<true> : valueKernel<false>;
    CUS_TRY(launch(function, kernel, static_cast<unsigned>(count), THREADS, 0, stream, f, there));
    CUSI_CUDA(function, cudaMemcpyAsync(values, there, bytes, cudaMemcpyDeviceToHost, stream));
    return cusStreamSynchronize(stream);
}

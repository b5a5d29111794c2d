// Makes the frame of a window from its sums, which packets of bytes have left (raw/cuda/emit.cu), and clears them.
#include "device.h"
#include "events/cuda/stages.cuh"

#include <algorithm>

namespace cusi::events {

namespace {

constexpr int THREADS = 256, BLOCKS = 8; // blocks per multiprocessor

struct SumsParams {
    CusiPacketDone *done, *next, *report;
    uint64_t room, newest, outside;
    bool makes;
    unsigned long long *skipped;
    void *sums;
    char *frame;
    size_t step;
    unsigned rows, fours; // groups of four sums of a row
    int lower, upper;     // CUSI_SUMS_DIFFERENCE
    double decay;         // CUSI_SUMS_TIMES
};

template<class T>
struct alignas(sizeof(T) == 1 ? 4 : 16) Four {
    T value[4];
};

template<CusiSumsKind KIND>
__global__ void __launch_bounds__(THREADS) frameKernel(const __grid_constant__ SumsParams params) {
    using Sum = std::conditional_t<KIND == CUSI_SUMS_TIMES, uint64_t, uint32_t>;
    using Value = std::conditional_t<KIND == CUSI_SUMS_TIMES, float, uint8_t>;
    letNextKernelStart(); // the packet's last kernel, which this one's blocks start beside, has waited for the sums
    // Sums are loaded before it is known that they are wanted, and those of the next turn before this one's are done.
    const unsigned all = params.rows * params.fours, first = blockIdx.x * THREADS + threadIdx.x;
    Four<Sum> *const cells = static_cast<Four<Sum> *>(params.sums);
    Four<Sum> ahead = first < all ? cells[first] : Four<Sum>();
    const CusiPacketDone done = *params.done;
    const uint64_t newest = max(params.newest, done.newest[0]);
    const bool makes = params.makes && eventsEndsWindow(&done, params.room);
    if (first == 0) {
        *params.report = done;
        *params.next = {};
        *params.skipped += makes ? params.outside + done.outside[0] : 0;
    }
    const unsigned step = gridDim.x * THREADS;
    for (unsigned i = first; makes && i < all; i += step) {
        const unsigned row = i / params.fours, at = i % params.fours;
        const Four<Sum> sums = ahead;
        if (i + step < all)
            ahead = cells[i + step];
        cells[i] = {};
        Four<Value> values;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const Sum sum = sums.value[k];
            if constexpr (KIND == CUSI_SUMS_TIMES)
                values.value[k] = sum ? eventsExponential(static_cast<int64_t>(sum), static_cast<int64_t>(newest),
                                                          params.decay) // both are times plus 1
                                      : 0;
            else if constexpr (KIND == CUSI_SUMS_DIFFERENCE)
                values.value[k] = static_cast<uint8_t>(max(params.lower, min(params.upper, static_cast<int>(sum))));
            else
                values.value[k] = static_cast<uint8_t>(min(sum, 255u));
        }
        reinterpret_cast<Four<Value> *>(params.frame + row * params.step)[at] = values;
    }
    waitForEarlierWork();
}

} // namespace

} // namespace cusi::events

using namespace cusi::events;

cusStatus events_cuda_frameOfSums(cusEventStacker *stacker, const EventsSumsFrame *from, cusMat *frame, cusStream stream) {
    const State *state = static_cast<const State *>(stacker->state);
    const cusRepresentation &r = stacker->representations[0];
    const CusiPacketSums &sums = *from->sums;
    const SumsParams params = {
        sums.done,         from->next,       from->report,      from->room,   from->newest,
        from->outside,     from->makes != 0, state->skipped,    sums.sums[0], static_cast<char *>(frame->data),
        frame->step,       sums.rows,        sums.row_sums / 4, r.lower,      r.upper,
        eventsDecay(r.tau)};
    const auto kernel = sums.kind == CUSI_SUMS_COUNTS       ? frameKernel<CUSI_SUMS_COUNTS>
                        : sums.kind == CUSI_SUMS_DIFFERENCE ? frameKernel<CUSI_SUMS_DIFFERENCE>
                                                            : frameKernel<CUSI_SUMS_TIMES>;
    const uint64_t blocks = std::min(cusi::divUp(uint64_t{params.rows} * params.fours, uint64_t{THREADS}),
                                     static_cast<uint64_t>(BLOCKS) * static_cast<unsigned>(state->multiprocessors));
    return cusi::launchOverlapped(STACK, kernel, static_cast<unsigned>(blocks), THREADS, 0,
                                  static_cast<cudaStream_t>(stream), params);
}

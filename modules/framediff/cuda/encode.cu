// The encoder's kernel, its parameters and launches.
#include "device.h"
#include "framediff/cuda/units.cuh"

#include <cub/warp/warp_scan.cuh>

#include <algorithm>

namespace cusi::framediff {
namespace {

// Changed units waiting to be encoded.
struct Queue {
    uint4 cur[64], ref[64];
    uint32_t unit[64]; // unit of the run << 16 | changed bytes, one bit each
};

constexpr unsigned ENCODE_WARPS = tuning::ENCODE_THREADS / 32;
constexpr int ENTRY_WORDS = tuning::ENCODE_STAGED + 16; // entries per warp, and 16 words of padding
static_assert(tuning::ENCODE_STAGED >= 512, "the entries of 32 units fit");
constexpr int SHARED_BYTES_OF_WARP = sizeof(Queue) + ENTRY_WORDS * sizeof(uint32_t);
constexpr size_t STATIC_BYTES = 1024; // most that the kernel and the system use
static_assert(ENCODE_WARPS * SHARED_BYTES_OF_WARP + STATIC_BYTES <= cusi::SHARED_OF_BLOCK, "");

using WarpScan = cub::WarpScan<unsigned>; // spans the warp, so it needs no shared memory

// Encodes one warp's run: finds changes, stages their entries, and writes them once their place in the output is known.
// Entries that no longer fit are only counted; to write them, the run is read again from their unit (spill_from) on.
template<bool FULL_UNITS, bool FILTER_OR_MASK>
class WarpEncoder {
  public:
    using Reader = UnitReader<FULL_UNITS>;

    // warp: the warp in the block; index: the warp in the grid; shared: SHARED_BYTES_OF_WARP for each warp of the block.
    __device__ __forceinline__ WarpEncoder(const EncodeParams &params, unsigned warp, unsigned index, unsigned char *shared)
        : params_(params), begin_(firstGroup(index)), groups_(firstGroup(index + 1) - begin_), run_(begin_ * 32),
          queue_(reinterpret_cast<Queue *>(shared)[warp]),
          entries_(reinterpret_cast<uint32_t *>(shared + ENCODE_WARPS * sizeof(Queue)) + warp * ENTRY_WORDS),
          end_(groups_ * 32), spill_from_(end_) {}

    __device__ __forceinline__ unsigned firstUnit() const { return run_; }

    // Reads the whole run. The loads of the next units are in flight while the warp examines the current ones.
    __device__ __forceinline__ void scan(Reader &reader) {
        typename Reader::Loaded units[2] = {};
        reader.load(params_, groups_ > 0, units[0]);
        for (unsigned i = 0; i < groups_; i += 2) {
            reader.load(params_, i + 1 < groups_, units[1]);
            examine(i, units[0]);
            if (i + 1 == groups_)
                break;
            reader.load(params_, i + 2 < groups_, units[0]);
            examine(i + 1, units[1]);
        }
        __syncwarp();
    }

    // Returns the run's number of entries, including those still in the queue; valid only in lane 0.
    __device__ __forceinline__ unsigned total() const { return staged_ + counted_ + queuedEntries(); }

    __device__ __forceinline__ void drainRest() {
        if (queued_)
            drain(queued_);
    }

    // Writes the staged entries from index `out` of the output on; returns the index after them.
    __device__ __forceinline__ size_t writeStaged(size_t out) { return writeEntries(out, staged_, false); }

    // Returns the first unit of the group where the spilled part of the run begins.
    __device__ __forceinline__ unsigned firstSpilledUnit() const { return run_ + spill_from_ / 32 * 32; }

    // Reads the run again from spill_from on, stages one group at a time and writes it.
    __device__ __forceinline__ void writeSpilled(Reader &again, size_t out) {
        typename Reader::Loaded next = {}, now = {};
        again.load(params_, spill_from_ != end_, now);
        for (unsigned i = spill_from_ / 32; i < groups_; ++i) {
            again.load(params_, i + 1 < groups_, next);
            const unsigned first = i * 32 + lane_, unit = run_ + first;
            uint4 cur, ref;
            Reader::take(params_, unit, now, cur, ref);
            const unsigned bits = first >= spill_from_ ? bytesToSend<FILTER_OR_MASK>(params_, unit, cur, ref) : 0;
            unsigned at, found;
            WarpScan(scan_).ExclusiveSum(static_cast<unsigned>(__popc(bits)), at, found);
            if (bits && !params_.may_overflow)
                updateReference<FULL_UNITS>(params_, unit, cur, ref, bits);
            const uint32_t d[4] = {__vsub4(cur.x, ref.x), __vsub4(cur.y, ref.y), __vsub4(cur.z, ref.z),
                                   __vsub4(cur.w, ref.w)};
            __syncwarp(); // the previous entries have been read
#pragma unroll
            for (unsigned b = 0; b < 16; ++b)
                if (bits >> b & 1) {
                    entries_[at + at / 32] = entryOf(first, b, d); // padded: lanes with 16 entries each use different banks
                    ++at;
                }
            __syncwarp();
            out = writeEntries(out, found, true);
            now = next;
        }
    }

  private:
    __device__ __forceinline__ unsigned firstGroup(unsigned w) const {
        return min((w * params_.run + __umulhi(w, params_.run_fraction)) * params_.piece, params_.groups);
    }

    __device__ __forceinline__ unsigned queuedEntries() const {
        return cusi::warpSumToFirst<unsigned>(lane_ < queued_ ? __popc(queue_.unit[(head_ + lane_) % 64] & 0xffff) : 0);
    }

    // Returns an entry in shared memory: offset in the run << 8 | difference modulo 256.
    __device__ __forceinline__ static uint32_t entryOf(unsigned first, unsigned byte, const uint32_t (&d)[4]) {
        return ((first * 16 + byte) << 8) + __byte_perm(d[byte / 4], 0, 0x4440 | byte % 4);
    }

    // Finds the changes in group i of the run and queues the units that have any.
    __device__ __forceinline__ void examine(unsigned i, const typename Reader::Loaded &loaded) {
        const unsigned unit = run_ + i * 32 + lane_;
        uint4 cur, ref;
        Reader::take(params_, unit, loaded, cur, ref);
        const unsigned bits = bytesToSend<FILTER_OR_MASK>(params_, unit, cur, ref);
        if (FILTER_OR_MASK)
            storeMask(params_, unit, bits);
        const unsigned changed = __ballot_sync(cusi::FULL_WARP, bits != 0);
        if (!changed)
            return;
        if (spill_from_ != end_) {
            counted_ += cusi::warpSumToFirst<unsigned>(__popc(bits));
            return;
        }
        if (bits) {
            const unsigned slot = (head_ + queued_ + __popc(changed & ((1u << lane_) - 1))) % 64;
            queue_.cur[slot] = cur;
            queue_.ref[slot] = ref;
            queue_.unit[slot] = (i * 32 + lane_) << 16 | bits;
        }
        queued_ += __popc(changed);
        if (queued_ >= 32) {
            drain(32);
            if (spill_from_ != end_) { // the rest of the queue comes after spill_from_
                __syncwarp();
                counted_ += queuedEntries();
                queued_ = 0;
            }
        }
    }

    // Takes n <= 32 units from the queue, one per lane: stages their entries and updates the reference.
    __device__ __forceinline__ void drain(unsigned n) {
        __syncwarp();
        const unsigned slot = (head_ + lane_) % 64;
        const uint32_t record = lane_ < n ? queue_.unit[slot] : 0;
        const unsigned bits = record & 0xffff;
        unsigned rank, found;
        WarpScan(scan_).ExclusiveSum(static_cast<unsigned>(__popc(bits)), rank, found);
        if (staged_ + found > tuning::ENCODE_STAGED) {
            spill_from_ = __shfl_sync(cusi::FULL_WARP, record, 0) >> 16;
            counted_ = found;
        } else {
            const unsigned first = record >> 16;
            if (bits && !params_.may_overflow)
                updateReference<FULL_UNITS>(params_, run_ + first, queue_.cur[slot], queue_.ref[slot], bits);
            const uint4 c = queue_.cur[slot], r = queue_.ref[slot];
            const uint32_t d[4] = {__vsub4(c.x, r.x), __vsub4(c.y, r.y), __vsub4(c.z, r.z), __vsub4(c.w, r.w)};
            uint32_t *entry = entries_ + staged_ + rank;
#pragma unroll
            for (unsigned b = 0; b < 16; ++b) // becomes predicated, since lanes have different bits
                if (bits >> b & 1)
                    *entry++ = entryOf(first, b, d);
            staged_ += found;
        }
        head_ += n;
        queued_ -= n;
        __syncwarp();
    }

    // Writes `count` entries from shared memory and advances `out`. Spilled entries are padded by one word for every 32.
    __device__ __forceinline__ size_t writeEntries(size_t out, unsigned count, bool spilled) {
#pragma unroll 4
        for (unsigned n = lane_; n < count; n += 32) {
            const uint32_t entry = entries_[spilled ? n + n / 32 : n], offset = entry >> 8;
            unsigned position = run_ * 16 + offset;
            if (!FULL_UNITS) {
                const UnitLocation at = locate(params_, run_ + offset / 16);
                position = at.y * params_.row_bytes + at.x + offset % 16;
            }
            params_.positions[out + n] = position;
            params_.values[out + n] = static_cast<unsigned char>(entry);
        }
        return out + count;
    }

    const EncodeParams &params_;
    const unsigned lane_ = threadIdx.x % 32;
    const unsigned begin_, groups_, run_; // first group, number of groups, first unit
    WarpScan::TempStorage scan_;
    Queue &queue_;
    uint32_t *const entries_;
    const unsigned end_;                // units in the run
    unsigned spill_from_;               // unit of the run; end_ if nothing spilled
    unsigned staged_ = 0, counted_ = 0; // entries in shared memory; entries after them, in lane 0
    unsigned queued_ = 0, head_ = 0;    // units in the queue; slot of the first, modulo 64
};

template<bool FULL_UNITS, bool FILTER_OR_MASK, class Params>
__global__ void __launch_bounds__(tuning::ENCODE_THREADS, tuning::ENCODE_BLOCKS_PER_SM) encodeKernel(const Params launch) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned warp_totals[ENCODE_WARPS];

    const EncodeParams &params = paramsOf(launch);
    const unsigned tile = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    WarpEncoder<FULL_UNITS, FILTER_OR_MASK> encoder(params, warp, tile * ENCODE_WARPS + warp, shared);
    UnitReader<FULL_UNITS> reader(params, encoder.firstUnit() + lane);
    cusi::startInOrder();
    const unsigned long long frame = (cusi::loadRelaxed(&params.state->frame) + 1) << 34;
    if constexpr (std::is_same_v<Params, EncodeBatch>) // a batch has fewer tiles, but every frame overwrites all words
        for (unsigned w = params.tiles + threadIdx.x; tile == 0 && w < launch.status_words; w += tuning::ENCODE_THREADS)
            cusi::storeRelaxed(params.tile_status + w, frame);
    encoder.scan(reader);

    // The count is published before the queue is emptied; the latency of the look-back hides that work.
    const unsigned total = encoder.total();
    if (lane == 0)
        warp_totals[warp] = total;
    __syncthreads();
    const unsigned of_lane = lane < ENCODE_WARPS ? warp_totals[lane] : 0;
    const unsigned tile_total = cusi::warpSum(of_lane), warp_before = cusi::warpSum(lane < warp ? of_lane : 0u);
    if (threadIdx.x == 0)
        cusi::storeRelaxed(params.tile_status + tile, frame | (tile > 0 ? TILE_COUNT : TILE_PREFIX) | tile_total);
    encoder.drainRest();
    const unsigned before = lookBack<tuning::ENCODE_THREADS>(params.tile_status, tile, frame);
    if (threadIdx.x == 0) {
        if (params.tiles > tuning::ENCODE_THREADS) // otherwise one round of the look-back reads all tiles
            cusi::storeRelaxed(params.tile_status + tile, frame | TILE_PREFIX | (before + tile_total));
        if (tile == params.tiles - 1) { // all blocks have published with the frame's number, so they have read it
            *params.count = before + tile_total;
            params.state->frame = frame >> 34;
            if (before + tile_total > params.dense_from)
                *params.dense_hint = 1;
        }
    }
    if (before + tile_total > params.capacity)
        return;
    const size_t out = encoder.writeStaged(static_cast<size_t>(before) + warp_before);
    UnitReader<FULL_UNITS> again(params, encoder.firstSpilledUnit() + lane);
    encoder.writeSpilled(again, out);
}

template<class Params>
constexpr EncodeKernels<Params> KERNELS = {{encodeKernel<false, false, Params>, encodeKernel<false, true, Params>},
                                           {encodeKernel<true, false, Params>, encodeKernel<true, true, Params>}};

int sharedBytes(int threads) {
    return threads / 32 * SHARED_BYTES_OF_WARP;
}

// ---- Work and parameters ---------------------------------------------------------------------------------------------

// Returns the blocks that fill the device once.
cusStatus blocksOfWave(const char *function, unsigned *blocks) {
    int sms = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    *blocks = static_cast<unsigned>(sms) * tuning::ENCODE_BLOCKS_PER_SM;
    return CUS_OK;
}

// Divides a frame among blocks (`wave` of them if the frame is small enough) and their warps.
void divideWork(int threads, unsigned wave, EncodeShape *shape) {
    const unsigned warps_of_tile = static_cast<unsigned>(threads) / 32;
    shape->groups = cusi::divUp(shape->units, 32u);
    shape->piece = shape->groups <= wave * warps_of_tile ? 1 : tuning::ENCODE_PIECE;
    const unsigned pieces = cusi::divUp(shape->groups, shape->piece);
    shape->tiles = std::max(std::min(cusi::divUp(pieces, warps_of_tile), wave),
                            cusi::divUp(pieces, warps_of_tile * tuning::ENCODE_LONGEST));
    const unsigned warps = shape->tiles * warps_of_tile;
    shape->run = pieces / warps;
    shape->run_fraction =
        static_cast<unsigned>(cusi::divUp(static_cast<unsigned long long>(pieces % warps) << 32, 0ull + warps));
}

EncodeParams encodeParams(const cusDiffEncoder &encoder, const cusMat &frame, const cusSparseDiff &diff) {
    const size_t row_bytes = cusi_rowBytes(&frame), all_bytes = row_bytes * static_cast<size_t>(frame.rows);
    EncodeParams params = {};
    params.cur = static_cast<const unsigned char *>(frame.data);
    params.ref = static_cast<unsigned char *>(encoder.ref.data);
    params.values = static_cast<unsigned char *>(diff.values.data);
    params.positions = static_cast<uint32_t *>(diff.positions.data);
    params.count = static_cast<uint32_t *>(diff.count.data);
    params.mask = static_cast<unsigned char *>(diff.mask.data);
    params.state = static_cast<EncodeState *>(encoder.scratch.data);
    params.cur_step = frame.step;
    params.ref_step = encoder.ref.step;
    params.mask_step = diff.mask.step;
    params.rows = static_cast<unsigned>(frame.rows);
    params.cols = static_cast<unsigned>(frame.cols);
    params.row_bytes = static_cast<unsigned>(row_bytes);
    params.capacity = diff.capacity;
    params.addend = static_cast<uint32_t>(255 - encoder.options.threshold) * 0x01010101u;
    params.min_neighbors = static_cast<unsigned char>(encoder.options.min_neighbors);
    params.channels = static_cast<unsigned char>(CUS_CHANNELS(frame.type));
    params.changed = static_cast<uint32_t *>(encoder.changed.data); // NULL without a noise filter
    params.changed_words_per_row = cusi::divUp(params.cols, 32u);
    params.may_overflow = diff.capacity < all_bytes;
    params.list_vectors =
        reinterpret_cast<uintptr_t>(params.positions) % 16 == 0 && reinterpret_cast<uintptr_t>(params.values) % 4 == 0;
    params.dense_hint = encoder.dense_hint;
    params.dense_from = static_cast<unsigned>(all_bytes / tuning::DENSE_SHARE);
    params.units_per_row = Divisor(cusi::divUp(params.row_bytes, 16u));
    params.units = params.units_per_row.d * params.rows;
    params.aligned = cusi::isAligned(frame, 16);
    params.ref_step16 = static_cast<unsigned>(params.ref_step / 16);
    params.cur_gap = static_cast<unsigned>((params.cur_step - row_bytes) / 16);
    params.ref_gap = static_cast<unsigned>((params.ref_step - row_bytes) / 16);
    return params;
}

// Returns whether UnitReader<true> can read the frame.
bool hasFullUnits(const EncodeParams &params) {
    return params.aligned && params.row_bytes % 16 == 0 && params.units_per_row.d >= 32 && params.units % 32 == 0 &&
           params.rows * std::max(params.cur_step, params.ref_step) / 16 <= 0xffffffffu;
}

// Encodes one frame.
cusStatus encodeAlone(const char *function, const cusDiffEncoder &encoder, const cusMat &frame, const cusSparseDiff &diff,
                      unsigned wave, cudaStream_t stream) {
    const int threads = encoder.block_threads;
    EncodeParams params = encodeParams(encoder, frame, diff);
    divideWork(threads, wave, &params);
    params.dense_tiles = denseTiles(params.groups, threads);
    params.tile_status = statusOf(params.state);
    params.dense_status = params.tile_status + params.tiles;
    if (params.changed)
        CUS_TRY(launchChangedPixels(function, params, stream));
    // The hint is what the device last reported. Each kernel encodes any frame, so there is no need to wait for it.
    const bool full_units = hasFullUnits(params), dense = *static_cast<volatile uint32_t *>(encoder.dense_hint) != 0;
    if (dense && !params.may_overflow)
        return launchDense(function, params, full_units, threads, stream);
    CUS_TRY(cusi::launchOverlapped(function, KERNELS<EncodeParams>[full_units][params.changed || params.mask], params.tiles,
                                   threads, sharedBytes(threads), stream, params));
    // Only the last tile can tell that a list is too short, so the decoder applies such lists once they are complete.
    return params.may_overflow ? launchDecode(function, 1, &encoder.ref, &diff, stream) : CUS_OK;
}

// Encodes 2 to BATCH_IMAGES frames by one launch of each kernel that they need; dense frames take no other.
cusStatus encodeTogether(const char *function, unsigned count, cusDiffEncoder *const *encoders, const cusMat *frames,
                         const cusSparseDiff *diffs, unsigned wave, cudaStream_t stream) {
    const int threads = encoders[0]->block_threads;
    EncodeBatch batch = {}, filtered = {}; // all frames; those with a noise filter
    cusMat refs[BATCH_IMAGES];             // whose lists may be too short
    cusSparseDiff lists[BATCH_IMAGES];
    unsigned filters = 0, overflows = 0;
    bool full_units = true, masks = false;
    for (unsigned i = 0; i < count; ++i) {
        const EncodeParams params = encodeParams(*encoders[i], frames[i], diffs[i]);
        if (i == 0)
            batch.shape = params;
        batch.images[i] = params;
        full_units = full_units && hasFullUnits(params);
        masks = masks || params.mask;
        if (params.changed)
            filtered.images[filters++] = params;
        if (params.may_overflow) {
            refs[overflows] = encoders[i]->ref;
            lists[overflows++] = diffs[i];
        }
    }
    divideWork(threads, wave, &batch.shape);
    batch.status_words = batch.shape.tiles;
    divideWork(threads, std::max(wave / count, 1u), &batch.shape);
    filtered.shape = batch.shape;
    if (filters)
        CUS_TRY(launchChangedPixels(function, filtered, filters, stream));
    CUS_TRY(cusi::launchOverlapped(function, KERNELS<EncodeBatch>[full_units][filters || masks],
                                   dim3(batch.shape.tiles, count), threads, sharedBytes(threads), stream, batch));
    return overflows ? launchDecode(function, overflows, refs, lists, stream) : CUS_OK;
}

} // namespace
} // namespace cusi::framediff

cusStatus framediff_cuda_prepare(cusDiffEncoder *encoder) {
    using namespace cusi::framediff;
    static const char function[] = "cusDiffEncoderCreate";
    cudaFuncAttributes compiled = {};
    CUSI_CUDA(function, cudaFuncGetAttributes(&compiled, KERNELS<EncodeParams>[1][0]));
    // The threads in a block depend on the architecture that the kernels were compiled for.
    const int threads = compiled.ptxVersion < 80 ? tuning::ENCODE_THREADS / 2 : tuning::ENCODE_THREADS;
    encoder->block_threads = threads;
    CUS_TRY(allowShared(function, KERNELS<EncodeParams>, sharedBytes(threads)));
    CUS_TRY(allowShared(function, KERNELS<EncodeBatch>, sharedBytes(threads)));
    CUS_TRY(prepareDenseKernels(function, threads));
    void *hint = nullptr;
    CUS_TRY(cusi_pinnedAllocate(function, sizeof *encoder->dense_hint, &hint));
    encoder->dense_hint = static_cast<uint32_t *>(hint);
    *encoder->dense_hint = 0;
    EncodeShape shape = {};
    shape.units = static_cast<unsigned>(cusi::divUp(cusi_rowBytes(&encoder->ref), size_t{16}) *
                                        static_cast<size_t>(encoder->ref.rows));
    unsigned wave = 0;
    CUS_TRY(blocksOfWave(function, &wave));
    divideWork(threads, wave, &shape);
    const size_t state = sizeof(EncodeState) + 8 * (size_t{shape.tiles} + denseTiles(shape.groups, threads));
    CUS_TRY(cusMatCreate(&encoder->scratch, 1, static_cast<int>(state), CUS_8UC1, CUS_DEVICE));
    CUS_TRY(cusMatSetZero(&encoder->scratch, nullptr));
    if (encoder->options.min_neighbors > 0)
        CUS_TRY(cusMatCreate(&encoder->changed, 1, encoder->ref.rows * cusi::divUp(encoder->ref.cols, 32), CUS_32SC1,
                             CUS_DEVICE));
    return cusi::cudaStatus(cudaStreamSynchronize(nullptr), function, "setting up");
}

cusStatus framediff_cuda_encode(const char *function, int count, cusDiffEncoder *const *encoders, const cusMat *frames,
                                const cusSparseDiff *diffs, cusStream stream) {
    using namespace cusi::framediff;
    unsigned wave = 0;
    CUS_TRY(blocksOfWave(function, &wave));
    // A launch takes the frames whose runs are not longer than those of a large frame.
    const size_t vectors = cusi::divUp(cusi_rowBytes(frames), size_t{16}) * static_cast<size_t>(frames->rows);
    const size_t room = size_t{wave} * static_cast<unsigned>(encoders[0]->block_threads) * tuning::BATCH_GROUPS;
    const int most = static_cast<int>(std::clamp(room / vectors, size_t{1}, size_t{BATCH_IMAGES}));
    for (int i = 0, n; i < count; i += n) {
        const int left = count - i;
        n = cusi::divUp(left, cusi::divUp(left, most)); // launches of about as many
        CUS_TRY(
            n == 1 ? encodeAlone(function, *encoders[i], frames[i], diffs[i], wave, stream)
                   : encodeTogether(function, static_cast<unsigned>(n), encoders + i, frames + i, diffs + i, wave, stream));
    }
    return CUS_OK;
}

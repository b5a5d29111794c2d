// The encoder on the GPU: workspace, parameters and launches.
#include "device.h"
#include "framediff_cuda.cuh"

#include <algorithm>

using framediff::EncodeParams;
using framediff::EncodeState;

namespace {

namespace tuning = framediff::tuning;

// Divides the frame among blocks, a single wave of them if the frame is small enough, and among their warps.
cusStatus divideWork(const char *function, bool half_blocks, EncodeParams *params) {
    int sms = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    const unsigned threads = static_cast<unsigned>(framediff::encodeThreads(half_blocks)), warps_of_tile = threads / 32;
    params->groups = cusi::divUp(params->units, 32u);
    const unsigned wave = static_cast<unsigned>(sms) * tuning::ENCODE_BLOCKS_PER_SM;
    params->piece = params->groups <= wave * warps_of_tile ? 1 : tuning::ENCODE_PIECE;
    const unsigned pieces = cusi::divUp(params->groups, params->piece);
    params->tiles = std::max(std::min(cusi::divUp(pieces, warps_of_tile), wave),
                             cusi::divUp(pieces, warps_of_tile * tuning::ENCODE_LONGEST));
    const unsigned warps = params->tiles * warps_of_tile;
    params->run = pieces / warps;
    params->run_fraction =
        static_cast<unsigned>(cusi::divUp(static_cast<unsigned long long>(pieces % warps) << 32, 0ull + warps));
    params->dense_tiles = framediff::denseTiles(params->groups, half_blocks);
    return CUS_OK;
}

EncodeParams encodeParams(const cusDiffEncoder &encoder, const cusMat &frame, const cusSparseDiff &diff) {
    const size_t row_bytes = cusi_rowBytes(&frame);
    EncodeParams params = {};
    params.cur = static_cast<const unsigned char *>(frame.data);
    params.ref = static_cast<unsigned char *>(encoder.ref.data);
    params.values = static_cast<unsigned char *>(diff.values.data);
    params.positions = static_cast<uint32_t *>(diff.positions.data);
    params.count = static_cast<uint32_t *>(diff.count.data);
    params.mask = static_cast<unsigned char *>(diff.mask.data);
    params.state = static_cast<EncodeState *>(encoder.scratch.data);
    params.tile_status = reinterpret_cast<unsigned long long *>(params.state + 1);
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
    params.mask_by_two = params.mask && cusi::isAligned(diff.mask, 2);
    const size_t all_bytes = row_bytes * static_cast<size_t>(frame.rows);
    params.may_overflow = diff.capacity < all_bytes;
    params.list_vectors =
        reinterpret_cast<uintptr_t>(params.positions) % 16 == 0 && reinterpret_cast<uintptr_t>(params.values) % 4 == 0;
    params.dense_hint = encoder.dense_hint;
    params.dense_from = static_cast<unsigned>(all_bytes / tuning::DENSE_SHARE);
    params.units_per_row = framediff::Divisor(cusi::divUp(params.row_bytes, 16u));
    params.units = params.units_per_row.d * params.rows;
    params.aligned = cusi::isAligned(frame, 16);
    params.ref_step16 = static_cast<unsigned>(params.ref_step / 16);
    params.cur_gap = static_cast<unsigned>((params.cur_step - row_bytes) / 16);
    params.ref_gap = static_cast<unsigned>((params.ref_step - row_bytes) / 16);
    return params;
}

// Whether UnitReader<true> can read the frame.
bool hasFullUnits(const EncodeParams &params) {
    return params.aligned && params.row_bytes % 16 == 0 && params.units_per_row.d >= 32 && params.units % 32 == 0 &&
           params.rows * std::max(params.cur_step, params.ref_step) / 16 <= 0xffffffffu;
}

} // namespace

cusStatus framediff_cuda_prepare(cusDiffEncoder *encoder) {
    bool half_blocks = false;
    CUS_TRY(framediff::prepareEncodeKernels("cusDiffEncoderCreate", &half_blocks));
    CUS_TRY(framediff::prepareDenseKernels("cusDiffEncoderCreate", half_blocks));
    encoder->half_blocks = half_blocks;
    void *hint = nullptr;
    CUS_TRY(cusi_pinnedAllocate("cusDiffEncoderCreate", sizeof *encoder->dense_hint, &hint));
    encoder->dense_hint = static_cast<uint32_t *>(hint);
    *encoder->dense_hint = 0;
    EncodeParams params = {};
    params.units =
        static_cast<unsigned>(cusi::divUp(cusi_rowBytes(&encoder->ref), size_t{16}) * static_cast<size_t>(encoder->rows));
    CUS_TRY(divideWork("cusDiffEncoderCreate", half_blocks, &params));
    const size_t state = sizeof(EncodeState) + 8 * (size_t{params.tiles} + params.dense_tiles);
    CUS_TRY(cusMatCreate(&encoder->scratch, 1, static_cast<int>(state), CUS_8UC1, CUS_DEVICE));
    CUS_TRY(cusMatSetZero(&encoder->scratch, nullptr));
    // Frames are numbered from 1, so the zeros in the status words do not belong to the first one.
    const EncodeState start = {1, 1};
    CUSI_CUDA("cusDiffEncoderCreate", cudaMemcpy(encoder->scratch.data, &start, sizeof start, cudaMemcpyHostToDevice));
    if (encoder->options.min_neighbors > 0)
        CUS_TRY(cusMatCreate(&encoder->changed, 1, encoder->rows * cusi::divUp(encoder->cols, 32), CUS_32SC1, CUS_DEVICE));
    return cusi::cudaStatus(cudaStreamSynchronize(nullptr), "cusDiffEncoderCreate", "setting up");
}

cusStatus framediff_cuda_encode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff, cusStream stream) {
    const bool half_blocks = encoder->half_blocks != 0;
    EncodeParams params = encodeParams(*encoder, *frame, *diff);
    if (params.min_neighbors > 0) {
        uint32_t *changed = static_cast<uint32_t *>(encoder->changed.data);
        params.changed = changed;
        params.changed_words_per_row = cusi::divUp(params.cols, 32u);
        CUS_TRY(framediff::launchChangedPixels(params, changed, params.aligned, stream));
    }
    CUS_TRY(divideWork("cusDiffEncode", half_blocks, &params));
    params.dense_status = params.tile_status + params.tiles;
    // What the device last reported, without waiting for it: each kernel encodes any frame.
    const bool dense = !params.may_overflow && *static_cast<volatile uint32_t *>(encoder->dense_hint) != 0;
    const auto launch = dense ? framediff::launchDense : framediff::launchEncode;
    CUS_TRY(launch(params, hasFullUnits(params), half_blocks, stream));
    // Only the last tile can tell that a list is too short, so such lists are applied once they are known to be complete.
    return params.may_overflow ? framediff::launchDecode("cusDiffEncode", encoder->ref, *diff, stream) : CUS_OK;
}

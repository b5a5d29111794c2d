/* match on the CPU: runs a frame in overlapping blocks, one FFT plan and one set of buffers per thread. */
#include "check.h"
#include "host.h"
#include "match_fft_lines.inc"
#include "match_host.h"

#include <string.h>

Worker *match_thisWorker(const MatchHost *host) {
#ifdef _OPENMP
    return &host->workers[omp_get_thread_num()];
#else
    return &host->workers[0];
#endif
}

/* For a frame that cannot be scored: no match, and score maps of NaN. */
static void reportNothing(const cusMatcher *matcher, cusMat *scores) {
    const MatchModel *m = &matcher->model;
    for (int k = 0; k < m->count; ++k) {
        match_clearMatches(matcher, k);
        for (int y = 0; scores && y < m->orows; ++y)
            for (int x = 0; x < m->ocols; ++x)
                ((float *)((char *)scores[k].data + (size_t)y * scores[k].step))[x] = NAN;
    }
}

cusStatus match_host_run(cusMatcher *matcher, const cusMat *frame, cusMat *scores) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    double energy[MATCH_MAX_PLANES] = {0, 0, 0, 0}, total = 0;
    if (m->error > 0)
        match_frameEnergy(m, frame, match_threadsFor(host, (double)m->rows * m->cols * m->channels), energy);
    for (int c = 0; c < m->channels; ++c)
        total += energy[c];
    if (!m->integer && !(total < MATCH_MAX_ENERGY)) {
        reportNothing(matcher, scores);
        return CUS_OK;
    }
    memcpy(host->energy, energy, sizeof energy);
    host->exact_floats = -1;
    MatchError errors[1024];
    for (int k = 0; k < m->count; ++k)
        errors[k] = match_error(m, &host->sums[k], energy);

    const int64_t down = (m->orows + host->block_rows - 1) / host->block_rows;
    const int64_t across = (m->ocols + host->block_cols - 1) / host->block_cols;
    /* Either each thread has its blocks, or all share one block after the other. */
    const int shared = matcher->algorithm == CUS_MATCH_FFT && host->workers[0].fft->threads > 1;
    const int threads = shared ? 1 : match_threadsFor(host, (double)m->orows * m->ocols * m->n * m->channels * m->count);
    (void)threads; /* without OpenMP */
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (!shared)
    for (int64_t i = 0; i < down * across; ++i) {
        Block block = {.y = (size_t)(i / across * host->block_rows), .x = (size_t)(i % across * host->block_cols)};
        const size_t rows = (size_t)m->orows - block.y, cols = (size_t)m->ocols - block.x;
        block.rows = rows < (size_t)host->block_rows ? rows : (size_t)host->block_rows;
        block.cols = cols < (size_t)host->block_cols ? cols : (size_t)host->block_cols;
        match_scoreBlock(matcher, frame, scores, errors, &block, match_thisWorker(host));
    }
    for (int k = 0; k < m->count; ++k)
        match_findMatches(matcher, frame, k);
    return CUS_OK;
}

cusStatus match_host_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill) {
    const MatchModel *m = &matcher->model;
    for (int k = 0; k < m->count; ++k) {
        cusMatch *matches = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
        for (int i = 0; i < m->max_matches && matches[i].x >= 0; ++i) {
            cusMat window = CUS_MAT_INIT;
            CUS_TRY(cusMatRegion(frame, matches[i].x, matches[i].y, m->w, m->h, &window));
            uint32_t pixels = 0;
            cusMat count = CUS_MAT_INIT;
            CUS_TRY(cusMatWrap(&count, 1, 1, CUS_32SC1, CUS_HOST, &pixels, 0));
            CUS_TRY(cusHsvCount(&window, range, &count, NULL, NULL));
            matches[i].pixels = pixels;
            matches[i].filled = matches[i].pixels >= min_fill * m->n;
        }
    }
    return CUS_OK;
}

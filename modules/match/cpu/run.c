/* Runs a frame in overlapping blocks, and inspects its matches. */
#include "check.h"
#include "match/cpu/state.h"

#include <string.h>

/* Reports no match and score maps of NaN, for a frame with NaN or infinity. */
static void reportNothing(const cusMatcher *matcher, cusMat *scores) {
    const MatchModel *m = &matcher->model;
    for (int k = 0; k < m->count; ++k) {
        match_clearMatches(matcher, k);
        for (int y = 0; scores && y < m->orows; ++y)
            for (int x = 0; x < m->ocols; ++x)
                ((float *)((char *)scores[k].data + (size_t)y * scores[k].step))[x] = NAN;
    }
}

static void runFrame(cusMatcher *matcher, const cusMat *frame, cusMat *scores) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    double energy[MATCH_MAX_CHANNELS] = {0}, total = 0;
    memcpy(host->shift, m->shift, sizeof host->shift);
    if (match_hasOwnShift(m))
        match_chooseFrameShift(m, frame, host->shift);
    if (m->error > 0 || !m->integer)
        match_frameEnergy(m, host->shift, frame, match_threadsFor(host, (double)m->rows * m->cols * m->channels), energy);
    for (int c = 0; c < m->channels; ++c)
        total += energy[c];
    if (!m->integer && !(total < INFINITY)) {
        reportNothing(matcher, scores);
        return;
    }
    memcpy(host->energy, energy, sizeof energy);
    host->unit = m->integer ? 1 : match_unitOf(total);
    MatchError errors[1024];
    for (int k = 0; k < m->count; ++k)
        errors[k] = match_error(m, &host->sums[k], host->shift, energy, host->unit);

    const int64_t blocks = host->down * host->across;
    cusi_part(host->progress, 1, blocks * (m->count + 1) + 2 * m->count);
    for (int64_t i = 0; i < blocks && !cusi_isCancelled(host->progress); ++i) {
        const Block block = match_block(m, host, i);
        match_scoreBlock(matcher, frame, scores, errors, &block);
    }
    for (int k = 0; k < m->count && !cusi_isCancelled(host->progress); ++k, cusi_step(host->progress, 2))
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): all are set */
        match_findMatches(matcher, frame, k, errors[k]);
}

/* Runs a copy of the matcher that has this frame's templates and rows of the results. */
cusStatus match_host_run(cusMatcher *matcher, int index, const cusMat *frame, cusMat *scores) {
    const MatchModel *m = &matcher->model;
    MatchHost *host = matcher->backend;
    const size_t first = m->templates > m->count ? (size_t)index : 0; /* the frame's first template */
    MatchHost of_frame = *host;
    cusMatcher one = {
        .model = *m, .space = CUS_HOST, .backend = &of_frame}; /* without the guard, which other threads write */
    of_frame.sums += first;
    of_frame.templates += first * host->template_bytes;
    if (host->fft)
        of_frame.template_spectra += first * (size_t)m->channels * match_fft_spectrumSize(host->fft);
    else
        of_frame.taps += first * host->taps_size;
    if (m->templates > m->count)
        of_frame.loaded64 = -1;
    CUS_TRY(cusMatRegion(&matcher->results, 0, index * m->count, matcher->results.cols, m->count, &one.results));
    of_frame.progress = cusi_progress();
    runFrame(&one, frame, scores);
    host->loaded64 = of_frame.loaded64;
    for (int k = 0; cusi_isCancelled(of_frame.progress) && k < m->frames * m->count; ++k)
        match_clearMatches(matcher, k);
    return cusi_proceed(of_frame.progress);
}

cusStatus match_host_inspect(cusMatcher *matcher, int index, const cusMat *frame, const cusHsvRange *range,
                             double min_fill) {
    const MatchModel *m = &matcher->model;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)m->count * m->max_matches);
    for (int k = index * m->count; k < (index + 1) * m->count; ++k) {
        cusMatch *matches = (cusMatch *)((char *)matcher->results.data + (size_t)k * matcher->results.step);
        for (int i = 0; i < m->max_matches && matches[i].x >= 0; ++i) {
            cusMat window = CUS_MAT_INIT;
            CUS_TRY(cusMatRegion(frame, matches[i].x, matches[i].y, m->w, m->h, &window));
            uint32_t pixels = 0;
            cusMat count = CUS_MAT_INIT;
            CUS_TRY(cusMatWrap(&count, 1, 1, CUS_32SC1, CUS_HOST, &pixels, 0));
            CUS_TRY(cusHsvCount(&window, range, &count, NULL, NULL));
            matches[i].pixels = pixels;
            matches[i].filled = matches[i].pixels >= min_fill * m->w * m->h;
            if (cusi_step(progress, 1))
                return cusi_proceed(progress);
        }
    }
    return CUS_OK;
}

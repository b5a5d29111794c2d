/* Planes: rows, then columns, shared by a team of threads. Included for one element type, with MATCH_FFT_REAL, MATCH_FFT_TYPE and
 * MATCH_FFT_NAME defined. How: fft.h. */
typedef MATCH_FFT_REAL Real;
typedef MATCH_FFT_TYPE(MatchFft) Fft;
typedef MATCH_FFT_TYPE(MatchFftKernels) Kernels;

const Kernels *MATCH_FFT_NAME(kernels)(int i) {
    const Kernels *available[4] = {NULL};
    int n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        available[n++] = &MATCH_FFT_NAME(avx512);
    if (__builtin_cpu_supports("avx2"))
        available[n++] = &MATCH_FFT_NAME(avx2);
#endif
    available[n++] = &MATCH_FFT_NAME(base);
    return i < n ? available[i] : NULL;
}

/* ---- Plans -------------------------------------------------------------------------------------------------------------- */

static size_t panels(int cols, const Kernels *kernels) {
    return ((size_t)cols / 2 + kernels->lanes - 1) / kernels->lanes;
}

Fft *MATCH_FFT_NAME(createFor)(const Kernels *kernels, int rows, int cols, int filled, int wanted, int threads) {
    if (cols % 2)
        return NULL;
    Fft *fft = calloc(1, sizeof *fft);
    if (!fft)
        return NULL;
    fft->kernels = kernels;
    fft->rows = rows, fft->cols = cols, fft->filled = filled, fft->wanted = wanted;
    fft->threads = threads;
    const size_t lanes = kernels->lanes;
    fft->work_size = 2 * lanes * ((size_t)cols / 2 + lanes);
    if (match_fft_createLine(&fft->half, cols / 2, sizeof(Real)) &&
        match_fft_createLine(&fft->column, rows, sizeof(Real))) {
        fft->split = match_fft_createSplit(cols / 2, sizeof(Real));
        fft->work = cusi_hostAllocate(fft->work_size * (size_t)threads * sizeof(Real));
        fft->edge = malloc(2 * (size_t)rows * sizeof(Real));
    }
    if (fft->split && fft->work && fft->edge)
        return fft;
    MATCH_FFT_NAME(destroy)(fft);
    return NULL;
}

void MATCH_FFT_NAME(destroy)(Fft *fft) {
    if (!fft)
        return;
    match_fft_releaseLine(&fft->half);
    match_fft_releaseLine(&fft->column);
    free(fft->split);
    free(fft->work);
    free(fft->edge);
    free(fft);
}

size_t MATCH_FFT_NAME(panels)(const Fft *fft) {
    return panels(fft->cols, fft->kernels);
}

size_t MATCH_FFT_NAME(panelSize)(const Fft *fft) {
    return 2 * fft->kernels->lanes * (size_t)fft->rows;
}

/* ---- Transforms --------------------------------------------------------------------------------------------------------- */

static Real *threadWork(const Fft *fft) {
    return fft->work + match_threadOf(fft->threads) * fft->work_size;
}

/* Rows in the group that begins with row y: as many as a vector has lanes, or the rest. */
static size_t groupRows(const Fft *fft, size_t y, size_t end) {
    return end - y < fft->kernels->lanes ? end - y : fft->kernels->lanes;
}

void MATCH_FFT_NAME(forward)(Fft *fft, Real *plane, Real *spectrum) {
    const size_t lanes = fft->kernels->lanes, rows = (size_t)fft->rows, filled = (size_t)fft->filled;
#pragma omp parallel num_threads(fft->threads) if (fft->threads > 1)
    {
#pragma omp for schedule(static)
        for (size_t y = 0; y < filled; y += lanes)
            fft->kernels->forwardRows(&fft->half, fft->split, plane + y * (size_t)fft->cols, groupRows(fft, y, filled),
                                      rows, spectrum + y * 2 * lanes, threadWork(fft));
#pragma omp for schedule(static)
        for (size_t i = 0; i < MATCH_FFT_NAME(panels)(fft); ++i)
            fft->kernels->forwardColumns(&fft->column, filled, spectrum + i * MATCH_FFT_NAME(panelSize)(fft));
    }
}

/* Column 0 of the first panel holds the spectra of two real columns, A + i B. Their products go to fft->edge: `real` and
 * `imaginary` for each row. */
static void correlateRealColumns(const Fft *fft, const Real *a, const Real *b) {
    const size_t lanes = fft->kernels->lanes;
    const int n = fft->rows;
    for (int k = 0; 2 * k <= n; ++k) {
        const size_t row = (size_t)fft->column.position[k], mirrored_row = (size_t)fft->column.position[k ? n - k : 0];
        const size_t at = 2 * lanes * row, mirrored = 2 * lanes * mirrored_row;
        /* Twice A and B of the first plane, then of the second. */
        const Real ar = a[at] + a[mirrored], ai = a[at + lanes] - a[mirrored + lanes];
        const Real br = a[at + lanes] + a[mirrored + lanes], bi = a[mirrored] - a[at];
        const Real cr = b[at] + b[mirrored], ci = b[at + lanes] - b[mirrored + lanes];
        const Real dr = b[at + lanes] + b[mirrored + lanes], di = b[mirrored] - b[at];
        const Real pr = (Real)0.25 * (ar * cr + ai * ci), pi = (Real)0.25 * (ai * cr - ar * ci);
        const Real qr = (Real)0.25 * (br * dr + bi * di), qi = (Real)0.25 * (bi * dr - br * di);
        fft->edge[2 * row] = pr - qi;
        fft->edge[2 * row + 1] = pi + qr;
        fft->edge[2 * mirrored_row] = pr + qi;
        fft->edge[2 * mirrored_row + 1] = qr - pi;
    }
}

/* sum = a conj(b), or sum += a conj(b), of panel i; a, b, sum: the panel. */
static void correlatePanel(const Fft *fft, size_t i, const Real *a, const Real *b, Real *sum, int add) {
    const size_t lanes = fft->kernels->lanes, rows = (size_t)fft->rows;
    if (i == 0) {
        correlateRealColumns(fft, a, b);
        for (size_t y = 0; add && y < rows; ++y) {
            fft->edge[2 * y] += sum[2 * lanes * y];
            fft->edge[2 * y + 1] += sum[2 * lanes * y + lanes];
        }
    }
    fft->kernels->correlate(a, b, sum, MATCH_FFT_NAME(panelSize)(fft), add);
    for (size_t y = 0; i == 0 && y < rows; ++y) {
        sum[2 * lanes * y] = fft->edge[2 * y];
        sum[2 * lanes * y + lanes] = fft->edge[2 * y + 1];
    }
}

static void inverseGroup(Fft *fft, const Real *spectrum, Real *plane, size_t y) {
    const size_t lanes = fft->kernels->lanes, wanted = (size_t)fft->wanted;
    fft->kernels->inverseRows(&fft->half, fft->split, spectrum + y * 2 * lanes, groupRows(fft, y, wanted),
                              (size_t)fft->rows, plane + y * (size_t)fft->cols, threadWork(fft));
}

void MATCH_FFT_NAME(correlateAll)(Fft *fft, const Real *a, const Real *b, int planes, Real *product, Real *plane) {
    const size_t lanes = fft->kernels->lanes, wanted = (size_t)fft->wanted, panel = MATCH_FFT_NAME(panelSize)(fft);
    const size_t spectrum = panel * MATCH_FFT_NAME(panels)(fft);
#pragma omp parallel num_threads(fft->threads) if (fft->threads > 1)
    {
#pragma omp for schedule(static)
        for (size_t i = 0; i < MATCH_FFT_NAME(panels)(fft); ++i) {
            for (size_t p = 0; p < (size_t)planes; ++p)
                correlatePanel(fft, i, a + p * spectrum + i * panel, b + p * spectrum + i * panel, product + i * panel,
                               p > 0);
            fft->kernels->inverseColumns(&fft->column, product + i * panel);
        }
#pragma omp for schedule(static)
        for (size_t y = 0; y < wanted; y += lanes)
            inverseGroup(fft, product, plane, y);
    }
}

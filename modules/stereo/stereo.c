/* Entry points of stereo for both backends: the stages, and the mapper that runs them all. */
#include "check.h"
#include "device.h"
#include "host.h"
#include "progress.h"
#include "stereo/stages.h"

#include <math.h>
#include <stdlib.h>

#define IMAGE_TYPES     CUSI_TYPES(CUS_8UC1, CUS_32FC1)
#define ELEVATION_TYPES CUSI_TYPES(CUS_16UC1, CUS_32FC1)

cusStereoOptions cusStereoClassic(void) {
    return (cusStereoOptions){.border = CUS_STEREO_WRAP,
                              .agreement = CUS_STEREO_EQUAL,
                              .threshold = 0.2f,
                              .shifts = 30,
                              .direction = 1,
                              .window = 21,
                              .prefer_smaller = 0,
                              .left_right_check = -1,
                              .fill = CUS_FILL_ONCE,
                              .iterations = 50,
                              .tolerance = 0,
                              .median = 0,
                              .lines = CUS_LINES_MODULO,
                              .levels = 10,
                              .subpixel_bits = 0,
                              .min_confidence = 0,
                              .speckle_size = 0};
}

cusStereoOptions cusStereoDefaults(void) {
    return (cusStereoOptions){.border = CUS_STEREO_ZERO,
                              .agreement = CUS_STEREO_CENSUS,
                              .threshold = 0.2f,
                              .shifts = 30,
                              .direction = -1,
                              .window = 7,
                              .prefer_smaller = 1,
                              .left_right_check = 1,
                              .fill = CUS_FILL_LOWER,
                              .iterations = 512,
                              .tolerance = 0.001f,
                              .median = 5,
                              .lines = CUS_LINES_CROSSING,
                              .levels = 10,
                              .subpixel_bits = 0,
                              .min_confidence = 0,
                              .speckle_size = 0};
}

cusStereoOptions cusStereoBest(void) {
    cusStereoOptions best = cusStereoDefaults();
    best.aggregation = CUS_STEREO_PATHS;
    best.window = 3;
    best.speckle_size = 49;
    return best;
}

/* Sets *chosen to the caller's options, or to the defaults for NULL. */
static cusStatus choose(const char *function, const cusStereoOptions *options, cusStereoOptions *chosen) {
    *chosen = options ? *options : cusStereoDefaults();
    return cusi_checkReserved(function, "options->", chosen->reserved);
}

/* ---- Checks ---------------------------------------------------------------------------------------------------------- */

#define RANGE(value, low, high)                                                      \
    CUSI_REQUIRE((int)o->value >= (low) && (int)o->value <= (high), CUS_ERROR_VALUE, \
                 "%s: " #value " is %d, expected %d..%d", function, (int)o->value, (low), (high))

static cusStatus checkBorder(const char *function, const cusStereoOptions *o) {
    RANGE(border, CUS_STEREO_WRAP, CUS_STEREO_ZERO);
    return CUS_OK;
}

static cusStatus checkThreshold(const char *function, const cusStereoOptions *o) {
    CUSI_REQUIRE(isfinite(o->threshold) && o->threshold >= 0, CUS_ERROR_VALUE,
                 "%s: threshold is %g, expected a number of at least 0", function, (double)o->threshold);
    return CUS_OK;
}

static cusStatus checkBits(const char *function, const cusStereoOptions *o) {
    RANGE(subpixel_bits, 0, 8);
    CUSI_REQUIRE(o->subpixel_bits != 1, CUS_ERROR_VALUE, "%s: subpixel_bits is 1, expected 0 or 2..8", function);
    return CUS_OK;
}

static cusStatus checkPaths(const char *function, const cusStereoOptions *o) {
    RANGE(aggregation, CUS_STEREO_WINDOW, CUS_STEREO_PATHS);
    CUSI_REQUIRE(o->paths == 0 || o->paths == 4 || o->paths == 8, CUS_ERROR_VALUE, "%s: paths is %d, expected 0, 4 or 8",
                 function, o->paths);
    RANGE(p1, 0, CUS_STEREO_MAX_PENALTY);
    RANGE(p2, 0, CUS_STEREO_MAX_PENALTY);
    RANGE(p2_slope, 0, CUS_STEREO_MAX_PENALTY);
    if (o->aggregation == CUS_STEREO_WINDOW)
        return CUS_OK;
    CUSI_REQUIRE(o->agreement == CUS_STEREO_CENSUS, CUS_ERROR_VALUE,
                 "%s: agreement is %d, expected CUS_STEREO_CENSUS (%d) with aggregation CUS_STEREO_PATHS", function,
                 (int)o->agreement, CUS_STEREO_CENSUS);
    CUSI_REQUIRE(o->window <= CUS_STEREO_MAX_PATH_WINDOW, CUS_ERROR_VALUE,
                 "%s: window is %d, expected at most %d with aggregation CUS_STEREO_PATHS", function, o->window,
                 CUS_STEREO_MAX_PATH_WINDOW);
    CUSI_REQUIRE(stereo_p1(o) <= stereo_p2(o), CUS_ERROR_VALUE, "%s: p2 is %d, expected at least %d like p1", function,
                 o->p2, stereo_p1(o));
    return CUS_OK;
}

static cusStatus checkMatching(const char *function, const cusStereoOptions *o, int cols) {
    RANGE(agreement, CUS_STEREO_EQUAL, CUS_STEREO_CENSUS);
    RANGE(shifts, CUS_STEREO_AUTO, CUS_STEREO_MAX_SHIFTS);
    CUSI_REQUIRE(o->direction == 1 || o->direction == -1, CUS_ERROR_VALUE, "%s: direction is %d, expected 1 or -1",
                 function, o->direction);
    RANGE(window, 1, CUS_STEREO_MAX_WINDOW);
    CUSI_REQUIRE(o->window % 2 == 1, CUS_ERROR_VALUE, "%s: window is %d, expected an odd number", function, o->window);
    RANGE(prefer_smaller, 0, 1);
    RANGE(left_right_check, -1, CUS_STEREO_MAX_SHIFTS);
    CUS_TRY(checkBits(function, o));
    CUSI_REQUIRE(o->shifts << o->subpixel_bits <= UINT16_MAX, CUS_ERROR_VALUE,
                 "%s: subpixel_bits is %d, expected fewer: %d shifts of so many bits exceed 65535", function,
                 o->subpixel_bits, o->shifts);
    RANGE(min_confidence, 0, 255);
    CUSI_REQUIRE(o->shifts <= cols, CUS_ERROR_SIZE, "%s: shifts is %d, expected at most %d (the columns)", function,
                 o->shifts, cols);
    return checkPaths(function, o);
}

static cusStatus checkSpeckles(const char *function, const cusStereoOptions *o, int rows, int cols) {
    RANGE(speckle_size, 0, INT32_MAX);
    CUSI_REQUIRE(o->speckle_size == 0 || (int64_t)rows * cols <= UINT32_MAX, CUS_ERROR_SIZE,
                 "%s: images are %d x %d (rows x cols), expected fewer than 2^32 pixels with a speckle_size above 0",
                 function, rows, cols);
    return CUS_OK;
}

static cusStatus checkFill(const char *function, const cusStereoOptions *o) {
    RANGE(fill, CUS_FILL_NONE, CUS_FILL_LOWER);
    RANGE(iterations, 0, 1000000);
    CUSI_REQUIRE(isfinite(o->tolerance) && o->tolerance >= 0, CUS_ERROR_VALUE,
                 "%s: tolerance is %g, expected a number of at least 0", function, (double)o->tolerance);
    return CUS_OK;
}

static cusStatus checkLines(const char *function, const cusStereoOptions *o) {
    RANGE(lines, CUS_LINES_MODULO, CUS_LINES_CROSSING);
    RANGE(levels, 1, 65535);
    return CUS_OK;
}

static cusStatus checkMedianSize(const char *function, const char *name, int size, int or_none) {
    CUSI_REQUIRE(size == 3 || size == 5 || (or_none && size == 0), CUS_ERROR_VALUE, "%s: %s is %d, expected %s3 or 5",
                 function, name, size, or_none ? "0, " : "");
    return CUS_OK;
}

static cusStatus checkNan(const char *function, const char *argument, const cusMat *image) {
    if (image->type != CUS_32FC1 || image->space == CUS_DEVICE)
        return CUS_OK;
    CUSI_REQUIRE(!stereo_host_hasNan(image), CUS_ERROR_VALUE, "%s: %s contains NaN", function, argument);
    return CUS_OK;
}

/* Checks an input, and an output of the same size and space that does not overlap it. Does not create the output. */
static cusStatus checkOneToOne(const char *function, const char *in_name, const cusMat *in, const int *types,
                               const char *out_name, cusMat *out, int out_type) {
    CUS_TRY(cusi_checkInput(function, in_name, in, types));
    CUS_TRY(cusi_checkSides(function, in_name, in->rows, in->cols));
    CUS_TRY(cusi_checkOutput(function, out_name, out, in->rows, in->cols, out_type < 0 ? in->type : out_type, in->space));
    return cusi_checkNoOverlap(function, out_name, out, in_name, in);
}

/* ---- Scratch --------------------------------------------------------------------------------------------------------- */

static size_t alignUp(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* Divides `block` into parts, or only counts if it is NULL. */
static StereoScratch layOut(void *block, int stages, cusSpace space, int rows, int cols, const cusStereoOptions *o) {
    const size_t pixels = (size_t)rows * (size_t)cols;
    const int fills = (stages & STEREO_FILL) && (o->fill == CUS_FILL_ONCE || o->fill == CUS_FILL_RELAX);
    const int several = o->shifts == CUS_STEREO_AUTO || o->shifts > STEREO_GROUP;
    const int speckles = (stages & STEREO_SPECKLES) && o->speckle_size > 0;
    const int groups = (stages & STEREO_ELEVATION) && space == CUS_DEVICE && several;
    const int checked = (stages & STEREO_ELEVATION) && o->left_right_check >= 0;
    const int threads = cusi_maxThreads();
    const int paths = (stages & STEREO_ELEVATION) && o->aggregation == CUS_STEREO_PATHS;
    const size_t buffers = stereo_host_scratchBytes(stages, rows, threads),
                 volume = !paths                ? 0
                          : space == CUS_DEVICE ? stereo_devicePathBytes(pixels, o)
                                                : stereo_host_pathBytes(rows, cols, o, threads);
    const size_t head = space == CUS_DEVICE ? STEREO_STATE_BYTES : alignUp(buffers > volume ? buffers : volume);
    const size_t a_pixel = groups && (o->subpixel_bits || o->min_confidence) ? sizeof(StereoPeak) : speckles ? 8 : 4;
    const size_t few = fills || groups || speckles ? a_pixel * pixels : 0,
                 words = alignUp(space == CUS_DEVICE && volume > few ? volume : few);
    const size_t of_right = checked ? alignUp((space == CUS_DEVICE ? 4 : 2) * pixels) : 0;
    StereoScratch s = {.bytes = head + words + of_right, .threads = threads};
    if (block) {
        s.block = block;
        s.words = words ? (char *)block + head : NULL;
        s.right = checked ? (char *)block + head + words : NULL;
    }
    return s;
}

static cusStatus takeScratch(const char *function, StereoScratch *scratch, int stages, const cusMat *like,
                             const cusStereoOptions *o, cusStream stream) {
    const size_t bytes = layOut(NULL, stages, like->space, like->rows, like->cols, o).bytes;
    void *block = NULL;
    if (like->space == CUS_DEVICE)
        CUS_TRY(cusi_deviceAllocateAsync(function, bytes, &block, stream));
    else
        block = cusi_hostAllocate(bytes ? bytes : 1);
    CUSI_REQUIRE(block, CUS_ERROR_NO_MEMORY, "%s: no host memory for %zu bytes of scratch", function, bytes);
    *scratch = layOut(block, stages, like->space, like->rows, like->cols, o);
    return CUS_OK;
}

/* Gives back the scratch. Returns `status`, the status of the work that used it. */
static cusStatus giveScratch(StereoScratch *scratch, cusSpace space, cusStream stream, cusStatus status) {
    if (space == CUS_DEVICE)
        (void)cusi_deviceFreeAsync(NULL, scratch->block, stream);
    else
        free(scratch->block);
    return status;
}

/* ---- Stages ---------------------------------------------------------------------------------------------------------- */

/* Runs a stage where the data lives. */
#define STAGE(stage, space, ...) \
    CUSI_BACKEND(function, space, stereo_host_##stage(__VA_ARGS__), stereo_cuda_##stage(function, stream, __VA_ARGS__))

static cusStatus features(const char *function, const char *out_name, const cusMat *image, cusMat *out, int census,
                          const cusStereoOptions *options, cusStream stream) {
    cusStereoOptions o;
    CUS_TRY(choose(function, options, &o));
    CUS_TRY(checkBorder(function, &o));
    if (!census)
        CUS_TRY(checkThreshold(function, &o));
    CUS_TRY(checkOneToOne(function, "image", image, IMAGE_TYPES, out_name, out, CUS_8UC1));
    CUS_TRY(checkNan(function, "image", image));
    CUS_TRY(cusi_checkStream(function, image->space, stream));
    CUS_TRY(cusMatCreate(out, image->rows, image->cols, CUS_8UC1, image->space));
    return STAGE(features, image->space, &image, &out, 1, census, &o, NULL);
}

cusStatus cusStereoEdges(const cusMat *image, cusMat *edges, const cusStereoOptions *options, cusStream stream) {
    CUSI_TRACE;
    return features("cusStereoEdges", "edges", image, edges, 0, options, stream);
}

cusStatus cusStereoCensus(const cusMat *image, cusMat *census, const cusStereoOptions *options, cusStream stream) {
    CUSI_TRACE;
    return features("cusStereoCensus", "census", image, census, 1, options, stream);
}

/* Makes the elevation by the aggregation of the options. image: the left one, or NULL. */
static cusStatus aggregate(const char *function, const cusMat *left, const cusMat *right, cusMat *elevation,
                           cusMat *confidence, const cusMat *image, const cusStereoOptions *o, StereoScratch *scratch,
                           cusStream stream) {
    return o->aggregation == CUS_STEREO_PATHS
               ? STAGE(paths, left->space, left, right, image, elevation, confidence, o, scratch)
               : STAGE(elevation, left->space, left, right, elevation, confidence, o, scratch);
}

/* Matches two images whose features and outputs exist. */
static cusStatus match(const char *function, const cusMat *left, const cusMat *right, cusMat *elevation, cusMat *confidence,
                       const cusStereoOptions *options, cusStream stream) {
    cusStereoOptions memory = *options; /* options that the scratch must suffice for */
    memory.min_confidence = stereo_isRefined(options, confidence);
    StereoScratch scratch;
    CUS_TRY(takeScratch(function, &scratch, STEREO_ELEVATION, left, &memory, stream));
    return giveScratch(&scratch, left->space, stream,
                       aggregate(function, left, right, elevation, confidence, NULL, options, &scratch, stream));
}

/* ---- The range of shifts --------------------------------------------------------------------------------------------- */

enum { SLICES = 8, SLICE_ROWS = 16, COARSE_WINDOW = 15, COARSE_CONFIDENCE = 16, MIN_SHIFTS = 16 };

/* Counts, by shift, the elevations of a slice that two neighbors share. Returns how many there are. */
static size_t countShared(const uint16_t *elevation, int rows, int cols, uint32_t *histogram) {
    size_t count = 0;
    for (int y = 1; y < rows; ++y)
        for (int x = 1; x < cols; ++x) {
            const uint16_t *const at = elevation + (size_t)y * (size_t)cols + x;
            const int e = at[0], left = at[-1], upper = at[-cols];
            if (e && abs(left - e) <= 1 && abs(upper - e) <= 1 && left && upper) {
                ++histogram[e - 1];
                ++count;
            }
        }
    return count;
}

/* Matches one slice and downloads its elevations; `host` has room for them. */
static cusStatus matchSlice(const char *function, const cusMat *left, const cusMat *right, int y, int rows,
                            const cusStereoOptions *coarse, cusMat *slice, cusMat *host, cusStream stream) {
    cusMat l = CUS_MAT_INIT, r = CUS_MAT_INIT;
    CUS_TRY(cusMatRegion(left, 0, y, left->cols, rows, &l));
    CUS_TRY(cusMatRegion(right, 0, y, left->cols, rows, &r));
    CUS_TRY(match(function, &l, &r, slice, NULL, coarse, stream));
    if (left->space == CUS_HOST)
        return cusMatCopy(slice, host, NULL);
    CUS_TRY(cusMatDownload(slice, host, stream));
    return cusStreamSynchronize(stream);
}

static cusStatus matchSlices(const char *function, const cusMat *left, const cusMat *right, const cusStereoOptions *coarse,
                             uint32_t *histogram, size_t *counted, size_t *seen, cusMat *slice, cusMat *host,
                             cusStream stream) {
    const int rows = left->rows < SLICE_ROWS ? left->rows : SLICE_ROWS;
    const int count = left->rows / rows < SLICES ? left->rows / rows : SLICES;
    CUS_TRY(cusMatCreate(slice, rows, left->cols, CUS_16UC1, left->space));
    CUS_TRY(cusMatCreate(host, rows, left->cols, CUS_16UC1, CUS_HOST));
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, count);
    for (int k = 0; k < count; ++k, cusi_step(progress, 1)) {
        const int y = (int)((int64_t)(left->rows - rows) * (2 * k + 1) / (2 * count));
        CUS_TRY(CUSI_LONG(function, matchSlice(function, left, right, y, rows, coarse, slice, host, stream)));
        *counted += countShared(host->data, rows, left->cols, histogram);
        *seen += (size_t)rows * (size_t)left->cols;
    }
    return CUS_OK;
}

/* Returns the smallest range that covers 99.5 % of the histogram, with a margin. */
static int rangeOf(const uint32_t *histogram, size_t counted, int most) {
    size_t covered = 0;
    int s = 0;
    while (s < most && (covered + histogram[s]) * 200 < counted * 199)
        covered += histogram[s++];
    const int needed = s + 1, wanted = (needed + needed / 8 + 8 + 7) / 8 * 8;
    const int enough = wanted < MIN_SHIFTS ? MIN_SHIFTS : wanted;
    return enough < most ? enough : most;
}

static cusStatus findShifts(const char *function, const cusMat *left, const cusMat *right, int *shifts,
                            const cusStereoOptions *o, cusStream stream) {
    if (left->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(function, stream, "finding the range of shifts waits for it"));
    const int bits_allow = UINT16_MAX >> o->subpixel_bits, limit = left->cols < bits_allow ? left->cols : bits_allow;
    const int most = limit < CUS_STEREO_MAX_SHIFTS ? limit : CUS_STEREO_MAX_SHIFTS;
    cusStereoOptions coarse = *o;
    coarse.shifts = most;
    coarse.aggregation = CUS_STEREO_WINDOW;
    coarse.subpixel_bits = 0;
    coarse.min_confidence = o->min_confidence < COARSE_CONFIDENCE ? COARSE_CONFIDENCE : o->min_confidence;
    coarse.window = o->window < COARSE_WINDOW ? COARSE_WINDOW : o->window;
    coarse.left_right_check = o->left_right_check < 1 ? 1 : o->left_right_check;
    uint32_t histogram[CUS_STEREO_MAX_SHIFTS] = {0};
    size_t counted = 0, seen = 0;
    cusMat slice = CUS_MAT_INIT, host = CUS_MAT_INIT;
    const cusStatus status = matchSlices(function, left, right, &coarse, histogram, &counted, &seen, &slice, &host, stream);
    cusMatRelease(&slice);
    cusMatRelease(&host);
    CUS_TRY(status);
    const int usual = o->shifts ? o->shifts : cusStereoDefaults().shifts;
    *shifts = counted * 20 >= seen ? rangeOf(histogram, counted, most) : usual < most ? usual : most;
    return CUS_OK;
}

static cusStatus checkFeatures(const char *function, const cusMat *left, const cusMat *right, const cusStereoOptions *o) {
    CUS_TRY(cusi_checkInput(function, "left", left, CUSI_TYPES(CUS_8UC1)));
    CUS_TRY(cusi_checkInput(function, "right", right, CUSI_TYPES(CUS_8UC1)));
    CUS_TRY(cusi_checkSameSpace(function, "right", right, "left", left));
    CUS_TRY(cusi_checkSameSize(function, "right", right, "left", left));
    CUS_TRY(cusi_checkSides(function, "left", left->rows, left->cols));
    CUS_TRY(checkBorder(function, o));
    return checkMatching(function, o, left->cols);
}

cusStatus cusStereoFindShifts(const cusMat *left, const cusMat *right, int *shifts, const cusStereoOptions *options,
                              cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoFindShifts";
    cusStereoOptions o;
    CUS_TRY(choose(function, options, &o));
    CUSI_NOT_NULL(function, shifts);
    cusStereoOptions any = o; /* options without shifts, which are not tried */
    any.shifts = CUS_STEREO_AUTO;
    CUS_TRY(checkFeatures(function, left, right, &any));
    CUS_TRY(cusi_checkStream(function, left->space, stream));
    return CUSI_LONG(function, findShifts(function, left, right, shifts, &o, stream));
}

static cusStatus elevate(const char *function, const cusMat *left, const cusMat *right, cusMat *out, cusMat *confidence,
                         const cusStereoOptions *options, cusStream stream) {
    cusStereoOptions o;
    CUS_TRY(choose(function, options, &o));
    CUS_TRY(checkFeatures(function, left, right, &o));
    CUSI_REQUIRE(
        o.aggregation == CUS_STEREO_WINDOW || o.p2_slope == 0, CUS_ERROR_VALUE,
        "%s: p2_slope is %d, expected 0: census codes have no gradient, and only a cusContourMapper has the images",
        function, o.p2_slope);
    CUS_TRY(checkOneToOne(function, "left", left, CUSI_TYPES(CUS_8UC1), "elevation", out, CUS_16UC1));
    CUS_TRY(cusi_checkNoOverlap(function, "elevation", out, "right", right));
    if (confidence) {
        CUS_TRY(checkOneToOne(function, "left", left, CUSI_TYPES(CUS_8UC1), "confidence", confidence, CUS_8UC1));
        CUS_TRY(cusi_checkNoOverlap(function, "confidence", confidence, "right", right));
        CUSI_REQUIRE(confidence != out, CUS_ERROR_ALIAS, "%s: confidence and elevation are the same matrix", function);
        CUS_TRY(cusi_checkNoOverlap(function, "confidence", confidence, "elevation", out));
    }
    CUS_TRY(cusi_checkStream(function, left->space, stream));
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 0.2, o.shifts == CUS_STEREO_AUTO);
    if (o.shifts == CUS_STEREO_AUTO)
        CUS_TRY(CUSI_LONG(function, findShifts(function, left, right, &o.shifts, &o, stream)));
    cusi_part(progress, 1, 1);
    CUS_TRY(cusMatCreate(out, left->rows, left->cols, CUS_16UC1, left->space));
    if (confidence)
        CUS_TRY(cusMatCreate(confidence, left->rows, left->cols, CUS_8UC1, left->space));
    return CUSI_LONG(function, match(function, left, right, out, confidence, &o, stream));
}

cusStatus cusStereoElevation(const cusMat *left, const cusMat *right, cusMat *out, const cusStereoOptions *options,
                             cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoElevation";
    return CUSI_LONG(function, elevate(function, left, right, out, NULL, options, stream));
}

cusStatus cusStereoElevationConfidence(const cusMat *left, const cusMat *right, cusMat *out, cusMat *confidence,
                                       const cusStereoOptions *options, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoElevationConfidence";
    return CUSI_LONG(function, elevate(function, left, right, out, confidence, options, stream));
}

/* ---- Stages that follow ---------------------------------------------------------------------------------------------- */

cusStatus cusStereoFilterSpeckles(const cusMat *elevation, cusMat *filtered, const cusStereoOptions *options,
                                  cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoFilterSpeckles";
    cusStereoOptions o;
    CUS_TRY(choose(function, options, &o));
    CUS_TRY(checkBits(function, &o));
    CUS_TRY(checkOneToOne(function, "elevation", elevation, CUSI_TYPES(CUS_16UC1), "filtered", filtered, CUS_16UC1));
    CUS_TRY(checkSpeckles(function, &o, elevation->rows, elevation->cols));
    CUS_TRY(cusi_checkStream(function, elevation->space, stream));
    CUS_TRY(cusMatCreate(filtered, elevation->rows, elevation->cols, CUS_16UC1, elevation->space));
    StereoScratch scratch;
    CUS_TRY(takeScratch(function, &scratch, STEREO_SPECKLES, elevation, &o, stream));
    return giveScratch(&scratch, elevation->space, stream,
                       STAGE(speckles, elevation->space, elevation, filtered, &o, &scratch));
}

cusStatus cusStereoFill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoFill";
    cusStereoOptions o;
    CUS_TRY(choose(function, options, &o));
    CUS_TRY(checkBorder(function, &o));
    CUS_TRY(checkFill(function, &o));
    const int type = o.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1;
    CUS_TRY(checkOneToOne(function, "elevation", elevation, CUSI_TYPES(CUS_16UC1), "filled", filled, type));
    CUS_TRY(cusi_checkStream(function, elevation->space, stream));
    CUS_TRY(cusMatCreate(filled, elevation->rows, elevation->cols, type, elevation->space));
    StereoScratch scratch;
    CUS_TRY(takeScratch(function, &scratch, STEREO_FILL, elevation, &o, stream));
    return giveScratch(&scratch, elevation->space, stream,
                       CUSI_LONG(function, STAGE(fill, elevation->space, elevation, filled, &o, &scratch)));
}

cusStatus cusStereoMedian(const cusMat *elevation, cusMat *smoothed, int size, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoMedian";
    CUS_TRY(checkMedianSize(function, "size", size, 0));
    CUS_TRY(checkOneToOne(function, "elevation", elevation, ELEVATION_TYPES, "smoothed", smoothed, -1));
    CUS_TRY(cusi_checkStream(function, elevation->space, stream));
    CUS_TRY(cusMatCreate(smoothed, elevation->rows, elevation->cols, elevation->type, elevation->space));
    return STAGE(median, elevation->space, elevation, smoothed, size);
}

cusStatus cusStereoContours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoContours";
    cusStereoOptions o;
    CUS_TRY(choose(function, options, &o));
    CUS_TRY(checkLines(function, &o));
    CUS_TRY(checkOneToOne(function, "elevation", elevation, ELEVATION_TYPES, "contours", contours, CUS_8UC1));
    CUS_TRY(cusi_checkStream(function, elevation->space, stream));
    CUS_TRY(cusMatCreate(contours, elevation->rows, elevation->cols, CUS_8UC1, elevation->space));
    StereoScratch scratch;
    CUS_TRY(takeScratch(function, &scratch, STEREO_RANGE, elevation, &o, stream));
    return giveScratch(&scratch, elevation->space, stream,
                       STAGE(contours, elevation->space, elevation, contours, &o, &scratch));
}

cusStatus cusStereoPicture(const cusMat *elevation, const cusMat *contours, cusMat *picture, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusStereoPicture";
    const cusStereoOptions o = cusStereoDefaults();
    CUS_TRY(checkOneToOne(function, "elevation", elevation, ELEVATION_TYPES, "picture", picture, CUS_8UC3));
    if (contours) {
        CUS_TRY(cusi_checkInput(function, "contours", contours, CUSI_TYPES(CUS_8UC1)));
        CUS_TRY(cusi_checkSameSpace(function, "contours", contours, "elevation", elevation));
        CUS_TRY(cusi_checkSameSize(function, "contours", contours, "elevation", elevation));
        CUS_TRY(cusi_checkNoOverlap(function, "picture", picture, "contours", contours));
    }
    CUS_TRY(cusi_checkStream(function, elevation->space, stream));
    CUS_TRY(cusMatCreate(picture, elevation->rows, elevation->cols, CUS_8UC3, elevation->space));
    StereoScratch scratch;
    CUS_TRY(takeScratch(function, &scratch, STEREO_RANGE, elevation, &o, stream));
    return giveScratch(&scratch, elevation->space, stream,
                       STAGE(picture, elevation->space, elevation, contours, picture, &scratch));
}

/* ---- Mapper ---------------------------------------------------------------------------------------------------------- */

static cusStatus takeMapperScratch(const char *function, cusContourMapper *m) {
    const int stages = STEREO_ELEVATION | STEREO_SPECKLES | STEREO_FILL | STEREO_RANGE;
    const size_t bytes = layOut(NULL, stages, m->space, m->rows, m->cols, &m->options).bytes;
    CUSI_REQUIRE(bytes / 4096 < (size_t)1 << 30, CUS_ERROR_NO_MEMORY, "%s: no memory for %zu bytes of scratch", function,
                 bytes);
    /* There are rows of 4 KiB, since a single row could exceed the limit on columns. */
    cusMat memory = CUS_MAT_INIT;
    CUS_TRY(cusMatCreate(&memory, (int)((bytes + 4095) / 4096), 4096, CUS_8UC1, m->space));
    cusMatRelease(&m->memory);
    m->memory = memory;
    m->scratch = layOut(m->memory.data, stages, m->space, m->rows, m->cols, &m->options);
    return CUS_OK;
}

static cusStatus prepare(cusContourMapper *m) {
    const cusStereoOptions *o = &m->options;
    const int rows = m->rows, cols = m->cols;
    CUS_TRY(cusMatCreate(&m->left, rows, cols, CUS_8UC1, m->space));
    CUS_TRY(cusMatCreate(&m->right, rows, cols, CUS_8UC1, m->space));
    if (o->fill != CUS_FILL_NONE)
        CUS_TRY(cusMatCreate(&m->holes, rows, cols, CUS_16UC1, m->space));
    if (o->median)
        CUS_TRY(cusMatCreate(&m->unfiltered, rows, cols, o->fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1, m->space));
    CUS_TRY(takeMapperScratch("cusContourMapperCreate", m));
    return cusi_guardCreate("cusContourMapperCreate", &m->guard, m->space);
}

cusStatus cusContourMapperCreate(cusContourMapper **mapper, int rows, int cols, int type, cusSpace space,
                                 const cusStereoOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusContourMapperCreate";
    cusStereoOptions o;
    CUS_TRY(choose(function, options, &o));
    CUSI_NOT_NULL(function, mapper);
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: images are %d x %d (rows x cols), expected at least 1 x 1",
                 function, rows, cols);
    CUS_TRY(cusi_checkSides(function, "rows x cols", rows, cols));
    CUSI_REQUIRE(type == CUS_8UC1 || type == CUS_32FC1, CUS_ERROR_TYPE, "%s: type is %s, expected 8UC1 or 32FC1", function,
                 cusi_typeName(type));
    CUS_TRY(cusi_checkSpace(function, space));
    CUS_TRY(checkBorder(function, &o));
    CUS_TRY(checkThreshold(function, &o));
    CUS_TRY(checkMatching(function, &o, cols));
    CUS_TRY(checkSpeckles(function, &o, rows, cols));
    CUS_TRY(checkFill(function, &o));
    CUS_TRY(checkMedianSize(function, "median", o.median, 1));
    CUS_TRY(checkLines(function, &o));
    cusContourMapper *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    *made = (cusContourMapper){.rows = rows, .cols = cols, .type = type, .space = space, .options = o};
    const cusStatus status = prepare(made);
    if (status != CUS_OK) {
        cusContourMapperDestroy(made);
        return status;
    }
    *mapper = made;
    return CUS_OK;
}

void cusContourMapperDestroy(cusContourMapper *mapper) {
    CUSI_TRACE;
    if (!mapper)
        return;
    cusMatRelease(&mapper->left);
    cusMatRelease(&mapper->right);
    cusMatRelease(&mapper->holes);
    cusMatRelease(&mapper->unfiltered);
    cusMatRelease(&mapper->memory);
    cusi_guardRelease(&mapper->guard);
    free(mapper);
}

static cusStatus runStages(const char *function, cusContourMapper *m, const cusMat *left, const cusMat *right,
                           cusMat *elevation, cusMat *contours, cusMat *confidence, cusStream stream) {
    const cusStereoOptions *o = &m->options;
    StereoScratch *const scratch = &m->scratch;
    const cusMat *const images[2] = {left, right};
    cusMat *const features[2] = {&m->left, &m->right};
    cusMat *const unfiltered = o->median ? &m->unfiltered : elevation;
    cusMat *const holes = o->fill != CUS_FILL_NONE ? &m->holes : unfiltered;
    CUS_TRY(STAGE(features, m->space, images, features, 2, o->agreement == CUS_STEREO_CENSUS, o, scratch));
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 0.1, o->shifts == CUS_STEREO_AUTO);
    if (o->shifts == CUS_STEREO_AUTO) {
        CUS_TRY(CUSI_LONG(function, findShifts(function, &m->left, &m->right, &m->options.shifts, o, stream)));
        const cusStatus grown = o->aggregation == CUS_STEREO_PATHS ? takeMapperScratch(function, m) : CUS_OK;
        if (grown != CUS_OK)
            m->options.shifts = CUS_STEREO_AUTO; /* the next pair tries again */
        CUS_TRY(grown);
    }
    cusi_part(progress, 0.8, 1);
    CUS_TRY(CUSI_LONG(function, aggregate(function, &m->left, &m->right, holes, confidence, left, o, scratch, stream)));
    cusi_part(progress, 1, 1);
    if (o->speckle_size > 0)
        CUS_TRY(STAGE(speckles, m->space, holes, holes, o, scratch));
    if (o->fill != CUS_FILL_NONE)
        CUS_TRY(CUSI_LONG(function, STAGE(fill, m->space, holes, unfiltered, o, scratch)));
    if (o->median)
        CUS_TRY(STAGE(median, m->space, unfiltered, elevation, o->median));
    return contours ? STAGE(contours, m->space, elevation, contours, o, scratch) : CUS_OK;
}

static cusStatus checkPair(const char *function, const char *argument, const cusMat *image, const cusContourMapper *m) {
    CUS_TRY(cusi_checkMat(function, argument, image));
    CUSI_REQUIRE(image->space == m->space, CUS_ERROR_SPACE, "%s: %s is in %s memory, expected %s like the mapper", function,
                 argument, image->space == CUS_DEVICE ? "device" : "host", m->space == CUS_DEVICE ? "device" : "host");
    CUSI_REQUIRE(image->type == m->type, CUS_ERROR_TYPE, "%s: %s has type %s, expected %s like the mapper", function,
                 argument, cusi_typeName(image->type), cusi_typeName(m->type));
    CUSI_REQUIRE(image->rows == m->rows && image->cols == m->cols, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected %d x %d like the mapper", function, argument, image->rows,
                 image->cols, m->rows, m->cols);
    return CUS_OK;
}

static cusStatus map(const char *function, cusContourMapper *mapper, const cusMat *left, const cusMat *right,
                     cusMat *elevation, cusMat *contours, cusMat *confidence, cusStream stream) {
    CUS_TRY(checkPair(function, "left", left, mapper));
    CUS_TRY(checkPair(function, "right", right, mapper));
    const int rows = mapper->rows, cols = mapper->cols;
    const int type = mapper->options.fill == CUS_FILL_RELAX ? CUS_32FC1 : CUS_16UC1;
    CUS_TRY(cusi_checkOutput(function, "elevation", elevation, rows, cols, type, mapper->space));
    CUS_TRY(cusi_checkNoOverlap(function, "elevation", elevation, "left", left));
    CUS_TRY(cusi_checkNoOverlap(function, "elevation", elevation, "right", right));
    if (contours) {
        CUS_TRY(cusi_checkOutput(function, "contours", contours, rows, cols, CUS_8UC1, mapper->space));
        CUS_TRY(cusi_checkNoOverlap(function, "contours", contours, "left", left));
        CUS_TRY(cusi_checkNoOverlap(function, "contours", contours, "right", right));
        CUSI_REQUIRE(contours != elevation, CUS_ERROR_ALIAS, "%s: contours and elevation are the same matrix", function);
        CUS_TRY(cusi_checkNoOverlap(function, "contours", contours, "elevation", elevation));
    }
    if (confidence) {
        CUSI_REQUIRE(mapper->options.subpixel_bits || mapper->options.min_confidence, CUS_ERROR_VALUE,
                     "%s: confidence is wanted of a mapper with subpixel_bits 0 and min_confidence 0, expected one above 0",
                     function);
        CUS_TRY(cusi_checkOutput(function, "confidence", confidence, rows, cols, CUS_8UC1, mapper->space));
        CUS_TRY(cusi_checkNoOverlap(function, "confidence", confidence, "left", left));
        CUS_TRY(cusi_checkNoOverlap(function, "confidence", confidence, "right", right));
        CUSI_REQUIRE(confidence != elevation && confidence != contours, CUS_ERROR_ALIAS,
                     "%s: confidence and another output are the same matrix", function);
        CUS_TRY(cusi_checkNoOverlap(function, "confidence", confidence, "elevation", elevation));
        if (contours)
            CUS_TRY(cusi_checkNoOverlap(function, "confidence", confidence, "contours", contours));
    }
    CUS_TRY(checkNan(function, "left", left));
    CUS_TRY(checkNan(function, "right", right));
    CUS_TRY(cusMatCreate(elevation, rows, cols, type, mapper->space));
    if (contours)
        CUS_TRY(cusMatCreate(contours, rows, cols, CUS_8UC1, mapper->space));
    if (confidence)
        CUS_TRY(cusMatCreate(confidence, rows, cols, CUS_8UC1, mapper->space));
    return runStages(function, mapper, left, right, elevation, contours, confidence, stream);
}

cusStatus cusContourMap(cusContourMapper *mapper, const cusMat *left, const cusMat *right, cusMat *elevation,
                        cusMat *contours, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusContourMap";
    CUSI_GUARDED(function, mapper, stream,
                 CUSI_LONG(function, map(function, mapper, left, right, elevation, contours, NULL, stream)));
}

cusStatus cusContourMapConfidence(cusContourMapper *mapper, const cusMat *left, const cusMat *right, cusMat *elevation,
                                  cusMat *contours, cusMat *confidence, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusContourMapConfidence";
    CUSI_GUARDED(function, mapper, stream,
                 CUSI_LONG(function, map(function, mapper, left, right, elevation, contours, confidence, stream)));
}

/* Entry points of integral for both backends. */
#include "check.h"
#include "device.h"
#include "guard.h"
#include "host.h"
#include "integral/backend.h"

#include <float.h>
#include <limits.h>
#include <stdlib.h>

struct cusIntegrator {
    int max_rows, max_cols;
    cusSpace space;
    cusMat workspace; /* rows of 1 MiB, since one row may not hold all bytes */
    size_t workspace_bytes;
    CusiGuard guard;
};

cusIntegralOptions cusIntegralDefaults(void) {
    return (cusIntegralOptions){.sum_depth = CUS_32S};
}

static cusStatus checkOptions(const char *function, const cusIntegralOptions *options) {
    CUS_TRY(cusi_checkReserved(function, "options->", options->reserved));
    CUSI_REQUIRE(options->sum_depth == CUS_32S || options->sum_depth == CUS_64F, CUS_ERROR_VALUE,
                 "%s: sum_depth is %d, expected CUS_32S (4) or CUS_64F (6)", function, options->sum_depth);
    CUS_TRY(cusi_checkSwitch(function, "reproducible", options->reproducible));
    CUSI_REQUIRE(options->range == 0 || ((float)options->range > 0 && options->range <= (double)FLT_MAX), CUS_ERROR_VALUE,
                 "%s: range is %g, expected 0 or a float above 0", function, options->range);
    CUSI_REQUIRE(options->range == 0 || options->reproducible, CUS_ERROR_VALUE,
                 "%s: range is %g, expected 0 without reproducible", function, options->range);
    return CUS_OK;
}

/* The images of one call; sum or sqsum may be NULL. */
typedef struct Images {
    int count;
    const cusMat *src;
    cusMat *sum, *sqsum;
    bool is_batch; /* messages name the image */
} Images;

/* Image i of a call, and its names in messages. A single image may be NULL, to which nothing may be added. */
typedef struct Image {
    const cusMat *src;
    cusMat *sum, *sqsum;
    char text[3][CUSI_ITEM_NAME];
    const char *names[3];
} Image;

static void findImage(const Images *images, int i, Image *image) {
    image->src = i ? &images->src[i] : images->src;
    image->sum = images->sum && i ? &images->sum[i] : images->sum;
    image->sqsum = images->sqsum && i ? &images->sqsum[i] : images->sqsum;
    static const char *const names[3] = {"src", "sum", "sqsum"};
    for (int k = 0; k < 3; ++k)
        image->names[k] = images->is_batch ? cusi_itemName(image->text[k], names[k], i) : names[k];
}

static int tableType(const cusMat *src, bool squares, const cusIntegralOptions *options) {
    return CUS_MAKETYPE(squares || CUS_DEPTH(src->type) == CUS_32F ? CUS_64F : options->sum_depth, CUS_CHANNELS(src->type));
}

/* Checks an image. */
static cusStatus check(const char *function, const Image *image, const cusIntegralOptions *options) {
    const cusMat *const src = image->src;
    const cusMat *const sum = image->sum, *const sqsum = image->sqsum;
    const char *const *const names = image->names;
    CUS_TRY(
        cusi_checkInput(function, names[0], src,
                        CUSI_TYPES(CUS_8UC1, CUS_8UC2, CUS_8UC3, CUS_8UC4, CUS_32FC1, CUS_32FC2, CUS_32FC3, CUS_32FC4)));
    CUSI_REQUIRE(sum || sqsum, CUS_ERROR_NULL, "%s: sum and sqsum are both NULL, expected at least one", function);
    CUS_TRY(checkOptions(function, options));
    CUSI_REQUIRE(src->rows < INT_MAX && src->cols < INT_MAX, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected up to 2147483646 each: the table has one more", function,
                 names[0], src->rows, src->cols);
    const int rows = src->rows + 1, cols = src->cols + 1, channels = CUS_CHANNELS(src->type);
    CUSI_REQUIRE((int64_t)src->cols * channels < INT_MAX, CUS_ERROR_SIZE,
                 "%s: %s has %d columns of %d channels, expected up to 2147483646 values in a row", function, names[0],
                 src->cols, channels);
    const cusMat *const tables[2] = {sum, sqsum};
    for (int k = 0; k < 2; ++k)
        if (tables[k]) {
            const int type = tableType(src, k == 1, options);
            CUS_TRY(cusi_checkOutput(function, names[1 + k], tables[k], rows, cols, type, src->space));
            CUS_TRY(cusi_checkNoOverlap(function, names[1 + k], tables[k], names[0], src));
        }
    if (sum && sqsum) {
        CUSI_REQUIRE(sum != sqsum, CUS_ERROR_ALIAS, "%s: %s and %s are the same matrix", function, names[1], names[2]);
        CUS_TRY(cusi_checkNoOverlap(function, names[1], sum, names[2], sqsum));
    }
    return CUS_OK;
}

/* Creates the outputs of images that are checked. */
static cusStatus create(const Images *images, const cusIntegralOptions *options) {
    const cusMat *const src = images->src;
    cusMat *const tables[2] = {images->sum, images->sqsum};
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < images->count && tables[k]; ++i)
            CUS_TRY(cusMatCreate(&tables[k][i], src->rows + 1, src->cols + 1, tableType(src, k == 1, options), src->space));
    return CUS_OK;
}

/* workspace: that of an object, or NULL. */
static IntegralArgs argsFor(const Images *images, const cusIntegralOptions *options, void *workspace, size_t bytes) {
    const bool reproducible = options->reproducible && CUS_DEPTH(images->src->type) == CUS_32F;
    return (IntegralArgs){images->count, images->src,       images->sum,   images->sqsum, workspace,
                          bytes,         workspace != NULL, INTEGRAL_AUTO, reproducible,  (float)options->range};
}

static cusStatus workspaceBytes(const char *function, int rows, int cols, int channels, cusSpace space, size_t *bytes) {
    (void)function; /* unused without CUDA */
    return CUSI_BACKEND(function, space, integral_host_workspace(function, rows, cols, channels, bytes),
                        integral_cuda_workspace(function, rows, cols, channels, bytes));
}

static cusStatus run(const char *function, const IntegralArgs *args, cusStream stream) {
    return CUSI_BACKEND(function, args->src->space, integral_host_run(function, args),
                        integral_cuda_run(function, args, stream));
}

cusStatus cusIntegratorCreate(cusIntegrator **integrator, int max_rows, int max_cols, cusSpace space) {
    CUSI_TRACE;
    static const char function[] = "cusIntegratorCreate";
    enum { ROW = 1 << 20 };
    CUSI_NOT_NULL(function, integrator);
    CUSI_REQUIRE(max_rows > 0 && max_cols > 0 && max_rows < INT_MAX && max_cols < INT_MAX, CUS_ERROR_VALUE,
                 "%s: max_rows x max_cols is %d x %d, expected 1 x 1 up to 2147483646 each", function, max_rows, max_cols);
    CUS_TRY(cusi_checkSpace(function, space));
    size_t bytes = 0;
    for (int channels = 1; channels <= 4 && channels <= max_cols; ++channels) {
        size_t some = 0;
        CUS_TRY(workspaceBytes(function, max_rows, max_cols / channels, channels, space, &some));
        bytes = some > bytes ? some : bytes;
    }
    CUSI_REQUIRE(bytes / ROW < INT_MAX, CUS_ERROR_NO_MEMORY, "%s: the workspace of %zu bytes is larger than any memory",
                 function, bytes);
    cusIntegrator *created = calloc(1, sizeof *created);
    CUSI_REQUIRE(created, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    *created = (cusIntegrator){.max_rows = max_rows, .max_cols = max_cols, .space = space, .workspace_bytes = bytes};
    cusStatus status = cusMatCreate(&created->workspace, (int)(bytes / ROW) + 1, ROW, CUS_8UC1, space);
    if (status == CUS_OK && space == CUS_DEVICE)
        status = cusMatSetZero(&created->workspace, NULL);
    if (status == CUS_OK && space == CUS_DEVICE)
        status = cusi_deviceFinish(function, NULL);
    if (status == CUS_OK)
        status = cusi_guardCreate(function, &created->guard, space);
    if (status != CUS_OK) {
        cusIntegratorDestroy(created);
        return status;
    }
    *integrator = created;
    return CUS_OK;
}

void cusIntegratorDestroy(cusIntegrator *integrator) {
    CUSI_TRACE;
    if (!integrator)
        return;
    cusMatRelease(&integrator->workspace);
    cusi_guardRelease(&integrator->guard);
    free(integrator);
}

/* Checks that an image fits an object. */
static cusStatus checkObject(const char *function, const cusIntegrator *integrator, const Image *image) {
    const cusMat *const src = image->src;
    CUS_TRY(cusi_checkMat(function, image->names[0], src));
    CUSI_REQUIRE(src->space == integrator->space, CUS_ERROR_SPACE,
                 "%s: %s is in %s memory, expected %s like the integrator", function, image->names[0],
                 src->space == CUS_DEVICE ? "device" : "host", integrator->space == CUS_DEVICE ? "device" : "host");
    const int channels = CUS_CHANNELS(src->type);
    CUSI_REQUIRE(
        channels == 1 || (src->rows <= integrator->max_rows && src->cols <= integrator->max_cols / channels),
        CUS_ERROR_SIZE,
        "%s: %s is %d x %d (rows x cols) of %d channels, expected up to %d rows and %d columns times channels, the "
        "maximum of the integrator",
        function, image->names[0], src->rows, src->cols, channels, integrator->max_rows, integrator->max_cols);
    CUSI_REQUIRE(src->rows <= integrator->max_rows && src->cols <= integrator->max_cols, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected up to %d x %d, the maximum of the integrator", function,
                 image->names[0], src->rows, src->cols, integrator->max_rows, integrator->max_cols);
    return CUS_OK;
}

static cusStatus runObject(const char *function, cusIntegrator *integrator, const Images *images,
                           const cusIntegralOptions *options, cusStream stream) {
    const cusIntegralOptions chosen = options ? *options : cusIntegralDefaults();
    Image image;
    for (int i = 0; i < images->count; ++i) {
        findImage(images, i, &image);
        CUS_TRY(checkObject(function, integrator, &image));
        CUS_TRY(check(function, &image, &chosen));
        if (i > 0) {
            CUS_TRY(cusi_checkSameType(function, image.names[0], image.src, "src[0]", images->src));
            CUS_TRY(cusi_checkSameSize(function, image.names[0], image.src, "src[0]", images->src));
        }
    }
    CUS_TRY(create(images, &chosen));
    const IntegralArgs args = argsFor(images, &chosen, integrator->workspace.data, integrator->workspace_bytes);
    return run(function, &args, stream);
}

cusStatus cusIntegratorRun(cusIntegrator *integrator, const cusMat *src, cusMat *sum, cusMat *sqsum,
                           const cusIntegralOptions *options, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusIntegratorRun";
    const Images images = {1, src, sum, sqsum, false};
    CUSI_GUARDED(function, integrator, stream, runObject(function, integrator, &images, options, stream));
}

static cusStatus runBatch(const char *function, cusIntegrator *integrator, const Images *images,
                          const cusIntegralOptions *options, cusStream stream) {
    CUS_TRY(cusi_checkBatch(function, images->count));
    CUSI_NOT_NULL(function, images->src);
    return runObject(function, integrator, images, options, stream);
}

cusStatus cusIntegratorRunBatch(cusIntegrator *integrator, int count, const cusMat *src, cusMat *sum, cusMat *sqsum,
                                const cusIntegralOptions *options, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusIntegratorRunBatch";
    const Images images = {count, src, sum, sqsum, true};
    CUSI_GUARDED(function, integrator, stream, runBatch(function, integrator, &images, options, stream));
}

cusStatus cusIntegral(const cusMat *src, cusMat *sum, cusMat *sqsum, const cusIntegralOptions *options, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusIntegral";
    CUSI_NOT_NULL(function, src);
    CUS_TRY(cusi_checkStream(function, src->space, stream));
    const cusIntegralOptions chosen = options ? *options : cusIntegralDefaults();
    const Images images = {1, src, sum, sqsum, false};
    Image image;
    findImage(&images, 0, &image);
    CUS_TRY(check(function, &image, &chosen));
    CUS_TRY(create(&images, &chosen));
    IntegralArgs args = argsFor(&images, &chosen, NULL, 0);
    CUS_TRY(workspaceBytes(function, src->rows, src->cols, CUS_CHANNELS(src->type), src->space, &args.workspace_bytes));
    if (src->space == CUS_DEVICE) {
        CUS_TRY(cusi_deviceAllocateAsync(function, args.workspace_bytes, &args.workspace, stream));
        const cusStatus status = run(function, &args, stream);
        const cusStatus freed = cusi_deviceFreeAsync(function, args.workspace, stream);
        return status != CUS_OK ? status : freed;
    }
    args.workspace = cusi_hostAllocate(args.workspace_bytes);
    CUSI_REQUIRE(args.workspace, CUS_ERROR_NO_MEMORY, "%s: no host memory for %zu bytes", function, args.workspace_bytes);
    const cusStatus status = run(function, &args, stream);
    free(args.workspace);
    return status;
}

cusStatus cusBoxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusBoxSums";
    CUS_TRY(cusi_checkInput(
        function, "table", table,
        CUSI_TYPES(CUS_32SC1, CUS_32SC2, CUS_32SC3, CUS_32SC4, CUS_64FC1, CUS_64FC2, CUS_64FC3, CUS_64FC4)));
    const int channels = CUS_CHANNELS(table->type), type = CUS_MAKETYPE(CUS_64F, channels);
    CUSI_REQUIRE((int64_t)(table->cols - 1) * channels < INT_MAX, CUS_ERROR_SIZE,
                 "%s: table has %d columns of %d channels, expected up to 2147483646 values in a row but for the first",
                 function, table->cols, channels);
    CUS_TRY(cusi_checkInput(function, "boxes", boxes, CUSI_TYPES(CUS_32SC1)));
    CUS_TRY(cusi_checkSameSpace(function, "boxes", boxes, "table", table));
    CUSI_REQUIRE(boxes->cols == 4, CUS_ERROR_SIZE,
                 "%s: boxes is %d x %d (rows x cols), expected n x 4: x, y, width, height", function, boxes->rows,
                 boxes->cols);
    CUS_TRY(cusi_checkOutput(function, "sums", sums, boxes->rows, 1, type, table->space));
    CUS_TRY(cusi_checkNoOverlap(function, "sums", sums, "table", table));
    CUS_TRY(cusi_checkNoOverlap(function, "sums", sums, "boxes", boxes));
    CUS_TRY(cusi_checkStream(function, table->space, stream));
    CUS_TRY(cusMatCreate(sums, boxes->rows, 1, type, table->space));
    return CUSI_BACKEND(function, table->space, integral_host_boxSums(table, boxes, sums),
                        integral_cuda_boxSums(table, boxes, sums, stream));
}

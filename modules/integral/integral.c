#include "check.h"
#include "host.h"
#include "integral_backend.h"

#include <limits.h>
#include <stdlib.h>

struct cusIntegrator {
    int max_rows, max_cols;
    cusSpace space;
    cusMat workspace; /* 1 x bytes, or rows of 1 MiB where one row cannot hold them */
    size_t workspace_bytes;
};

cusIntegralOptions cusIntegralDefaults(void) {
    return (cusIntegralOptions){.sum_depth = CUS_32S};
}

/* Checks the arguments of an integral and creates its outputs. */
static cusStatus prepare(const char *function, const cusMat *src, cusMat *sum, cusMat *sqsum,
                         const cusIntegralOptions *options) {
    CUS_TRY(cusi_checkInput(function, "src", src, CUSI_TYPES(CUS_8UC1, CUS_32FC1)));
    CUSI_REQUIRE(sum || sqsum, CUS_ERROR_NULL, "%s: sum and sqsum are both NULL, takes at least one", function);
    const int depth = options ? options->sum_depth : cusIntegralDefaults().sum_depth;
    CUSI_REQUIRE(depth == CUS_32S || depth == CUS_64F, CUS_ERROR_VALUE,
                 "%s: sum_depth is %d, takes CUS_32S (4) or CUS_64F (6)", function, depth);
    CUSI_REQUIRE(src->rows < INT_MAX && src->cols < INT_MAX, CUS_ERROR_SIZE,
                 "%s: src is %d x %d (rows x cols), takes up to 2147483646 each, as the table has one more", function,
                 src->rows, src->cols);
    const int rows = src->rows + 1, cols = src->cols + 1;
    const int sum_type = src->type == CUS_32FC1 ? CUS_64FC1 : CUS_MAKETYPE(depth, 1);
    if (sum) {
        CUS_TRY(cusi_checkOutput(function, "sum", sum, rows, cols, sum_type, src->space));
        CUS_TRY(cusi_checkNoOverlap(function, "sum", sum, "src", src));
    }
    if (sqsum) {
        CUS_TRY(cusi_checkOutput(function, "sqsum", sqsum, rows, cols, CUS_64FC1, src->space));
        CUS_TRY(cusi_checkNoOverlap(function, "sqsum", sqsum, "src", src));
    }
    if (sum && sqsum) {
        CUSI_REQUIRE(sum != sqsum, CUS_ERROR_ALIAS, "%s: sum and sqsum are one matrix", function);
        CUS_TRY(cusi_checkNoOverlap(function, "sum", sum, "sqsum", sqsum));
    }
    if (sum)
        CUS_TRY(cusMatCreate(sum, rows, cols, sum_type, src->space));
    if (sqsum)
        CUS_TRY(cusMatCreate(sqsum, rows, cols, CUS_64FC1, src->space));
    return CUS_OK;
}

static cusStatus workspaceBytes(const char *function, int rows, int cols, cusSpace space, size_t *bytes) {
    (void)function; /* a build without CUDA does not look at it here */
    return CUSI_BACKEND(function, space, integral_host_workspace(function, rows, cols, bytes),
                        integral_cuda_workspace(function, rows, cols, bytes));
}

static cusStatus run(const char *function, const IntegralJob *job, cusStream stream) {
    return CUSI_BACKEND(function, job->src->space, integral_host_run(function, job),
                        integral_cuda_run(function, job, stream));
}

cusStatus cusIntegratorCreate(cusIntegrator **integrator, int max_rows, int max_cols, cusSpace space) {
    static const char function[] = "cusIntegratorCreate";
    enum { ROW = 1 << 20 };
    CUSI_NOT_NULL(function, integrator);
    CUSI_REQUIRE(max_rows > 0 && max_cols > 0 && max_rows < INT_MAX && max_cols < INT_MAX, CUS_ERROR_VALUE,
                 "%s: asked for %d x %d (rows x cols), takes 1 x 1 up to 2147483646 each", function, max_rows, max_cols);
    CUS_TRY(cusi_checkSpace(function, space));
    size_t bytes = 0;
    CUS_TRY(workspaceBytes(function, max_rows, max_cols, space, &bytes));
    CUSI_REQUIRE(bytes / ROW < INT_MAX, CUS_ERROR_NO_MEMORY, "%s: %zu bytes are more than any memory", function, bytes);
    cusIntegrator *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    made->max_rows = max_rows;
    made->max_cols = max_cols;
    made->space = space;
    cusStatus status = cusMatCreate(&made->workspace, (int)(bytes / ROW) + 1, ROW, CUS_8UC1, space);
    if (status == CUS_OK && space == CUS_DEVICE)
        status = cusMatSetZero(&made->workspace, NULL);
    if (status == CUS_OK && space == CUS_DEVICE)
        status = cusStreamSynchronize(NULL);
    if (status != CUS_OK) {
        cusIntegratorDestroy(made);
        return status;
    }
    made->workspace_bytes = bytes;
    *integrator = made;
    return CUS_OK;
}

void cusIntegratorDestroy(cusIntegrator *integrator) {
    if (!integrator)
        return;
    cusMatRelease(&integrator->workspace);
    free(integrator);
}

cusStatus cusIntegratorRun(cusIntegrator *integrator, const cusMat *src, cusMat *sum, cusMat *sqsum,
                           const cusIntegralOptions *options, cusStream stream) {
    static const char function[] = "cusIntegratorRun";
    CUSI_NOT_NULL(function, integrator);
    CUS_TRY(cusi_checkMat(function, "src", src));
    CUSI_REQUIRE(src->space == integrator->space, CUS_ERROR_SPACE, "%s: src is in %s memory, takes %s as the integrator",
                 function, src->space == CUS_DEVICE ? "device" : "host",
                 integrator->space == CUS_DEVICE ? "device" : "host");
    CUSI_REQUIRE(src->rows <= integrator->max_rows && src->cols <= integrator->max_cols, CUS_ERROR_SIZE,
                 "%s: src is %d x %d (rows x cols), takes up to %d x %d as the integrator was created for", function,
                 src->rows, src->cols, integrator->max_rows, integrator->max_cols);
    CUS_TRY(prepare(function, src, sum, sqsum, options));
    const IntegralJob job = {
        src, sum, sqsum, integrator->workspace.data, integrator->workspace_bytes, true, INTEGRAL_CHOSEN};
    return run(function, &job, stream);
}

cusStatus cusIntegral(const cusMat *src, cusMat *sum, cusMat *sqsum, const cusIntegralOptions *options, cusStream stream) {
    static const char function[] = "cusIntegral";
    CUS_TRY(prepare(function, src, sum, sqsum, options));
    IntegralJob job = {src, sum, sqsum, NULL, 0, false, INTEGRAL_CHOSEN};
    CUS_TRY(workspaceBytes(function, src->rows, src->cols, src->space, &job.workspace_bytes));
#ifdef CUSI_WITH_CUDA
    if (src->space == CUS_DEVICE) {
        CUS_TRY(integral_cuda_allocate(function, job.workspace_bytes, &job.workspace, stream));
        const cusStatus status = run(function, &job, stream);
        const cusStatus freed = integral_cuda_free(function, job.workspace, stream);
        return status != CUS_OK ? status : freed;
    }
#endif
    job.workspace = cusi_hostAllocate(job.workspace_bytes);
    CUSI_REQUIRE(job.workspace, CUS_ERROR_NO_MEMORY, "%s: no host memory for %zu bytes", function, job.workspace_bytes);
    const cusStatus status = run(function, &job, stream);
    free(job.workspace);
    return status;
}

cusStatus cusBoxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream) {
    static const char function[] = "cusBoxSums";
    CUS_TRY(cusi_checkInput(function, "table", table, CUSI_TYPES(CUS_32SC1, CUS_64FC1)));
    CUS_TRY(cusi_checkInput(function, "boxes", boxes, CUSI_TYPES(CUS_32SC1)));
    CUS_TRY(cusi_checkSameSpace(function, "boxes", boxes, "table", table));
    CUSI_REQUIRE(boxes->cols == 4, CUS_ERROR_SIZE, "%s: boxes is %d x %d (rows x cols), takes n x 4: x, y, width, height",
                 function, boxes->rows, boxes->cols);
    CUS_TRY(cusi_checkOutput(function, "sums", sums, boxes->rows, 1, CUS_64FC1, table->space));
    CUS_TRY(cusi_checkNoOverlap(function, "sums", sums, "table", table));
    CUS_TRY(cusi_checkNoOverlap(function, "sums", sums, "boxes", boxes));
    CUS_TRY(cusMatCreate(sums, boxes->rows, 1, CUS_64FC1, table->space));
    return CUSI_BACKEND(function, table->space, integral_host_boxSums(table, boxes, sums),
                        integral_cuda_boxSums(table, boxes, sums, stream));
}

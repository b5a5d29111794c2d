/* Entry point of hsv, for both backends. */
#include "check.h"
#include "guard.h"
#include "hsv.h"

cusStatus cusHsvCount(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask, cusStream stream) {
    CUSI_TRACE;
    const char *f = "cusHsvCount";
    CUS_TRY(cusi_checkInput(f, "src", src, CUSI_TYPES(CUS_8UC3)));
    CUS_TRY(cusi_checkHsvRange(f, range));
    CUSI_REQUIRE((uint64_t)src->rows * (uint64_t)src->cols <= UINT32_MAX, CUS_ERROR_SIZE,
                 "%s: src is %d x %d (rows x cols), expected at most 2^32 - 1 pixels", f, src->rows, src->cols);
    CUS_TRY(cusi_checkOutput(f, "count", count, 1, 1, CUS_32SC1, src->space));
    CUS_TRY(cusi_checkNoOverlap(f, "count", count, "src", src));
    CUS_TRY(cusi_checkStream(f, src->space, stream));
    if (mask) {
        CUS_TRY(cusi_checkOutput(f, "mask", mask, src->rows, src->cols, CUS_8UC1, src->space));
        CUS_TRY(cusi_checkNoOverlap(f, "mask", mask, "src", src));
        CUS_TRY(cusi_checkNoOverlap(f, "mask", mask, "count", count));
        CUS_TRY(cusMatCreate(mask, src->rows, src->cols, CUS_8UC1, src->space));
    }
    CUS_TRY(cusMatCreate(count, 1, 1, CUS_32SC1, src->space));
    return CUSI_BACKEND(f, src->space, (hsv_host_count(src, range, count, mask), CUS_OK),
                        hsv_cuda_count(src, range, count, mask, stream));
}

#include "remap/backend.h"
#include "check.h"
#include "guard.h"

#define IMAGE_TYPES CUSI_TYPES(CUS_8UC1, CUS_8UC2, CUS_8UC3, CUS_8UC4, CUS_32FC1, CUS_32FC2, CUS_32FC3, CUS_32FC4)

cusStatus cusRemap(const cusMat *src, const cusMat *map, cusMat *dst, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusRemap";
    CUS_TRY(cusi_checkInput(function, "src", src, IMAGE_TYPES));
    CUS_TRY(cusi_checkInput(function, "map", map, CUSI_TYPES(CUS_32FC2)));
    CUS_TRY(cusi_checkSameSpace(function, "map", map, "src", src));
    CUSI_REQUIRE(src->rows <= CUS_REMAP_MAX_SIDE && src->cols <= CUS_REMAP_MAX_SIDE, CUS_ERROR_SIZE,
                 "%s: src is %d x %d (rows x cols), expected at most %d of each", function, src->rows, src->cols,
                 CUS_REMAP_MAX_SIDE);
    CUS_TRY(cusi_checkSides(function, "map", map->rows, map->cols));
    CUS_TRY(cusi_checkOutput(function, "dst", dst, map->rows, map->cols, src->type, src->space));
    CUS_TRY(cusi_checkNoOverlap(function, "dst", dst, "src", src));
    CUS_TRY(cusi_checkNoOverlap(function, "dst", dst, "map", map));
    CUS_TRY(cusi_checkStream(function, src->space, stream));
    CUS_TRY(cusMatCreate(dst, map->rows, map->cols, src->type, src->space));
    return CUSI_BACKEND(function, src->space, (remap_host_remap(src, map, dst), CUS_OK),
                        remap_cuda_remap(src, map, dst, stream));
}

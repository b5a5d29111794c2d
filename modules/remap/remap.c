#include "remap/backend.h"
#include "check.h"
#include "guard.h"

#define IMAGE_TYPES CUSI_TYPES(CUS_8UC1, CUS_8UC2, CUS_8UC3, CUS_8UC4, CUS_32FC1, CUS_32FC2, CUS_32FC3, CUS_32FC4)

/* Checks an image; names: of src, map and dst in messages. */
static cusStatus checkImage(const char *function, const char *const names[3], const cusMat *src, const cusMat *map,
                            const cusMat *dst) {
    CUS_TRY(cusi_checkInput(function, names[0], src, IMAGE_TYPES));
    CUS_TRY(cusi_checkInput(function, names[1], map, CUSI_TYPES(CUS_32FC2)));
    CUS_TRY(cusi_checkSameSpace(function, names[1], map, names[0], src));
    CUSI_REQUIRE(src->rows <= CUS_REMAP_MAX_SIDE && src->cols <= CUS_REMAP_MAX_SIDE, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected at most %d of each", function, names[0], src->rows, src->cols,
                 CUS_REMAP_MAX_SIDE);
    CUS_TRY(cusi_checkSides(function, names[1], map->rows, map->cols));
    CUS_TRY(cusi_checkOutput(function, names[2], dst, map->rows, map->cols, src->type, src->space));
    CUS_TRY(cusi_checkNoOverlap(function, names[2], dst, names[0], src));
    return cusi_checkNoOverlap(function, names[2], dst, names[1], map);
}

/* All images are checked. */
static cusStatus run(const char *function, int count, const cusMat *src, const cusMat *map, cusMat *dst, cusStream stream) {
    CUS_TRY(cusi_checkStream(function, src->space, stream));
    for (int i = 0; i < count; ++i)
        CUS_TRY(cusMatCreate(&dst[i], map->rows, map->cols, src->type, src->space));
    return CUSI_BACKEND(function, src->space, (remap_host_remap(count, src, map, dst), CUS_OK),
                        remap_cuda_remap(function, count, src, map, dst, stream));
}

cusStatus cusRemap(const cusMat *src, const cusMat *map, cusMat *dst, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusRemap";
    CUS_TRY(checkImage(function, (const char *const[]){"src", "map", "dst"}, src, map, dst));
    return run(function, 1, src, map, dst, stream);
}

cusStatus cusRemapBatch(int count, const cusMat *src, const cusMat *map, cusMat *dst, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusRemapBatch";
    CUS_TRY(cusi_checkBatch(function, count));
    CUSI_NOT_NULL(function, src);
    CUSI_NOT_NULL(function, map);
    CUSI_NOT_NULL(function, dst);
    for (int i = 0; i < count; ++i) {
        char text[3][CUSI_ITEM_NAME];
        const char *const names[3] = {cusi_itemName(text[0], "src", i), cusi_itemName(text[1], "map", i),
                                      cusi_itemName(text[2], "dst", i)};
        CUS_TRY(checkImage(function, names, &src[i], &map[i], &dst[i]));
        CUS_TRY(cusi_checkSameSpace(function, names[0], &src[i], "src[0]", src));
        CUS_TRY(cusi_checkSameType(function, names[0], &src[i], "src[0]", src));
        CUS_TRY(cusi_checkSameSize(function, names[0], &src[i], "src[0]", src));
        CUS_TRY(cusi_checkSameSize(function, names[1], &map[i], "map[0]", map));
    }
    return run(function, count, src, map, dst, stream);
}

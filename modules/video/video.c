/* Entry points of video, for both backends. */
#include "check.h"
#include "guard.h"
#include "video/backend.h"

cusYuvOptions cusYuvDefaults(void) {
    return (cusYuvOptions){.matrix = CUS_YUV_BT601};
}

static cusStatus checkOptions(const char *function, const cusYuvOptions *o, const cusMat *y) {
    CUS_TRY(cusi_checkReserved(function, "options->", o->reserved));
    CUSI_REQUIRE((unsigned)o->matrix <= CUS_YUV_BT2020, CUS_ERROR_VALUE, "%s: matrix is %d, expected 0..%d", function,
                 (int)o->matrix, CUS_YUV_BT2020);
    CUSI_REQUIRE((unsigned)o->siting <= CUS_YUV_TOP, CUS_ERROR_VALUE, "%s: siting is %d, expected 0..%d", function,
                 (int)o->siting, CUS_YUV_TOP);
    CUS_TRY(cusi_checkSwitch(function, "full_range", o->full_range));
    CUS_TRY(cusi_checkSwitch(function, "low_bits", o->low_bits));
    CUSI_REQUIRE(!o->low_bits || y->type == CUS_16UC1, CUS_ERROR_VALUE, "%s: low_bits is 1, expected 0 for y of type %s",
                 function, cusi_typeName(y->type));
    return CUS_OK;
}

static cusStatus checkLuma(const char *function, const cusMat *y, const cusYuvOptions *options) {
    CUS_TRY(cusi_checkInput(function, "y", y, CUSI_TYPES(CUS_8UC1, CUS_16UC1)));
    CUS_TRY(cusi_checkSides(function, "y", y->rows, y->cols));
    return checkOptions(function, options, y);
}

static cusStatus checkChroma(const char *function, const char *name, const cusMat *plane, int type, const cusMat *y) {
    CUS_TRY(cusi_checkInput(function, name, plane, CUSI_TYPES(type)));
    CUS_TRY(cusi_checkSameSpace(function, name, plane, "y", y));
    const int rows = (y->rows + 1) / 2, cols = (y->cols + 1) / 2;
    CUSI_REQUIRE(plane->rows == rows && plane->cols == cols, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected %d x %d for y of %d x %d", function, name, plane->rows,
                 plane->cols, rows, cols, y->rows, y->cols);
    return CUS_OK;
}

static int scaled(double coefficient) {
    return (int)(coefficient * 8192 + (coefficient < 0 ? -0.5 : 0.5));
}

static VideoModel modelOf(const cusYuvOptions *o, const cusMat *y) {
    static const double kr_of[] = {0.299, 0.2126, 0.2627}, kb_of[] = {0.114, 0.0722, 0.0593};
    const double kr = kr_of[o->matrix], kb = kb_of[o->matrix], kg = 1 - kr - kb;
    const int ten = y->type == CUS_16UC1, n = ten ? 4 : 1;
    const double luma = o->full_range ? 255.0 * n / (256 * n - 1) : 255.0 / 219;
    const double chroma = o->full_range ? luma : 255.0 / 224;
    const int between_cols = o->siting % 2, between_rows = o->siting < 2;
    return (VideoModel){.luma = scaled(luma),
                        .red_v = scaled(2 * (1 - kr) * chroma),
                        .green_u = scaled(-2 * (1 - kb) * kb / kg * chroma),
                        .green_v = scaled(-2 * (1 - kr) * kr / kg * chroma),
                        .blue_u = scaled(2 * (1 - kb) * chroma),
                        .black = o->full_range ? 0 : 16 * n,
                        .neutral = 2048 * n,
                        .shift = ten ? 19 : 17,
                        .round = ten ? 1 << 18 : 1 << 16,
                        .right_shift = ten && !o->low_bits ? 6 : 0,
                        .mask = ten ? 1023 : 255,
                        .even = {between_cols, 4 - between_cols},
                        .odd = {2 + between_cols, 2 - between_cols},
                        .even_row = {between_rows, 4 - between_rows},
                        .odd_row = {2 + between_rows, 2 - between_rows}};
}

cusStatus cusYuvToBgr(const cusMat *y, const cusMat *u, const cusMat *v, const cusYuvOptions *options, cusMat *bgr,
                      cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusYuvToBgr";
    const cusYuvOptions chosen = options ? *options : cusYuvDefaults();
    CUS_TRY(checkLuma(function, y, &chosen));
    const int depth = CUS_DEPTH(y->type);
    CUS_TRY(checkChroma(function, "u", u, CUS_MAKETYPE(depth, v ? 1 : 2), y));
    if (v)
        CUS_TRY(checkChroma(function, "v", v, CUS_MAKETYPE(depth, 1), y));
    CUS_TRY(cusi_checkOutput(function, "bgr", bgr, y->rows, y->cols, CUS_8UC3, y->space));
    CUS_TRY(cusi_checkNoOverlap(function, "bgr", bgr, "y", y));
    CUS_TRY(cusi_checkNoOverlap(function, "bgr", bgr, "u", u));
    if (v)
        CUS_TRY(cusi_checkNoOverlap(function, "bgr", bgr, "v", v));
    CUS_TRY(cusi_checkStream(function, y->space, stream));
    CUS_TRY(cusMatCreate(bgr, y->rows, y->cols, CUS_8UC3, y->space));
    const VideoPlanes planes = {y, u, v};
    const VideoModel model = modelOf(&chosen, y);
    return CUSI_BACKEND(function, y->space, (video_host_bgr(&planes, &model, bgr), CUS_OK),
                        video_cuda_bgr(&planes, &model, bgr, stream));
}

cusStatus cusYuvToGray(const cusMat *y, const cusYuvOptions *options, cusMat *gray, cusStream stream) {
    CUSI_TRACE;
    static const char function[] = "cusYuvToGray";
    const cusYuvOptions chosen = options ? *options : cusYuvDefaults();
    CUS_TRY(checkLuma(function, y, &chosen));
    CUS_TRY(cusi_checkOutput(function, "gray", gray, y->rows, y->cols, CUS_8UC1, y->space));
    CUS_TRY(cusi_checkNoOverlap(function, "gray", gray, "y", y));
    CUS_TRY(cusi_checkStream(function, y->space, stream));
    CUS_TRY(cusMatCreate(gray, y->rows, y->cols, CUS_8UC1, y->space));
    const VideoModel model = modelOf(&chosen, y);
    return CUSI_BACKEND(function, y->space, (video_host_gray(y, &model, gray), CUS_OK),
                        video_cuda_gray(y, &model, gray, stream));
}

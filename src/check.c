/* Argument checks: see check.h. */
#include "check.h"
#include "guard.h"

#include <stdio.h>
#include <string.h>

static const char *spaceName(cusSpace space) {
    return space == CUS_DEVICE ? "CUS_DEVICE" : "CUS_HOST";
}

size_t cusTypeSize(int type) {
    static const unsigned char bytes[8] = {1, 1, 2, 2, 4, 4, 8, 2};
    if (type < 0 || type > CUS_MAKETYPE(CUS_16F, 512))
        return 0;
    return (size_t)bytes[CUS_DEPTH(type)] * (size_t)CUS_CHANNELS(type);
}

const char *cusi_typeName(int type) {
    static const char *const depths[8] = {"8U", "8S", "16U", "16S", "32S", "32F", "64F", "16F"};
    static _Thread_local char names[8][24];
    static _Thread_local unsigned next;
    char *name = names[next++ % 8];
    if (cusTypeSize(type))
        snprintf(name, sizeof names[0], "%sC%d", depths[CUS_DEPTH(type)], CUS_CHANNELS(type));
    else
        snprintf(name, sizeof names[0], "%d (invalid)", type);
    return name;
}

cusStatus cusi_checkFields(const char *function, const char *argument, const cusMat *mat) {
    CUSI_REQUIRE(mat, CUS_ERROR_NULL, "%s: %s is NULL", function, argument);
    CUSI_REQUIRE(mat->data, CUS_ERROR_NULL, "%s: %s is an empty matrix", function, argument);
    CUSI_REQUIRE(cusTypeSize(mat->type), CUS_ERROR_TYPE, "%s: %s has type %s", function, argument,
                 cusi_typeName(mat->type));
    CUSI_REQUIRE(mat->space == CUS_HOST || mat->space == CUS_DEVICE, CUS_ERROR_SPACE,
                 "%s: %s is in space %d, expected CUS_HOST or CUS_DEVICE", function, argument, (int)mat->space);
    CUSI_REQUIRE(mat->rows > 0 && mat->cols > 0, CUS_ERROR_SIZE, "%s: %s is %d x %d (rows x cols), expected at least 1 x 1",
                 function, argument, mat->rows, mat->cols);
    CUSI_REQUIRE(mat->rows == 1 || mat->step >= cusi_rowBytes(mat), CUS_ERROR_SIZE,
                 "%s: %s has a step of %zu bytes, expected at least %zu (one row)", function, argument, mat->step,
                 cusi_rowBytes(mat));
    CUSI_REQUIRE(mat->rows == 1 || mat->step <= (size_t)PTRDIFF_MAX / (size_t)mat->rows, CUS_ERROR_SIZE,
                 "%s: %s has a step of %td bytes, expected %zu (one row) to %td", function, argument, (ptrdiff_t)mat->step,
                 cusi_rowBytes(mat), PTRDIFF_MAX / mat->rows);
    const size_t unit = cusTypeSize(CUS_DEPTH(mat->type)), step = mat->rows > 1 ? mat->step : 0;
    CUSI_REQUIRE((((uintptr_t)mat->data | step) & (unit - 1)) == 0, CUS_ERROR_VALUE,
                 "%s: %s has data at %p and a step of %zu bytes, expected multiples of %zu for type %s", function, argument,
                 mat->data, mat->step, unit, cusi_typeName(mat->type));
    return CUS_OK;
}

cusStatus cusi_checkZeros(const char *function, const char *owner, const uint64_t *reserved, size_t count) {
    for (size_t i = 0; i < count; ++i)
        CUSI_REQUIRE(reserved[i] == 0, CUS_ERROR_VALUE,
                     "%s: %sreserved[%zu] is %llu, expected 0 (an option of a later version?)", function, owner, i,
                     (unsigned long long)reserved[i]);
    return CUS_OK;
}

cusStatus cusi_checkSwitch(const char *function, const char *name, int value) {
    CUSI_REQUIRE(value == 0 || value == 1, CUS_ERROR_VALUE, "%s: %s is %d, expected 0 or 1", function, name, value);
    return CUS_OK;
}

cusStatus cusi_checkMat(const char *function, const char *argument, const cusMat *mat) {
    CUS_TRY(cusi_checkFields(function, argument, mat));
    return mat->space == CUS_DEVICE ? cusi_checkDeviceMemory(function, argument, mat->data) : CUS_OK;
}

cusStatus cusi_checkInput(const char *function, const char *argument, const cusMat *mat, const int *types) {
    CUS_TRY(cusi_checkMat(function, argument, mat));
    char accepted[200] = "";
    size_t used = 0;
    for (int i = 0; types[i] >= 0; ++i) {
        if (mat->type == types[i])
            return CUS_OK;
        const char *separator = i == 0 ? "" : types[i + 1] >= 0 ? ", " : " or ";
        const int n = snprintf(accepted + used, sizeof accepted - used, "%s%s", separator, cusi_typeName(types[i]));
        if (n > 0 && used + (size_t)n < sizeof accepted)
            used += (size_t)n;
    }
    return cusi_fail(CUS_ERROR_TYPE, "%s: %s has type %s, expected %s", function, argument, cusi_typeName(mat->type),
                     accepted);
}

cusStatus cusi_checkBatch(const char *function, int count) {
    CUSI_REQUIRE(count >= 1 && count <= CUS_MAX_BATCH, CUS_ERROR_VALUE, "%s: count is %d, expected 1..%d", function, count,
                 CUS_MAX_BATCH);
    return CUS_OK;
}

const char *cusi_itemName(char name[CUSI_ITEM_NAME], const char *argument, int index) {
    int length = 0;
    while (*argument)
        name[length++] = *argument++;
    name[length++] = '[';
    for (int place = index >= 1000 ? 1000 : index >= 100 ? 100 : index >= 10 ? 10 : 1; place > 0; place /= 10)
        name[length++] = (char)('0' + index / place % 10);
    memcpy(name + length, "]", 2);
    return name;
}

cusStatus cusi_checkSides(const char *function, const char *argument, int rows, int cols) {
    enum { MAX_SIDE = 1 << 30 };
    CUSI_REQUIRE(rows <= MAX_SIDE && cols <= MAX_SIDE, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected at most %d each", function, argument, rows, cols, MAX_SIDE);
    return CUS_OK;
}

cusStatus cusi_checkSameSize(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                             const cusMat *other) {
    CUSI_REQUIRE(mat->rows == other->rows && mat->cols == other->cols, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected %d x %d like %s", function, argument, mat->rows, mat->cols,
                 other->rows, other->cols, other_argument);
    return CUS_OK;
}

cusStatus cusi_checkSameType(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                             const cusMat *other) {
    CUSI_REQUIRE(mat->type == other->type, CUS_ERROR_TYPE, "%s: %s has type %s, expected %s like %s", function, argument,
                 cusi_typeName(mat->type), cusi_typeName(other->type), other_argument);
    return CUS_OK;
}

cusStatus cusi_checkSameSpace(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                              const cusMat *other) {
    CUSI_REQUIRE(mat->space == other->space, CUS_ERROR_SPACE, "%s: %s is in %s, expected %s like %s", function, argument,
                 spaceName(mat->space), spaceName(other->space), other_argument);
    return CUS_OK;
}

cusStatus cusi_checkOutput(const char *function, const char *argument, const cusMat *mat, int rows, int cols, int type,
                           cusSpace space) {
    CUSI_REQUIRE(mat, CUS_ERROR_NULL, "%s: %s is NULL", function, argument);
    if (!mat->data)
        return CUS_OK;
    CUS_TRY(cusi_checkMat(function, argument, mat));
    CUSI_REQUIRE(mat->space == space, CUS_ERROR_SPACE, "%s: %s is in %s, expected %s like the inputs", function, argument,
                 spaceName(mat->space), spaceName(space));
    CUSI_REQUIRE(mat->owned || cusi_fits(mat, rows, cols, type, space), CUS_ERROR_SIZE,
                 "%s: %s does not own its memory and is %d x %d (rows x cols) %s, expected %d x %d %s", function, argument,
                 mat->rows, mat->cols, cusi_typeName(mat->type), rows, cols, cusi_typeName(type));
    return CUS_OK;
}

cusStatus cusi_checkNoOverlap(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                              const cusMat *other) {
    if (!mat->data || !other->data)
        return CUS_OK;
    const uintptr_t a = (uintptr_t)mat->data, b = (uintptr_t)other->data;
    const uintptr_t a_end = a + (uintptr_t)(mat->rows - 1) * mat->step + cusi_rowBytes(mat);
    const uintptr_t b_end = b + (uintptr_t)(other->rows - 1) * other->step + cusi_rowBytes(other);
    int overlap = a < b_end && b < a_end;
    /* Two regions side by side in one image interleave without sharing a byte. */
    if (overlap && mat->step == other->step && mat->rows > 1 && other->rows > 1) {
        const size_t step = mat->step;
        const size_t distance = a > b ? (a - b) % step : (step - (b - a) % step) % step; /* column of a relative to b */
        overlap = distance < cusi_rowBytes(other) || distance + cusi_rowBytes(mat) > step;
    }
    CUSI_REQUIRE(!overlap, CUS_ERROR_ALIAS, "%s: %s overlaps %s", function, argument, other_argument);
    return CUS_OK;
}

cusStatus cusi_checkSpace(const char *function, cusSpace space) {
    CUSI_REQUIRE(space == CUS_HOST || space == CUS_DEVICE, CUS_ERROR_VALUE,
                 "%s: space is %d, expected CUS_HOST or CUS_DEVICE", function, (int)space);
    return CUS_OK;
}

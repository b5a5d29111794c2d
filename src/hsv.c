/* Checks HSV ranges: see hsv.h. */
#include "hsv.h"

#include "check.h"

cusStatus cusi_checkHsvRange(const char *function, const cusHsvRange *range) {
    CUSI_NOT_NULL(function, range);
    CUSI_REQUIRE(range->lower[0] < 180 && range->upper[0] < 180, CUS_ERROR_VALUE,
                 "%s: range has hues %d..%d, expected 0..179", function, range->lower[0], range->upper[0]);
    for (int c = 1; c < 3; ++c)
        CUSI_REQUIRE(range->lower[c] <= range->upper[c], CUS_ERROR_VALUE,
                     "%s: range has %s %d..%d, expected lower <= upper", function, c == 1 ? "saturations" : "values",
                     range->lower[c], range->upper[c]);
    return CUS_OK;
}

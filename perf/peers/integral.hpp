// The published way of the integral image, written plainly: rows are scanned with warp shuffles, the result is transposed,
// its rows are scanned and transposed back.
#pragma once

#include "cusight/core.h"

namespace peers {

// src: 8UC1; sum, turned: 32SC1 of the size of src and of its transpose, tight. The table has no row and column of zeros.
void publishedIntegral(const cusMat &src, cusMat &sum, cusMat &turned, cusStream stream);

} // namespace peers

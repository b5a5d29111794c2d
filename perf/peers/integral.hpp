// The textbook integral image on a GPU: scan the rows with warp shuffles, transpose, scan the rows again, transpose back.
#pragma once

#include "cusight/core.h"

namespace peers {

// src: 8UC1; sum, transposed: 32SC1 of the size of src and of its transpose, without padding. The table has no leading row
// and column of zeros.
void publishedIntegral(const cusMat &src, cusMat &sum, cusMat &transposed, cusStream stream);

} // namespace peers

// cusight/cusight.hpp: every C++ class of the library. C++17, header-only, exceptions; needs no OpenCV (opencv.hpp adds
// it).
//
//   cusight::Matcher matcher(templ, frame.rows(), frame.cols());
//   matcher.run(frame, stream);
//   const cusMatch best = matcher.best(stream);
#ifndef CUSIGHT_HPP
#define CUSIGHT_HPP

#include "algorithms.hpp"
#include "cusight.h"
#include "live.hpp"
#include "matrix.hpp"
#include "recordings.hpp"

#endif // CUSIGHT_HPP

// cusight/opencv.hpp: cv::Mat, cv::cuda::GpuMat and cv::cuda::Stream in and out, without copying.
//
//   cv::cuda::GpuMat table;
//   cusight::cuda::integral(image, table, stream);              // as cv::cuda::integral: opencv_cuda.hpp
//
//   cusight::Matcher matcher(templ, frame.rows, frame.cols);    // the classes of cusight.hpp take OpenCV's types
//   matcher.run(frame, scores, stream);
//
//   cusMat p = cusight::view(prev), c = cusight::view(cur), m = cusight::view(map); // for the C interface
//   cusight::check(cusHeatmap(&p, &c, &m, nullptr, nullptr));
//
// A view owns nothing: keep the OpenCV matrix alive while it is used, and never release the view's memory.
// cv::Mat corresponds to host matrices, cv::cuda::GpuMat to device matrices; steps have the same values in both, and types with
// OpenCV 4.
// OpenCV 4.5 or later; one that was built without CUDA will do, with GpuMat around memory from elsewhere. docs/opencv.md
// maps the functions of cv::cuda to these.
#ifndef CUSIGHT_OPENCV_HPP
#define CUSIGHT_OPENCV_HPP

#include "opencv_cuda.hpp"
#include "opencv_types.hpp"

#endif // CUSIGHT_OPENCV_HPP

// SSD matching on the GPU as published, implemented plainly, and cuFFT alone.
#pragma once

#include "cusight/core.h"

#include <cstddef>

namespace peers {

// Frame and template are padded to the sum of their sizes; both are transformed in every frame, multiplied, and transformed
// back. Integral image of squares in float, one thread a row, then one thread a column. One kernel for the scores; no best match.
class PublishedMatch {
  public:
    PublishedMatch(int rows, int cols, int h, int w);
    ~PublishedMatch();
    PublishedMatch(const PublishedMatch &) = delete;
    PublishedMatch &operator=(const PublishedMatch &) = delete;
    void run(const cusMat &frame, const cusMat &templ, cusStream stream);

  private:
    int rows_, cols_, h_, w_, fft_rows_, fft_cols_;
    int forward_ = 0, inverse_ = 0;
    float *planes_ = nullptr, *integral_ = nullptr, *scores_ = nullptr;
    void *spectra_ = nullptr;
};

// One real transform and its inverse, at the frame's own size.
class PlainFft {
  public:
    PlainFft(int rows, int cols);
    ~PlainFft();
    PlainFft(const PlainFft &) = delete;
    PlainFft &operator=(const PlainFft &) = delete;
    void run(cusStream stream);

  private:
    int forward_ = 0, inverse_ = 0;
    float *plane_ = nullptr;
    void *spectrum_ = nullptr;
};

} // namespace peers

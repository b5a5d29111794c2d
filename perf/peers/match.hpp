// SSD matching on the GPU as published, and cuFFT alone.
#pragma once

#include "cusight/core.h"

#include <cstddef>

namespace peers {

// The next even size whose only prime factors are 2, 3, 5 and 7.
int goodFftSize(int n);

// The best published form. Whatever can be is made once: memory, plans, the template's spectrum and sum of squares. A frame
// is padded by the template to a size that cuFFT likes, transformed, multiplied and transformed back. Squared rows get
// block-wise prefix sums and are transposed, twice. One kernel computes the scores. No best match.
class PublishedMatch {
  public:
    PublishedMatch(int rows, int cols, const cusMat &templ);
    ~PublishedMatch();
    PublishedMatch(const PublishedMatch &) = delete;
    PublishedMatch &operator=(const PublishedMatch &) = delete;
    void run(const cusMat &frame, cusStream stream);
    // (rows - h + 1) x (cols - w + 1) floats, without padding.
    const float *scores() const { return scores_; }

  private:
    int rows_, cols_, h_, w_, fft_rows_, fft_cols_;
    int forward_ = 0, inverse_ = 0;
    cusStream stream_ = nullptr;
    size_t spectrum_size_ = 0;
    float *plane_ = nullptr, *correlation_ = nullptr, *integral_ = nullptr, *transposed_ = nullptr, *scores_ = nullptr,
          *t2_ = nullptr;
    void *spectrum_ = nullptr, *template_spectrum_ = nullptr;
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

// All positions of a pose at once, by cuFFT in double. docs/internals/pose.md has why the sums are exact.
#ifndef CUSI_POSE_TRANSFORMS_CUH
#define CUSI_POSE_TRANSFORMS_CUH

#include "pose/cuda/field.cuh"

#include <cufft.h>

#include <cstddef>

namespace cusi::pose {

class Transforms {
  public:
    Transforms(const Field &field, double most_pixels);
    ~Transforms();
    Transforms(const Transforms &) = delete;
    Transforms &operator=(const Transforms &) = delete;

    // Whether rounding surely stays below one half, and the memory is not too much.
    bool areExact() const { return are_exact_; }
    // What a pose takes, in loads of the search (Field::loads).
    double loadsOfPose() const;
    // Allocates what is needed, unless it is there. False if that fails, for want of memory or of cuFFT.
    bool create(const char *function);
    // The next search is in another frame.
    void forget() { has_frame_ = false; }
    // Offers the best values of `count` poses, which are in device memory.
    cusStatus run(const char *function, const Field &field, const int *poses, int count, cudaStream_t stream);

  private:
    struct Plan {
        cufftHandle handle = 0;
        bool exists = false;
    };
    size_t points() const { return static_cast<size_t>(rows_) * cols_; }
    size_t spectrum() const { return static_cast<size_t>(rows_) * (cols_ / 2 + 1); }
    bool makePlan(Plan &plan, cufftType type, int planes, size_t *work);
    template<class T>
    bool allocate(const char *function, T **memory, size_t count);
    void release();
    cusStatus transformFrame(const char *function, const Field &field, cudaStream_t stream);

    int rows_, cols_, sums_, batch_ = 1;
    bool are_exact_, is_created_ = false, has_frame_ = false;
    Plan forward_, inverse_;
    double *planes_ = nullptr;                                                       // of a batch: templates, then sums
    cufftDoubleComplex *spectra_ = nullptr, *products_ = nullptr, *frame_ = nullptr; // frame_: of I^2, then of I or -2 I
    char *work_ = nullptr;
};

} // namespace cusi::pose

#endif

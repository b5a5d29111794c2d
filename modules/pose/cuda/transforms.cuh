// All positions of a pose at once, by cuFFT in double. docs/internals/pose.md shows that the sums are exact.
#ifndef CUSI_POSE_TRANSFORMS_CUH
#define CUSI_POSE_TRANSFORMS_CUH

#include "arena.cuh"
#include "pose/cuda/field.cuh"

#include "cusight/integral.h"

#include <cufft.h>

#include <cstddef>

namespace cusi::pose {

// A window's parts from top to bottom. Inside: the columns that count in all rows of each part.
constexpr int PARTS = 4;
struct Inside {
    int first[PARTS], last[PARTS];
};

class Transforms {
  public:
    Transforms(const Field &field, double most_pixels);
    ~Transforms();
    Transforms(const Transforms &) = delete;
    Transforms &operator=(const Transforms &) = delete;

    // Returns whether rounding stays below one half and the memory is not too large.
    bool areExact() const { return error_ < 0.25 && points() <= MAX_POINTS; }
    // Returns the cost of a pose in loads of the search (Field::loads).
    double loadsOfPose() const;
    // Allocates memory for `count` poses unless it exists. Returns false without memory or cuFFT.
    bool create(const char *function, int count, cudaStream_t stream);
    void forget() { has_frame_ = has_squares_ = false; }
    // Offers the best values of `count` poses, listed in device memory. With `screens`, skips poses that screening
    // rules out.
    cusStatus run(const char *function, const Field &field, cusIntegrator *integrator, bool screens, const int *poses,
                  int count, cudaStream_t stream);

  private:
    static constexpr size_t MAX_POINTS = size_t{1} << 26;

    struct Plan {
        cufftHandle handle = 0;
        bool exists = false;
    };
    size_t points() const { return static_cast<size_t>(rows_) * cols_; }
    size_t spectrum() const { return static_cast<size_t>(rows_) * (cols_ / 2 + 1); }
    bool makePlan(Plan &plan, cufftType type, int planes);
    bool createScreening(const char *function);
    template<class T>
    bool allocate(const char *function, T **memory, size_t count);
    void release();
    cusStatus transformFrame(const char *function, const Field &field, cudaStream_t stream);
    cusStatus endBatch(const char *function, const Field &field, int count, cudaStream_t stream);
    cusStatus screen(const char *function, const Field &field, const int *poses, int count, int *done, int *left,
                     cudaStream_t stream);
    cusStatus compute(const char *function, const Field &field, const int *poses, int count, cudaStream_t stream);

    int frame_rows_, frame_cols_, poses_, rows_, cols_, sums_;
    int batch_, screened_; // poses computed or screened in a batch; screened_ 0: none
    double error_;         // bound of a sum's error
    bool is_created_ = false, has_frame_ = false, has_squares_ = false;
    Plan forward_, inverse_, screen_; // screen_: inverse for screened poses; forward_ serves both
    Arena memory_;
    size_t work_bytes_ = 0;
    double *planes_ = nullptr; // templates of a batch, then sums
    cufftDoubleComplex *spectra_ = nullptr, *products_ = nullptr,
                       *frame_ = nullptr; // frame_: spectra of I^2, then of I or -2 I
    char *work_ = nullptr;
    cusMat squares_ = CUS_MAT_INIT; // integral image of I^2
    Inside *inside_ = nullptr;      // one per pose of a batch
    int *is_left_ = nullptr;        // one per pose of a batch: whether screening leaves it
    int *left_ = nullptr;           // poses that screening leaves
};

} // namespace cusi::pose

#endif

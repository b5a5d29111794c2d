// As given.h, for snippets in C++.
#include <cusight/opencv.hpp>

#include <vector>

extern cv::cuda::GpuMat image, table, templ, part, frame;
extern cv::cuda::Stream stream;
extern cusPoseOptions options;
void draw(double x, double y, double angle, double scale);

// Just enough of RMM and of PyTorch to compile allocators that use them.
namespace rmm {
struct cuda_stream_view {
    explicit cuda_stream_view(cusStream);
};
struct device_async_resource_ref {
    void *allocate_async(size_t, size_t, cuda_stream_view);
    void deallocate_async(void *, size_t, size_t, cuda_stream_view);
};
namespace mr {
device_async_resource_ref get_current_device_resource_ref();
}
} // namespace rmm
namespace c10::cuda::CUDACachingAllocator {
void *raw_alloc_with_stream(size_t, cusStream);
void raw_delete(void *);
} // namespace c10::cuda::CUDACachingAllocator

// Device memory of an object, which is freed with it.
#ifndef CUSI_ARENA_CUH
#define CUSI_ARENA_CUH

#include "cuda.cuh"
#include "device.h"

#include <algorithm>
#include <new>
#include <vector>

namespace cusi {

// The blocks, aligned to 256 bytes, belong to the arena.
class Arena {
  public:
    Arena() = default;
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    ~Arena() { release(); }

    // Frees all blocks after waiting until the device no longer uses them.
    void release() {
        for (void *block : blocks_)
            cusi_deviceFree(block);
        blocks_.clear();
    }

    // Allocates `count` elements, at least one.
    template<class T>
    cusStatus allocate(const char *function, size_t count, T **data) {
        count = std::max<size_t>(count, 1);
        CUSI_REQUIRE(count <= SIZE_MAX / sizeof(T), CUS_ERROR_NO_MEMORY, "%s: no device memory for %zu elements", function,
                     count);
        try {
            blocks_.push_back(nullptr);
        } catch (const std::bad_alloc &) {
            return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
        }
        CUS_TRY(cusi_deviceAllocate(function, count * sizeof(T), &blocks_.back()));
        *data = static_cast<T *>(blocks_.back());
        return CUS_OK;
    }

    // Allocates elements whose bytes `stream` sets to 0.
    template<class T>
    cusStatus allocateZeros(const char *function, size_t count, T **data, cudaStream_t stream) {
        CUS_TRY(allocate(function, count, data));
        CUSI_CUDA(function, cudaMemsetAsync(*data, 0, std::max<size_t>(count, 1) * sizeof(T), stream));
        return CUS_OK;
    }

    // Allocates a copy of host memory, which may change after the call.
    template<class T>
    cusStatus upload(const char *function, const std::remove_const_t<T> *host, size_t count, T **data,
                     cudaStream_t stream) {
        std::remove_const_t<T> *copy = nullptr;
        CUS_TRY(allocate(function, count, &copy));
        CUSI_CUDA(function, cudaMemcpyAsync(copy, host, count * sizeof(T), cudaMemcpyHostToDevice, stream));
        CUSI_CUDA(function, cudaStreamSynchronize(stream));
        *data = copy;
        return CUS_OK;
    }

  private:
    std::vector<void *> blocks_;
};

} // namespace cusi

#endif

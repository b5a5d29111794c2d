// The DLPack structures (version 1), as its specification lays them out in memory: https://dmlc.github.io/dlpack.
#pragma once

#include <cstdint>

namespace cuspy::dlpack {

enum DeviceType : int32_t { CPU = 1, CUDA = 2, CUDA_HOST = 3, CUDA_MANAGED = 13 };
enum TypeCode : uint8_t { INT = 0, UINT = 1, FLOAT = 2, BOOL = 6 };

struct Tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; // in elements; strides may be null: row-major
    uint64_t byte_offset;
};

struct Managed {
    Tensor tensor;
    void *context;
    void (*deleter)(Managed *);
};

struct ManagedVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(ManagedVersioned *);
    uint64_t flags; // bit 0: read-only
    Tensor tensor;
};

} // namespace cuspy::dlpack

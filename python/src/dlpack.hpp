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

// C functions of a type of arrays (version 1.3): its attribute __dlpack_c_exchange_api__ is a capsule of this name with a
// table of functions, which lives as long as the process. They return 0, or -1 and raise in Python, and need the GIL.
constexpr char EXCHANGE_ATTRIBUTE[] = "__dlpack_c_exchange_api__";
constexpr char EXCHANGE_CAPSULE[] = "dlpack_exchange_api";

struct ExchangeHeader {
    uint32_t major, minor;
    const ExchangeHeader *older; // a table of an earlier version, or null
};

struct Exchange {
    ExchangeHeader header;
    int (*allocate)(Tensor *like, ManagedVersioned **made, void *context,
                    void (*fail)(void *context, const char *kind, const char *message));
    int (*managed_of)(void *array, ManagedVersioned **made);
    int (*array_of)(ManagedVersioned *tensor, void **made);
    int (*tensor_of)(void *array, Tensor *view); // may be null; shape and strides stay the array's
    int (*current_stream)(int32_t device_type, int32_t device, void **stream);
};

} // namespace cuspy::dlpack

#include "cusight/cusight.h"
#include "cusight/dlpack.h"
#include "support.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

// The layout of DLPack 1.x on 64-bit machines.
static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4 && sizeof(DLTensor) == 48, "DLTensor");
static_assert(offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24,
              "DLTensor");
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8 && offsetof(DLManagedTensorVersioned, deleter) == 16 &&
                  offsetof(DLManagedTensorVersioned, flags) == 24 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32,
              "DLManagedTensorVersioned");

namespace {

using support::TestMat;
using Tensor = DLManagedTensorVersioned;

// A tensor from another library: a fake that counts how often it is deleted.
struct Foreign {
    alignas(64) unsigned char bytes[4096] = {};
    std::vector<int64_t> shape, strides;
    int deleted = 0;
    Tensor tensor{};

    Foreign(std::vector<int64_t> sizes, std::vector<int64_t> steps, DLDataType type = {kDLUInt, 8, 1})
        : shape(std::move(sizes)), strides(std::move(steps)) {
        tensor.version = {1, 0};
        tensor.manager_ctx = this;
        tensor.deleter = [](Tensor *self) { ++static_cast<Foreign *>(self->manager_ctx)->deleted; };
        DLTensor &t = tensor.dl_tensor;
        t.data = bytes;
        t.device = {kDLCPU, 0};
        t.ndim = static_cast<int32_t>(shape.size());
        t.dtype = type;
        t.shape = shape.data();
        t.strides = strides.empty() ? nullptr : strides.data();
    }
};

void expectRefused(Foreign &foreign, cusStatus status, const char *message, cusDlpackAccess access = CUS_DLPACK_READ) {
    cusMat mat = CUS_MAT_INIT;
    CUS_EXPECT_ERROR(cusMatFromDlpack(&foreign.tensor, access, &mat), status, message);
    EXPECT_EQ(mat.data, nullptr);
    EXPECT_EQ(foreign.deleted, 0);
}

} // namespace

TEST(Dlpack, ExportsShapesStridesAndTypes) {
    const struct {
        int type, code, bits, channels;
    } cases[] = {{CUS_8UC1, kDLUInt, 8, 1},
                 {CUS_8UC3, kDLUInt, 8, 3},
                 {CUS_8SC1, kDLInt, 8, 1},
                 {CUS_16UC1, kDLUInt, 16, 1},
                 {CUS_16SC1, kDLInt, 16, 1},
                 {CUS_32SC1, kDLInt, 32, 1},
                 {CUS_32FC1, kDLFloat, 32, 1},
                 {CUS_64FC1, kDLFloat, 64, 1},
                 {CUS_MAKETYPE(CUS_32F, 2), kDLFloat, 32, 2},
                 {CUS_MAKETYPE(CUS_16F, 3), kDLFloat, 16, 3}};
    for (const auto &c : cases) {
        TestMat m(5, 7, c.type, CUS_HOST, support::layouts(c.type).back());
        const int64_t unit = c.bits / 8;
        Tensor *tensor = nullptr;
        CUS_ASSERT_OK(cusMatToDlpack(&m.mat, CUS_DLPACK_WRITE, nullptr, nullptr, &tensor));
        const DLTensor &t = tensor->dl_tensor;
        EXPECT_EQ(tensor->version.major, 1u);
        EXPECT_EQ(tensor->flags, 0u);
        EXPECT_EQ(t.data, m.mat.data);
        EXPECT_EQ(t.byte_offset, 0u);
        EXPECT_EQ(t.device.device_type, kDLCPU);
        EXPECT_EQ(t.device.device_id, 0);
        EXPECT_EQ(std::make_tuple(int{t.dtype.code}, int{t.dtype.bits}, int{t.dtype.lanes}),
                  std::make_tuple(c.code, c.bits, 1));
        ASSERT_EQ(t.ndim, c.channels > 1 ? 3 : 2);
        EXPECT_EQ(t.shape[0], 5);
        EXPECT_EQ(t.shape[1], 7);
        EXPECT_EQ(t.strides[0] * unit, static_cast<int64_t>(m.mat.step));
        EXPECT_EQ(t.strides[1], c.channels);
        if (c.channels > 1) {
            EXPECT_EQ(t.shape[2], c.channels);
            EXPECT_EQ(t.strides[2], 1);
        }
        cusMat back = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatFromDlpack(tensor, CUS_DLPACK_WRITE, &back));
        EXPECT_EQ(std::tie(back.rows, back.cols, back.type, back.step, back.data),
                  std::tie(m.mat.rows, m.mat.cols, m.mat.type, m.mat.step, m.mat.data));
        cusMatRelease(&back);
    }
}

TEST(Dlpack, TensorTakesOverWhatTheMatrixOwns) {
    cusMat mat = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatCreate(&mat, 3, 4, CUS_8UC1, CUS_HOST));
    std::memset(mat.data, 7, 12);
    Tensor *tensor = nullptr;
    CUS_ASSERT_OK(cusMatToDlpack(&mat, CUS_DLPACK_READ, nullptr, nullptr, &tensor));
    EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    EXPECT_EQ(mat.owned, nullptr) << "now a view";
    EXPECT_EQ(mat.data, tensor->dl_tensor.data);
    cusMatRelease(&mat); // frees nothing: AddressSanitizer would report the next line
    EXPECT_EQ(static_cast<const unsigned char *>(tensor->dl_tensor.data)[11], 7);
    tensor->deleter(tensor); // frees all: LeakSanitizer would report it otherwise
}

TEST(Dlpack, ReleaseIsCalledOnceAndLast) {
    int released = 0;
    const auto release = [](void *context) { ++*static_cast<int *>(context); };
    unsigned char bytes[6] = {};
    cusMat mat = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&mat, 2, 3, CUS_8UC1, CUS_HOST, bytes, 0));
    Tensor *tensor = nullptr;
    CUS_ASSERT_OK(cusMatToDlpack(&mat, CUS_DLPACK_WRITE, release, &released, &tensor));
    cusMat first = CUS_MAT_INIT, second = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatFromDlpack(tensor, CUS_DLPACK_WRITE, &first));
    // Once more: a tensor that owns a matrix that owns a tensor.
    CUS_ASSERT_OK(cusMatToDlpack(&first, CUS_DLPACK_WRITE, nullptr, nullptr, &tensor));
    EXPECT_EQ(first.owned, nullptr);
    CUS_ASSERT_OK(cusMatFromDlpack(tensor, CUS_DLPACK_WRITE, &second));
    cusMatRelease(&first);
    EXPECT_EQ(released, 0);
    EXPECT_EQ(second.data, static_cast<void *>(bytes));
    cusMatRelease(&second);
    EXPECT_EQ(released, 1);
    cusMatRelease(&second);
    EXPECT_EQ(released, 1);
}

TEST(Dlpack, MatricesOwnTensors) {
    Foreign foreign({4, 5, 3}, {20, 3, 1});
    foreign.tensor.dl_tensor.byte_offset = 8;
    cusMat mat = CUS_MAT_INIT, region = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatFromDlpack(&foreign.tensor, CUS_DLPACK_WRITE, &mat));
    EXPECT_EQ(std::make_tuple(mat.rows, mat.cols, mat.type, mat.step, mat.space),
              std::make_tuple(4, 5, int{CUS_8UC3}, size_t{20}, CUS_HOST));
    EXPECT_EQ(mat.data, static_cast<void *>(foreign.bytes + 8));
    CUS_REJECTS(cusMatFromDlpack(&foreign.tensor, CUS_DLPACK_WRITE, &mat), ALIAS, "mat owns this tensor already");
    CUS_REJECTS(cusMatWrap(&mat, 1, 1, CUS_8UC1, CUS_HOST, mat.data, 0), ALIAS, "memory that mat owns");
    CUS_ASSERT_OK(cusMatRegion(&mat, 1, 1, 2, 2, &region));
    cusMatRelease(&region);
    EXPECT_EQ(foreign.deleted, 0);
    CUS_ASSERT_OK(cusMatCreate(&mat, 4, 5, CUS_8UC3, CUS_HOST)); // fits
    EXPECT_EQ(foreign.deleted, 0);
    CUS_ASSERT_OK(cusMatSetZero(&mat, nullptr));                 // used as any matrix
    CUS_ASSERT_OK(cusMatCreate(&mat, 6, 5, CUS_8UC3, CUS_HOST)); // does not fit
    EXPECT_EQ(foreign.deleted, 1);
    EXPECT_NE(mat.owned, nullptr);
    Foreign other({6}, {});
    CUS_ASSERT_OK(cusMatFromDlpack(&other.tensor, CUS_DLPACK_WRITE, &mat)); // frees what mat owned
    EXPECT_EQ(std::make_tuple(mat.rows, mat.cols, mat.step), std::make_tuple(1, 6, size_t{6}));
    cusMatRelease(&mat);
    EXPECT_EQ(other.deleted, 1);

    Foreign immortal({2, 2}, {});
    immortal.tensor.deleter = nullptr;
    CUS_ASSERT_OK(cusMatFromDlpack(&immortal.tensor, CUS_DLPACK_WRITE, &mat));
    cusMatRelease(&mat);
}

TEST(Dlpack, StridesOfSingleElementsMeanNothing) {
    cusMat mat = CUS_MAT_INIT;
    for (auto &foreign : {std::make_unique<Foreign>(std::vector<int64_t>{1, 9, 1}, std::vector<int64_t>{-5, 1, 77}),
                          std::make_unique<Foreign>(std::vector<int64_t>{9, 1, 1}, std::vector<int64_t>{1, 0, 0}),
                          std::make_unique<Foreign>(std::vector<int64_t>{1, 1}, std::vector<int64_t>{0, 0})}) {
        CUS_ASSERT_OK(cusMatFromDlpack(&foreign->tensor, CUS_DLPACK_READ, &mat));
        EXPECT_EQ(mat.rows, foreign->shape[0]);
        EXPECT_EQ(mat.cols, foreign->shape[1]);
        EXPECT_EQ(mat.type, int{CUS_8UC1});
        EXPECT_EQ(mat.step, static_cast<size_t>(mat.cols));
        cusMatRelease(&mat);
        EXPECT_EQ(foreign->deleted, 1);
    }
    Foreign pinned({3, 3}, {});
    pinned.tensor.dl_tensor.device.device_type = kDLCUDAHost;
    CUS_ASSERT_OK(cusMatFromDlpack(&pinned.tensor, CUS_DLPACK_READ, &mat));
    EXPECT_EQ(mat.space, CUS_HOST);
    cusMatRelease(&mat);
}

TEST(Dlpack, RejectsNonMatrix) {
    const auto shaped = [](std::vector<int64_t> shape, std::vector<int64_t> strides, cusStatus status,
                           const char *message) {
        Foreign foreign(std::move(shape), std::move(strides));
        expectRefused(foreign, status, message);
    };
    shaped({}, {}, CUS_ERROR_SIZE, "tensor has 0 dimensions, expected 1 to 3: (rows, cols, channels)");
    shaped({1, 2, 3, 4}, {}, CUS_ERROR_SIZE, "tensor has 4 dimensions");
    shaped({2, 0}, {}, CUS_ERROR_SIZE, "dimension 1 of tensor is 0, expected 1 to 2147483647");
    shaped({1LL << 31, 1}, {}, CUS_ERROR_SIZE, "dimension 0 of tensor is 2147483648");
    shaped({2, 2, 513}, {}, CUS_ERROR_SIZE, "dimension 2 of tensor is 513, expected 1 to 512");
    shaped({3, 4, 5}, {4, 1, 12}, CUS_ERROR_SIZE, "stride of 12 between channels, expected 1");
    shaped({4, 5}, {1, 4}, CUS_ERROR_SIZE, "stride of 4 between columns, expected 1");
    shaped({4, 5}, {4, 1}, CUS_ERROR_SIZE, "stride of 4 between rows, expected at least 5");
    shaped({4, 5}, {-5, 1}, CUS_ERROR_SIZE, "stride of -5 between rows");
    shaped({4, 5}, {0, 1}, CUS_ERROR_SIZE, "stride of 0 between rows");
    shaped({4, 5}, {INT64_MAX / 2, 1}, CUS_ERROR_SIZE, "between rows");

    for (const DLDataType type : {DLDataType{kDLFloat, 8, 1}, DLDataType{kDLUInt, 8, 3}, DLDataType{kDLBool, 8, 1},
                                  DLDataType{kDLUInt, 32, 1}, DLDataType{kDLInt, 64, 1}, DLDataType{kDLComplex, 64, 1}}) {
        Foreign foreign({4, 5}, {}, type);
        expectRefused(foreign, CUS_ERROR_TYPE, "expected kDLUInt (1) of 8 or 16 bits");
    }
    Foreign foreign({4, 5}, {}, {kDLFloat, 32, 1});
    foreign.tensor.dl_tensor.byte_offset = 2;
    expectRefused(foreign, CUS_ERROR_VALUE, "expected a multiple of 4 bytes");
    foreign.tensor.dl_tensor.byte_offset = 0;
    foreign.tensor.version.major = 2;
    expectRefused(foreign, CUS_ERROR_UNSUPPORTED, "tensor is of DLPack version 2.0, expected 1.x");
    foreign.tensor.version.major = 1;
    foreign.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    expectRefused(foreign, CUS_ERROR_VALUE, "tensor is read-only, expected access CUS_DLPACK_READ", CUS_DLPACK_WRITE);
    expectRefused(foreign, CUS_ERROR_VALUE, "access is 2, expected CUS_DLPACK_READ or", static_cast<cusDlpackAccess>(2));
    foreign.tensor.dl_tensor.device = {kDLROCM, 0};
    expectRefused(foreign, CUS_ERROR_SPACE, "tensor is on a device of type 10, expected kDLCPU (1)");
    foreign.tensor.dl_tensor.device = {kDLCUDA, 1000};
    int gpus = 0;
    CUS_ASSERT_OK(cusDeviceCount(&gpus));
    expectRefused(foreign, gpus ? CUS_ERROR_VALUE : CUS_ERROR_NO_CUDA,
                  gpus ? "tensor is on device 1000, expected 0 to" : "no usable GPU");
    foreign.tensor.dl_tensor.device = {kDLCPU, 0};
    foreign.tensor.dl_tensor.shape = nullptr;
    expectRefused(foreign, CUS_ERROR_NULL, "tensor has no shape");
    foreign.tensor.dl_tensor.data = nullptr;
    expectRefused(foreign, CUS_ERROR_NULL, "tensor has no data");

    cusMat mat = CUS_MAT_INIT;
    CUS_REJECTS(cusMatFromDlpack(nullptr, CUS_DLPACK_READ, &mat), NULL, "tensor is NULL");
    CUS_REJECTS(cusMatFromDlpack(&foreign.tensor, CUS_DLPACK_READ, nullptr), NULL, "mat is NULL");
}

TEST(Dlpack, RefusesToExport) {
    Tensor *tensor = nullptr;
    cusMat mat = CUS_MAT_INIT;
    CUS_REJECTS(cusMatToDlpack(&mat, CUS_DLPACK_READ, nullptr, nullptr, &tensor), NULL, "mat is an empty matrix");
    CUS_REJECTS(cusMatToDlpack(nullptr, CUS_DLPACK_READ, nullptr, nullptr, &tensor), NULL, "mat is NULL");
    float values[8] = {};
    mat.rows = 2, mat.cols = 2, mat.type = CUS_32FC1, mat.step = 10, mat.data = values;
    Foreign other({1}, {});
    tensor = &other.tensor;
    CUS_REJECTS(cusMatToDlpack(&mat, CUS_DLPACK_READ, nullptr, nullptr, &tensor), VALUE,
                "a step of 10 bytes, expected multiples of 4");
    EXPECT_EQ(tensor, nullptr);
    mat.step = 8;
    CUS_REJECTS(cusMatToDlpack(&mat, static_cast<cusDlpackAccess>(-1), nullptr, nullptr, &tensor), VALUE, "access is -1");
    CUS_REJECTS(cusMatToDlpack(&mat, CUS_DLPACK_READ, nullptr, nullptr, nullptr), NULL, "tensor is NULL");
    mat.space = CUS_DEVICE; // but it is host memory
    const cusStatus status = cusMatToDlpack(&mat, CUS_DLPACK_READ, nullptr, nullptr, &tensor);
    EXPECT_TRUE(status == CUS_ERROR_NO_CUDA || status == CUS_ERROR_SPACE || status == CUS_ERROR_CUDA)
        << cusStatusName(status);
    EXPECT_EQ(tensor, nullptr);
}

TEST(DlpackCuda, DeviceMemoryKeepsItsDevice) {
    CUS_NEEDS(CUS_DEVICE);
    cusMat mat = CUS_MAT_INIT, back = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatCreate(&mat, 33, 65, CUS_8UC3, CUS_DEVICE));
    Tensor *tensor = nullptr;
    CUS_ASSERT_OK(cusMatToDlpack(&mat, CUS_DLPACK_WRITE, nullptr, nullptr, &tensor));
    int device = -1;
    CUS_ASSERT_OK(cusDeviceGet(&device));
    EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCUDA);
    EXPECT_EQ(tensor->dl_tensor.device.device_id, device);
    CUS_ASSERT_OK(cusMatFromDlpack(tensor, CUS_DLPACK_WRITE, &back));
    EXPECT_EQ(back.space, CUS_DEVICE);
    EXPECT_EQ(back.step, mat.step);
    CUS_EXPECT_OK(cusMatSetZero(&back, nullptr));
    CUS_EXPECT_OK(cusStreamSynchronize(nullptr));
    cusMatRelease(&back);
    EXPECT_EQ(back.data, nullptr);
}

#include "common/libav/gpu.hpp"

#ifdef CUSIGHT_SAMPLES_NVDEC
extern "C" {
#include <libavutil/hwcontext_cuda.h>
}

#include <dlfcn.h>
#endif

namespace av {

const AVCodec *gpuDecoder(AVCodecID id) {
    void *position = nullptr;
    while (const AVCodec *const codec = av_codec_iterate(&position)) {
        if (codec->id != id || !av_codec_is_decoder(codec))
            continue;
        const AVCodecHWConfig *config = nullptr;
        for (int i = 0; (config = avcodec_get_hw_config(codec, i)); ++i)
            if (config->pix_fmt == AV_PIX_FMT_CUDA && (config->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX) &&
                !(codec->capabilities & AV_CODEC_CAP_HARDWARE)) // h264_cuvid and its like have other options
                return codec;
    }
    return nullptr;
}

#ifdef CUSIGHT_SAMPLES_NVDEC

namespace {

// The primary context, kept until the program ends. AV_CUDA_USE_PRIMARY_CONTEXT would ask libavutil for it, which refuses it
// once the CUDA runtime has made it with other flags than libavutil's own.
CUcontext primaryContext(int index) {
    void *const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return nullptr;
    const auto init = reinterpret_cast<decltype(&cuInit)>(::dlsym(driver, "cuInit"));
    const auto get = reinterpret_cast<decltype(&cuDeviceGet)>(::dlsym(driver, "cuDeviceGet"));
    const auto retain = reinterpret_cast<decltype(&cuDevicePrimaryCtxRetain)>(::dlsym(driver, "cuDevicePrimaryCtxRetain"));
    const auto set_flags =
        reinterpret_cast<CUresult (*)(CUdevice, unsigned)>(::dlsym(driver, "cuDevicePrimaryCtxSetFlags_v2"));
    CUdevice device = 0;
    CUcontext context = nullptr;
    if (!init || !get || !retain || init(0) != CUDA_SUCCESS || get(&device, index) != CUDA_SUCCESS)
        return nullptr;
    if (set_flags) // who waits for a decoder sleeps: forty that spin would keep as many cores busy
        set_flags(device, CU_CTX_SCHED_BLOCKING_SYNC);
    return retain(&context, device) == CUDA_SUCCESS ? context : nullptr;
}

} // namespace

Buffer gpuDevice(int index, std::string &why) {
    messages();
    Buffer device(av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_CUDA));
    if (!device) {
        why = "this libavutil has no CUDA";
        return nullptr;
    }
    auto *const context = reinterpret_cast<AVHWDeviceContext *>(device->data);
    auto *const cuda = static_cast<AVCUDADeviceContext *>(context->hwctx);
    cuda->cuda_ctx = primaryContext(index);
    cuda->stream = nullptr; // the default stream
    if (!cuda->cuda_ctx) {
        why = "no driver, or no GPU";
        return nullptr;
    }
    const int result = av_hwdevice_ctx_init(device.get());
    if (result >= 0)
        return device;
    why = reason(result);
    return nullptr;
}

#else

Buffer gpuDevice(int, std::string &why) {
    why = "this build has no CUDA";
    return nullptr;
}

#endif

} // namespace av

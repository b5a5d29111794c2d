// The GPU as a decoder of libavcodec.
#pragma once

#include "common/libav/libav.hpp"

namespace av {

// The decoder of `id` that has one on CUDA devices; null if this libavcodec has none.
const AVCodec *gpuDecoder(AVCodecID id);

// CUDA device `index` for libavcodec: its primary context, which is the library's, and the default stream. What is done with a
// decoded frame in that stream is done before the decoder reuses its memory. Null, and why, if there is none.
Buffer gpuDevice(int index, std::string &why);

} // namespace av

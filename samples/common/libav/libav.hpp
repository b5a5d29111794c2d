// libavformat, libavcodec and libswscale (FFmpeg 4.4 and later) for C++: owners of their objects, and reasons for errors.
#pragma once

#include <memory>
#include <string>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

namespace av {

struct Free {
    void operator()(AVFrame *frame) const { av_frame_free(&frame); }
    void operator()(AVPacket *packet) const { av_packet_free(&packet); }
    void operator()(AVCodecContext *codec) const { avcodec_free_context(&codec); }
    void operator()(AVBufferRef *buffer) const { av_buffer_unref(&buffer); }
    void operator()(SwsContext *scaler) const { sws_freeContext(scaler); }
    void operator()(AVIOContext *io) const {
        av_freep(&io->buffer);
        avio_context_free(&io);
    }
};
using Frame = std::unique_ptr<AVFrame, Free>;
using Packet = std::unique_ptr<AVPacket, Free>;
using Codec = std::unique_ptr<AVCodecContext, Free>;
using Scaler = std::unique_ptr<SwsContext, Free>;
using Buffer = std::unique_ptr<AVBufferRef, Free>;
using Io = std::unique_ptr<AVIOContext, Free>;

// `pointer`, or std::bad_alloc if it is NULL.
template<class T>
T *allocated(T *pointer) {
    if (!pointer)
        throw std::bad_alloc();
    return pointer;
}

// A dictionary of options; what was not understood remains in it.
class Options {
  public:
    Options() = default;
    ~Options() { av_dict_free(&list); }
    Options(const Options &) = delete;
    Options &operator=(const Options &) = delete;
    void set(const char *key, const std::string &value) { av_dict_set(&list, key, value.c_str(), 0); }
    AVDictionary *list = nullptr;
};

// The libraries print nothing from now on; their messages are kept for messages(). Called by the classes of this folder.
void keepMessages();
// The errors that the libraries have reported on the calling thread since its last call, in one line; "" if none.
std::string messages();

// In words what `error`, a negative result, means; with messages() where it alone says little.
std::string reason(int error);

} // namespace av

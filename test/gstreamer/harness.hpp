// An element in a GstHarness, frames that move, and views of buffers for the library.
#pragma once

#include "support.hpp"

#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gstreamer {

inline bool haveElement(const char *name) {
    gst_init(nullptr, nullptr);
    GstElementFactory *factory = gst_element_factory_find(name);
    if (factory)
        gst_object_unref(factory);
    return factory != nullptr;
}

// Frame k of a film: noise that stays, and two bright squares that move over it.
inline std::vector<std::uint8_t> frameBytes(const GstVideoInfo &info, int k) {
    std::vector<std::uint8_t> bytes(info.size);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::uint8_t>((i * 2654435761u >> 13) % 60 + 40);
    const auto square = [&](int left, int top, int size) {
        const int each = info.finfo->pixel_stride[0];
        for (int y = top; y < top + size && y < info.height; ++y)
            for (int x = left * each; x < std::min(left + size, info.width) * each; ++x)
                bytes[static_cast<std::size_t>(y * info.stride[0] + x)] = 250;
    };
    square(8 + 3 * k, 10 + k, 24);
    square(70 - k, 2, 12);
    return bytes;
}

inline GstVideoInfo infoOf(const char *format, int width, int height) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, gst_video_format_from_string(format), static_cast<guint>(width),
                              static_cast<guint>(height));
    info.fps_n = 10;
    info.fps_d = 1;
    return info;
}

inline GstBuffer *bufferOf(const std::vector<std::uint8_t> &bytes, int k) {
    GstBuffer *buffer = bytes.empty() ? gst_buffer_new() : gst_buffer_new_memdup(bytes.data(), bytes.size());
    GST_BUFFER_PTS(buffer) = static_cast<GstClockTime>(k) * 100 * GST_MSECOND;
    GST_BUFFER_DURATION(buffer) = 100 * GST_MSECOND;
    return buffer;
}

// The first plane of a frame.
inline cusMat viewOf(const GstVideoInfo &info, std::vector<std::uint8_t> &bytes) {
    cusMat mat = CUS_MAT_INIT;
    const int channels = GST_VIDEO_INFO_IS_YUV(&info) ? 1 : info.finfo->pixel_stride[0];
    CUS_EXPECT_OK(cusMatWrap(&mat, info.height, info.width, CUS_MAKETYPE(CUS_8U, channels), CUS_HOST, bytes.data(),
                             static_cast<std::size_t>(info.stride[0])));
    return mat;
}

inline std::vector<std::uint8_t> bytesOf(GstBuffer *buffer) {
    std::vector<std::uint8_t> bytes(gst_buffer_get_size(buffer));
    gst_buffer_extract(buffer, 0, bytes.data(), bytes.size());
    return bytes;
}

// The elements between a source and a sink; messages are kept.
struct Element {
    GstHarness *harness = nullptr;
    GstBus *bus = nullptr;

    explicit Element(const std::string &launch) {
        gst_init(nullptr, nullptr);
        bus = gst_bus_new();
        harness = gst_harness_new_parse(launch.c_str());
        gst_element_set_bus(harness->element, bus);
    }
    ~Element() {
        gst_element_set_bus(harness->element, nullptr);
        gst_harness_teardown(harness);
        gst_object_unref(bus);
    }
    Element(const Element &) = delete;
    void operator=(const Element &) = delete;

    void caps(const GstVideoInfo &info) {
        GstVideoInfo copy = info;
        gst_harness_set_src_caps(harness, gst_video_info_to_caps(&copy));
    }
    // Pushes a frame; what comes out, or nullptr.
    GstBuffer *frame(const std::vector<std::uint8_t> &bytes, int k, GstFlowReturn expected = GST_FLOW_OK) {
        return push(bufferOf(bytes, k), expected);
    }
    GstBuffer *push(GstBuffer *buffer, GstFlowReturn expected = GST_FLOW_OK) {
        EXPECT_EQ(gst_harness_push(harness, buffer), expected);
        return gst_harness_try_pull(harness);
    }
    void flush() {
        EXPECT_TRUE(gst_harness_push_event(harness, gst_event_new_flush_start()));
        EXPECT_TRUE(gst_harness_push_event(harness, gst_event_new_flush_stop(TRUE)));
        GstSegment segment;
        gst_segment_init(&segment, GST_FORMAT_TIME);
        EXPECT_TRUE(gst_harness_push_event(harness, gst_event_new_segment(&segment)));
    }
    // The text of an error or a warning; "" if there is none.
    std::string complaint(GstMessageType type) {
        GstMessage *message = gst_bus_pop_filtered(bus, type);
        if (!message)
            return "";
        GError *error = nullptr;
        gchar *debug = nullptr;
        (type == GST_MESSAGE_ERROR ? gst_message_parse_error : gst_message_parse_warning)(message, &error, &debug);
        const std::string text = std::string(error->message) + " | " + (debug ? debug : "");
        g_error_free(error);
        g_free(debug);
        gst_message_unref(message);
        return text;
    }
};

// Like EXPECT_EQ over the pixels of a frame, whose rows may be padded.
inline void expectPixels(const cusMat &expected, GstBuffer *buffer, const GstVideoInfo &info) {
    ASSERT_NE(buffer, nullptr);
    GstVideoFrame frame;
    ASSERT_TRUE(gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ));
    const std::size_t row = static_cast<std::size_t>(expected.cols) * cusTypeSize(expected.type);
    for (int y = 0; y < expected.rows; ++y)
        EXPECT_EQ(std::memcmp(static_cast<const char *>(expected.data) + static_cast<std::size_t>(y) * expected.step,
                              static_cast<const char *>(frame.data[0]) + y * frame.info.stride[0], row),
                  0)
            << "row " << y;
    gst_video_frame_unmap(&frame);
}

} // namespace gstreamer

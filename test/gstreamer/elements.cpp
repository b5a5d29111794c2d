// The elements: results as the library's, caps, properties, allocation, flush, seek, loss, resolution change, QoS, EOS, errors.
#include "gstreamer/harness.hpp"

#include "cusight/framediff.h"
#include "cusight/match.h"
#include "cusight/motion.h"

#include <gst/base/gstbasetransform.h>

#include <map>
#include <tuple>

using namespace gstreamer;

// ---- A thread's allocations, counted while it is asked for; not under sanitizers, which have their own
#ifndef CUSI_SANITIZE
namespace {
thread_local bool counting = false; // GStreamer's own threads, such as those that read a template, end when they like
thread_local int allocations = 0;
} // namespace
#pragma GCC visibility push(default)
extern "C" {
void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);
void *__libc_memalign(std::size_t, std::size_t);
static void counted() {
    if (counting)
        ++allocations;
}
void *malloc(std::size_t bytes) {
    return counted(), __libc_malloc(bytes);
}
void *calloc(std::size_t count, std::size_t bytes) {
    return counted(), __libc_calloc(count, bytes);
}
void *realloc(void *data, std::size_t bytes) {
    return counted(), __libc_realloc(data, bytes);
}
void *aligned_alloc(std::size_t alignment, std::size_t bytes) {
    return counted(), __libc_memalign(alignment, bytes);
}
int posix_memalign(void **data, std::size_t alignment, std::size_t bytes) {
    counted();
    *data = __libc_memalign(alignment, bytes);
    return *data ? 0 : 12;
}
}
#pragma GCC visibility pop
#endif

namespace {

using Bytes = std::vector<std::uint8_t>;

// A picture file of a region of a BGR frame.
std::string pictureOf(const GstVideoInfo &info, const Bytes &bytes, int x, int y, int width, int height) {
    const GstVideoInfo part = infoOf("RGB", width, height);
    Bytes pixels(part.size);
    for (int row = 0; row < height; ++row)
        for (int i = 0; i < width * 3; ++i)
            pixels[static_cast<std::size_t>(row * part.stride[0] + i)] =
                bytes[static_cast<std::size_t>((y + row) * info.stride[0] + (x + i / 3) * 3 + 2 - i % 3)];
    Element encoder("pngenc");
    encoder.caps(part);
    GstBuffer *png = encoder.frame(pixels, 0);
    const std::string file = testing::TempDir() + "cusight_gstreamer_template_" + std::to_string(getpid()) + ".png";
    const Bytes content = bytesOf(png);
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char *>(content.data()), static_cast<std::streamsize>(content.size()));
    gst_buffer_unref(png);
    return file;
}

// The launch lines of all elements, and the format that they are tried with.
const std::map<std::string, std::string> &launches() {
    static const GstVideoInfo info = infoOf("BGR", 96, 64);
    static const std::string file = pictureOf(info, frameBytes(info, 2), 10, 8, 30, 20);
    static const std::map<std::string, std::string> lines = {{"heatmap", "cusheatmap"},
                                                             {"motion", "cusmotion warmup=2 min-area=50"},
                                                             {"match", "cusmatch template=" + file},
                                                             {"encoder", "cusdiffenc"},
                                                             {"codec", "cusdiffenc ! cusdiffdec"}};
    return lines;
}

// Boxes of a frame's metadata as id, x, y, width, height.
using Box = std::tuple<int, int, int, int, int>;
std::vector<Box> boxesOf(GstBuffer *buffer) {
    std::vector<Box> boxes;
    gpointer state = nullptr;
    while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)) {
        const auto *roi = reinterpret_cast<GstVideoRegionOfInterestMeta *>(meta);
        boxes.emplace_back(roi->id, roi->x, roi->y, roi->w, roi->h);
    }
    return boxes;
}
// Those of the next message, and the state that it names.
std::vector<Box> boxesOf(GstBus *bus, const char *name, std::string *state = nullptr) {
    std::vector<Box> boxes;
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT);
    if (!message)
        return boxes;
    const GstStructure *structure = gst_message_get_structure(message);
    EXPECT_STREQ(gst_structure_get_name(structure), name);
    if (state)
        *state = gst_structure_get_string(structure, "state");
    const GValue *list = gst_structure_get_value(structure, "boxes");
    for (guint i = 0; i < gst_value_list_get_size(list); ++i) {
        guint id = 0;
        int x, y, width, height;
        EXPECT_TRUE(gst_structure_get(gst_value_get_structure(gst_value_list_get_value(list, i)), "id", G_TYPE_UINT, &id,
                                      "x", G_TYPE_INT, &x, "y", G_TYPE_INT, &y, "width", G_TYPE_INT, &width, "height",
                                      G_TYPE_INT, &height, nullptr));
        boxes.emplace_back(id, x, y, width, height);
    }
    gst_message_unref(message);
    return boxes;
}

} // namespace

TEST(Gstreamer, PropertiesAreTheLibrarysOptions) {
    const cusMotionOptions motion = cusMotionDefaults();
    const cusMatcherOptions match = cusMatcherDefaults();
    struct Property {
        const char *element, *name;
        double least, most, value;
    };
    const Property properties[] = {
        {"cusheatmap", "full-scale", 1, 65535, static_cast<double>(cusHeatmapDefaults().full_scale)},
        {"cusmotion", "shift", 0, 8, static_cast<double>(motion.shift)},
        {"cusmotion", "learn-us", 0, 4294967296.0, static_cast<double>(motion.learn_us)},
        {"cusmotion", "threshold", 1, 255, static_cast<double>(motion.threshold)},
        {"cusmotion", "noise-factor", 0, 255, static_cast<double>(motion.noise_factor)},
        {"cusmotion", "erode", 0, 8, static_cast<double>(motion.erode)},
        {"cusmotion", "dilate", 0, 8, static_cast<double>(motion.dilate)},
        {"cusmotion", "min-area", 1, 2147483647, static_cast<double>(motion.min_area)},
        {"cusmotion", "max-boxes", 1, 256, static_cast<double>(motion.max_boxes)},
        {"cusmotion", "merge", 0, 1, static_cast<double>(motion.merge)},
        {"cusmotion", "sudden-percent", 1, 100, static_cast<double>(motion.sudden_percent)},
        {"cusmotion", "warmup", 0, 65535, static_cast<double>(motion.warmup)},
        {"cusmotion", "track-gap", 0, 65535, static_cast<double>(motion.track_gap)},
        {"cusmotion", "shadows", 0, 100, static_cast<double>(motion.shadows)},
        {"cusmotion", "ghosts", 0, 1, static_cast<double>(motion.ghosts)},
        {"cusmotion", "tight", 0, 1, static_cast<double>(motion.tight)},
        {"cusmotion", "split", 0, 100, static_cast<double>(motion.split)},
        {"cusmatch", "method", 0, 5, static_cast<double>(match.method)},
        {"cusmatch", "max-matches", 1, 1024, static_cast<double>(match.max_matches)},
        {"cusmatch", "min-distance", 1, 2147483647, static_cast<double>(match.min_distance)},
        {"cusmatch", "subpixel", 0, 1, static_cast<double>(match.subpixel)},
        {"cusdiffenc", "threshold", 0, 255, static_cast<double>(cusDiffDefaults().threshold)},
        {"cusdiffenc", "min-neighbors", 0, 8, static_cast<double>(cusDiffDefaults().min_neighbors)},
        {"cusdiffenc", "key-interval", 0, 2147483647, 300},
    };
    gst_init(nullptr, nullptr);
    std::map<std::string, int> seen;
    for (const Property &property : properties) {
        SCOPED_TRACE(std::string(property.element) + " " + property.name);
        GstElement *element = gst_element_factory_make(property.element, nullptr);
        ASSERT_NE(element, nullptr);
        GParamSpec *spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), property.name);
        ASSERT_NE(spec, nullptr);
        EXPECT_GT(std::strlen(g_param_spec_get_blurb(spec)), 10u);
        EXPECT_TRUE(spec->flags & GST_PARAM_MUTABLE_PLAYING);
        GValue value = G_VALUE_INIT, number = G_VALUE_INIT;
        g_value_init(&value, spec->value_type);
        g_value_init(&number, G_TYPE_INT64);
        g_object_get_property(G_OBJECT(element), property.name, &value);
        EXPECT_TRUE(g_value_transform(&value, &number));
        EXPECT_EQ(static_cast<double>(g_value_get_int64(&number)), property.value);
        if (G_IS_PARAM_SPEC_INT(spec)) {
            EXPECT_EQ(G_PARAM_SPEC_INT(spec)->minimum, property.least);
            EXPECT_EQ(G_PARAM_SPEC_INT(spec)->maximum, property.most);
        } else if (G_IS_PARAM_SPEC_INT64(spec)) {
            EXPECT_EQ(G_PARAM_SPEC_INT64(spec)->minimum, property.least);
            EXPECT_EQ(static_cast<double>(G_PARAM_SPEC_INT64(spec)->maximum), property.most);
        } else if (G_IS_PARAM_SPEC_ENUM(spec)) {
            EXPECT_EQ(G_PARAM_SPEC_ENUM(spec)->enum_class->maximum, property.most);
        } else {
            EXPECT_TRUE(G_IS_PARAM_SPEC_BOOLEAN(spec));
        }
        // What is set is read back, at both ends of the range.
        for (const double end : {property.most, property.least}) {
            g_value_set_int64(&number, static_cast<gint64>(end));
            EXPECT_TRUE(g_value_transform(&number, &value));
            g_object_set_property(G_OBJECT(element), property.name, &value);
            g_object_get_property(G_OBJECT(element), property.name, &value);
            EXPECT_TRUE(g_value_transform(&value, &number));
            EXPECT_EQ(static_cast<double>(g_value_get_int64(&number)), end);
        }
        ++seen[property.element];
        gst_object_unref(element);
    }
    seen["cusmatch"] += 2; // template and score-limit, which are no whole numbers
    seen["cusdiffdec"] = 0;
    for (const auto &[name, count] : seen) { // and there are no others but name, parent and qos
        GstElement *element = gst_element_factory_make(name.c_str(), nullptr);
        guint all = 0;
        g_free(g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &all));
        EXPECT_EQ(static_cast<int>(all), count + 3) << name;
        gst_object_unref(element);
    }
    GstElement *match_element = gst_parse_launch("cusmatch template=a.png score-limit=0.5", nullptr);
    double limit = 0;
    gchar *file = nullptr;
    g_object_get(match_element, "score-limit", &limit, "template", &file, nullptr);
    gst_object_unref(match_element);
    EXPECT_EQ(limit, 0.5);
    EXPECT_STREQ(file, "a.png");
    g_free(file);
}

TEST(Gstreamer, HeatmapsAreTheLibrarys) {
    for (const char *format : {"GRAY8", "BGR", "RGB", "BGRx", "RGBA"}) {
        SCOPED_TRACE(format);
        const GstVideoInfo info = infoOf(format, 37, 41), colors = infoOf("BGR", 37, 41); // rows are padded
        Element element("cusheatmap full-scale=300");
        element.caps(info);
        cusHeatmapOptions options = cusHeatmapDefaults();
        options.full_scale = 300;
        Bytes last;
        for (int k = 0; k < 5; ++k) {
            if (k == 3) {
                g_object_set(gst_harness_find_element(element.harness, "cusheatmap"), "full-scale", 500, nullptr);
                last.clear(); // a new setting is a new start
                options.full_scale = 500;
            }
            Bytes bytes = frameBytes(info, k);
            if (last.empty())
                last = bytes;
            support::Mat expected;
            const cusMat previous = viewOf(info, last), current = viewOf(info, bytes);
            CUS_ASSERT_OK(cusHeatmap(&previous, &current, &expected, &options, nullptr));
            GstBuffer *out = element.frame(bytes, k);
            expectPixels(expected, out, colors);
            EXPECT_EQ(GST_BUFFER_PTS(out), static_cast<GstClockTime>(k) * 100 * GST_MSECOND);
            gst_buffer_unref(out);
            last = bytes;
        }
    }
}

TEST(Gstreamer, MotionIsTheLibrarys) {
    for (const char *format : {"GRAY8", "BGR", "I420", "NV12"}) {
        SCOPED_TRACE(format);
        const GstVideoInfo info = infoOf(format, 98, 70);
        // One of them learns by the frames' times.
        const std::string launch = std::string("cusmotion warmup=3 min-area=60 shift=4 threshold=40 learn-us=") +
                                   (format == std::string("BGR") ? "900000" : "0");
        Element element(launch), drawing(launch);
        element.caps(info);
        gst_harness_set_sink_caps_str(drawing.harness, "image/svg+xml");
        drawing.caps(info);
        cusMotionOptions options = cusMotionDefaults();
        options.warmup = 3;
        options.min_area = 60;
        options.shift = 4;
        options.threshold = 40;
        options.learn_us = format == std::string("BGR") ? 900000 : 0;
        support::Owned<cusMotionDetectorDestroy> detector;
        Bytes bytes = frameBytes(info, 0);
        CUS_ASSERT_OK(cusMotionDetectorCreate(&detector, 1, info.height, info.width, viewOf(info, bytes).type, &options));
        int found = 0;
        std::size_t posted = 0;
        std::string state, last_state;
        for (int k = 0; k < 16; ++k) {
            bytes = frameBytes(info, k);
            const cusMat mat = viewOf(info, bytes);
            cusMotionStatus status;
            std::vector<cusMotionBox> expected(64);
            const std::int64_t time = 100000 * k;
            CUS_ASSERT_OK(cusMotionDetectorRun(detector, &mat, &time, nullptr));
            CUS_ASSERT_OK(cusMotionDetectorGet(detector, 0, 1, &status, expected.data(), nullptr, nullptr));
            std::vector<Box> boxes;
            std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"98\" height=\"70\">";
            for (int i = 0; i < status.boxes; ++i) {
                const cusMotionBox &box = expected[static_cast<std::size_t>(i)];
                boxes.emplace_back(box.track, box.x, box.y, box.width, box.height);
                svg += "<rect x=\"" + std::to_string(box.x) + "\" y=\"" + std::to_string(box.y) + "\" width=\"" +
                       std::to_string(box.width) + "\" height=\"" + std::to_string(box.height) +
                       "\" fill=\"none\" stroke-width=\"2\" stroke=\"hsl(" + std::to_string(box.track % 360 * 137 % 360) +
                       ",100%,50%)\"/>";
            }
            GstBuffer *in = bufferOf(bytes, k);
            const GstMemory *memory = gst_buffer_peek_memory(in, 0);
            gst_buffer_ref(in); // which makes it another's, too: only its pixels may be shared
            GstBuffer *out = element.push(in);
            ASSERT_NE(out, nullptr);
            EXPECT_NE(out, in);
            EXPECT_EQ(gst_buffer_peek_memory(out, 0), memory);
            EXPECT_TRUE(boxesOf(in).empty());
            EXPECT_EQ(boxesOf(out), boxes) << k;
            found += status.boxes;
            gst_buffer_unref(in);
            gst_buffer_unref(out);
            const char *const states[] = {"learning", "watching", "sudden", "crowded"};
            if (posted || status.boxes || states[status.state] != last_state) {
                EXPECT_EQ(boxesOf(element.bus, "cusmotion", &state), boxes) << k;
                EXPECT_EQ(state, states[status.state]);
            }
            EXPECT_FALSE(gst_bus_have_pending(element.bus)) << k;
            posted = boxes.size();
            last_state = states[status.state];
            out = drawing.frame(bytes, k);
            const Bytes text = bytesOf(out);
            EXPECT_EQ(std::string(text.begin(), text.end()), svg + "</svg>");
            gst_buffer_unref(out);
        }
        EXPECT_GT(found, 5);
    }
}

TEST(Gstreamer, MatchesAreTheLibrarys) {
    if (!haveElement("pngenc") || !haveElement("pngdec") || !haveElement("decodebin"))
        GTEST_SKIP() << "needs gst-plugins-base and gst-plugins-good";
    const GstVideoInfo info = infoOf("BGR", 96, 64);
    Bytes bytes = frameBytes(info, 2);
    Element element(launches().at("match") + " max-matches=3 min-distance=4 subpixel=true");
    element.caps(info);
    support::Owned<cusMatcherDestroy> matcher;
    cusMatcherOptions options = cusMatcherDefaults();
    options.max_matches = 3;
    options.min_distance = 4;
    options.subpixel = 1;
    const cusMat first = viewOf(info, bytes);
    cusMat part = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatRegion(&first, 10, 8, 30, 20, &part));
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &part, 1, 64, 96, &options, nullptr));
    for (int k = 2; k < 5; ++k) {
        Bytes next = frameBytes(info, k);
        const cusMat mat = viewOf(info, next);
        cusMatch expected[3];
        int found = 0;
        CUS_ASSERT_OK(cusMatcherRun(matcher, &mat, nullptr, nullptr));
        CUS_ASSERT_OK(cusMatcherGet(matcher, 0, expected, 3, &found, nullptr));
        std::vector<Box> boxes;
        for (int i = 0; i < found; ++i)
            boxes.emplace_back(i, expected[i].x, expected[i].y, 30, 20);
        GstBuffer *out = element.frame(next, k);
        EXPECT_EQ(boxesOf(out), boxes);
        gpointer state = nullptr;
        GstMeta *meta = gst_buffer_iterate_meta_filtered(out, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE);
        const GstStructure *best =
            gst_video_region_of_interest_meta_get_param(reinterpret_cast<GstVideoRegionOfInterestMeta *>(meta), "match");
        double score = 0, dx = 9, dy = 9;
        EXPECT_TRUE(gst_structure_get(best, "score", G_TYPE_DOUBLE, &score, "dx", G_TYPE_DOUBLE, &dx, "dy", G_TYPE_DOUBLE,
                                      &dy, nullptr));
        EXPECT_EQ(score, expected[0].score);
        EXPECT_EQ(dx, static_cast<double>(expected[0].dx));
        EXPECT_EQ(dy, static_cast<double>(expected[0].dy));
        EXPECT_EQ(boxesOf(element.bus, "cusmatch"), boxes);
        gst_buffer_unref(out);
        if (k == 2)
            EXPECT_EQ(boxes[0], Box(0, 10, 8, 30, 20));
    }
    // Where there is none, one message says so.
    Element limited(launches().at("match") + " score-limit=0.99");
    limited.caps(info);
    const Bytes flat(info.size, 90);
    for (int k = 0; k < 4; ++k) {
        GstBuffer *out = limited.frame(k == 1 || k == 2 ? flat : bytes, k);
        EXPECT_EQ(boxesOf(out).size(), k == 1 || k == 2 ? 0u : 1u);
        EXPECT_EQ(gst_bus_have_pending(limited.bus), k != 2) << k;
        EXPECT_EQ(boxesOf(limited.bus, "cusmatch"), boxesOf(out));
        gst_buffer_unref(out);
    }
    // In other formats the picture is found, too: colors are converted as those of a stream.
    for (const char *format : {"I420", "GRAY8"}) {
        Element convert(std::string("videoconvert ! video/x-raw,format=") + format + " ! " + launches().at("match"));
        convert.caps(info);
        GstBuffer *out = convert.frame(bytes, 0);
        EXPECT_EQ(boxesOf(out), std::vector<Box>{Box(0, 10, 8, 30, 20)}) << format;
        gst_buffer_unref(out);
    }
}

TEST(Gstreamer, DifferencesAreTheLibrarys) {
    for (const char *format : {"GRAY8", "BGR", "RGBA"}) {
        SCOPED_TRACE(format);
        const GstVideoInfo info = infoOf(format, 37, 41);
        Element encoder("cusdiffenc threshold=8 min-neighbors=2 key-interval=7"), decoder("cusdiffdec");
        encoder.caps(info);
        support::Owned<cusDiffEncoderDestroy> expected;
        cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
        cusDiffOptions options = cusDiffDefaults();
        options.threshold = 8;
        options.min_neighbors = 2;
        Bytes bytes = frameBytes(info, 0);
        const int type = viewOf(info, bytes).type;
        CUS_ASSERT_OK(cusDiffEncoderCreate(&expected, 41, 37, type, CUS_HOST, &options));
        CUS_ASSERT_OK(cusSparseDiffCreate(&diff, 41, 37, type, 0, 0, CUS_HOST));
        for (int k = 0; k < 20; ++k) {
            bytes = frameBytes(info, k);
            const cusMat mat = viewOf(info, bytes);
            const bool key = k % 7 == 0;
            std::uint32_t count = 0;
            if (key) {
                CUS_ASSERT_OK(cusDiffEncoderReset(expected, &mat, nullptr));
            } else {
                CUS_ASSERT_OK(cusDiffEncode(expected, &mat, &diff, nullptr));
                CUS_ASSERT_OK(cusSparseDiffCount(&diff, &count, nullptr));
            }
            GstBuffer *out = encoder.frame(bytes, k);
            const Bytes message = bytesOf(out);
            EXPECT_EQ(std::string(message.begin(), message.begin() + 4), key ? "CUSK" : "CUSD") << k;
            EXPECT_EQ(!GST_BUFFER_FLAG_IS_SET(out, GST_BUFFER_FLAG_DELTA_UNIT), key);
            std::uint32_t words[2];
            std::memcpy(words, &message[4], 8);
            EXPECT_EQ(words[0], static_cast<std::uint32_t>(k));
            EXPECT_EQ(words[1], count);
            if (!key) {
                ASSERT_EQ(message.size(), 12 + 5 * count);
                EXPECT_EQ(std::memcmp(&message[12], diff.positions.data, 4 * count), 0);
                EXPECT_EQ(std::memcmp(&message[12] + 4 * count, diff.values.data, count), 0);
            }
            if (k == 0) {
                GstCaps *caps = gst_pad_get_current_caps(encoder.harness->sinkpad);
                EXPECT_TRUE(gst_structure_has_name(gst_caps_get_structure(caps, 0), "application/x-cusight-diff"));
                gst_harness_set_src_caps(decoder.harness, caps);
            }
            GstBuffer *picture = decoder.push(out);
            cusMat reference = CUS_MAT_INIT;
            CUS_ASSERT_OK(cusDiffEncoderReference(expected, &reference));
            expectPixels(reference, picture, info);
            EXPECT_FALSE(GST_BUFFER_FLAG_IS_SET(picture, GST_BUFFER_FLAG_DELTA_UNIT));
            EXPECT_EQ(GST_BUFFER_PTS(picture), static_cast<GstClockTime>(k) * 100 * GST_MSECOND);
            gst_buffer_unref(picture);
        }
        cusSparseDiffRelease(&diff);
    }
}

// Messages of a codec's frames; which kind they are.
TEST(Gstreamer, KeyFramesWhereTheyAreNeeded) {
    const GstVideoInfo info = infoOf("GRAY8", 64, 48);
    Element encoder("cusdiffenc key-interval=0");
    encoder.caps(info);
    auto kind = [&](Bytes bytes, int k) {
        GstBuffer *out = encoder.frame(bytes, k);
        const Bytes message = bytesOf(out);
        EXPECT_LE(message.size(), 12 + 64u * 48u);
        gst_buffer_unref(out);
        return static_cast<char>(message[3]);
    };
    EXPECT_EQ(kind(frameBytes(info, 0), 0), 'K');
    EXPECT_EQ(kind(frameBytes(info, 1), 1), 'D');
    EXPECT_TRUE(gst_harness_push_upstream_event(encoder.harness,
                                                gst_video_event_new_upstream_force_key_unit(GST_CLOCK_TIME_NONE, TRUE, 1)));
    EXPECT_EQ(kind(frameBytes(info, 2), 2), 'K');
    EXPECT_EQ(kind(frameBytes(info, 3), 3), 'D');
    encoder.flush();
    EXPECT_EQ(kind(frameBytes(info, 4), 4), 'K');
    Bytes other = frameBytes(info, 5);
    for (std::uint8_t &byte : other)
        byte = static_cast<std::uint8_t>(byte + 100); // all bytes change: a difference would be longer
    EXPECT_EQ(kind(other, 5), 'K');
    EXPECT_EQ(kind(other, 6), 'D');
    encoder.caps(infoOf("GRAY8", 64, 48)); // the same caps change nothing
    EXPECT_EQ(kind(other, 7), 'D');
}

TEST(Gstreamer, LossAndDamage) {
    const GstVideoInfo info = infoOf("GRAY8", 64, 48);
    Element encoder("cusdiffenc threshold=0 key-interval=0"), decoder("cusdiffdec");
    encoder.caps(info);
    std::vector<GstBuffer *> messages;
    for (int k = 0; k < 12; ++k) {
        if (k == 6) // a second key frame
            gst_harness_push_upstream_event(encoder.harness,
                                            gst_video_event_new_upstream_force_key_unit(GST_CLOCK_TIME_NONE, TRUE, 1));
        messages.push_back(encoder.frame(frameBytes(info, k), k));
    }
    gst_harness_set_src_caps(decoder.harness, gst_pad_get_current_caps(encoder.harness->sinkpad));
    auto requests = [&] {
        int count = 0;
        while (GstEvent *event = gst_harness_try_pull_upstream_event(decoder.harness)) {
            count += gst_video_event_is_force_key_unit(event);
            gst_event_unref(event);
        }
        return count;
    };
    auto decodes = [&](int k) {
        GstBuffer *out = decoder.push(gst_buffer_ref(messages[static_cast<std::size_t>(k)]));
        if (!out)
            return false;
        Bytes bytes = frameBytes(info, k);
        expectPixels(viewOf(info, bytes), out, info);
        gst_buffer_unref(out);
        return true;
    };
    requests();
    EXPECT_FALSE(decodes(1)); // joined late
    EXPECT_FALSE(decodes(2));
    EXPECT_EQ(requests(), 1); // asked for once
    EXPECT_EQ(decoder.complaint(GST_MESSAGE_WARNING), "");
    EXPECT_TRUE(decodes(0));
    EXPECT_TRUE(decodes(1));
    EXPECT_FALSE(decodes(3));
    EXPECT_EQ(requests(), 1);
    EXPECT_NE(decoder.complaint(GST_MESSAGE_WARNING).find("Frames are missing until the next key frame. | "),
              std::string::npos);
    EXPECT_FALSE(decodes(4));
    EXPECT_EQ(decoder.complaint(GST_MESSAGE_WARNING), "");
    EXPECT_TRUE(decodes(6));
    EXPECT_TRUE(decodes(7));
    decoder.flush();
    EXPECT_FALSE(decodes(8)); // from another place
    EXPECT_TRUE(decodes(6));
    EXPECT_TRUE(decodes(7));
    // Damaged messages: none is decoded, and the next key frame is.
    const Bytes good = bytesOf(messages[8]);
    struct Damage {
        const char *says;
        std::function<void(Bytes &)> apply;
    };
    const Damage damages[] = {
        {"no sparse difference", [](Bytes &bytes) { bytes.resize(5); }},
        {"no sparse difference", [](Bytes &bytes) { bytes.clear(); }},
        {"no sparse difference", [](Bytes &bytes) { bytes[3] = 'X'; }},
        {"wrong size", [](Bytes &bytes) { bytes.pop_back(); }},
        {"wrong size", [](Bytes &bytes) { bytes[11] = 0xff; }},
        {"wrong size", [](Bytes &bytes) { bytes[3] = 'K'; }},
        {"wrong size", // more bytes than a difference may have
         [](Bytes &bytes) {
             bytes.assign(12 + 5 * 700, 0);
             std::memcpy(bytes.data(), "CUSD\x08\0\0\0\xbc\x02\0\0", 12);
         }},
        {"missing", [](Bytes &bytes) { ++bytes[4]; }},
        {"cusDiffDecode", [](Bytes &bytes) { bytes[15] = 0xff; }}, // a position outside of the frame
    };
    for (const Damage &damage : damages) {
        Bytes bytes = good;
        damage.apply(bytes);
        EXPECT_EQ(decoder.push(bufferOf(bytes, 8)), nullptr);
        EXPECT_NE(decoder.complaint(GST_MESSAGE_WARNING).find(damage.says), std::string::npos) << damage.says;
        EXPECT_TRUE(decodes(6));
        EXPECT_TRUE(decodes(7));
    }
    for (GstBuffer *message : messages)
        gst_buffer_unref(message);
}

TEST(Gstreamer, FlushForgets) {
    const GstVideoInfo info = infoOf("BGR", 96, 64);
    Element heatmap("cusheatmap"), motion("cusmotion warmup=1 min-area=50");
    heatmap.caps(info);
    motion.caps(info);
    std::string state;
    for (int k = 0; k < 8; ++k) {
        if (k == 6) {
            heatmap.flush();
            motion.flush();
        }
        Bytes bytes = frameBytes(info, k);
        GstBuffer *out = heatmap.frame(bytes, k);
        const Bytes map = bytesOf(out);
        EXPECT_EQ(std::count(map.begin(), map.end(), 255),
                  k == 0 || k == 6 ? 96 * 64 : std::count(map.begin(), map.end(), 255))
            << k;
        EXPECT_EQ(map[0], 255); // blue: no change
        if (k == 5)
            EXPECT_LT(std::count(map.begin(), map.end(), 255), 96 * 64);
        gst_buffer_unref(out);
        out = motion.frame(bytes, k);
        while (gst_bus_have_pending(motion.bus))
            boxesOf(motion.bus, "cusmotion", &state);
        if (k == 5)
            EXPECT_EQ(state, "watching");
        if (k >= 6)
            EXPECT_TRUE(boxesOf(out).empty());
        gst_buffer_unref(out);
    }
    EXPECT_EQ(state, "learning");
}

TEST(Gstreamer, SeekInAPipeline) {
    if (!haveElement("videotestsrc"))
        GTEST_SKIP() << "needs gst-plugins-base";
    auto frameAt = [](const char *codec, int seeks) {
        GstElement *pipeline = gst_parse_launch(
            (std::string("videotestsrc pattern=ball ! video/x-raw,format=BGR,width=160,height=120,framerate=10/1 ! ") +
             codec + " fakesink name=sink")
                .c_str(),
            nullptr);
        gst_element_set_state(pipeline, GST_STATE_PAUSED);
        EXPECT_NE(gst_element_get_state(pipeline, nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_FAILURE);
        for (int i = 1; i <= seeks; ++i) {
            EXPECT_TRUE(gst_element_seek_simple(pipeline, GST_FORMAT_TIME,
                                                static_cast<GstSeekFlags>(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE),
                                                (seeks % 2 ? 7 - i : i) * GST_SECOND));
            EXPECT_NE(gst_element_get_state(pipeline, nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_FAILURE);
        }
        GstSample *sample = nullptr;
        gst_child_proxy_get(GST_CHILD_PROXY(pipeline), "sink::last-sample", &sample, nullptr);
        const Bytes bytes = sample ? bytesOf(gst_sample_get_buffer(sample)) : Bytes();
        if (sample)
            gst_sample_unref(sample);
        GstBus *bus = gst_element_get_bus(pipeline);
        EXPECT_FALSE(gst_bus_pop_filtered(bus, static_cast<GstMessageType>(GST_MESSAGE_WARNING | GST_MESSAGE_ERROR)));
        gst_object_unref(bus);
        gst_element_set_state(pipeline, GST_STATE_NULL);
        gst_object_unref(pipeline);
        return bytes;
    };
    for (const int seeks : {0, 1, 3, 4}) {
        const Bytes plain = frameAt("", seeks);
        EXPECT_FALSE(plain.empty());
        EXPECT_EQ(frameAt("cusdiffenc threshold=0 ! cusdiffdec ! ", seeks), plain);
        EXPECT_EQ(frameAt("cusmotion ! ", seeks), plain);
    }
}

// Whole pipelines with threads of GStreamer's, whose properties are set meanwhile.
TEST(Gstreamer, SeveralStreamingThreads) {
    if (!haveElement("videotestsrc"))
        GTEST_SKIP() << "needs gst-plugins-base";
    const char *const launch =
        "videotestsrc pattern=ball num-buffers=40 ! video/x-raw,format=BGR,width=160,height=120 ! tee name=t ! queue ! "
        "cusmotion name=motion warmup=2 min-area=50 ! fakesink t. ! queue ! cusheatmap ! fakesink t. ! queue ! cusdiffenc "
        "! queue ! "
        "cusdiffdec ! fakesink";
    std::vector<GstElement *> pipelines;
    for (int i = 0; i < 3; ++i) {
        pipelines.push_back(gst_parse_launch(launch, nullptr));
        gst_element_set_state(pipelines.back(), GST_STATE_PLAYING);
    }
    for (int threshold = 20; threshold < 30; ++threshold)
        for (GstElement *pipeline : pipelines)
            gst_child_proxy_set(GST_CHILD_PROXY(pipeline), "motion::threshold", threshold, nullptr);
    for (GstElement *pipeline : pipelines) {
        GstBus *bus = gst_element_get_bus(pipeline);
        GstMessage *message = gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND,
                                                         static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
        EXPECT_TRUE(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS);
        gst_clear_message(&message);
        gst_object_unref(bus);
        gst_element_set_state(pipeline, GST_STATE_NULL);
        gst_object_unref(pipeline);
    }
}

TEST(Gstreamer, ResolutionChangesAndRestarts) {
    if (!haveElement("pngenc"))
        GTEST_SKIP() << "needs gst-plugins-good";
    for (const auto &[name, launch] : launches()) {
        SCOPED_TRACE(name);
        Element element(launch);
        int k = 0;
        for (const auto &[width, height] : {std::pair(96, 64), std::pair(64, 96), std::pair(33, 21)}) {
            const GstVideoInfo info = infoOf("BGR", width, height);
            element.caps(info);
            for (int i = 0; i < 3; ++i, ++k) {
                GstBuffer *out = element.frame(frameBytes(info, i), k);
                ASSERT_NE(out, nullptr);
                if (name == "encoder") {
                    EXPECT_EQ(bytesOf(out)[3], i ? 'D' : 'K');
                } else {
                    EXPECT_EQ(gst_buffer_get_size(out), info.size);
                }
                gst_buffer_unref(out);
            }
            GstCaps *caps = gst_pad_get_current_caps(element.harness->sinkpad);
            int got = 0;
            EXPECT_TRUE(gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &got));
            EXPECT_EQ(got, width);
            gst_caps_unref(caps);
            if (width == 64) { // stopped and started again
                gst_element_set_state(element.harness->element, GST_STATE_READY);
                gst_element_set_state(element.harness->element, GST_STATE_PLAYING);
                while (GstEvent *event = gst_harness_try_pull_event(element.harness))
                    gst_event_unref(event);
                EXPECT_TRUE(gst_harness_push_event(element.harness, gst_event_new_stream_start("again")));
                element.caps(info);
                GstSegment segment;
                gst_segment_init(&segment, GST_FORMAT_TIME);
                EXPECT_TRUE(gst_harness_push_event(element.harness, gst_event_new_segment(&segment)));
            }
        }
        EXPECT_TRUE(gst_harness_push_event(element.harness, gst_event_new_eos()));
        bool eos = false;
        while (GstEvent *event = gst_harness_try_pull_event(element.harness)) {
            eos = eos || GST_EVENT_TYPE(event) == GST_EVENT_EOS;
            gst_event_unref(event);
        }
        EXPECT_TRUE(eos);
        element.frame(frameBytes(infoOf("BGR", 33, 21), 0), 99, GST_FLOW_EOS);
        EXPECT_EQ(element.complaint(GST_MESSAGE_ERROR), "");
    }
}

// Upstream's query is answered, and after the first frames nothing is allocated from a frame's arrival until it leaves.
TEST(Gstreamer, Allocation) {
    if (!haveElement("pngenc"))
        GTEST_SKIP() << "needs gst-plugins-good";
    std::map<std::string, std::string> lines = launches();
    lines["match"] += " score-limit=2"; // boxes are allocated: none is found here
    lines["motion"] = "cusmotion min-area=10000";
    lines["drawing"] = "cusmotion min-area=10000 ! capsfilter caps=image/svg+xml";
    for (const auto &[name, launch] : lines) {
        SCOPED_TRACE(name);
        const GstVideoInfo info = infoOf("BGR", 96, 64);
        Element element(launch);
        element.caps(info);
        GstVideoInfo copy = info;
        GstCaps *caps = gst_video_info_to_caps(&copy);
        GstQuery *query = gst_query_new_allocation(caps, TRUE);
        const bool answered = gst_pad_peer_query(element.harness->srcpad, query);
        if (name != "motion" && name != "match") { // which pass it on: the harness does not answer
            ASSERT_TRUE(answered);
            EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr));
            ASSERT_EQ(gst_query_get_n_allocation_pools(query), 1u);
            guint size = 0, least = 0, most = 9;
            gst_query_parse_nth_allocation_pool(query, 0, nullptr, &size, &least, &most);
            EXPECT_EQ(size, info.size);
            EXPECT_EQ(least, 2u);
            EXPECT_EQ(most, 0u);
        }
        gst_query_unref(query);
        gst_caps_unref(caps);
#ifndef CUSI_SANITIZE
        GstPad *source = GST_PAD_PEER(element.harness->srcpad), *sink = GST_PAD_PEER(element.harness->sinkpad);
        const auto set = [](GstPad *, GstPadProbeInfo *, gpointer on) {
            counting = on != nullptr;
            return GST_PAD_PROBE_OK;
        };
        gst_pad_add_probe(source, GST_PAD_PROBE_TYPE_BUFFER, set, &counting, nullptr);
        gst_pad_add_probe(sink, GST_PAD_PROBE_TYPE_BUFFER, set, nullptr, nullptr);
        for (int k = 0; k < 30; ++k) {
            GstBuffer *out = element.frame(frameBytes(info, k), k);
            ASSERT_NE(out, nullptr);
            gst_buffer_unref(out);
            if (k == 10) // from when the detector watches, which is a message
                allocations = 0;
        }
        EXPECT_EQ(allocations, 0);
        // The count counts: a new setting makes objects anew.
        if (name == "heatmap" || name == "encoder") {
            g_object_set(gst_harness_find_element(element.harness, name == "heatmap" ? "cusheatmap" : "cusdiffenc"),
                         name == "heatmap" ? "full-scale" : "threshold", 77, nullptr);
            gst_buffer_unref(element.frame(frameBytes(info, 0), 30));
            EXPECT_EQ(allocations > 0, name == "encoder");
        }
#endif
    }
}

// Late frames are left out where nothing depends on them; the decoder decodes all messages.
TEST(Gstreamer, QosEvents) {
    const GstVideoInfo info = infoOf("BGR", 96, 64);
    Element heatmap("cusheatmap"), encoder("cusdiffenc threshold=0"), decoder("cusdiffdec");
    heatmap.caps(info);
    encoder.caps(info);
    for (int k = 0; k < 6; ++k) {
        Bytes bytes = frameBytes(info, k);
        if (k == 3) // one second late at the third frame
            for (Element *element : {&heatmap, &decoder})
                gst_harness_push_upstream_event(
                    element->harness, gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 2.0, 250 * GST_MSECOND, 100 * GST_MSECOND));
        GstBuffer *out = heatmap.frame(bytes, k);
        EXPECT_EQ(out != nullptr, k != 3) << k;
        gst_clear_buffer(&out);
        GstBuffer *message = encoder.frame(bytes, k);
        if (k == 0)
            gst_harness_set_src_caps(decoder.harness, gst_pad_get_current_caps(encoder.harness->sinkpad));
        out = decoder.push(message);
        expectPixels(viewOf(info, bytes), out, info);
        gst_buffer_unref(out);
    }
}

TEST(Gstreamer, ErrorsSayWhatIsWrong) {
    const GstVideoInfo info = infoOf("BGR", 24, 16);
    auto error = [&](const std::string &launch) {
        Element element(launch);
        element.caps(info);
        EXPECT_EQ(element.frame(frameBytes(info, 0), 0, GST_FLOW_ERROR), nullptr);
        return element.complaint(GST_MESSAGE_ERROR);
    };
    EXPECT_NE(error("cusmatch").find("The property \"template\" is not set to a file."), std::string::npos);
    EXPECT_NE(error("cusmatch template=/nowhere/a.png").find("The template \"/nowhere/a.png\" cannot be read."),
              std::string::npos);
    EXPECT_NE(error("cusmatch template=" + support::sourceFile("LICENSE")).find("LICENSE\" cannot be read."),
              std::string::npos);
    if (haveElement("pngenc")) {
        EXPECT_NE(error(launches().at("match"))
                      .find("cusMatcherCreate: templates are 20 x 30 (rows x cols), expected at most the frame, 16 x 24"),
                  std::string::npos);
    }
    for (const char *name : {"cusheatmap", "cusmotion", "cusmatch", "cusdiffenc", "cusdiffdec"}) {
        Element element(name);
        gst_harness_set_src_caps_str(element.harness, "video/x-raw,format=GRAY16_LE,width=24,height=16,framerate=10/1");
        EXPECT_EQ(element.frame(Bytes(24 * 16 * 2), 0, GST_FLOW_NOT_NEGOTIATED), nullptr) << name;
    }
}

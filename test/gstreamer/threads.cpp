// Several elements at once, each in a thread of its own: as one after the other. ThreadSanitizer sees all of it, which it does not in
// pipelines: GLib's locks are no locks to it.
#include "gstreamer/harness.hpp"

#include <thread>

using namespace gstreamer;

TEST(GstreamerThreads, SeveralPipelinesAtOnce) {
    const char *const launches[] = {"cusheatmap", "cusmotion warmup=2 min-area=50",
                                    "cusmotion warmup=2 min-area=50 ! capsfilter caps=image/svg+xml",
                                    "cusdiffenc ! cusdiffdec"};
    const GstVideoInfo info = infoOf("BGR", 96, 64);
    auto all = [&](const char *launch) {
        std::vector<std::uint8_t> bytes;
        Element element(launch);
        element.caps(info);
        for (int k = 0; k < 12; ++k) {
            GstBuffer *out = element.frame(frameBytes(info, k), k);
            const std::vector<std::uint8_t> more = bytesOf(out);
            bytes.insert(bytes.end(), more.begin(), more.end());
            gst_buffer_unref(out);
        }
        return bytes;
    };
    std::vector<std::vector<std::uint8_t>> expected, got(8);
    for (const char *launch : launches)
        expected.push_back(all(launch));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < got.size(); ++i)
        threads.emplace_back([&, i] { got[i] = all(launches[i % 4]); });
    for (std::thread &thread : threads)
        thread.join();
    for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i], expected[i % 4]) << launches[i % 4];
}

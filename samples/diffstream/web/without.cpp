// A build without what cusight-diffstream needs: --web of cusight-events is refused.
#include "diffstream/web/sink.hpp"

#include "common/app.hpp"

namespace diffstream {

std::unique_ptr<sample::Sink> openWebSink(const WebSettings & /*web*/, cv::Size /*size*/,
                                          const sample::Playback & /*playback*/) {
    throw sample::Stop(sample::USAGE, "--web is not available: " CUSIGHT_WITHOUT_WEB);
}

} // namespace diffstream

#include "match/results.hpp"

#include "common/video/legend.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>

namespace match {

namespace {

// A turned box, and a line from its middle to where the template is up.
void outline(cv::Mat &picture, const Drawn &d, int line) {
    cv::polylines(picture, d.shape, true, d.box_color, line, cv::LINE_AA);
    cv::line(picture, (d.shape[0] + d.shape[2]) / 2, (d.shape[0] + d.shape[1]) / 2, d.box_color, line, cv::LINE_AA);
}

} // namespace

void draw(cv::Mat &picture, const std::vector<Drawn> &all) {
    const double scale = sample::Labels::scaleFor(picture.size());
    sample::Labels labels(picture.size());
    const int line = std::max(2, cvRound(2 * scale));
    for (const Drawn &d : all) {
        if (d.shape.empty())
            cv::rectangle(picture, d.box, d.box_color, line);
        else
            outline(picture, d, line);
        labels.occupy(d.box);
    }
    for (const Drawn &d : all) {
        const cv::Size size = sample::Labels::sizeOf(d.label, scale);
        const int gap = line + 1, right = d.box.x + d.box.width, bottom = d.box.y + d.box.height;
        const int inside = std::max(0, std::min(d.box.x, picture.cols - size.width)); // where it stays inside the picture
        const cv::Point places[] = {{inside, d.box.y - size.height - gap},
                                    {inside, bottom + gap},
                                    {right + gap, d.box.y},
                                    {d.box.x - size.width - gap, d.box.y},
                                    {right - size.width, bottom + gap},
                                    {right + gap, bottom - size.height}};
        for (const cv::Point &at : places)
            if (labels.isFree({at, size})) {
                labels.draw(picture, d.label, at, scale, d.label_color, {0, 0, 0});
                break;
            }
    }
}

MatchFile::MatchFile(const std::string &name, bool poses) {
    if (name.empty())
        return;
    file_ = std::make_unique<sample::OutputFile>(name);
    header_ = sample::text("frame,template,rank,x,y,%s", poses ? "angle,scale,score" : "score,pixels,filled");
}

void MatchFile::begin(bool pictures) {
    if (file_)
        file_->print("%s%s\n", header_.c_str(), pictures ? ",picture" : "");
}

void MatchFile::write(long long frame, size_t index, size_t rank, const Hit &m, const std::string &picture) {
    if (!file_)
        return;
    if (m.pose)
        file_->print("%lld,%zu,%zu,%.9g,%.9g,%.9g,%.9g,%.17g", frame, index, rank, m.pose->x, m.pose->y, m.pose->angle,
                     m.pose->scale, m.score);
    else
        file_->print("%lld,%zu,%zu,%.9g,%.9g,%.17g,%u,%d", frame, index, rank, m.x + static_cast<double>(m.dx),
                     m.y + static_cast<double>(m.dy), m.score, m.pixels, m.filled);
    file_->print("%s%s\n", picture.empty() ? "" : ",", sample::csvCell(picture).c_str());
}

void MatchFile::finish() {
    if (file_)
        file_->commit();
    file_.reset();
}

} // namespace match

#include "common/window/select.hpp"

#include "common/app.hpp"
#include "common/opencv/opencv.hpp"
#include "common/window/window.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <exception>

namespace sample {

const char *const SELECTION_HELP = "Without --template and --roi, and with a display, the first frame is shown: drag the "
                                   "mouse around each thing to find, then "
                                   "press Enter or space. Backspace takes back the last rectangle; Esc, q or closing the "
                                   "window cancels, and the program ends "
                                   "with exit code 0.";

namespace {

const char *const SELECT_KEYS = "drag: a rectangle    Backspace: take back    Enter: find    Esc: cancel";

struct Selection {
    cv::Size size;
    std::vector<cv::Rect> done;
    cv::Point from, to;
    bool dragging = false;

    cv::Rect current() const { return cv::Rect(from, to) & cv::Rect({}, size); }

    // Called by highgui. Positions are those of the picture, however large it is shown.
    static void onMouse(int event, int x, int y, int, void *self) {
        Selection &s = *static_cast<Selection *>(self);
        const cv::Point at(std::clamp(x, 0, s.size.width), std::clamp(y, 0, s.size.height));
        if (event == cv::EVENT_LBUTTONDOWN) {
            s.from = s.to = at;
            s.dragging = true;
        } else if (s.dragging && (event == cv::EVENT_MOUSEMOVE || event == cv::EVENT_LBUTTONUP)) {
            s.to = at;
            if (event == cv::EVENT_LBUTTONUP) {
                s.dragging = false;
                if (s.current().area() > 0)
                    s.done.push_back(s.current());
            }
        }
    }

    cv::Mat drawn(const cv::Mat &picture) const {
        cv::Mat out = picture.clone();
        const int line = std::max(2, size.width / 320);
        const double scale = std::clamp(size.width / 1200.0, 0.35, 3.0);
        std::vector<cv::Rect> all = done;
        if (dragging)
            all.push_back(current());
        for (const cv::Rect &rectangle : all)
            cv::rectangle(out, rectangle, {0, 220, 0}, line);
        int below = 0;
        const cv::Size words = cv::getTextSize(SELECT_KEYS, cv::FONT_HERSHEY_SIMPLEX, scale, std::max(1, line / 2), &below);
        cv::Mat strip = out.rowRange(0, std::min(out.rows, words.height + 3 * below));
        strip *= 0.3;
        cv::putText(out, SELECT_KEYS, {below, words.height + below}, cv::FONT_HERSHEY_SIMPLEX, scale, {255, 255, 255},
                    std::max(1, line / 2), cv::LINE_AA);
        return out;
    }
};

} // namespace

std::vector<cv::Rect> selectRectangles(const std::string &title, const cv::Mat &picture) {
    constexpr int TICK = 20; // milliseconds
    Selection selection;
    selection.size = picture.size();
    try {
        openWindow(title, picture.size());
        openCv().setMouseCallback(title, Selection::onMouse, &selection);
        for (bool accepted = false; !accepted;) {
            openCv().imshow(title, selection.drawn(picture));
            const int key = openCv().waitKey(TICK) & 255;
            accepted = (key == 13 || key == 10 || key == ' ') && !selection.done.empty();
            if (key == 8 && !selection.done.empty())
                selection.done.pop_back();
            if (key == 27 || key == 'q' || interrupted() || !isWindowOpen(title)) {
                selection.done.clear();
                break;
            }
        }
        int more = 10; // the key may come twice, and would close the next window
        while (more > 0 && openCv().waitKey(TICK) >= 0)
            --more;
        openCv().destroyAllWindows();
    } catch (const cv::Exception &error) {
        throw Stop(OUTPUT, "the window cannot be drawn: " + error.err);
    }
    return selection.done;
}

} // namespace sample

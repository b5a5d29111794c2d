#include "common/stages.hpp"

#include "common/app.hpp"
#include "common/terminal/report.hpp"

#include <nlohmann/json.hpp>

namespace sample {

void figureStages(const std::vector<Stage> &stages, double overall, double frames, const std::string &whose) {
    if (frames <= 0)
        return;
    Json times;
    std::string line;
    for (const Stage &stage : stages) {
        if (stage.seconds <= 0)
            continue;
        const double ms = 1e3 * stage.seconds / frames;
        times[stage.name] = ms;
        line += text("%s%s %.2f ms", line.empty() ? "" : ", ", stage.name, ms);
    }
    if (overall > 0) {
        times["overall"] = 1e3 * overall / frames;
        line += text("; %.2f ms per frame overall", 1e3 * overall / frames);
    }
    figure(whose.empty() ? "stages" : (whose + " stages").c_str(),
           {{whose.empty() ? "stages_ms" : (whose + "_stages_ms").c_str(), times}}, "%s", line.c_str());
}

} // namespace sample

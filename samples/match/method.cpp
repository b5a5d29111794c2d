#include "match/method.hpp"

#include "common/app.hpp"

#include <algorithm>
#include <cmath>

namespace match {

namespace {

constexpr auto NONE = std::nullopt;

// Limits of the normed methods that agree with each other: 0.95 of one is 0.1 of the other for windows of equal norms.
const std::vector<Method> METHODS = {
    {"sqdiff", CUS_MATCH_SQDIFF, true, Method::RMS, 0, 255, 25, "RMS difference per value"},
    {"sqdiff-normed", CUS_MATCH_SQDIFF_NORMED, true, Method::NORMED, 0, 1, 0.1, "relative difference"},
    {"ccorr", CUS_MATCH_CCORR, false, Method::MEAN, 0, 65025, NONE, "mean product of values"},
    {"ccorr-normed", CUS_MATCH_CCORR_NORMED, false, Method::NORMED, 0, 1, 0.95, "correlation, not centered"},
    {"ccoeff", CUS_MATCH_CCOEFF, false, Method::MEAN, -65025, 65025, NONE, "covariance"},
    {"ccoeff-normed", CUS_MATCH_CCOEFF_NORMED, false, Method::NORMED, -1, 1, 0.8, "correlation"},
};

} // namespace

double Method::fromSum(double score, double values) const {
    return unit == RMS ? std::sqrt(score / values) : unit == MEAN ? score / values : score;
}

std::string Method::text(double score) const {
    if (unit == RMS)
        return sample::text("RMS %.3g", score);
    if (unit == MEAN)
        return sample::shortNumber(score);
    if (score < 0.001 && score > -0.001)
        return sample::shortNumber(score);
    return score == 1 ? "1" : sample::text("%.3f", std::min(score, 0.999));
}

std::string Method::wanted(double least) const {
    return sample::text("limit %g", least);
}

std::string Method::describe(double least) const {
    return sample::text(smallest_is_best ? "at most %s%g" : "at least %s%g", unit == RMS ? "RMS " : "", least);
}

std::string Method::beyond(double least) const {
    return sample::text(smallest_is_best ? "below %s%g" : "above %s%g", unit == RMS ? "RMS " : "", least);
}

std::optional<double> Method::checkedLimit(std::optional<double> given) const {
    if (given && (*given < low || *given > high))
        throw sample::Stop(sample::USAGE, sample::text("--limit is %g, expected %g to %g for --method %s: %s", *given, low,
                                                       high, name, meaning));
    return given ? given : limit;
}

const Method &methodOf(const std::string &name) {
    return *std::find_if(METHODS.begin(), METHODS.end(), [&](const Method &m) { return m.name == name; });
}

std::vector<std::string> methodNames() {
    std::vector<std::string> names;
    names.reserve(METHODS.size());
    for (const Method &m : METHODS)
        names.emplace_back(m.name);
    return names;
}

std::string unitsHelp() {
    std::string help;
    for (const Method &m : METHODS)
        help += sample::text("%s%s: %s, %g to %g, best %s", help.empty() ? "" : "; ", m.name, m.meaning, m.low, m.high,
                             m.smallest_is_best ? "smallest" : "largest");
    return help;
}

std::string limitsHelp() {
    std::string help;
    for (const Method &m : METHODS)
        help += sample::text("%s%s: %s", help.empty() ? "" : "; ", m.name, m.limit ? m.describe(*m.limit).c_str() : "none");
    return help;
}

} // namespace match

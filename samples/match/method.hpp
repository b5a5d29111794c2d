// The methods of cusight-match: scores in units that people can read, and limits in the same units.
#pragma once

#include "cusight/match.h"

#include <optional>
#include <string>
#include <vector>

namespace match {

struct Method {
    const char *name;
    cusMatchMethod method;
    bool smallest_is_best;
    enum Unit { NORMED, RMS, MEAN } unit;
    double low, high;            // of scores
    std::optional<double> limit; // default
    const char *meaning;         // of scores

    // The library's score, which may be a sum over `values` values, in the units of the method.
    double fromSum(double score, double values) const;
    bool better(double score, double other) const { return smallest_is_best ? score < other : score > other; }
    bool accepts(double score, std::optional<double> wanted) const { return !wanted || !better(*wanted, score); }

    std::string text(double score) const;     // "0.973"; "1" only for a copy
    std::string wanted(double least) const;   // "limit 0.8"
    std::string describe(double least) const; // "at least 0.8"
    std::string beyond(double least) const;   // "above 0.8"

    // `given`, or the default. Throws Stop(USAGE) for a limit that no score can have.
    std::optional<double> checkedLimit(std::optional<double> given) const;
};

// `name` is one of methodNames(), which are in the order of cusMatchMethod.
const Method &methodOf(const std::string &name);
std::vector<std::string> methodNames();

// For --help: what the scores of each method are, and which limits they have.
std::string unitsHelp();
std::string limitsHelp();

} // namespace match

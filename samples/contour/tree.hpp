// Files of names and numbers by strangers: as much of YAML, JSON and XML as calibrations are written in.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace contour {

// A word or a number as it is written; or a list, whose parts have no names; or a map.
struct Node {
    std::string text;
    std::vector<std::pair<std::string, Node>> parts;

    // The part of this name; NULL: none.
    const Node *find(const std::string &name) const;
    // All numbers in it, in their order. Returns false if there is anything else.
    bool numbers(std::vector<double> &into) const;
};

// JSON if `content` begins with {, XML if it begins with <, otherwise YAML: maps, lists, words, comments and tags, which mean nothing;
// anchors and entities are words, and document types are refused. Throws Stop(INPUT), which names the file and the line.
Node parseTree(const std::string &path, const std::string &content);

} // namespace contour

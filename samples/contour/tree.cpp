#include "contour/tree.hpp"

#include "common/app.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sstream>

namespace contour {

namespace {

constexpr int DEEPEST = 32; // parts in each other

class Parser {
  public:
    Parser(const std::string &path, const std::string &content) : path_(path), text_(content) {}

    Node all() {
        expect(text_.find('\0') == std::string::npos, "text");
        skip(" \t\r\n");
        if (peek() == '<')
            return xml();
        if (peek() != '{') {
            at_ = 0;
            nextLine(true);
        }
        Node node = peek() == '{' ? flow(0) : block(0);
        nextLine(false);
        expect(ended(), "the end of the file");
        return node;
    }

  private:
    bool ended() const { return at_ >= text_.size(); }
    char peek(size_t further = 0) const { return at_ + further < text_.size() ? text_[at_ + further] : '\n'; }
    bool starts(const char *word) const { return text_.compare(at_, std::strlen(word), word) == 0; }
    void skip(const char *characters) { at_ = std::min(text_.size(), text_.find_first_not_of(characters, at_)); }
    void expect(bool holds, const char *what) const {
        const size_t end = std::min(at_, text_.size());
        if (!holds)
            throw sample::Stop(
                sample::INPUT,
                sample::text("%s is no YAML, XML or JSON of a calibration: line %td, expected %s", path_.c_str(),
                             1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'), what));
    }
    // The characters up to one of `ends`, which is next.
    std::string until(const char *ends) {
        const size_t from = at_;
        at_ = std::min(text_.size(), text_.find_first_of(ends, at_));
        return text_.substr(from, at_ - from);
    }
    static std::string trimmed(const std::string &word) {
        const size_t from = word.find_first_not_of(" \t\r");
        return from == std::string::npos ? "" : word.substr(from, word.find_last_not_of(" \t\r") + 1 - from);
    }

    // ---- YAML ----------------------------------------------------------------------------------------------------------

    size_t column() const { return at_ - line_; }
    bool isItem() const { return peek() == '-' && std::strchr(" \r\n", peek(1)); }
    bool isKey() const { // "name: value" or "name:"
        for (size_t i = 0; peek(i) != '\n'; ++i)
            if (peek(i) == ':' && std::strchr(" \r\n", peek(i + 1)))
                return !std::strchr("[{\"'#", peek());
        return false;
    }
    // Goes on to what comes first in the next line that has anything, or in this one if it is `fresh`.
    void nextLine(bool fresh) {
        for (;; fresh = false) {
            if (!fresh) {
                skip(" \t\r");
                expect(ended() || peek() == '\n' || peek() == '#', "the end of the line");
                until("\n");
                at_ += !ended();
            }
            line_ = at_;
            const bool marker = starts("%") || starts("---") || starts("...");
            skip(" ");
            if (marker)
                until("\n");
            if (ended() || !std::strchr("#\r\n", peek()))
                return;
        }
    }

    // A list or a map, all parts of which begin in this column.
    Node block(int depth) {
        expect(depth < DEEPEST, "fewer parts within each other");
        Node node;
        const size_t indent = column();
        const bool list = isItem();
        while (!ended() && column() == indent && isItem() == list) {
            std::string name;
            if (!list) {
                name = peek() == '"' || peek() == '\'' ? quoted() : until(":\n");
                expect(peek() == ':', "a name and a colon");
            }
            ++at_;
            skip(" \t");
            if (starts("!")) {
                until(" \r\n");
                skip(" \t\r");
            }
            node.parts.emplace_back(trimmed(name), Node());
            Node &part = node.parts.back().second;
            if (std::strchr("#\r\n", peek())) {
                nextLine(false);
                if (!ended() && (column() > indent || (!list && column() == indent && isItem())))
                    part = block(depth + 1);
            } else if (list && (isItem() || isKey())) {
                part = block(depth + 1);
            } else {
                const bool brackets = peek() == '[' || peek() == '{';
                part = brackets || peek() == '"' || peek() == '\'' ? flow(depth + 1) : Node{trimmed(until("#\n")), {}};
                nextLine(false);
            }
        }
        expect(ended() || column() < indent, "a line that begins like those before");
        return node;
    }

    std::string quoted() {
        const char end = text_[at_++];
        const size_t from = at_;
        for (; peek() != end && peek() != '\n'; ++at_)
            at_ += peek() == '\\';
        expect(peek() == end, "the end of a quoted word");
        return text_.substr(from, at_++ - from);
    }

    void skipSpace() {
        for (skip(" \t\r\n"); peek() == '#' && !ended(); skip(" \t\r\n"))
            until("\n");
    }

    // [a, b], {a: b} or a word; that of JSON, too.
    Node flow(int depth) {
        expect(depth < DEEPEST, "fewer parts within each other");
        if (peek() == '"' || peek() == '\'')
            return {quoted(), {}};
        if (peek() != '[' && peek() != '{')
            return {trimmed(until(",]}\n#")), {}};
        const bool map = text_[at_++] == '{';
        const char end = map ? '}' : ']';
        Node node;
        for (skipSpace(); peek() != end; skipSpace()) {
            std::string name;
            if (map) {
                name = peek() == '"' || peek() == '\'' ? quoted() : trimmed(until(":,]}\n"));
                skipSpace();
                expect(peek() == ':', "a name and a colon");
                ++at_;
                skipSpace();
            }
            expect(!ended() && !std::strchr(",]}", peek()), "a value");
            node.parts.emplace_back(name, flow(depth + 1));
            skipSpace();
            expect(peek() == ',' || peek() == end, map ? "a comma or }" : "a comma or ]");
            at_ += peek() == ',';
        }
        ++at_;
        return node;
    }

    // ---- XML -----------------------------------------------------------------------------------------------------------

    void skipTo(const char *end) {
        at_ = std::min(text_.size(), text_.find(end, at_));
        expect(!ended(), end);
        at_ += std::strlen(end);
    }

    Node xml() {
        for (; starts("<?") || starts("<!--"); skip(" \t\r\n"))
            skipTo(starts("<?") ? "?>" : "-->");
        Node node = element(0).second;
        skip(" \t\r\n");
        expect(ended(), "the end of the file");
        return node;
    }

    std::pair<std::string, Node> element(int depth) {
        expect(depth < DEEPEST, "fewer parts within each other");
        expect(peek() == '<' && !std::strchr("!?/", peek(1)), "an element");
        ++at_;
        std::pair<std::string, Node> result = {until(" \t\r\n/>"), {}};
        for (skip(" \t\r\n"); peek() != '>' && peek() != '/'; skip(" \t\r\n")) {
            until("=>\n");
            expect(peek() == '=' && (peek(1) == '"' || peek(1) == '\''), "an attribute and its quoted value");
            ++at_;
            quoted();
        }
        if (peek() == '/') {
            skipTo("/>");
            return result;
        }
        ++at_;
        for (Node &node = result.second;;) {
            node.text += until("<") + " ";
            if (starts("<!--")) {
                skipTo("-->");
            } else if (starts("</")) {
                at_ += 2;
                expect(trimmed(until(">")) == result.first && peek() == '>', "the end of the same element");
                ++at_;
                node.text = trimmed(node.text);
                return result;
            } else {
                node.parts.push_back(element(depth + 1));
            }
        }
    }

    const std::string &path_, &text_;
    size_t at_ = 0, line_ = 0; // where the line begins
};

} // namespace

const Node *Node::find(const std::string &name) const {
    const auto found = std::find_if(parts.begin(), parts.end(), [&](const auto &part) { return part.first == name; });
    return found == parts.end() ? nullptr : &found->second;
}

bool Node::numbers(std::vector<double> &into) const {
    std::istringstream words(parts.empty() ? text : "");
    for (std::string word; words >> word;) { // by the classic locale, whatever that of the program is
        std::istringstream number(word);
        into.emplace_back();
        if (!(number >> into.back()) || number.peek() != std::istringstream::traits_type::eof())
            return false;
    }
    return std::all_of(parts.begin(), parts.end(), [&](const auto &part) {
        return part.first.empty() || part.first == "_" ? part.second.numbers(into) : false;
    });
}

Node parseTree(const std::string &path, const std::string &content) {
    return Parser(path, content).all();
}

} // namespace contour

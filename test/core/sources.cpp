// Rules for the sources themselves that no compiler checks.
#include "support.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

std::string withoutComments(const std::string &source) {
    static const std::regex comment(R"(//[^\n]*|/\*[^]*?\*/)");
    return std::regex_replace(source, comment, " ");
}

bool isCollective(const std::string &name) {
    static const std::regex collective("__(shfl|ballot|any|all|match|reduce)\\w*_sync|__syncwarp|__syncthreads\\w*|"
                                       "(In|Ex)clusive(Sum|Scan)|Reduce|\\.Sum|" // CUB's
                                       "(warp|block)(Sum|SumToFirst|Min|InclusiveScan)");
    return std::regex_match(name, collective);
}

// The collective operations (those that all threads of a warp or block must reach) in the right operand of &&, || or ?: .
// Lanes whose left operand decides would leave them out, so the others wait for ever or receive values of other operations.
std::vector<std::string> conditionalCollectives(const std::string &source) {
    static const std::regex token(R"(\.Sum|\w+|&&|\|\||[?(){};,])");
    std::vector<std::string> found;
    std::vector<bool> conditional(1); // inside each open parenthesis
    const std::string text = withoutComments(source);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), token); at != std::sregex_iterator(); ++at) {
        const std::string word = at->str();
        if (word == ";" || word == "{" || word == "}")
            conditional.assign(1, false);
        else if (word == "(")
            conditional.push_back(conditional.back());
        else if (word == ")" && conditional.size() > 1)
            conditional.pop_back();
        else if (word == ",") // the next argument
            conditional.back() = conditional.size() > 1 && conditional[conditional.size() - 2];
        else if (word == "&&" || word == "||" || word == "?")
            conditional.back() = true;
        else if (conditional.back() && isCollective(word))
            found.push_back(word);
    }
    return found;
}

std::string textOf(const std::filesystem::path &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Profilers see every public function that does work, which is those that return a status or nothing.
TEST(Sources, PublicFunctionsAreRanges) {
    const std::filesystem::path root = support::sourceFile("");
    std::set<std::string> declared, seen;
    static const std::regex declaration(R"(\nfunction (cus[A-Z]\w*) (?:cusStatus|void)\()"),
        definition(R"(\n(?:cusStatus|void) (cus[A-Z]\w*)\([^;{}]*\)\s*\{\n    (CUSI_TRACE;)?)");
    const std::string table = textOf(root / "test/packaging/interface.txt");
    for (auto at = std::sregex_iterator(table.begin(), table.end(), declaration); at != std::sregex_iterator(); ++at)
        declared.insert((*at)[1]);
    for (const char *folder : {"src", "modules"})
        for (const auto &entry : std::filesystem::recursive_directory_iterator(root / folder)) {
            const std::string name = entry.path().filename().string(), extension = entry.path().extension().string();
            if ((extension != ".c" && extension != ".cu") || name == "device_none.c")
                continue;
            const std::string text = textOf(entry.path());
            for (auto at = std::sregex_iterator(text.begin(), text.end(), definition); at != std::sregex_iterator(); ++at) {
                EXPECT_TRUE((*at)[2].matched) << name << ": " << (*at)[1] << " does not begin with CUSI_TRACE;";
                seen.insert((*at)[1]);
            }
        }
    EXPECT_GT(declared.size(), 100u);
    EXPECT_EQ(seen, declared);
}

// What Linux alone has, and macOS for one lacks, stays in these places.
TEST(Sources, UseOfLinuxAloneIsInFewPlaces) {
    static const std::regex linux_alone(
        R"(\b(linux/\w+|sys/auxv|SYS_\w+|MADV_HUGEPAGE|O_TMPFILE|getrandom|memrchr|renameat2|syncfs|pipe2|accept4|)"
        R"(epoll_\w+|eventfd|mremap|fallocate|sched_[gs]etaffinity|pthread_\w+_np|pthread_(barrier|spin)_\w+|sem_timedwait|)"
        R"(secure_getenv|qsort_r|malloc_trim|mallopt|posix_fadvise|sendfile|strchrnul|mempcpy|explicit_bzero)\b)");
    const std::filesystem::path root = support::sourceFile("");
    std::set<std::string> found;
    for (const char *folder : {"src", "modules"})
        for (const auto &entry : std::filesystem::recursive_directory_iterator(root / folder)) {
            const std::string text = entry.path().extension() == ".c" ? withoutComments(textOf(entry.path())) : "";
            for (auto at = std::sregex_iterator(text.begin(), text.end(), linux_alone); at != std::sregex_iterator(); ++at)
                found.insert(entry.path().filename().string() + " " + at->str());
        }
    EXPECT_EQ(found,
              (std::set<std::string>{"crc32c.c sys/auxv", "dots.c SYS_arch_prctl", "output.c getrandom", "parts.c memrchr",
                                     "source.c MADV_HUGEPAGE", "team.c SYS_futex", "team.c linux/futex"}));
}

TEST(Sources, FindsConditionalCollectives) {
    const auto count = [](const char *text) { return conditionalCollectives(text).size(); };
    EXPECT_EQ(count("const bool same = mine && cell == __shfl_sync(FULL_WARP, cell, leader);"), 1u);
    EXPECT_EQ(count("x = a ||\n (b + warpSum(c)) > 1;"), 1u);
    EXPECT_EQ(count("x = odd ? __ballot_sync(m, p) : cusi::warpMin(v);"), 2u);
    EXPECT_EQ(count("if (wide && Sum(storage).Sum(v) > Scan(storage).Reduce(v, Larger{}))"), 2u);
    EXPECT_EQ(count("for (; more && __any_sync(m, p);) __syncwarp();"), 1u);
    EXPECT_EQ(count("f(a && b, __syncthreads_or(c)); __syncthreads();"), 0u);
    EXPECT_EQ(count("x = __shfl_xor_sync(m, odd ? a : b, 1) && c; // or && __syncwarp()"), 0u);
    EXPECT_EQ(count("x = __shfl_sync(m, v, 0); y = a && x; if (a && b) { __syncwarp(); }"), 0u);
}

TEST(Sources, WarpsReachTheirCollectivesTogether) {
    int files = 0;
    for (const char *folder : {"src", "modules"})
        for (const auto &entry : std::filesystem::recursive_directory_iterator(support::sourceFile(folder))) {
            const std::string extension = entry.path().extension().string();
            if (extension != ".cu" && extension != ".cuh")
                continue;
            ++files;
            for (const std::string &name : conditionalCollectives(textOf(entry.path())))
                ADD_FAILURE() << entry.path().string() << ": " << name << " is behind &&, || or ?: ; call it before";
        }
    EXPECT_GT(files, 20);
}

// From Python 3.12 on the module is compiled for the stable interface, in which types are opaque and most macros are missing.
TEST(Sources, PythonModuleUsesTheStableInterface) {
    static const std::regex unstable(R"(->\s*(tp|ob|nb|sq|mp)_\w+|\bPy\w+_(GET_\w+|SET_ITEM|AS_STRING|READ|DATA)\b)");
    int files = 0;
    for (const auto &entry : std::filesystem::directory_iterator(support::sourceFile("python/src"))) {
        ++files;
        const std::string text = withoutComments(textOf(entry.path()));
        for (auto at = std::sregex_iterator(text.begin(), text.end(), unstable); at != std::sregex_iterator(); ++at)
            ADD_FAILURE() << entry.path().string() << ": " << at->str() << " is not in Python's stable interface";
    }
    EXPECT_GT(files, 10);
}

} // namespace

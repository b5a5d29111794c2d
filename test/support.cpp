#include "support.hpp"

#include <cstdlib>
#ifdef _WIN32
#include <windows.h>

#include <psapi.h>
#endif

testing::AssertionResult support::gives(cusStatus got, cusStatus expected, std::string_view text) {
    const std::string message = cusLastError();
    if (got == expected && message.find(text) != std::string::npos)
        return testing::AssertionSuccess();
    testing::AssertionResult wrong = testing::AssertionFailure();
    wrong << cusStatusName(got) << ", expected " << cusStatusName(expected);
    if (!text.empty())
        wrong << " with \"" << text << "\"";
    return wrong << "; message: " << message;
}

std::string support::sourceFile(const std::string &path) {
    return CUSIGHT_SOURCE_DIR "/" + path;
}

uint64_t support::seed() {
    static const uint64_t value = [] {
        const char *text = std::getenv("CUSIGHT_TEST_SEED");
        if (!text || !*text)
            return uint64_t{1};
        if (std::string_view(text) == "random")
            return uint64_t{std::random_device{}()};
        char *end = nullptr;
        const uint64_t number = std::strtoull(text, &end, 0);
        if (*end) {
            std::fprintf(stderr, "CUSIGHT_TEST_SEED is '%s', expected a number or \"random\"\n", text);
            std::exit(2);
        }
        return number;
    }();
    return value;
}

int support::fewer() {
#ifdef CUSI_SANITIZE
    return 7;
#else
    const char *rounds = std::getenv("CUSIGHT_TEST_ROUNDS");
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    if (!test || (rounds && std::string_view(rounds) == "all"))
        return 1;
    const auto contains = [](std::string_view text, const char *part) { return text.find(part) != std::string_view::npos; };
    return contains(test->name(), "/cuda") || contains(test->test_suite_name(), "Cuda") ? 5 : 1;
#endif
}

size_t support::residentBytes() {
#ifdef _WIN32
    PROCESS_MEMORY_COUNTERS counters = {};
    EXPECT_TRUE(K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters));
    return counters.WorkingSetSize;
#else
    size_t pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
#endif
}

#include "support.hpp"

#include <cstdlib>

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

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

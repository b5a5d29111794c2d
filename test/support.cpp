#include "support.hpp"

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

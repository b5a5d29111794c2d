// As much of GoogleTest as the golden rows need, without exceptions and files: golden.cpp counts and names what failed.
#pragma once

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <tuple>

namespace testing {

void failed(const char *file, int line, const std::string &what);

class AssertionResult {
  public:
    explicit AssertionResult(bool good) : good_(good) {}
    operator bool() const { return good_; }
    template<class T>
    AssertionResult &operator<<(const T &) {
        return *this;
    }

  private:
    bool good_;
};
inline AssertionResult AssertionSuccess() {
    return AssertionResult(true);
}
inline AssertionResult AssertionFailure() {
    return AssertionResult(false);
}

class Message : public AssertionResult {
  public:
    Message() : AssertionResult(true) {}
};

struct Skip {
    void operator=(const AssertionResult &) const {}
};

// What an assertion that failed is told, and the end of its statement.
class Failure {
  public:
    Failure(const char *file, int line) : file_(file), line_(line) {}
    template<class T>
    Failure &operator<<(const T &part) {
        text_ << part;
        return *this;
    }
    ~Failure() { failed(file_, line_, text_.str()); }

  private:
    const char *file_;
    int line_;
    std::ostringstream text_;
};

class Test {
  public:
    static bool HasFailure();
};
template<class T>
class TestWithParam : public Test {
  protected:
    virtual void SetUp() {}
    static T GetParam() { return T(); }
};
template<class T>
struct TestParamInfo {
    T param;
};
struct TestInfo {
    const char *name() const { return ""; }
    const char *test_suite_name() const { return ""; }
};
struct UnitTest {
    static UnitTest *GetInstance() { return nullptr; }
    const TestInfo *current_test_info() const { return nullptr; }
};

} // namespace testing

#define CUS_STUB(good) \
    if (good) {        \
    } else             \
        testing::Failure(__FILE__, __LINE__)
#define EXPECT_TRUE(a)          CUS_STUB(a)
#define EXPECT_FALSE(a)         CUS_STUB(!(a))
#define EXPECT_EQ(a, b)         CUS_STUB((a) == (b))
#define EXPECT_NE(a, b)         CUS_STUB((a) != (b))
#define EXPECT_LE(a, b)         CUS_STUB((a) <= (b))
#define EXPECT_LT(a, b)         CUS_STUB((a) < (b))
#define EXPECT_GE(a, b)         CUS_STUB((a) >= (b))
#define EXPECT_NEAR(a, b, most) CUS_STUB(std::abs((a) - (b)) <= (most))
#define ASSERT_TRUE             EXPECT_TRUE
#define ASSERT_FALSE            EXPECT_FALSE
#define ASSERT_EQ               EXPECT_EQ
#define ASSERT_NE               EXPECT_NE
#define ASSERT_LE               EXPECT_LE
#define ASSERT_LT               EXPECT_LT
#define ASSERT_GE               EXPECT_GE
#define ASSERT_NEAR             EXPECT_NEAR
#define ADD_FAILURE()           CUS_STUB(false)
#define FAIL()                  CUS_STUB(false)
#define GTEST_SKIP()            return testing::Skip() = testing::Message()
#define SCOPED_TRACE(text)      (void)(text)

// What tests use of POSIX and Windows lacks. Most of it skips the test that calls it, by name.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include <unistd.h>

[[noreturn]] inline void skipTest(const char *function) {
    [&] { GTEST_SKIP() << "no " << function << "() on this system"; }();
    throw testing::AssertionException(testing::TestPartResult(testing::TestPartResult::kSkip, nullptr, -1, function));
}

using rlim_t = uint64_t;
struct rlimit {
    rlim_t rlim_cur, rlim_max;
};
enum { RLIMIT_AS, RLIMIT_FSIZE, _SC_PAGESIZE, SIGXFSZ = 0 };
#define WIFEXITED(status)   ((void)(status), 0)
#define WEXITSTATUS(status) (status)

inline pid_t fork() {
    skipTest("fork");
}
inline unsigned alarm(unsigned) {
    skipTest("alarm");
}
inline pid_t waitpid(pid_t, int *, int) {
    skipTest("waitpid");
}
inline int getrlimit(int, rlimit *) {
    skipTest("getrlimit");
}
inline int setrlimit(int, const rlimit *) {
    skipTest("setrlimit");
}
inline int mkfifo(const char *, int) {
    skipTest("mkfifo");
}
inline int symlink(const char *, const char *) {
    skipTest("symlink");
}
inline long sysconf(int) {
    skipTest("sysconf");
}

inline int setenv(const char *name, const char *value, int) {
    if (!*value)
        skipTest("setenv"); // of nothing
    return _putenv_s(name, value);
}
inline int unsetenv(const char *name) {
    return _putenv_s(name, "");
}
inline char *mkdtemp(char *name) {
    static std::mt19937_64 random(std::random_device{}());
    for (char *x = name + std::strlen(name) - 6; *x; ++x)
        *x = char('a' + random() % 26);
    return std::filesystem::create_directories(name) ? name : nullptr;
}

// INTERPOSE(function, class, failure): defines faulty_FUNCTION, which returns `failure` when a fault strikes and calls the
// function otherwise. CLOSE: the function is called in either case. The type comes from the function's declaration; the name
// is bound by an indirect function (ifunc), so that no parameter list has to be repeated.
#pragma once

#include "faults.hpp"

#include <cerrno>

namespace faults {

using Function = void (*)();

template<class Type, Type F, class Tag>
struct Forward;

template<class Tag, class R, class Call>
R forward(Call &&call) {
    if (strikes(Tag::type, Tag::name())) {
        if (Tag::closes)
            (void)call();
        errno = Tag::error;
        return static_cast<R>(Tag::failure());
    }
    return call();
}

template<class R, class... A, R (*F)(A...), class Tag>
struct Forward<R (*)(A...), F, Tag> {
    static R call(A... a) {
        return forward<Tag, R>([&] { return F(a...); });
    }
};
template<class R, class... A, R (*F)(A...) noexcept, class Tag>
struct Forward<R (*)(A...) noexcept, F, Tag> {
    static R call(A... a) {
        return forward<Tag, R>([&] { return F(a...); });
    }
};

} // namespace faults

#if defined(__clang__)
#define FAULTS_PLAIN __attribute__((no_sanitize("address", "undefined")))
#else
#define FAULTS_PLAIN __attribute__((no_sanitize_address, no_sanitize_undefined))
#endif

#define INTERPOSE_WITH(function, target, class_, failure_, errno_, closes_)                                          \
    namespace {                                                                                                      \
    struct Tag_##function {                                                                                          \
        static constexpr faults::Class type = faults::class_;                                                        \
        static constexpr int error = errno_;                                                                         \
        static constexpr bool closes = closes_;                                                                      \
        static const char *name() { return #function; }                                                              \
        static auto failure() { return failure_; }                                                                   \
    };                                                                                                               \
    }                                                                                                                \
    extern "C" {                                                                                                     \
    FAULTS_PLAIN faults::Function resolve_##function() { /* not static: clang would mangle its name */               \
        return reinterpret_cast<faults::Function>(&faults::Forward<decltype(target), target, Tag_##function>::call); \
    }                                                                                                                \
    void faulty_##function(void) __attribute__((ifunc("resolve_" #function)));                                       \
    }
#define INTERPOSE(function, class_, failure)       INTERPOSE_WITH(function, &::function, class_, failure, 0, false)
#define INTERPOSE_CLOSE(function, class_, failure) INTERPOSE_WITH(function, &::function, class_, failure, 0, true)

// The library's options as objects of the module, whose fields Python sets by name. A value that does not fit raises what cusight._errors
// raises, with the field's name.
#pragma once

#include "arrays.hpp"

#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace cuspy {

// cusight._errors.RULE: the value as a number, or an exception.
template<class T, class... Arguments>
T checked(const char *rule, Arguments &&...arguments) {
    return nb::cast<T>(
        callPython(nb::module_::import_("cusight._errors").attr(rule), std::forward<Arguments>(arguments)...));
}

template<class M>
M numberOf(const char *function, const char *name, nb::handle value) {
    if constexpr (std::is_floating_point_v<M>) {
        double number = 0;
        return static_cast<M>(nb::try_cast(value, number, false) ? number : checked<double>("real", function, name, value));
    } else {
        using Limits = std::numeric_limits<M>;
        constexpr int64_t least = std::is_signed_v<M> ? Limits::min() : 0;
        constexpr int64_t most = sizeof(M) < sizeof least ? Limits::max() : INT64_MAX;
        int64_t number = 0;
        if (!nb::try_cast(value, number, false) || number < least || number > most)
            number = checked<int64_t>("integer", function, name, value, least, most);
        return static_cast<M>(number);
    }
}

// The words of an enumeration that has a function for their names.
template<class E>
nb::dict wordsOf(const char *(*nameOf)(E)) {
    nb::dict words;
    for (int i = 0; const char *const name = nameOf(static_cast<E>(i)); ++i) {
        if (std::strcmp(name, "unknown") == 0)
            break;
        words[name] = i;
    }
    return words;
}
inline nb::dict wordsOf(std::initializer_list<std::pair<const char *, int>> pairs) {
    nb::dict words;
    for (const auto &[word, number] : pairs)
        words[word] = number;
    return words;
}

// Binds a struct of options as the class `name`; messages name `function`.
template<class T>
class Options {
  public:
    Options(nb::module_ &module, const char *name, const char *function) : made(module, name), function_(function) {
        made.attr("words") = nb::dict();
    }
    Options(nb::module_ &module, const char *name, const char *function, T (*defaults)())
        : Options(module, name, function) {
        made.def("__init__", [defaults](T *self) { new (self) T(defaults()); });
    }

    // numbers("shifts", &cusStereoOptions::shifts, "window", &cusStereoOptions::window, ...)
    // Where the struct has a short name it is by typedef, since cppcheck does not read members of an alias by using.
    template<class M, class... More>
    Options &numbers(const char *name, M T::*member, More... more) {
        const char *const function = function_;
        made.def_prop_rw(
            name, [member](const T &self) { return self.*member; },
            [function, name, member](T &self, nb::handle value) { self.*member = numberOf<M>(function, name, value); });
        if constexpr (sizeof...(more) > 0)
            numbers(more...);
        return *this;
    }

    // A field that Python gives by a word. `words` of the class has them: {name: {word: number}}.
    template<class M>
    Options &word(const char *name, M T::*member, const nb::dict &words) {
        made.attr("words")[name] = words;
        const char *const function = function_;
        made.def_prop_rw(
            name, [member](const T &self) { return static_cast<int>(self.*member); },
            [function, name, member, words](T &self, nb::handle value) {
                const nb::handle known = PyUnicode_Check(value.ptr()) ? PyDict_GetItem(words.ptr(), value.ptr()) : nullptr;
                self.*member = static_cast<M>(known.is_valid() ? nb::cast<int>(known)
                                                               : checked<int>("choice", function, name, value, words));
            });
        return *this;
    }

    nb::class_<T> made;

  private:
    const char *function_;
};

} // namespace cuspy

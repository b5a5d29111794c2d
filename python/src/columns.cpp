// Events as other packages deliver them: columns of any numbers become the library's types in one pass; columns that have them
// already are not copied.
#include "events.hpp"
#include "frameworks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

namespace cuspy {

namespace {

constexpr size_t BLOCK = 4096;            // events whose columns fit the cache, so that an array of structures is read once
constexpr size_t PIECE = size_t{4} << 20; // Ctrl-C is checked after so many

// Microseconds are `times` units / `parts`.
struct Unit {
    const char *name;
    int64_t times, parts;
};
constexpr Unit UNITS[] = {
    {"microseconds", 1, 1}, {"milliseconds", 1000, 1}, {"seconds", 1000000, 1}, {"nanoseconds", 1, 1000}};

constexpr double TWO_52 = int64_t{1} << 52, TWO_63 = -static_cast<double>(INT64_MIN);

// An integer in 64 bits, with its sign.
template<class In>
auto widened(In in) {
    if constexpr (std::is_signed_v<In>)
        return int64_t{in};
    else
        return uint64_t{in};
}

// Each rule sets a value of the library from one of an array, and returns whether that is possible.

struct Coordinate {
    using Out = uint16_t;
    static constexpr int DTYPE = U16;
    static constexpr const char *EXPECTED = "a whole number from 0 to 65535";
    template<class In>
    static bool set(In in, Out &out, const Unit &) {
        if constexpr (std::is_floating_point_v<In>) {
            const bool inside = in >= 0 && in <= 65535; // false for NaN
            out = static_cast<Out>(inside ? in : 0);
            return inside && static_cast<In>(out) == in;
        } else {
            const auto wide = widened(in);
            out = static_cast<Out>(wide);
            return static_cast<decltype(wide)>(out) == wide;
        }
    }
};

struct Polarity {
    using Out = uint8_t;
    static constexpr int DTYPE = U8;
    static constexpr const char *EXPECTED = "-1, 0 or 1 (are the columns in another order?)";
    template<class In>
    static bool set(In in, Out &out, const Unit &) {
        out = in > 0;
        if constexpr (std::is_same_v<In, uint8_t>) // as in C; bool too
            return true;
        else if constexpr (std::is_unsigned_v<In>)
            return in <= 1;
        else
            return in == 0 || in == 1 || in == -1;
    }
};

struct Time {
    using Out = int64_t;
    static constexpr int DTYPE = I64;
    template<class In>
    static bool set(In in, Out &out, const Unit &unit) {
        if constexpr (std::is_floating_point_v<In>) { // to the nearest microsecond
            const double us = static_cast<double>(in) * static_cast<double>(unit.times) / static_cast<double>(unit.parts);
            const bool inside = std::fabs(us) < TWO_63; // false for NaN
            const double half = us < 0 ? -0.5 : 0.5, near = std::fabs(us) < TWO_52 ? us + half : us;
            out = static_cast<Out>(inside ? near : 0.0);
            return inside;
        } else {
            if (std::is_unsigned_v<In> && static_cast<uint64_t>(in) > INT64_MAX)
                return false;
            const auto value = static_cast<int64_t>(widened(in));
            if (unit.parts == 1)
                return !__builtin_mul_overflow(value, unit.times, &out);
            const int64_t rest = value % unit.parts, below = value / unit.parts - (rest < 0);
            out = below + ((rest < 0 ? rest + unit.parts : rest) * 2 >= unit.parts);
            return true;
        }
    }
};

// Converts n values, `stride` bytes apart and at any address. Returns whether all of them could be.
using Convert = bool (*)(const char *in, int64_t stride, size_t n, void *out, const Unit &unit);

template<class Rule, class In>
bool convert(const char *in, int64_t stride, size_t n, void *out, const Unit &unit) {
    auto *to = static_cast<typename Rule::Out *>(out);
    bool good = true;
    for (size_t i = 0; i < n; ++i, in += stride) {
        In value;
        std::memcpy(&value, in, sizeof value);
        good &= Rule::set(value, to[i], unit);
    }
    return good;
}

template<class Rule>
Convert converterOf(int dtype) {
    switch (dtype) {
    case U8:
        return convert<Rule, uint8_t>;
    case I8:
        return convert<Rule, int8_t>;
    case U16:
        return convert<Rule, uint16_t>;
    case I16:
        return convert<Rule, int16_t>;
    case U32:
        return convert<Rule, uint32_t>;
    case I32:
        return convert<Rule, int32_t>;
    case U64:
        return convert<Rule, uint64_t>;
    case I64:
        return convert<Rule, int64_t>;
    case F32:
        return convert<Rule, float>;
    default:
        return convert<Rule, double>;
    }
}

// A column to convert.
struct Work {
    const Array *array;
    Convert convert;
    const Unit *unit;
    const char *expected;
    char *out;
    size_t size; // of an element of `out`
};

const char *at(const Array &array, size_t i) {
    return static_cast<const char *>(array.data) + static_cast<int64_t>(i) * array.strides[0];
}

template<class T>
T load(const char *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

std::string valueText(const Array &array, size_t i) {
    const char *from = at(array, i);
    char text[40];
    if (array.dtype == F32 || array.dtype == F64)
        std::snprintf(text, sizeof text, "%.9g", array.dtype == F32 ? load<float>(from) : load<double>(from));
    else if (array.dtype == U64)
        std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(load<uint64_t>(from)));
    else
        std::snprintf(text, sizeof text, "%lld",
                      static_cast<long long>(array.dtype == I8    ? load<int8_t>(from)
                                             : array.dtype == U16 ? load<uint16_t>(from)
                                             : array.dtype == I16 ? load<int16_t>(from)
                                             : array.dtype == U32 ? load<uint32_t>(from)
                                             : array.dtype == I32 ? load<int32_t>(from)
                                                                  : load<int64_t>(from)));
    return text;
}

// Names the first value from `first` on that cannot be converted.
[[noreturn]] void refuse(const Call &call, const std::vector<Work> &works, size_t first) {
    for (size_t i = first;; ++i)
        for (const Work &work : works) {
            const Array &array = *work.array;
            if (work.convert(at(array, i), 0, 1, work.out + i * work.size, *work.unit))
                continue;
            if (work.expected)
                fail(CUS_ERROR_VALUE, "%s: %s[%zu] is %s, expected %s", call.function(), array.argument, i,
                     valueText(array, i).c_str(), work.expected);
            fail(CUS_ERROR_VALUE, "%s: %s[%zu] is %s, expected %s that are a 64-bit number of microseconds",
                 call.function(), array.argument, i, valueText(array, i).c_str(), work.unit->name);
        }
}

void convertAll(Call &call, const std::vector<Work> &works, size_t n) {
    for (size_t first = 0; first < n && !works.empty(); first += PIECE) {
        const size_t last = std::min(n, first + PIECE);
        size_t wrong = SIZE_MAX; // first event of a block that could not be converted
        call.run([&] {
            const auto blocks = static_cast<int64_t>((last - first + BLOCK - 1) / BLOCK);
#pragma omp parallel for schedule(static) reduction(min : wrong) if (blocks > 8)
            for (int64_t b = 0; b < blocks; ++b) {
                const size_t from = first + static_cast<size_t>(b) * BLOCK, count = std::min(BLOCK, last - from);
                bool good = true;
                for (const Work &work : works)
                    good &= work.convert(at(*work.array, from), work.array->strides[0], count, work.out + from * work.size,
                                         *work.unit);
                if (!good)
                    wrong = std::min(wrong, from);
            }
            return CUS_OK;
        });
        if (wrong != SIZE_MAX)
            refuse(call, works, wrong);
        if (PyErr_CheckSignals() != 0)
            throw nb::python_error();
    }
}

bool isTime(nb::handle array) {
    const nb::object dtype = array.attr(Names::get().dtype);
    if (Frameworks::get().numpyDtype(I64).is(dtype)) // by far the most
        return false;
    const auto kind = nb::cast<std::string>(dtype.attr("kind"));
    return kind == "m" || kind == "M";
}

bool isArray(nb::handle object) {
    if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()) || PyRange_Check(object.ptr()))
        return false;
    return PyObject_CheckBuffer(object.ptr()) || nb::hasattr(object, "__dlpack__") ||
           nb::hasattr(object, "__cuda_array_interface__") || !nb::hasattr(object, "__array__");
}

Array arrayIn(Call &call, nb::handle object, const char *name) {
    Array array = call.in(object, name);
    if (array.dtype == F16)
        fail(CUS_ERROR_TYPE, "%s: %s has type float16, expected integers or floats of 32 or 64 bits", call.function(),
             name);
    return array;
}

// Lists, and columns of tables (pandas, Polars, h5py), become NumPy arrays first; so do times of NumPy's own types, which are then
// microseconds.
Array columnIn(Call &call, nb::handle object, const char *name, TimeUnit *unit = nullptr) {
    const Framework framework = Frameworks::get().typeOf(object).framework;
    if (framework == Framework::NumPy ? !unit || !isTime(object) : framework != Framework::Unknown || isArray(object))
        return arrayIn(call, object, name);
    const nb::tuple made = nb::cast<nb::tuple>(callPython(nb::module_::import_("cusight._columns").attr("plain_column"),
                                                          call.function(), name, nb::borrow(object), unit != nullptr));
    if (nb::cast<bool>(made[1]))
        *unit = TimeUnit::Microseconds;
    return arrayIn(call, made[0], name);
}

const Unit &unitOf(const Array &array, TimeUnit unit) {
    if (unit == TimeUnit::ByType)
        return UNITS[array.dtype == F32 || array.dtype == F64 ? 2 : 0];
    return UNITS[static_cast<int>(unit) - 1];
}

void requireLength(const Call &call, const Array &array, int64_t n) {
    if (array.shape.size() != 1)
        fail(CUS_ERROR_SIZE, "%s: %s has shape %s, expected one axis", call.function(), array.argument,
             shapeText(array.shape).c_str());
    if (array.shape[0] != n)
        fail(CUS_ERROR_SIZE, "%s: %s has %lld elements, expected %lld like x", call.function(), array.argument,
             static_cast<long long>(array.shape[0]), static_cast<long long>(n));
}

// The values of a column in the library's type: its own memory, or `room` and work to do.
template<class Rule>
const typename Rule::Out *valuesOf(const Call &call, const Array &array, const Unit &unit, Array &room,
                                   std::vector<Work> &works) {
    using Out = typename Rule::Out;
    const bool time = std::is_same_v<Rule, Time>;
    const bool native = array.dtype == Rule::DTYPE && (!time || &unit == &UNITS[0]);
    const bool dense = array.shape[0] <= 1 || array.strides[0] == static_cast<int64_t>(sizeof(Out));
    const bool on_host = call.space() == CUS_HOST;
    if (native && dense && (!on_host || reinterpret_cast<uintptr_t>(array.data) % alignof(Out) == 0))
        return static_cast<const Out *>(array.data);
    if (!on_host && !(native && dense))
        fail(native ? CUS_ERROR_SIZE : CUS_ERROR_TYPE,
             "%s: %s has type %s%s, expected %s without gaps%s: arrays on the GPU are not converted", call.function(),
             array.argument, dtypeName(array.dtype), native ? " and gaps" : "", dtypeName(Rule::DTYPE),
             time ? " in microseconds" : "");
    Call memory(call.function()); // NumPy's: large arrays are in large pages
    memory.assume({CUS_HOST, -1}, Framework::NumPy);
    room = memory.out(nb::none(), array.argument, {array.shape[0]}, Rule::DTYPE);
    const char *expected = nullptr;
    if constexpr (!time)
        expected = Rule::EXPECTED;
    works.push_back({&array, converterOf<Rule>(array.dtype), &unit, expected, static_cast<char *>(room.data), sizeof(Out)});
    return static_cast<const Out *>(room.data);
}

} // namespace

EventsIn eventsIn(Call &call, nb::handle x, nb::handle y, nb::handle p, nb::handle t, TimeUnit unit) {
    EventsIn in{columnIn(call, x, "x"), columnIn(call, y, "y"), columnIn(call, p, "p"), {}, {}, {}};
    if (!t.is_none())
        in.t = columnIn(call, t, "t", &unit);
    const int64_t n = in.x.shape.size() ? in.x.shape[0] : 0;
    for (const Array *array : {&in.x, &in.y, &in.p})
        requireLength(call, *array, n);
    if (!t.is_none())
        requireLength(call, in.t, n);
    std::vector<Work> works;
    const Unit &none = UNITS[0];
    in.events.x = valuesOf<Coordinate>(call, in.x, none, in.converted[0], works);
    in.events.y = valuesOf<Coordinate>(call, in.y, none, in.converted[1], works);
    in.events.p = valuesOf<Polarity>(call, in.p, none, in.converted[2], works);
    in.events.t = t.is_none() ? nullptr : valuesOf<Time>(call, in.t, unitOf(in.t, unit), in.converted[3], works);
    in.events.count = static_cast<size_t>(n);
    in.events.space = call.space();
    convertAll(call, works, in.events.count);
    return in;
}

TimesIn timesIn(Call &call, nb::handle t, const char *argument, TimeUnit unit) {
    TimesIn in{columnIn(call, t, argument, &unit), {}, nullptr, 0};
    requireLength(call, in.array, in.array.shape.size() ? in.array.shape[0] : 0);
    std::vector<Work> works;
    in.data = valuesOf<Time>(call, in.array, unitOf(in.array, unit), in.converted, works);
    in.count = static_cast<size_t>(in.array.shape[0]);
    convertAll(call, works, in.count);
    return in;
}

} // namespace cuspy

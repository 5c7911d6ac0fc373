// Boxes for Thalweg in C++17: functions with typed arguments over the C interface of thalweg.h.
//
//     #include "thalweg.hpp"
//
//     static void add(int64_t a, int64_t b, thalweg::Out &out) { out.emit(a + b); }
//
//     static const thalweg_box boxes[] = {THALWEG_CXX_BOX("box add ((a, b) -> (sum))", add)};
//     THALWEG_LIBRARY(boxes)
//
//     c++ -std=c++17 -shared -fPIC -O2 add.cpp -o libadd.so
//
// Arguments come in the order of the signature, as int64_t, int, bool, double, std::string, std::vector<T> of
// numbers, std::vector<std::byte>, std::shared_ptr<const T> of the library's own types, or thalweg::Value for
// any value. An exception fails the record, with its what() as the reason. thalweg::Parameter and
// thalweg::Event share numbers with observers of the network, as in thalweg.h. A library that is to be
// replaced while it runs (`thalweg reload`) is compiled with -fno-gnu-unique by GCC, because otherwise the
// loader does not unload it.
#ifndef THALWEG_HPP
#define THALWEG_HPP

#include "thalweg.h"

#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace thalweg {

// Specialise `layout` for a type with a number other than 0, which must change whenever the type does, and
// boxes of other builds of the library read values of the type: template <> inline constexpr uint64_t
// thalweg::layout<Polygon> = 1;
template <typename T> inline constexpr uint64_t layout = 0;

// The bytes of memory of a value. Specialise `deep_size` for a type that refers to other memory (0 if not
// known), and reports show the sizes of records: template <> inline uint64_t thalweg::deep_size(const Polygon
// &p) { return 16 * p.corners.size(); }
template <typename T> inline uint64_t deep_size(const T &) {
    return std::is_trivially_destructible_v<T> ? sizeof(T) : 0;
}

// A parameter, or state that boxes publish.
class Parameter {
public:
    constexpr Parameter(const char *name, const char *unit, const char *doc, uint64_t min, uint64_t max, uint64_t value)
        : parameter_ THALWEG_PARAMETER(name, unit, doc, min, max, value) {}
    uint64_t get() noexcept { return thalweg_read(&parameter_); }
    void set(uint64_t value) noexcept { thalweg_publish(&parameter_, value); }
    // The pointer for the library's list.
    constexpr thalweg_parameter *raw() noexcept { return &parameter_; }

private:
    thalweg_parameter parameter_;
};

// A kind of event with N fields.
template <size_t N> class Event {
public:
    constexpr Event(const char *name, const char *doc, const thalweg_event_field (&fields)[N])
        : kind_ THALWEG_EVENT(name, doc, fields) {
        static_assert(N >= 1 && N <= 8, "an event has one to eight fields");
    }
    // A number for each field: integers for THALWEG_INT, floats for THALWEG_FLOAT.
    template <typename... T> void write(T... numbers) noexcept {
        static_assert(sizeof...(T) == N, "an event has as many numbers as its kind has fields");
        const uint64_t words[] = {word(numbers)...};
        thalweg_event(&kind_, words);
    }
    constexpr thalweg_event_kind *raw() noexcept { return &kind_; }

private:
    template <typename T> static uint64_t word(T number) noexcept {
        static_assert(std::is_arithmetic_v<T>, "events hold numbers");
        if constexpr (std::is_floating_point_v<T>) return thalweg_float_word(static_cast<double>(number));
        else return thalweg_word(static_cast<int64_t>(number));
    }
    thalweg_event_kind kind_;
};

// A value that drops itself.
class Value {
public:
    Value() noexcept : value_(thalweg_int(0)) {}
    // Takes over a value of the C interface.
    explicit Value(thalweg_value value) noexcept : value_(value) {}
    Value(const Value &other) noexcept : value_(thalweg_copy(&other.value_)) {}
    Value(Value &&other) noexcept : value_(thalweg_take(&other.value_)) {}
    Value &operator=(Value other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Value() { thalweg_drop(&value_); }

    const thalweg_value &raw() const noexcept { return value_; }
    thalweg_value &raw() noexcept { return value_; }
    // Gives the value away: the caller owns the result.
    thalweg_value release() noexcept { return thalweg_take(&value_); }

private:
    thalweg_value value_;
};

namespace detail {

// The element type of a number.
template <typename T> constexpr uint64_t element() {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8 && !std::is_same_v<T, bool>, "no element of an array");
    if constexpr (std::is_floating_point_v<T>) {
        return sizeof(T) == 8 ? THALWEG_F64 : THALWEG_F32;
    } else {
        constexpr uint64_t size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
        return 1 + 2 * size + (std::is_signed_v<T> ? 0 : 1);
    }
}

template <typename T> void free_shared(void *value) { delete static_cast<std::shared_ptr<const T> *>(value); }

template <typename T> void *copy_shared(const void *value) {
    return new (std::nothrow) std::shared_ptr<const T>(*static_cast<const std::shared_ptr<const T> *>(value));
}
template <typename T> uint64_t size_shared(const void *value) {
    const auto &shared = *static_cast<const std::shared_ptr<const T> *>(value);
    try {
        return shared != nullptr ? deep_size(*shared) : 0;
    } catch (...) {
        return 0;
    }
}

// One kind for each type of the library. The address of the kind identifies the type; the variable is hidden,
// so that each library has a kind of its own.
template <typename T>
__attribute__((visibility("hidden"))) inline const thalweg_opaque_kind kind = {
    typeid(T).name(), nullptr, free_shared<T>, copy_shared<T>, size_shared<T>, layout<T>};

inline const char *name_of(uint64_t kind) {
    switch (kind) {
    case THALWEG_INT: return "integer";
    case THALWEG_FLOAT: return "float";
    case THALWEG_TEXT: return "text";
    case THALWEG_BYTES: return "bytes";
    case THALWEG_ARRAY: return "array";
    default: return "opaque";
    }
}

[[noreturn]] inline void mismatch(const char *expected, const thalweg_value &found) {
    throw std::invalid_argument(std::string("expected ") + expected + ", found " + name_of(found.kind));
}

// The reader of arguments of each type.
template <typename T, typename = void> struct Argument;

template <> struct Argument<Value> {
    static Value read(thalweg_value &value) { return Value(thalweg_take(&value)); }
};

template <typename T> struct Argument<T, std::enable_if_t<std::is_integral_v<T>>> {
    static T read(thalweg_value &value) {
        int64_t integer;
        if (!thalweg_get_int(&value, &integer)) mismatch("integer", value);
        if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, int64_t>) {
            bool fits = static_cast<int64_t>(static_cast<T>(integer)) == integer && (integer >= 0 || std::is_signed_v<T>);
            if (!fits) throw std::out_of_range("the integer " + std::to_string(integer) + " does not fit the argument");
        }
        return static_cast<T>(integer);
    }
};

template <typename T> struct Argument<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static T read(thalweg_value &value) {
        double number;
        if (!thalweg_get_float(&value, &number)) mismatch("float or integer", value);
        return static_cast<T>(number);
    }
};

template <> struct Argument<std::string> {
    static std::string read(thalweg_value &value) {
        const char *text;
        size_t length;
        if (!thalweg_get_text(&value, &text, &length)) mismatch("text", value);
        return std::string(text, length);
    }
};

template <> struct Argument<std::vector<std::byte>> {
    static std::vector<std::byte> read(thalweg_value &value) {
        const uint8_t *bytes;
        size_t length;
        if (!thalweg_get_bytes(&value, &bytes, &length)) mismatch("bytes", value);
        auto begin = reinterpret_cast<const std::byte *>(bytes);
        return std::vector<std::byte>(begin, begin + length);
    }
};

template <typename T> struct Argument<std::vector<T>, std::enable_if_t<std::is_arithmetic_v<T>>> {
    static std::vector<T> read(thalweg_value &value) {
        const void *elements;
        size_t count;
        if (!thalweg_get_array(&value, element<T>(), &elements, &count)) mismatch("array of that type", value);
        auto begin = static_cast<const T *>(elements);
        return std::vector<T>(begin, begin + count);
    }
};

template <typename T> struct Argument<std::shared_ptr<const T>> {
    static std::shared_ptr<const T> read(thalweg_value &value) {
        void *found = thalweg_get_opaque(&value, &kind<T>);
        if (found == nullptr) mismatch(typeid(T).name(), value);
        return *static_cast<std::shared_ptr<const T> *>(found);
    }
};

inline Value to_value(Value value) { return value; }
inline Value to_value(std::string_view text) { return Value(thalweg_text_of(text.data(), text.size())); }
inline Value to_value(const std::string &text) { return to_value(std::string_view(text)); }
inline Value to_value(const char *text) { return to_value(std::string_view(text)); }
inline Value to_value(const std::vector<std::byte> &bytes) { return Value(thalweg_bytes(bytes.data(), bytes.size())); }
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> Value to_value(T number) {
    if constexpr (std::is_floating_point_v<T>) {
        return Value(thalweg_float(static_cast<double>(number)));
    } else {
        if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
            if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Value(thalweg_scalar(THALWEG_U64, &number));
        }
        return Value(thalweg_int(static_cast<int64_t>(number)));
    }
}
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> Value to_value(const std::vector<T> &numbers) {
    return Value(thalweg_array(element<T>(), numbers.data(), numbers.size()));
}
template <typename T> Value to_value(std::shared_ptr<const T> shared) {
    auto owned = std::make_unique<std::shared_ptr<const T>>(std::move(shared));
    return Value(thalweg_opaque(&kind<T>, owned.release()));
}

} // namespace detail

// The output of a box.
class Out {
public:
    explicit Out(thalweg_out *out) noexcept : out_(out) {}

    // Emits a record of the first variant: its values in the order of the signature.
    template <typename... T> void emit(T &&...values) { emit_variant(1, std::forward<T>(values)...); }

    // Emits a record of the `variant`-th variant, counted from 1.
    template <typename... T> void emit_variant(uint32_t variant, T &&...values) {
        // All values are made before one is given away, so that an exception leaks none.
        Value made[sizeof...(T) + 1] = {detail::to_value(std::forward<T>(values))..., Value()};
        thalweg_value given[sizeof...(T) + 1];
        for (size_t index = 0; index < sizeof...(T); index++) given[index] = made[index].release();
        thalweg_emit(out_, variant, static_cast<uint32_t>(sizeof...(T)), given);
    }

private:
    thalweg_out *out_;
};

namespace detail {

// A function's arguments are all its parameters but the last, which is the output.
template <typename... A> struct Arguments {
    static constexpr uint32_t count = sizeof...(A);
    template <auto F, size_t... I> static void run(thalweg_value *arguments, Out &out, std::index_sequence<I...>) {
        (void)arguments;
        F(Argument<std::decay_t<A>>::read(arguments[I])..., out);
    }
};
template <typename Done, typename... P> struct Peel;
template <typename... Done> struct Peel<Arguments<Done...>, Out &> {
    using type = Arguments<Done...>;
};
template <typename... Done, typename First, typename... Rest> struct Peel<Arguments<Done...>, First, Rest...> {
    using type = typename Peel<Arguments<Done..., First>, Rest...>::type;
};
template <typename F> struct Of;
template <typename... P> struct Of<void (*)(P...)> {
    using type = typename Peel<Arguments<>, P...>::type;
};

} // namespace detail

template <auto F> using ArgumentsOf = typename detail::Of<decltype(F)>::type;

template <auto F> thalweg_status call(const void *, thalweg_value *arguments, uint32_t count, thalweg_out *raw) noexcept {
    using Arguments = ArgumentsOf<F>;
    if (count != Arguments::count) return thalweg_fail(raw, "called with another number of arguments than it has");
    Out out(raw);
    try {
        Arguments::template run<F>(arguments, out, std::make_index_sequence<Arguments::count>());
        return THALWEG_DONE;
    } catch (const std::exception &error) {
        return thalweg_fail(raw, error.what());
    } catch (...) {
        return thalweg_fail(raw, "the box threw something that is no std::exception");
    }
}

} // namespace thalweg

// An entry: the signature as S-Net text (a literal) and the function.
#define THALWEG_CXX_BOX(signature, function) \
    THALWEG_BOX(signature, thalweg::ArgumentsOf<&function>::count, thalweg::call<&function>)
// An entry for a box that waits for files, sockets or time: it gets a thread of its own.
#define THALWEG_CXX_BLOCKING_BOX(signature, function) \
    THALWEG_BLOCKING_BOX(signature, thalweg::ArgumentsOf<&function>::count, thalweg::call<&function>)

#endif

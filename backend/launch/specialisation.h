// The key of a specialisation (launch.h): all fields of a struct, so that none can be forgotten.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace ocl {

// Identifies a specialisation by the type of its struct and the bytes of the fields.
struct KernelKey {
  static constexpr size_t kWords = 6;

  bool operator==(const KernelKey&) const = default;

  const void* type = nullptr;
  uint64_t hash = 0;
  std::array<uint64_t, kWords> fields{};
};

namespace detail {

// Converts to any type, so it can initialise any field.
struct AnyField {
  template <typename T>
  operator T() const;
};

template <typename T, size_t... i>
constexpr bool takes(std::index_sequence<i...>) {
  return requires { T{(static_cast<void>(i), AnyField())...}; };
}

template <typename T, size_t most = 16>
constexpr size_t count_fields() {
  if constexpr (most == 0 || takes<T>(std::make_index_sequence<most>())) {
    return most;
  } else {
    return count_fields<T, most - 1>();
  }
}

template <typename T>
inline constexpr bool is_plain = std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>;

// Calls visit() for each plain field, also of structs in the struct.
template <typename T, typename Visit>
constexpr void each_field(const T& value, Visit&& visit) {
  const auto each = [&](const auto&... fields) { (each_field(fields, visit), ...); };
  if constexpr (is_plain<T>) {
    visit(value);
  } else {
    static_assert(std::is_aggregate_v<T> && std::is_trivially_copyable_v<T>,
                  "a field of a specialisation is a number, an enumerator, a pointer to what never "
                  "moves, or a struct of these");
    constexpr size_t count = count_fields<T>();
    static_assert(count <= 12, "each_field() has no case for so many fields");
    // clang-format off
    if constexpr (count == 1) { const auto& [a] = value; each(a); }
    if constexpr (count == 2) { const auto& [a, b] = value; each(a, b); }
    if constexpr (count == 3) { const auto& [a, b, c] = value; each(a, b, c); }
    if constexpr (count == 4) { const auto& [a, b, c, d] = value; each(a, b, c, d); }
    if constexpr (count == 5) { const auto& [a, b, c, d, e] = value; each(a, b, c, d, e); }
    if constexpr (count == 6) { const auto& [a, b, c, d, e, f] = value; each(a, b, c, d, e, f); }
    if constexpr (count == 7) {
      const auto& [a, b, c, d, e, f, g] = value; each(a, b, c, d, e, f, g);
    }
    if constexpr (count == 8) {
      const auto& [a, b, c, d, e, f, g, h] = value; each(a, b, c, d, e, f, g, h);
    }
    if constexpr (count == 9) {
      const auto& [a, b, c, d, e, f, g, h, i] = value; each(a, b, c, d, e, f, g, h, i);
    }
    if constexpr (count == 10) {
      const auto& [a, b, c, d, e, f, g, h, i, j] = value; each(a, b, c, d, e, f, g, h, i, j);
    }
    if constexpr (count == 11) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k] = value; each(a, b, c, d, e, f, g, h, i, j, k);
    }
    if constexpr (count == 12) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
      each(a, b, c, d, e, f, g, h, i, j, k, l);
    }
    // clang-format on
  }
}

// A byte for each struct, whose address identifies the struct. It is not const: linkers merge equal
// constants.
template <typename Specialisation>
inline char type_of_specialisation = 0;

template <typename Specialisation>
KernelKey key_of(const Specialisation& specialisation) {
  KernelKey key{.type = &type_of_specialisation<Specialisation>};
  size_t end = 0;
  auto* const bytes = reinterpret_cast<char*>(key.fields.data());
  each_field(specialisation, [&](const auto& field) {
    std::memcpy(bytes + end, &field, sizeof(field));
    end += sizeof(field);
  });
  // Enough, because the fields have no more bytes than the struct.
  static_assert(sizeof(Specialisation) <= sizeof(key.fields),
                "a specialisation has at most 48 bytes: use smaller types for its fields");
  key.hash = reinterpret_cast<uintptr_t>(key.type) * 0x9E3779B97F4A7C15ull;
  for (size_t word = 0; word * sizeof(uint64_t) < sizeof(Specialisation); ++word) {
    key.hash = (key.hash ^ key.fields[word]) * 0xFF51AFD7ED558CCDull;
    key.hash ^= key.hash >> 32;
  }
  return key;
}

}  // namespace detail
}  // namespace ocl

#include "kernels/user/user_types.h"

#include <ATen/core/Formatting.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "backend/base/error.h"

namespace ocl {
namespace {

using c10::ScalarType;

enum class Kind { kSigned, kUnsigned, kFloat };

struct Row {
  const char* name;
  const char* also;
  Kind kind;
  size_t bytes;
  std::vector<ScalarType> types;
};

const std::array<Row, 11>& table() {
  using T = ScalarType;
  static const std::array<Row, 11> rows{{
      {"char", "signed char", Kind::kSigned, 1, {T::Char, T::Bool}},
      {"uchar", "unsigned char", Kind::kUnsigned, 1, {T::Byte, T::Bool}},
      {"short", "signed short", Kind::kSigned, 2, {T::Short}},
      {"ushort", "unsigned short", Kind::kUnsigned, 2, {T::UInt16, T::BFloat16}},
      {"int", "signed int", Kind::kSigned, 4, {T::Int}},
      {"uint", "unsigned int", Kind::kUnsigned, 4, {T::UInt32}},
      {"long", "signed long", Kind::kSigned, 8, {T::Long}},
      {"ulong", "unsigned long", Kind::kUnsigned, 8, {T::UInt64}},
      {"half", "half", Kind::kFloat, 2, {T::Half}},
      {"float", "float", Kind::kFloat, 4, {T::Float, T::ComplexFloat}},
      {"double", "double", Kind::kFloat, 8, {T::Double, T::ComplexDouble}},
  }};
  return rows;
}

struct Parsed {
  const Row* row = nullptr;
  size_t lanes = 1;
};

// The lanes of a vector type, by what follows its base; 0: OpenCL has no such vector.
size_t lanes_of(const std::string& digits) {
  if (digits.empty()) return 1;
  for (const size_t lanes : {2, 3, 4, 8, 16}) {
    if (digits == std::to_string(lanes)) return lanes;
  }
  return 0;
}

Parsed parse(std::string name) {
  while (!name.empty() && (name.back() == '*' || name.back() == ' ')) name.pop_back();
  size_t end = name.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
  const size_t lanes = lanes_of(name.substr(end));
  if (lanes == 0) return {};  // a type of the user
  const std::string base = name.substr(0, end);
  for (const Row& row : table()) {
    if (base == row.name || base == row.also) return {&row, lanes};
  }
  return {};
}

// Converts the value to the bytes of a number of this size and kind.
std::string bytes_of(const c10::Scalar& number, const Row& row, const std::string& type,
                     c10::function_ref<std::string()> what) {
  std::string bytes(row.bytes, '\0');
  const auto put = [&](auto value) { std::memcpy(bytes.data(), &value, row.bytes); };
  if (row.kind == Kind::kFloat) {
    const double value =
        number.isFloatingPoint() ? number.toDouble() : static_cast<double>(number.to<double>());
    if (row.bytes == 8) put(value);
    if (row.bytes == 4) put(static_cast<float>(value));
    if (row.bytes == 2) put(c10::Half(static_cast<float>(value)));
    return bytes;
  }
  TORCH_CHECK_TYPE(!number.isFloatingPoint(), what(), " must be an integer, not ", number);
  const unsigned bits = 8 * static_cast<unsigned>(row.bytes);
  const bool huge = number.type() == ScalarType::UInt64;  // the value overflows int64
  const int64_t value = huge ? 0 : number.toLong();
  bool fits;
  if (row.kind == Kind::kSigned) {
    const int64_t largest = static_cast<int64_t>(~uint64_t{0} >> 1 >> (64 - bits));
    fits = !huge && value >= -largest - 1 && value <= largest;
  } else {
    fits = huge ? bits == 64
                : value >= 0 && static_cast<uint64_t>(value) <= ~uint64_t{0} >> (64 - bits);
  }
  TORCH_CHECK_VALUE(fits, what(), ": ", number_text(number), " does not fit ", type);
  if (huge) {
    put(number.to<uint64_t>());
  } else {
    put(value);  // little-endian: the low bytes come first
  }
  return bytes;
}

}  // namespace

UserType user_type(const std::string& name) {
  const Parsed parsed = parse(name);
  if (!parsed.row) return {};
  return {parsed.row->bytes, parsed.lanes, parsed.row->types, true};
}

// PyTorch's own conversion to text fails for numbers above int64.
std::string number_text(const c10::Scalar& number) {
  if (number.type() == ScalarType::UInt64) return std::to_string(number.to<uint64_t>());
  return str(number);
}

std::string pack_numbers(const std::vector<c10::Scalar>& numbers, const std::string& type,
                         c10::function_ref<std::string()> what) {
  const Parsed parsed = parse(type);
  TORCH_CHECK_TYPE(parsed.row, what(),
                   " is no number: give its bytes, for example with the module "
                   "struct");
  TORCH_CHECK_VALUE(numbers.size() == parsed.lanes, what(), " takes ", parsed.lanes,
                    " number(s), got ", numbers.size());
  std::string bytes;
  for (const c10::Scalar& number : numbers) {
    TORCH_CHECK_TYPE(!number.isComplex(), what(), " must be real, not ", number);
    bytes += bytes_of(number, *parsed.row, type, what);
  }
  bytes.resize(user_type(type).bytes());
  return bytes;
}

}  // namespace ocl

#include "kernels/core/types/float8.h"

#include <algorithm>
#include <limits>

namespace ocl {
namespace {

struct Format {
  ScalarType type;
  int64_t mantissa, bias;
  uint8_t largest, infinity;  // bits of these numbers; 0: the format has no infinity
  uint8_t overflow;  // the bits that PyTorch gives to larger numbers, depending on its release
  bool unsigned_zero;
};

template <typename T>
uint8_t overflow() {
  return T(std::numeric_limits<float>::infinity()).x;
}

const Format* format_of(ScalarType type) noexcept {
  static const std::array<Format, 4> formats{{
      {ScalarType::Float8_e4m3fn, 3, 7, 0x7E, 0, overflow<c10::Float8_e4m3fn>(), false},
      {ScalarType::Float8_e5m2, 2, 15, 0x7B, 0x7C, overflow<c10::Float8_e5m2>(), false},
      {ScalarType::Float8_e4m3fnuz, 3, 8, 0x7F, 0, overflow<c10::Float8_e4m3fnuz>(), true},
      {ScalarType::Float8_e5m2fnuz, 2, 16, 0x7F, 0, overflow<c10::Float8_e5m2fnuz>(), true},
  }};
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const Format& format) { return format.type == type; });
  return found == formats.end() ? nullptr : &*found;
}

}  // namespace

bool is_float8(ScalarType type) noexcept { return format_of(type) != nullptr; }

const char* converted_name(ScalarType type) { return is_float8(type) ? "f8" : dtype_name(type); }

void define_float8(Defines& defines, ScalarType type) {
  const Format* format = format_of(type);
  if (!format) return;
  defines.set("FLOAT8_MANTISSA", format->mantissa)
      .set("FLOAT8_BIAS", format->bias)
      .set("FLOAT8_LARGEST", int64_t{format->largest})
      .set("FLOAT8_OVERFLOW", int64_t{format->overflow});
  if (format->infinity) defines.set("FLOAT8_INFINITY", int64_t{format->infinity});
  if (format->unsigned_zero) defines.set("FLOAT8_UNSIGNED_ZERO", 1);
}

}  // namespace ocl

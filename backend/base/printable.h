// Text from outside for messages. Python decodes them as UTF-8, and raises UnicodeDecodeError
// instead of the error itself where it cannot.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace ocl {

// The bytes of the character that the text begins with; 0 where it is not UTF-8.
inline size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  unsigned value = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return 0;
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = value < (length == 2 ? 0x80u : length == 3 ? 0x800u : 0x10000u);
  const bool surrogate = value >= 0xD800u && value < 0xE000u;
  return overlong || surrogate || value > 0x10FFFFu ? 0 : length;
}

// The text with bytes that are not UTF-8 as \xNN.
inline std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length > 0) {
      out += text.substr(0, length);
    } else {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(text[0]));
      out += escape;
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

}  // namespace ocl

#include "backend/base/binary_file.h"

#include <c10/util/hash.h>

#include <sstream>

#include "backend/base/environment.h"
#include "backend/base/private_file.h"
#include "backend/base/system.h"

namespace ocl {
namespace {

constexpr const char* kMagic = "torch_ocl program 1";

std::string sha1(const std::string& text) { return c10::sha1(text).str(); }

// Header: four lines (magic, key bytes, binary bytes, checksum of both), then key, then binary.
std::string header(const std::string& key, const std::string& binary) {
  std::ostringstream out;
  out << kMagic << '\n'
      << key.size() << '\n'
      << binary.size() << '\n'
      << sha1(key + binary) << '\n';
  return out.str();
}

}  // namespace

std::filesystem::path cache_folder() {
  const std::string chosen = environment("OCL_CACHE_DIR");
  if (chosen == "off") return {};
  if (!chosen.empty()) return chosen;
  const std::filesystem::path cache = environment("XDG_CACHE_HOME");
  if (cache.is_absolute()) return cache / "torch_ocl";
  const std::filesystem::path home = home_folder();
  return home.empty() ? home : home / ".cache" / "torch_ocl";
}

const std::string& host_target() {
  static const std::string target =
      sha1(host_instruction_sets() + '\n' + environment(kIntelTarget));
  return target;
}

std::filesystem::path binary_path(const std::string& key) {
  const std::filesystem::path folder = cache_folder();
  return folder.empty() ? folder : folder / (sha1(key) + ".bin");
}

std::optional<std::string> read_binary(const std::filesystem::path& path, const std::string& key) {
  if (path.empty()) return std::nullopt;
  const auto content = read_private(path);
  if (!content) return std::nullopt;
  const std::string& text = *content;
  // Skips the four lines of the header, and compares them with the header that this key and binary
  // must have.
  size_t position = 0;
  for (int line = 0; line < 4; ++line) {
    position = text.find('\n', position);
    if (position == std::string::npos) return std::nullopt;
    ++position;
  }
  if (text.size() < position + key.size()) return std::nullopt;
  std::string binary = text.substr(position + key.size());
  if (text.compare(0, position, header(key, binary)) != 0) return std::nullopt;
  if (text.compare(position, key.size(), key) != 0) return std::nullopt;
  return binary;
}

bool write_binary(const std::filesystem::path& path, const std::string& key,
                  const std::string& binary) {
  return !path.empty() && write_private(path, header(key, binary) + key + binary);
}

}  // namespace ocl

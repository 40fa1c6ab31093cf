#include "backend/binary_file.h"

#include <c10/util/hash.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include "backend/environment.h"
#include "backend/system.h"

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
  if (const std::string chosen = environment("OCL_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return std::filesystem::path(cache) / "torch_ocl";
  }
  return std::filesystem::path(environment("HOME", "/tmp")) / ".cache" / "torch_ocl";
}

std::filesystem::path binary_path(const std::string& key) {
  return cache_folder() / (sha1(key) + ".bin");
}

std::optional<std::string> read_binary(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream content;
  content << file.rdbuf();
  const std::string text = std::move(content).str();
  // The binary begins where the rest of the header's promise does; compare the whole file.
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
                  const std::string& binary) noexcept {
  try {
    static std::atomic<int> serial{0};
    std::filesystem::create_directories(path.parent_path());
    const std::filesystem::path temporary = path.string() + "." + std::to_string(process_id()) +
                                            "." + std::to_string(serial++) + ".tmp";
    {
      std::ofstream file(temporary, std::ios::binary);
      file << header(key, binary) << key << binary;
      if (!file.flush()) {
        file.close();
        std::filesystem::remove(temporary);
        return false;
      }
    }
    std::filesystem::rename(temporary, path);
    return true;
  } catch (const std::exception&) {
    return false;  // a read-only home is no reason to stop; the next process builds again
  }
}

}  // namespace ocl

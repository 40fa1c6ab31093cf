// Finds the sources of kernels: embedded in the library, in a folder, or added at run time.
#include <c10/util/hash.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <system_error>
#include <unordered_map>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/printable.h"
#include "backend/program/program_cache.h"
#include "backend/program/runtime_source.h"

namespace ocl {
namespace {

struct RuntimeSources {
  std::mutex mutex;
  std::unordered_map<std::string, std::string> texts;
};

RuntimeSources& runtime_sources() {
  static auto* const instance = new RuntimeSources;
  return *instance;
}

constexpr std::string_view kRuntimeFolder = "runtime/";

std::string runtime_text(const std::string& file) {
  RuntimeSources& sources = runtime_sources();
  std::lock_guard lock(sources.mutex);
  return sources.texts.at(file);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  TORCH_CHECK(file, "cannot read the kernel file ", printable(path.string()));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// The path of the file with this name in the folder or below it; if there is none, the path
// directly in the folder.
std::filesystem::path find_below(const std::filesystem::path& folder, const std::string& name) {
  std::error_code unreadable;  // read_file() reports it
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, unreadable)) {
    if (entry.path().filename() == name) return entry.path();
  }
  return folder / name;
}

std::string file_text(const std::string& file) {
  if (std::filesystem::path(file).is_absolute()) return read_file(file);
  if (file.starts_with(kRuntimeFolder)) return runtime_text(file);
  if (const std::string folder = environment("OCL_KERNEL_DIR"); !folder.empty()) {
    return read_file(find_below(folder, file));
  }
  const auto found = embedded_sources().find(file);
  TORCH_CHECK(found != embedded_sources().end(), "there is no kernel file ", file);
  return std::string(found->second);
}

// Replaces `#include "x.clh"` by the text of x.clh, with #line marks, so that a driver's messages
// point at the real files.
std::string expand(const std::string& file) {
  std::istringstream lines(file_text(file));
  std::ostringstream out;
  // Marks have no folder, because the program's key must not depend on it.
  const std::string mark = std::filesystem::path(file).filename().string();
  out << "#line 1 \"" << mark << "\"\n";
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    constexpr std::string_view kInclude = "#include \"";
    if (line.compare(0, kInclude.size(), kInclude) == 0) {
      const std::string name =
          line.substr(kInclude.size(), line.find('"', kInclude.size()) - kInclude.size());
      out << expand(name) << "#line " << number + 1 << " \"" << mark << "\"\n";
    } else {
      out << line << '\n';
    }
  }
  return std::move(out).str();
}

}  // namespace

std::string kernel_source(const std::string& file) { return expand(file); }

std::string add_runtime_source(const std::string& name, std::string text) {
  std::string file = str(kRuntimeFolder, c10::sha1(text).str(), '/', name, ".cl");
  RuntimeSources& sources = runtime_sources();
  std::lock_guard lock(sources.mutex);
  sources.texts.try_emplace(file, std::move(text));
  return file;
}

namespace {
const std::map<std::string, std::string_view>* sources = nullptr;
}

const std::map<std::string, std::string_view>& embedded_sources() {
  static const std::map<std::string, std::string_view> none;
  return sources ? *sources : none;
}

void set_embedded_sources(const std::map<std::string, std::string_view>* embedded) {
  sources = embedded;
}

}  // namespace ocl

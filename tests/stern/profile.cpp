#include "tests/stern/profile.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "tests/stern/queries.h"

namespace stern {
namespace {

Profile current;

uint64_t number(const std::string& text) {
  size_t used = 0;
  const uint64_t value = std::stoull(text, &used, 0);
  if (used != text.size()) throw std::invalid_argument(text);
  return value;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

using Behaviour = std::function<void(Profile&, const std::string&)>;

const std::map<std::string, Behaviour>& behaviours() {
  static const std::map<std::string, Behaviour> known{
      {"grid_x", [](Profile& p, auto& text) { p.grid[0] = number(text); }},
      {"grid_y", [](Profile& p, auto& text) { p.grid[1] = number(text); }},
      {"grid_z", [](Profile& p, auto& text) { p.grid[2] = number(text); }},
      {"global_limit_x", [](Profile& p, auto& text) { p.global_limit_x = number(text); }},
      {"free_memory", [](Profile& p, auto& text) { p.free_memory = number(text); }},
      {"lazy_allocation", [](Profile& p, auto& text) { p.lazy_allocation = number(text); }},
      {"beyond_max_allocation",
       [](Profile& p, auto& text) { p.beyond_max_allocation = number(text); }},
      {"register_words", [](Profile& p, auto& text) { p.register_words = number(text); }},
      {"required_groups_fit", [](Profile& p, auto& text) { p.required_groups_fit = number(text); }},
      {"duplicate_platform", [](Profile& p, auto& text) { p.duplicate_platform = number(text); }},
      {"duplicate_driver", [](Profile& p, auto& text) { p.duplicate_driver = text; }},
      {"wait_flushes", [](Profile& p, auto& text) { p.wait_flushes = number(text); }},
      {"marker_times", [](Profile& p, auto& text) { p.marker_times = number(text); }},
      {"command_times", [](Profile& p, auto& text) { p.command_times = number(text); }},
      {"fills_reach_host", [](Profile& p, auto& text) { p.fills_reach_host = number(text); }},
      {"failing_query",
       [](Profile& p, auto& text) {
         std::istringstream names(text);
         for (std::string name; names >> name;) {
           const Query* query = find_query(name);
           if (!query) throw std::invalid_argument(name);
           p.failing.insert(query->number);
         }
       }},
  };
  return known;
}

void apply_line(Profile& p, std::set<std::string>& seen, const std::string& line) {
  const size_t equals = line.find('=');
  if (equals == std::string::npos) throw std::invalid_argument("no KEY = VALUE");
  const std::string key = trimmed(line.substr(0, equals));
  std::string text = trimmed(line.substr(equals + 1));
  if (!seen.insert(key).second) throw std::invalid_argument("a second " + key);
  if (const auto found = behaviours().find(key); found != behaviours().end()) {
    found->second(p, text);
  } else if (const Query* query = find_query(key)) {
    // The standard asks for a blank after the number, also where nothing follows.
    if (key.ends_with("_VERSION") && text.find(' ') == text.rfind(' ')) text.push_back(' ');
    p.answers[query->number] = encode(*query, text);
  } else {
    throw std::invalid_argument("unknown key " + key);
  }
}

template <typename T>
T answer(const Profile& p, const char* query, T otherwise) {
  const auto found = p.answers.find(find_query(query)->number);
  if (found == p.answers.end()) return otherwise;
  T value{};
  std::memcpy(&value, found->second.data(), std::min(sizeof value, found->second.size()));
  return value;
}

std::string text_answer(const Profile& p, const char* query) {
  const auto found = p.answers.find(find_query(query)->number);
  return found == p.answers.end() ? "" : found->second.data();
}

// "OpenCL 1.2 CUDA" and "OpenCL C 1.2 ..." are 120.
int version_in(const std::string& text, int otherwise) {
  const size_t at = text.find_first_of("0123456789");
  int major = 0, minor = 0;
  if (at == std::string::npos || std::sscanf(&text[at], "%d.%d", &major, &minor) != 2) {
    return otherwise;
  }
  return major * 100 + minor * 10;
}

// The memory that this machine can give: a quarter of its own, or STERN_MEMORY bytes. The sizes of
// a larger card shrink in proportion.
void cap_memory(Profile& p) {
  const std::string chosen = environment("STERN_MEMORY");
  const uint64_t cap = chosen.empty()
                           ? uint64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE) / 4
                           : number(chosen);
  if (p.global_memory <= cap) return;
  const double scale = double(cap) / double(p.global_memory);
  const auto scaled = [&](uint64_t bytes) { return uint64_t(double(bytes) * scale) & ~4095ull; };
  p.global_memory = scaled(p.global_memory);
  p.max_allocation = scaled(p.max_allocation);
  p.free_memory = scaled(p.free_memory);
  const auto put = [&](const char* query, uint64_t bytes) {
    p.answers[find_query(query)->number] = encode(*find_query(query), std::to_string(bytes));
  };
  put("DEVICE_GLOBAL_MEM_SIZE", p.global_memory);
  put("DEVICE_MAX_MEM_ALLOC_SIZE", p.max_allocation);
}

// Limits that queries report, too.
void derive(Profile& p) {
  p.version = version_in(text_answer(p, "DEVICE_VERSION"), 120);
  p.language_version = version_in(text_answer(p, "DEVICE_OPENCL_C_VERSION"), p.version);
  const int platform_version = version_in(text_answer(p, "PLATFORM_VERSION"), p.version);
  p.runtime_version = std::max(p.version, platform_version);
  p.extensions = text_answer(p, "DEVICE_EXTENSIONS");
  p.extensions.insert(p.extensions.begin(), ' ');
  p.extensions.push_back(' ');
  p.global_memory = answer<cl_ulong>(p, "DEVICE_GLOBAL_MEM_SIZE", 1ull << 30);
  p.max_allocation = answer<cl_ulong>(p, "DEVICE_MAX_MEM_ALLOC_SIZE", p.global_memory / 4);
  if (!p.free_memory) p.free_memory = p.global_memory;
  p.local_memory = answer<cl_ulong>(p, "DEVICE_LOCAL_MEM_SIZE", 32768);
  p.group_size = answer<size_t>(p, "DEVICE_MAX_WORK_GROUP_SIZE", 256);
  const std::vector<char>& sizes = p.answers[CL_DEVICE_MAX_WORK_ITEM_SIZES];
  for (int i = 0; i < 3; ++i) {
    p.item_sizes[i] = p.group_size;
    if (sizes.size() == 3 * sizeof(size_t)) {
      std::memcpy(&p.item_sizes[i], &sizes[i * sizeof(size_t)], sizeof(size_t));
    }
    if (!p.grid[i]) p.grid[i] = SIZE_MAX;
  }
  p.argument_bytes = answer<size_t>(p, "DEVICE_MAX_PARAMETER_SIZE", 1024);
  p.base_alignment = answer<cl_uint>(p, "DEVICE_MEM_BASE_ADDR_ALIGN", 1024) / 8;
  p.queue_times = CL_QUEUE_PROFILING_ENABLE &
                  answer<cl_ulong>(p, "DEVICE_QUEUE_PROPERTIES", CL_QUEUE_PROFILING_ENABLE);
  p.group_multiple = answer<size_t>(p, "KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE", 1);
  if (!p.global_limit_x) p.global_limit_x = UINT64_MAX;
  if (!p.has("cl_khr_fp64")) {  // PoCL would say that it has it
    for (const char* query : {"DEVICE_DOUBLE_FP_CONFIG", "DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE",
                              "DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE"}) {
      p.answers.try_emplace(find_query(query)->number, encode(*find_query(query), "0"));
    }
  }
}

}  // namespace

const Profile& profile() { return current; }

void load_profile() {
  Profile loaded;
  loaded.name = environment("STERN_PROFILE", "smallest");
  const std::string path = loaded.name.find('/') == std::string::npos
                               ? STERN_PROFILES "/" + loaded.name + ".profile"
                               : loaded.name;
  std::ifstream file(path);
  std::string line;
  int count = 0;
  std::set<std::string> seen;
  try {
    if (!file) throw std::invalid_argument("cannot be read");
    for (; std::getline(file, line);) {
      ++count;
      if (!trimmed(line).empty() && trimmed(line)[0] != '#') apply_line(loaded, seen, line);
    }
    derive(loaded);
    cap_memory(loaded);
  } catch (const std::exception& error) {
    say(path + ":" + std::to_string(count) + ": " + error.what() + ": " + line);
    std::exit(2);
  }
  current = std::move(loaded);
}

}  // namespace stern

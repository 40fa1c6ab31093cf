#include "kernels/core/algorithms/algorithms.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <iostream>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_set>

#include "backend/base/environment.h"

namespace ocl {

PreferredAlgorithm::PreferredAlgorithm(const char* variable, std::vector<const char*> names)
    : variable_(variable), names_(std::move(names)) {
  set(environment(variable));
}

void PreferredAlgorithm::set(std::string_view name) {
  const char* found = nullptr;
  for (const char* known : names_) {
    if (known == name) found = known;
  }
  TORCH_CHECK_VALUE(found || name.empty(), variable_, ": there is no algorithm '", printable(name),
                    "'; there are ", c10::Join(", ", names_));
  name_ = found;
}

namespace {

constexpr const char* kDisable = "OCL_DISABLE";

// Static objects fill it before main().
std::set<std::string_view>& optional_names() {
  static auto* const names = new std::set<std::string_view>;
  return *names;
}

std::vector<std::string> disabled_names() {
  std::vector<std::string> names;
  std::string text = environment(kDisable);
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  for (std::string name; words >> name;) {
    TORCH_CHECK_VALUE(optional_names().contains(name), kDisable, ": '", printable(name),
                      "' is nothing that can be disabled; there are ",
                      c10::Join(", ", optional_names()));
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

OptionalPaths::OptionalPaths(std::initializer_list<const char*> names) {
  for (const char* name : names) add(name);
}

void OptionalPaths::add(const char* name) { optional_names().insert(name); }

bool is_disabled(std::string_view name) {
  static const std::vector<std::string> disabled = disabled_names();
  return !disabled.empty() && std::ranges::find(disabled, name) != disabled.end();
}

bool logs_algorithms() {
  static const bool set = environment_flag("OCL_LOG_ALGORITHMS");
  return set;
}

void AlgorithmLog::refuse(const char* name, const char* reason) {
  refusals_ += c10::str(refusals_.empty() ? "; refused: " : ", ", name, " (", reason, ")");
}

void AlgorithmLog::print(std::string_view problem, const char* chosen) const {
  constexpr size_t kMostLines = 4096;
  static std::mutex mutex;
  static auto* const printed = new std::unordered_set<std::string>;
  std::string line =
      c10::str("torch_ocl: ", problem, ": ", chosen ? chosen : "no algorithm", refusals_, '\n');
  const std::lock_guard lock(mutex);
  if (printed->size() >= kMostLines) printed->clear();
  const auto [position, is_new] = printed->insert(std::move(line));
  if (is_new) std::cerr << *position << std::flush;
}

}  // namespace ocl

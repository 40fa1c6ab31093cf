#include "tests/stern/failure.h"

#include <condition_variable>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "tests/stern/entry_points.h"

namespace stern {
namespace {

std::map<std::string, CallCount>& counts() {
  static auto* const all = [] {
    auto* made = new std::map<std::string, CallCount>;
#define X(name) (*made)[#name];
    STERN_OWN(X)
    STERN_PASSED_ON(X)
    STERN_REFUSED(X)
#undef X
    (*made)["execution"];
    return made;
  }();
  return *all;
}

using Failures = std::map<std::string, std::vector<Failure>>;

// Parses entry:n:code,...; says what is wrong.
std::optional<Failures> parse(const std::string& list) {
  Failures parsed;
  std::istringstream text(list);
  for (std::string item; std::getline(text, item, ',');) {
    std::istringstream parts(item);
    std::string entry, n, code;
    std::getline(parts, entry, ':');
    std::getline(parts, n, ':');
    std::getline(parts, code);
    const bool hangs = entry == "execution" && code == "hang";
    const Failure failure{std::strtoul(n.c_str(), nullptr, 10), n.ends_with('+'),
                          hangs ? kHang : std::atoi(code.c_str())};
    if (!counts().contains(entry) || failure.first < 1 || (failure.code >= 0 && !hangs)) {
      say("STERN_FAIL: \"" + item +
          "\" is not entry:n:code or entry:n+:code, as in clEnqueueNDRangeKernel:10:-5, or "
          "execution:n:hang");
      return std::nullopt;
    }
    parsed[entry].push_back(failure);
  }
  return parsed;
}

struct Replaced {
  std::mutex mutex;
  std::condition_variable changed;
  unsigned long times = 0;
};
Replaced& replaced() {
  static auto* const instance = new Replaced;
  return *instance;
}

bool apply(const std::string& list) {
  std::optional<Failures> parsed = parse(list);
  if (!parsed) return false;
  for (auto& [name, count] : counts()) count.reset(std::move((*parsed)[name]));
  std::lock_guard lock(replaced().mutex);
  ++replaced().times;
  replaced().changed.notify_all();
  return true;
}

}  // namespace

cl_int CallCount::count() {
  std::lock_guard lock(mutex_);
  ++calls_;
  for (const Failure& failure : failures_) {
    if (failure.all_later ? calls_ < failure.first : calls_ != failure.first) continue;
    ++failed_;
    return failure.code;
  }
  return CL_SUCCESS;
}

void CallCount::reset(std::vector<Failure> failures) {
  std::lock_guard lock(mutex_);
  calls_ = failed_ = 0;
  failures_ = std::move(failures);
}

unsigned long CallCount::calls() {
  std::lock_guard lock(mutex_);
  return calls_;
}

unsigned long CallCount::failed() {
  std::lock_guard lock(mutex_);
  return failed_;
}

unsigned long replacements() {
  std::lock_guard lock(replaced().mutex);
  return replaced().times;
}

void hang(unsigned long before) {
  std::unique_lock lock(replaced().mutex);
  replaced().changed.wait(lock, [&] { return replaced().times != before; });
}

CallCount& call_count(const std::string& entry) { return counts().at(entry); }

std::map<std::string, unsigned long> calls() {
  std::map<std::string, unsigned long> called;
  for (auto& [name, count] : counts()) {
    if (const unsigned long n = count.calls()) called[name] = n;
  }
  return called;
}

void load_failures() {
  if (!apply(environment("STERN_FAIL"))) std::exit(2);
}

}  // namespace stern

extern "C" {

__attribute__((visibility("default"))) bool stern_fail(const char* failures) {
  return stern::apply(failures);
}

__attribute__((visibility("default"))) unsigned long stern_calls(const char* entry) {
  const auto called = stern::calls();
  const auto found = called.find(entry);
  return found == called.end() ? 0 : found->second;
}

__attribute__((visibility("default"))) unsigned long stern_failed() {
  unsigned long failed = 0;
  for (auto& [name, count] : stern::counts()) failed += count.failed();
  return failed;
}

}  // extern "C"

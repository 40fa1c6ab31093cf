#include "tests/stern/failure.h"

#include <cstdlib>
#include <map>
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

}  // namespace

cl_int CallCount::count() {
  const unsigned long n = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const Failure& failure : failures_) {
    if (failure.n == n) return failure.code;
  }
  return CL_SUCCESS;
}

void CallCount::reset() {
  calls_ = 0;
  failures_.clear();
}

CallCount& call_count(const std::string& entry) { return counts().at(entry); }

void load_failures() {
  for (auto& [name, count] : counts()) count.reset();
  std::istringstream text(environment("STERN_FAIL"));
  for (std::string item; std::getline(text, item, ',');) {
    std::istringstream parts(item);
    std::string entry, n, code;
    std::getline(parts, entry, ':');
    std::getline(parts, n, ':');
    std::getline(parts, code);
    const auto found = counts().find(entry);
    if (found == counts().end() || std::atol(n.c_str()) < 1 || std::atoi(code.c_str()) >= 0) {
      say("STERN_FAIL: \"" + item + "\" is not entry:n:code, as in clEnqueueNDRangeKernel:10:-5");
      std::exit(2);
    }
    found->second.add_failure(std::strtoul(n.c_str(), nullptr, 10), std::atoi(code.c_str()));
  }
}

}  // namespace stern

// Choice among the algorithms of an operator. A table lists them in the order of preference.
// An environment variable can prefer one of them. With OCL_LOG_ALGORITHMS=1 each new choice is
// printed, with the reasons why other algorithms were refused. OCL_DISABLE names the algorithms
// that are never used.
#pragma once

#include <atomic>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ocl {

// Estimates of work (Arguments::enqueue) assume a device near its peak. Algorithms without tiles
// load two numbers from memory for each multiply-add, and reach a few percent of the peak.
constexpr double kPlainCost = 16;

// The algorithm that the user prefers: it is chosen wherever it applies.
class PreferredAlgorithm {
 public:
  // Reads the environment variable. `names`: all algorithms, with static storage.
  PreferredAlgorithm(const char* variable, std::vector<const char*> names);
  // An empty name ends the preference; an unknown one is a ValueError.
  void set(std::string_view name);
  const char* name() const { return name_.load(std::memory_order_relaxed); }  // or nullptr

 private:
  const char* const variable_;
  const std::vector<const char*> names_;
  std::atomic<const char*> name_{nullptr};
};

// Registers names that OCL_DISABLE may list: rows of a table, or a fast path that has a slower
// replacement. Make it a static object of the file that chooses.
class OptionalPaths {
 public:
  explicit OptionalPaths(std::initializer_list<const char*> names);
  // Registers all rows of a table except the last resort.
  template <typename Row>
  OptionalPaths(std::span<const Row* const> rows, const Row& last_resort) {
    for (const Row* row : rows) {
      if (row != &last_resort) add(row->name);
    }
  }

 private:
  static void add(const char* name);
};

// Whether OCL_DISABLE lists the name. Raises ValueError if it lists an unknown name.
bool is_disabled(std::string_view name);

bool logs_algorithms();

// Collects and prints the line for a choice. Each different line is printed once.
class AlgorithmLog {
 public:
  void refuse(const char* name, const char* reason);
  void print(std::string_view problem, const char* chosen) const;

 private:
  std::string refusals_;
};

// Returns the preferred row if it applies, else the first row that does, else nullptr. A Row has a
// name. The namespace of Call has two functions: refusal(row, call) says why the row does not
// apply, or is nullptr; describe(call) names the problem in the log.
template <typename Row, typename Call>
const Row* choose_algorithm(std::span<const Row* const> rows, const PreferredAlgorithm& preferred,
                            const Call& call) {
  const bool logs = logs_algorithms();
  AlgorithmLog log;
  const auto applies = [&](const Row& row) {
    const char* const reason = is_disabled(row.name) ? "OCL_DISABLE" : refusal(row, call);
    if (reason && logs) log.refuse(row.name, reason);
    return !reason;
  };
  const Row *chosen = nullptr, *tried = nullptr;
  if (const char* const name = preferred.name()) {
    for (const Row* row : rows) {
      if (std::string_view(row->name) == name) tried = row;
    }
    if (tried && applies(*tried)) chosen = tried;
  }
  for (size_t i = 0; !chosen && i < rows.size(); ++i) {
    if (rows[i] != tried && applies(*rows[i])) chosen = rows[i];
  }
  if (logs) log.print(describe(call), chosen ? chosen->name : nullptr);
  return chosen;
}

// A row of a table without a preferred algorithm.
template <typename Call>
struct Algorithm {
  const char* name;
  // Says why the row does not apply; nullptr where it does. The last row has no such function: it
  // always applies.
  const char* (*refusal)(const Call&);
  void (*run)(const Call&);  // called after refusal() of the same call
};

// Runs the first row that applies. describe(call) names the problem in the log.
template <typename Call, size_t count>
void run_first(const Algorithm<Call> (&rows)[count], const Call& call) {
  const bool logs = logs_algorithms();
  AlgorithmLog log;
  for (const Algorithm<Call>& row : rows) {
    const char* const reason = is_disabled(row.name) ? "OCL_DISABLE"
                               : row.refusal         ? row.refusal(call)
                                                     : nullptr;
    if (reason && logs) log.refuse(row.name, reason);
    if (reason) continue;
    if (logs) log.print(describe(call), row.name);
    return row.run(call);
  }
}

}  // namespace ocl

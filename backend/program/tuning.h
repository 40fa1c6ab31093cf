// Choices among the variants of a kernel, as measured on a device (python -m torch_ocl.tune). They
// are kept in the folder of the program cache, one file per device and driver version. Without a
// measurement, the caller chooses by itself. Each caller defines a Tunable, which has the names.
#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "backend/device/device.h"

namespace ocl {

// A kernel with variants; a static object in the file that chooses among them. Its name and the
// variants' are stored in files, so variants may be added, moved and removed. Names have no spaces.
class Tunable {
 public:
  // `variant`: returns a candidate's name, which must depend on constants alone; empty after the
  // last candidate.
  Tunable(const char* name, std::string (*variant)(int64_t candidate));
  Tunable(const Tunable&) = delete;
  Tunable& operator=(const Tunable&) = delete;

  const char* name() const { return name_; }
  int64_t candidates() const { return candidates_; }
  std::string variant(int64_t candidate) const { return variant_(candidate); }
  // The candidate of this name, or -1.
  int64_t candidate_of(std::string_view variant) const;

  // Makes every problem take this candidate where it fits; -1: no longer.
  void force(int64_t candidate) { forced_.store(candidate, std::memory_order_relaxed); }
  int64_t forced() const { return forced_.load(std::memory_order_relaxed); }

  // The object with this name, or null.
  static Tunable* find(std::string_view name);

 private:
  const char* const name_;
  std::string (*const variant_)(int64_t);
  int64_t candidates_ = 0;
  Tunable* const next_;  // the next in the list of all objects
  std::atomic<int64_t> forced_ = -1;
};

// The last choice on this thread.
struct TunedProblem {
  std::string tunable;
  uint64_t problem = 0;  // sizes and types, packed by the caller
  int64_t candidates = 0;
  int64_t choice = -1;  // below 0: none was measured
};

// The measured candidate (0 .. candidates - 1) if it `fits`, else the result of `otherwise`. Takes
// no lock and allocates nothing.
int64_t choose_tuned(const Device& device, const Tunable& tunable, uint64_t problem,
                     c10::function_ref<bool(int64_t)> fits, c10::function_ref<int64_t()> otherwise);

// Packs ceil(log2(size)) of each size into 6 bits: sizes that are close share a measured choice.
uint64_t pack_sizes(std::initializer_list<int64_t> sizes);

TunedProblem last_tuned();
void forget_tuned();
// For tests: Tunable::force() by name.
void force_tuned(const std::string& tunable, int64_t choice);

// For the tuner. set_tuned() sets or removes (choice < 0) a choice in this process. save_tuned()
// writes all choices of a device, and returns the path of the file.
void set_tuned(DeviceIndex device, const std::string& tunable, uint64_t problem, int64_t choice);
std::string save_tuned(DeviceIndex device);

}  // namespace ocl

#include "backend/device/device_counter.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/helper_process.h"
#include "backend/base/opencl.h"
#include "backend/base/printable.h"
#include "backend/base/system.h"

namespace ocl {
namespace {

using std::chrono::seconds;

seconds limit() {
  constexpr size_t kDefault = 10, kDay = 86400;
  try {
    const auto set = environment_number("OCL_LISTING_TIMEOUT", "a number of seconds");
    return seconds(std::min(set.value_or(kDefault), kDay));
  } catch (const c10::Error& error) {
    TORCH_WARN("ocl: ", error.what_without_backtrace(), ": ", kDefault, " are taken");
    return seconds(kDefault);
  }
}

struct Counter {
  std::mutex mutex;
  std::optional<HelperProcess> helper;
  seconds limit{};
  std::optional<c10::DeviceIndex> counted;
  std::string hung;

  std::optional<c10::DeviceIndex> count(std::chrono::milliseconds patience) {
    if (counted) return counted;
    if (!opencl_loader_present()) return counted = 0;
    if (!helper) {
      limit = ocl::limit();
      helper.emplace(own_file().replace_filename("count_devices"), limit);
    }
    if (const auto answer = helper->wait(patience)) counted = read(*answer);
    return counted;
  }

  c10::DeviceIndex read(const HelperAnswer& answer) {
    int number = 0;
    const std::string& text = answer.text;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (answer.kind == HelperAnswer::Kind::kLine && code == std::errc() && end > text.data()) {
      return static_cast<c10::DeviceIndex>(number);
    }
    const std::string what = failure(answer);
    TORCH_WARN("ocl: no devices, since ", what,
               ". The CPU is not affected. `python -m torch_ocl.info` names the drivers; "
               "OCL_ICD_VENDORS chooses among them (docs/environment.md)");
    return 0;
  }

  std::string failure(const HelperAnswer& answer) {
    using Kind = HelperAnswer::Kind;
    const std::string& text = answer.text;
    const auto driver = [&](const char* prefix) {
      const std::string file = text.substr(std::min(std::string(prefix).size(), text.size()));
      return file.empty() ? "an OpenCL driver" : str("the OpenCL driver ", printable(file));
    };
    if (answer.kind == Kind::kNotStarted) {
      return str("the program that counts them cannot be started: ", text);
    }
    if (answer.kind == Kind::kEnded) return "an OpenCL driver ended the process that counts them";
    if (answer.kind == Kind::kLine && text.starts_with(kDriverCrashed)) {
      return driver(kDriverCrashed) + " crashed the process that counts them";
    }
    hung = str(driver(kDriverHung), " did not answer within ", limit.count(),
               " seconds (OCL_LISTING_TIMEOUT)");
    return hung;
  }
};

// A forked process makes a new counter and copies the number if it is known. It cannot use the old
// one: the helper process answers to the parent, and a thread of the parent may have held the lock.
// The counter is made when the library is loaded, so that its creation needs no lock.
Counter* counter = [] {
  after_fork([] {
    Counter* const parents = std::exchange(counter, new Counter);
    if (!parents->mutex.try_lock()) return;
    counter->counted = parents->counted;
    counter->hung = parents->hung;
  });
  return new Counter;
}();

}  // namespace

std::optional<c10::DeviceIndex> count_devices(std::chrono::milliseconds patience) noexcept {
  try {
    std::lock_guard lock(counter->mutex);
    return counter->count(patience);
  } catch (...) {
    return c10::DeviceIndex{0};
  }
}

std::string driver_that_hangs() {
  std::lock_guard lock(counter->mutex);
  return counter->hung;
}

}  // namespace ocl

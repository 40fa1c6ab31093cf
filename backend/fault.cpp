#include "backend/fault.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "backend/allocator.h"
#include "backend/error.h"
#include "backend/event.h"
#include "backend/launch.h"
#include "backend/runtime_source.h"

namespace ocl {
namespace {

constexpr size_t kSlots = 64;  // reports that wait at a time; more use pageable memory

constexpr const char* kTakeFault = R"(
__kernel void take_fault(__global int *word, __global int *taken) {
  for (int i = 0; i < 8; ++i) taken[i] = word[i];
  word[0] = 0;
}
)";

std::mutex sites_mutex;
std::deque<FaultSite>& sites() {
  static auto* const all = new std::deque<FaultSite>(1);  // site 0 means "no fault"
  return *all;
}

int64_t join(cl_int low, cl_int high) {
  return static_cast<int64_t>(static_cast<uint32_t>(low)) | static_cast<int64_t>(high) << 32;
}

// Whether the command has completed, so that its results can be read. Does not wait.
bool is_complete(const cl::Event& event) {
  if (execution_status(event).value_or(CL_QUEUED) > CL_COMPLETE) return false;
  clWaitForEvents(1, &event());
  return true;
}

}  // namespace

int fault_site(FaultSite site) {
  std::lock_guard lock(sites_mutex);
  sites().push_back(std::move(site));
  return static_cast<int>(sites().size() - 1);
}

cl_mem FaultWord::word() {
  if (C10_UNLIKELY(!handle_.load(std::memory_order_acquire))) create();
  return handle_.load(std::memory_order_relaxed);
}

void FaultWord::create() {
  static std::array<std::atomic<bool>, kMaxDevices> launched{};
  const std::string file = add_runtime_source("take_fault", kTakeFault);
  Device& device = stream_.device();
  const Program& built = program(device, file, {});
  std::lock_guard lock(mutex_);
  if (word_()) return;
  translated(
      [&] {
        return str("cannot make the word in which kernels report errors on ", device.label());
      },
      [&] {
        const auto make = [&] {
          Word zero{};
          return cl::Buffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                            sizeof(Word), zero.data());
        };
        cl::Buffer word = make();
        taken_ = make();
        take_ = cl::Kernel(built.handle, "take_fault");
        take_.setArg(0, word);
        take_.setArg(1, taken_);
        // The first launch may wait for the device, which a report must not do.
        launch_first(device, built, &launched[device.index()], [&] { enqueue_take(); });
        word_ = std::move(word);
      });
  if (!device.uses_host_memory()) make_slots();
  handle_.store(word_(), std::memory_order_release);
}

// A read into pageable memory that should not block blocks nevertheless on drivers that copy
// through pinned memory of their own, as NVIDIA's does. Recording an event would wait for the
// stream.
void FaultWord::make_slots() {
  Device& device = stream_.device();
  constexpr size_t kBytes = kSlots * sizeof(Word);
  cl_int code = CL_SUCCESS;
  cl::Buffer memory(clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                   kBytes, nullptr, &code));
  if (code != CL_SUCCESS) return;  // pageable memory is right, too
  // In the stream's queue, the map would wait for the stream's commands.
  const cl::CommandQueue queue(
      clCreateCommandQueue(device.context()(), device.handle()(), 0, &code));
  if (code != CL_SUCCESS) return;
  void* const start = clEnqueueMapBuffer(queue(), memory(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                         kBytes, 0, nullptr, nullptr, &code);
  if (code != CL_SUCCESS) return;
  slots_ = std::move(memory);  // mapped for its whole life
  for (size_t i = 0; i < kSlots; ++i) free_slots_.push_back(static_cast<Word*>(start) + i);
}

void FaultWord::enqueue_take() {
  const size_t one = 1;
  const cl_int code = enqueue_with_memory(stream_.device().index(), [&] {
    return stream_.enqueue([&](cl_command_queue queue) {
      return clEnqueueNDRangeKernel(queue, take_(), 1, nullptr, &one, &one, 0, nullptr, nullptr);
    });
  });
  if (code != CL_SUCCESS) throw cl::Error(code, "clEnqueueNDRangeKernel");
}

void FaultWord::enqueue_report() {
  // Remove completed reports without a fault that nobody has asked for.
  while (!reports_.empty() && is_complete(reports_.front().done) &&
         (*reports_.front().word)[0] == 0) {
    remove_first_report();
  }
  if (unread_) enqueue_read();  // the read of an earlier report could not be enqueued
  enqueue_take();
  unread_ = true;
  enqueue_read();
}

void FaultWord::free_slot(const Report& report) {
  if (report.word != &report.pageable) free_slots_.push_back(report.word);
}

void FaultWord::remove_first_report() {
  free_slot(reports_.front());
  reports_.pop_front();
}

void FaultWord::enqueue_read() {
  Report& report = reports_.emplace_back();
  report.word = &report.pageable;
  if (!free_slots_.empty()) {
    report.word = free_slots_.back();
    free_slots_.pop_back();
    *report.word = {};  // the read may fail
  }
  auto forget = c10::make_scope_exit([&] {
    free_slot(report);
    reports_.pop_back();
  });
  const cl_int code = enqueue_with_memory(stream_.device().index(), [&] {
    return stream_.enqueue([&](cl_command_queue queue) {
      return clEnqueueReadBuffer(queue, taken_(), CL_FALSE, 0, sizeof(Word), report.word->data(), 0,
                                 nullptr, &report.done());
    });
  });
  if (code != CL_SUCCESS) throw cl::Error(code, "clEnqueueReadBuffer");
  forget.release();
  unread_ = false;
}

uint64_t FaultWord::report() {
  if (C10_LIKELY(enqueued_.load(std::memory_order_acquire) ==
                 reported_.load(std::memory_order_acquire))) {
    return last_.load(std::memory_order_relaxed);
  }
  std::lock_guard lock(mutex_);
  const uint64_t enqueued = enqueued_.load(std::memory_order_acquire);
  if (enqueued == reported_.load(std::memory_order_relaxed)) return last_;
  translated(
      [&] { return str("cannot read which errors kernels found on ", stream_.device().label()); },
      [&] { enqueue_report(); });
  const uint64_t number = reports_.back().number = last_ + 1;
  last_ = number;
  reported_.store(enqueued, std::memory_order_release);
  return number;
}

void FaultWord::raise_reported(uint64_t last) {
  if (C10_LIKELY(raised_.load(std::memory_order_acquire) >= last)) return;
  std::lock_guard lock(mutex_);
  while (!reports_.empty() && reports_.front().number <= last) {
    const Report& report = reports_.front();
    // The caller has waited for a command after the report, but the report's status may come later.
    clWaitForEvents(1, &report.done());
    const Word word = *report.word;
    remove_first_report();
    if (word[0] != 0) raise_fault(word);
  }
  raised_.store(std::max(raised_.load(), last), std::memory_order_release);
}

void FaultWord::raise_fault(const Word& word) const {
  FaultSite site;
  {
    std::lock_guard sites_lock(sites_mutex);
    site = sites().at(word[0]);
  }
  TORCH_CHECK(!site.what.empty(), site.op);
  std::string bound;
  if (!site.bound_name.empty()) {
    bound = str(" is out of bounds for ", site.bound_name, " ", join(word[4], word[5]));
  }
  const std::string text =
      str(site.op, ": ", site.what, " ", join(word[2], word[3]), bound, " (on ",
          stream_.device().label(),
          "). A kernel found it: OCL_LAUNCH_BLOCKING=1 shows which line called it");
  TORCH_CHECK_INDEX(site.error != FaultClass::kIndex, text);
  TORCH_CHECK(false, text);
}

}  // namespace ocl

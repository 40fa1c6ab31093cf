#include "backend/queue/fault.h"

#include <ATen/ceil_div.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "backend/base/error.h"
#include "backend/program/runtime_source.h"
#include "backend/queue/first_launch.h"
#include "backend/queue/memory_hooks.h"
#include "backend/queue/stream.h"

namespace ocl {
namespace {

// A tagged site has the site's number and, as a tag, the low bits of FaultThread::first_result().
// Captured kernels have the tag 0, because each replay has other memory.
constexpr uint32_t kSites = 1 << 18, kTags = 1 << 14;

constexpr size_t kSlots = 16;  // reports in flight at a time; more use pageable memory

constexpr const char* kTakeFault = R"(
__kernel void take_faults(__global int *words, __global int *taken, const uint stride) {
  const size_t place = get_global_id(0);
  __global int *word = words + place * stride;
  for (int i = 0; i < 8; ++i) taken[place * 8 + i] = word[i];
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

// The thread may have allocated more blocks since: returns the highest number with this tag.
uint64_t first_result(const FaultThread& thread, cl_int tagged_site) {
  const uint32_t tag = static_cast<uint32_t>(tagged_site) / kSites;
  const uint64_t last = thread.allocations() + 1;
  return tag == 0 || last < tag ? 0 : last - (last - tag) % kTags;
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
  TORCH_CHECK(sites().size() < kSites, "more than ", kSites,
              " places that report errors of kernels");
  sites().push_back(std::move(site));
  return static_cast<int>(sites().size() - 1);
}

cl_mem Faults::word() {
  const int place = fault_thread().place();
  const cl_mem word = places_[place].word.load(std::memory_order_acquire);
  return C10_LIKELY(word != nullptr) ? word : make_word(place);
}

cl_int Faults::tagged(int site) {
  const uint64_t tag = fault_thread().first_result() % kTags;
  return static_cast<cl_int>(static_cast<uint32_t>(site) + static_cast<uint32_t>(tag) * kSites);
}

void Faults::enqueued() {
  FaultThread& thread = fault_thread();
  thread.count_kernel();
  places_[thread.place()].launched.fetch_add(1, std::memory_order_relaxed);
  enqueued_.fetch_add(1, std::memory_order_release);
}

cl_mem Faults::make_word(int place) {
  create();
  std::lock_guard lock(mutex_);
  Place& made = places_[place];
  if (made.word) return made.word;
  const cl_buffer_region region{place * stride_, sizeof(Word)};
  cl_int code = CL_SUCCESS;
  made.part = cl::Buffer(
      clCreateSubBuffer(words_(), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
  if (code != CL_SUCCESS) {
    raise(code,
          str("cannot make a word in which kernels report errors on ", stream_.device().label()),
          "clCreateSubBuffer");
  }
  if (place >= places_end_) places_end_ = place + 1;
  made.word.store(made.part(), std::memory_order_release);
  return made.word;
}

void Faults::create() {
  static std::array<std::atomic<bool>, kMaxDevices> launched{};
  const std::string file = add_runtime_source("take_fault", kTakeFault);
  Device& device = stream_.device();
  const Program& built = program(device, file, {});
  std::lock_guard lock(mutex_);
  if (words_()) return;
  translated(
      [&] {
        return str("cannot make the words in which kernels report errors on ", device.label());
      },
      [&] {
        const auto make = [&](size_t stride) {
          std::vector<char> zeros(kFaultPlaces * stride);
          return cl::Buffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                            zeros.size(), zeros.data());
        };
        const size_t bits = device.handle().getInfo<CL_DEVICE_MEM_BASE_ADDR_ALIGN>();
        stride_ = at::round_up(sizeof(Word), std::max<size_t>(bits / 8, 1));
        cl::Buffer words = make(stride_);
        taken_ = make(sizeof(Word));
        take_ = cl::Kernel(built.handle, "take_faults");
        take_.setArg(0, words);
        take_.setArg(1, taken_);
        take_.setArg(2, static_cast<cl_uint>(stride_ / sizeof(cl_int)));
        // The first launch may wait for the device, but a report must not.
        launch_first(device, built, &launched[device.index()], [&] { enqueue_take(0, 1); });
        if (!device.uses_host_memory()) make_slots();
        words_ = std::move(words);
      });
}

// A read into pageable memory that should not block blocks nevertheless on drivers that copy
// through pinned memory of their own, as NVIDIA's does. Recording an event would wait for the
// stream.
void Faults::make_slots() {
  Device& device = stream_.device();
  constexpr size_t kBytes = kSlots * kFaultPlaces * sizeof(Word);
  cl_int code = CL_SUCCESS;
  cl::Buffer memory(clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                   kBytes, nullptr, &code));
  if (code != CL_SUCCESS) return;  // pageable memory works, too
  // In the stream's queue, the map would wait for the stream's commands.
  const cl::CommandQueue queue(
      clCreateCommandQueue(device.context()(), device.handle()(), 0, &code));
  if (code != CL_SUCCESS) return;
  void* const start = clEnqueueMapBuffer(queue(), memory(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                         kBytes, 0, nullptr, nullptr, &code);
  if (code != CL_SUCCESS) return;
  slots_ = std::move(memory);  // mapped for its whole life
  for (size_t i = 0; i < kSlots; ++i) {
    free_slots_.push_back(static_cast<Word*>(start) + i * kFaultPlaces);
  }
}

// The places that have kernels which no report covers.
Faults::Taken Faults::next_taken() const {
  Taken next;
  const int end = places_end_;
  for (int place = 0; place < end; ++place) {
    const uint64_t launched = places_[place].launched.load(std::memory_order_relaxed);
    if (launched == places_[place].taken) continue;
    if (next.kernels.empty()) next.first = place;
    next.end = place + 1;
    next.kernels.emplace_back(place, launched);
  }
  return next;
}

void Faults::enqueue_take(int first, int end) {
  const size_t offset = first, size = end - first, one = 1;
  const cl_int code = enqueue_with_memory(stream_.device().index(), [&] {
    return stream_.enqueue([&](cl_command_queue queue) {
      return clEnqueueNDRangeKernel(queue, take_(), 1, &offset, &size, &one, 0, nullptr, nullptr);
    });
  });
  if (code != CL_SUCCESS) throw cl::Error(code, "clEnqueueNDRangeKernel");
}

// Returns whether there was something to report.
bool Faults::enqueue_report() {
  // Settles completed reports now, so that they do not pile up if nobody asks for them.
  while (!reports_.empty() && is_complete(reports_.front().done)) settle_first_report();
  // The read of an earlier report could not be enqueued.
  const bool unread = !unread_.kernels.empty();
  if (unread) enqueue_read();
  Taken next = next_taken();
  if (next.kernels.empty()) return unread;
  enqueue_take(next.first, next.end);
  for (const auto& [place, launched] : next.kernels) places_[place].taken = launched;
  unread_ = std::move(next);
  enqueue_read();
  return true;
}

void Faults::free_slot(const Report& report) {
  if (report.pageable.empty()) free_slots_.push_back(report.words);
}

// Moves the faults of the first report, which has completed, to found_.
void Faults::settle_first_report() {
  const Report& report = reports_.front();
  // The caller has waited for a command after the report, but the driver may update the report's
  // status later.
  clWaitForEvents(1, &report.done());
  for (int place = report.taken.first; place < report.taken.end; ++place) {
    const Word& word = report.words[place - report.taken.first];
    if (word[0] == 0) continue;
    const auto thread = fault_thread_at(place);
    found_.push_back({report.number, thread, first_result(*thread, word[0]), word});
    any_found_.store(true, std::memory_order_relaxed);
  }
  for (const auto& [place, launched] : report.taken.kernels) {
    fault_thread_at(place)->settled(launched - std::exchange(places_[place].settled, launched));
  }
  free_slot(report);
  reports_.pop_front();
}

void Faults::enqueue_read() {
  Report& report = reports_.emplace_back();
  const size_t words = unread_.end - unread_.first;
  if (free_slots_.empty()) {
    report.pageable.resize(words);
    report.words = report.pageable.data();
  } else {
    report.words = free_slots_.back();
    free_slots_.pop_back();
    std::fill_n(report.words, words, Word{});  // the read may fail
  }
  auto forget = c10::make_scope_exit([&] {
    free_slot(report);
    reports_.pop_back();
  });
  const cl_int code = enqueue_with_memory(stream_.device().index(), [&] {
    return stream_.enqueue([&](cl_command_queue queue) {
      return clEnqueueReadBuffer(queue, taken_(), CL_FALSE, unread_.first * sizeof(Word),
                                 words * sizeof(Word), report.words, 0, nullptr, &report.done());
    });
  });
  if (code != CL_SUCCESS) throw cl::Error(code, "clEnqueueReadBuffer");
  forget.release();
  report.taken = std::exchange(unread_, {});
}

FaultReport Faults::report() {
  if (C10_UNLIKELY(stream_.captured())) return {};
  const uint64_t thread = fault_thread().id();
  if (C10_LIKELY(enqueued_.load(std::memory_order_acquire) ==
                 reported_.load(std::memory_order_acquire))) {
    return {last_.load(std::memory_order_relaxed), thread};
  }
  std::lock_guard lock(mutex_);
  const uint64_t enqueued = enqueued_.load(std::memory_order_acquire);
  if (enqueued == reported_.load(std::memory_order_relaxed)) return {last_, thread};
  translated(
      [&] { return str("cannot read which errors kernels found on ", stream_.device().label()); },
      [&] {
        if (enqueue_report()) reports_.back().number = ++last_;
      });
  reported_.store(enqueued, std::memory_order_release);
  return {last_, thread};
}

bool Faults::is_for(const Found& found, const FaultReport& report, const BufferView* read) {
  const uint64_t thread = found.thread->id();
  if (found.report > report.number) return false;
  if (found.thread->ended() || thread == report.thread) return true;
  if (found.first_result == 0 || found.told) return false;
  if (has_used(thread, found.first_result)) return true;
  if (!read) return false;
  const FaultOrigin origin = memory_hooks.origin(*read);
  return origin.thread == thread && origin.allocation >= found.first_result;
}

// A fault of the calling thread, or else a fault of another thread for which is_for() is true.
Faults::Found* Faults::find_for_caller(const FaultReport& report, const BufferView* read,
                                       std::unique_lock<std::mutex>& lock) {
  const FaultThread* const own = &fault_thread();
  std::vector<std::shared_ptr<FaultThread>> others;
  for (Found& each : found_) {
    if (each.report > report.number) continue;
    if (each.thread.get() == own) return &each;
    if (!each.thread->ended()) others.push_back(each.thread);
  }
  if (!others.empty()) {
    lock.unlock();  // is_for() may take Python's lock
    for (const auto& thread : others) thread->ask_ended();
    lock.lock();
  }
  const auto found =
      std::ranges::find_if(found_, [&](const Found& each) { return is_for(each, report, read); });
  return found == found_.end() ? nullptr : &*found;
}

void Faults::raise_reported(const FaultReport& report, const BufferView* read) {
  if (C10_LIKELY(settled_.load(std::memory_order_acquire) >= report.number &&
                 !any_found_.load(std::memory_order_relaxed))) {
    return;
  }
  std::unique_lock lock(mutex_);
  while (!reports_.empty() && reports_.front().number <= report.number) settle_first_report();
  settled_.store(std::max(settled_.load(), report.number), std::memory_order_release);
  Found* const found = find_for_caller(report, read, lock);
  if (!found) return;
  const Found raised = *found;
  const uint64_t thread = raised.thread->id(), caller = fault_thread().id();
  const bool takes = thread == caller || thread == report.thread || raised.thread->ended();
  // The fault is kept for the thread that launched the kernel, which may read other wrong results.
  if (!takes) found->told = true;
  std::erase_if(found_, [&](const Found& each) {
    return each.thread == raised.thread && each.report <= report.number && (takes || !each.told);
  });
  any_found_.store(!found_.empty(), std::memory_order_relaxed);
  raise_fault(raised.word);
}

void Faults::raise_fault(const Word& word) const {
  FaultSite site;
  {
    std::lock_guard sites_lock(sites_mutex);
    site = sites().at(static_cast<uint32_t>(word[0]) % kSites);
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

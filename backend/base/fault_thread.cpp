#include "backend/base/fault_thread.h"

#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ocl {
namespace {

// The kind of our ThreadLocalDebugInfo. Before PyTorch 2.13, kinds are numbers; PyTorch does not
// use this one.
template <typename Kind>
Kind kind_of_info() {
  if constexpr (std::is_enum_v<Kind>) {
    return static_cast<Kind>(0x6F);
  } else {
    static constexpr std::string_view name = "OCL_FAULT_THREAD";
    return Kind(&name);
  }
}
const auto kKind = kind_of_info<c10::DebugInfoKind>();

struct Places {
  std::mutex mutex;
  std::array<std::shared_ptr<FaultThread>, kFaultPlaces> threads;
};
Places& places() {
  static auto* const instance = [] {
    auto* made = new Places;
    made->threads[0] = std::make_shared<FaultThread>(/*waits=*/false);
    return made;
  }();
  return *instance;
}

FaultThread& anybody() {
  static FaultThread* const thread = fault_thread_at(0).get();
  return *thread;
}

std::atomic<uint64_t (*)()> current_of_python{nullptr};
std::atomic<bool (*)(uint64_t)> ended_in_python{nullptr};

// PyTorch's threads of backward passes never wait for a device by themselves.
bool is_of_autograd() { return c10::getThreadName().starts_with("pt_autograd"); }

thread_local FaultThread* mine = nullptr;

// The blocks of other threads that this thread has computed with: for each such thread, a pair of
// its id and the number of the last block.
thread_local std::array<std::pair<uint64_t, uint64_t>, 64> uses{};
thread_local size_t next_use = 0;

struct Own {
  Own() : thread(std::make_shared<FaultThread>(/*waits=*/true)) { mine = thread.get(); }
  ~Own() {
    thread->end();
    mine = &anybody();
  }
  std::shared_ptr<FaultThread> thread;
};

C10_NOINLINE FaultThread& own_thread() {
  if (mine && mine->ended()) mine = &anybody();  // Python made a temporary state for this thread
  if (!mine) {
    if (is_of_autograd()) {
      mine = &anybody();
    } else {
      thread_local const Own own;
    }
  }
  // Pushes nothing on top of a profiler's info, which the profiler expects on top when it ends.
  if (!mine->ended() && !c10::ThreadLocalDebugInfo::current()) {
    c10::ThreadLocalDebugInfo::_push(kKind, mine->shared_from_this());
  }
  return *mine;
}

}  // namespace

FaultThread::FaultThread(bool waits)
    : id_([] {
        static std::atomic<uint64_t> last{0};
        return ++last;
      }()),
      python_([&] {
        const auto current = current_of_python.load();
        return waits && current ? current() : 0;
      }()),
      ended_(!waits),
      place_(waits ? -1 : 0) {}

bool FaultThread::ask_ended() {
  const auto has_ended = ended_in_python.load();
  if (!ended() && python_ != 0 && has_ended && has_ended(python_)) end();
  return ended();
}

bool FaultThread::leaves_its_place() const {
  return ended() && settled_.load(std::memory_order_acquire) >= kernels_.load();
}

int FaultThread::take_place() {
  Places& all = places();
  std::lock_guard lock(all.mutex);
  const int known = place_.load(std::memory_order_relaxed);
  if (known >= 0) return known;  // another thread took the place meanwhile
  const auto free = std::find_if(all.threads.begin() + 1, all.threads.end(), [](const auto& last) {
    return !last || last->leaves_its_place();
  });
  TORCH_CHECK(
      free != all.threads.end(), "more than ", kFaultPlaces - 1,
      " threads at a time launch kernels on ocl that find errors, such as an index out of "
      "range: let some end and wait for their kernels, or give their work to fewer threads");
  *free = shared_from_this();
  const auto place = static_cast<int>(free - all.threads.begin());
  place_.store(place, std::memory_order_release);
  return place;
}

void set_python_threads(PythonThreads threads) noexcept {
  current_of_python = threads.current;
  ended_in_python = threads.has_ended;
}

void note_fault_use(uint64_t thread, uint64_t allocation) noexcept {
  for (auto& [known, last] : uses) {
    if (known != thread) continue;
    last = std::max(last, allocation);
    return;
  }
  uses[next_use++ % uses.size()] = {thread, allocation};
}

bool has_used(uint64_t thread, uint64_t allocation) noexcept {
  return std::ranges::any_of(
      uses, [&](const auto& use) { return use.first == thread && use.second >= allocation; });
}

FaultThread& fault_thread() {
  auto* const found = static_cast<FaultThread*>(c10::ThreadLocalDebugInfo::get(kKind));
  return C10_LIKELY(found && !found->ended()) ? *found : own_thread();
}

std::shared_ptr<FaultThread> fault_thread_at(int place) {
  Places& all = places();
  std::lock_guard lock(all.mutex);
  return all.threads[place];
}

}  // namespace ocl

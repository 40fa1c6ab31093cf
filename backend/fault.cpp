#include "backend/fault.h"

#include <array>
#include <deque>

#include "backend/error.h"

namespace ocl {
namespace {

using Word = std::array<cl_int, 8>;  // site, unused, value (2 x 32 bits), bound (2 x 32 bits)

std::mutex sites_mutex;
std::deque<FaultSite>& sites() {
  static auto* const all = new std::deque<FaultSite>(1);  // site 0 means "no fault"
  return *all;
}

int64_t join(cl_int low, cl_int high) {
  return static_cast<int64_t>(static_cast<uint32_t>(low)) | static_cast<int64_t>(high) << 32;
}

}  // namespace

int fault_site(FaultSite site) {
  std::lock_guard lock(sites_mutex);
  sites().push_back(std::move(site));
  return static_cast<int>(sites().size() - 1);
}

FaultWord::FaultWord(Device& device, const cl::CommandQueue& queue)
    : device_(device), queue_(queue) {}

cl_mem FaultWord::arm() {
  if (C10_UNLIKELY(!handle_.load(std::memory_order_acquire))) {
    std::lock_guard lock(mutex_);
    if (!buffer_()) {
      translated([&] { return str("cannot allocate the fault word of ", device_.label()); },
                 [&] {
                   Word zero{};
                   buffer_ = cl::Buffer(device_.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                        sizeof(Word), zero.data());
                 });
    }
    handle_.store(buffer_(), std::memory_order_release);
  }
  armed_.store(true, std::memory_order_relaxed);
  return handle_.load(std::memory_order_relaxed);
}

void FaultWord::check() {
  if (C10_LIKELY(!armed_.load(std::memory_order_relaxed))) return;
  std::lock_guard lock(mutex_);
  if (!armed_.exchange(false)) return;
  Word word{};
  translated([&] { return str("cannot read the fault word of ", device_.label()); },
             [&] {
               queue_.enqueueReadBuffer(buffer_, CL_TRUE, 0, sizeof(Word), word.data());
               if (word[0] == 0) return;
               const Word zero{};
               queue_.enqueueWriteBuffer(buffer_, CL_TRUE, 0, sizeof(Word), zero.data());
             });
  if (word[0] == 0) return;
  FaultSite site;
  {
    std::lock_guard sites_lock(sites_mutex);
    site = sites().at(word[0]);
  }
  const std::string text =
      str(site.op, ": ", site.what, " ", join(word[2], word[3]), " is out of bounds for ",
          site.bound_name, " ", join(word[4], word[5]), " (on ", device_.label(),
          "). A kernel found it: OCL_LAUNCH_BLOCKING=1 shows which line called it");
  TORCH_CHECK_INDEX(site.error != FaultClass::kIndex, text);
  TORCH_CHECK(false, text);
}

}  // namespace ocl

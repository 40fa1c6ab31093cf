// Errors that only a kernel can see, such as an index out of range. The kernel writes its site and
// the wrong numbers into a word of memory, and goes on with a harmless value. The next
// synchronisation of the thread that launched it raises the exception that the CPU raises.
//
//   static const int site = ocl::fault_site({"aten::gather", FaultClass::kRuntime, "index"});
//   launch(stream, kernel, grid, ..., FaultArgument{site});
//
// A stream has a word for each thread (fault_thread.h). A synchronisation first enqueues a report:
// a kernel that moves the words' contents to another buffer and clears them, and a read of that
// buffer. One kernel does both, so that no other thread's kernel comes in between. A word holds the
// first fault since the previous report.
//
// A fault belongs to the thread that launched the kernel, or for which another thread launched it
// (as in a backward pass). It is raised once, at a wait that covers its report, by
// - its own thread;
// - a thread that waits for an event that its own thread recorded;
// - any thread, once its own thread has ended.
// Another thread raises it as well if it reads memory that the fault's own thread allocated for the
// kernel's results or later, or has computed with such memory. After a fault is raised, later
// faults of the same thread that the same wait covers are dropped.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/base/fault_thread.h"
#include "backend/device/buffer_view.h"

namespace ocl {

class Stream;

enum class FaultClass { kRuntime, kIndex };

// The error's text is "<op>: <what> <value>". With a bound_name, " is out of bounds for
// <bound_name> <bound>" follows. Without `what` it is "<op>".
struct FaultSite {
  std::string op;
  FaultClass error;
  std::string what;
  std::string bound_name;
};

// Registers a site for the life of the process; call once per site (a function-local static).
int fault_site(FaultSite site);

// Passed to launch(): binds the thread's word and the site's number as two kernel arguments.
struct FaultArgument {
  int site;
};

// The reports of a stream up to `number` (0: none), for which `thread` (FaultThread::id()) asked.
struct FaultReport {
  uint64_t number = 0;
  uint64_t thread = 0;

  bool operator==(const FaultReport&) const = default;
};

// The faults of a stream.
class Faults {
 public:
  explicit Faults(Stream& stream) : stream_(stream) {}

  // The two arguments to bind to a kernel: the buffer of this thread's word, and the site's number
  // with a tag of the launch for is_for().
  cl_mem word();
  static cl_int tagged(int site);
  // Call after such a kernel was enqueued.
  void enqueued();

  // Enqueues a report if kernels were enqueued since the last one. Numbers begin with 1. For a
  // captured stream nothing is enqueued, and the number is 0.
  FaultReport report();
  // Raises the first fault that the caller must raise, of the reports up to this one. The caller
  // has waited for them. `read`: the memory that the caller has read. Costs nothing when there is
  // no new report.
  void raise_reported(const FaultReport& report, const BufferView* read = nullptr);

 private:
  using Word =
      std::array<cl_int, 8>;  // tagged site, unused, value (2 x 32 bits), bound (2 x 32 bits)
  struct alignas(64) Place {  // see fault_thread.h
    std::atomic<cl_mem> word{nullptr};  // the handle of `part`
    std::atomic<uint64_t> launched{0};  // kernels that may report
    uint64_t taken = 0;                 // kernels that the reports cover
    uint64_t settled = 0;               // kernels whose faults the host has read
    cl::Buffer part;
  };
  // The range of places whose words a report moves, and the places in it that have new kernels.
  struct Taken {
    int first = 0, end = 0;
    std::vector<std::pair<int, uint64_t>> kernels;  // place, Place::launched
  };
  struct Report {
    uint64_t number = 0;
    cl::Event done;
    Taken taken;
    Word* words = nullptr;  // in a slot, or in `pageable`
    std::vector<Word> pageable;
  };
  struct Found {
    uint64_t report;
    std::shared_ptr<FaultThread> thread;
    uint64_t first_result;  // see FaultThread; 0: unknown
    Word word;
    bool told = false;  // another thread has raised it
  };

  void create();
  cl_mem make_word(int place);
  void make_slots();
  void free_slot(const Report& report);
  void settle_first_report();
  bool enqueue_report();
  Taken next_taken() const;
  void enqueue_take(int first, int end);
  void enqueue_read();
  static bool is_for(const Found& found, const FaultReport& report, const BufferView* read);
  Found* find_for_caller(const FaultReport& report, const BufferView* read,
                         std::unique_lock<std::mutex>& lock);
  [[noreturn]] void raise_fault(const Word& word) const;

  Stream& stream_;
  std::array<Place, kFaultPlaces> places_;
  std::atomic<int> places_end_{0};     // after the last place with a word
  std::atomic<uint64_t> enqueued_{0};  // kernels that may report
  std::atomic<uint64_t> reported_{0};  // kernels that the reports cover
  std::atomic<uint64_t> last_{0};      // the number of the last report
  std::atomic<uint64_t> settled_{0};   // reports up to this one are in found_
  std::atomic<bool> any_found_{false};
  std::mutex mutex_;  // guards the members below
  std::vector<Found> found_;
  cl::Buffer words_, taken_;
  size_t stride_ = 0;  // bytes between two words
  cl::Kernel take_;
  Taken unread_;  // the part of taken_ that may have faults
  // Pinned memory for the words of reports; none on devices that use the host's memory.
  cl::Buffer slots_;
  std::vector<Word*> free_slots_;
  std::deque<Report> reports_;  // a deque, because reads are enqueued into its elements
};

}  // namespace ocl

// Errors that only a kernel can see, such as an index out of range. The kernel writes the site and
// the offending numbers into the stream's fault word and goes on with a harmless value. The next
// synchronisation of the stream raises the exception that the CPU raises.
//
// A synchronisation first enqueues a report: a kernel that moves the word's content to another
// buffer and clears the word, and a read of that buffer. One kernel does both, so that no other
// thread's kernel comes in between. A caller that has waited for the report raises its fault, once.
// A report holds the first fault since the previous report.
//
//   static const int site = ocl::fault_site({"aten::gather", FaultClass::kRuntime, "index"});
//   launch(stream, kernel, grid, ..., FaultArgument{site});
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "backend/device.h"

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

// Passed to launch(): binds the stream's word and the site's number as two kernel arguments.
struct FaultArgument {
  int site;
};

class FaultWord {
 public:
  explicit FaultWord(Stream& stream) : stream_(stream) {}

  // The buffer to bind to a kernel.
  cl_mem word();
  // To be called after such a kernel was enqueued.
  void enqueued() { enqueued_.fetch_add(1, std::memory_order_release); }

  // Enqueues a report if kernels were enqueued since the last one. Returns the number of the last
  // report; the first has number 1.
  uint64_t report();
  // Raises the first fault of the reports up to this one, for which the caller has waited. Costs
  // nothing when there is no report.
  void raise_reported(uint64_t last);

 private:
  using Word = std::array<cl_int, 8>;  // site, unused, value (2 x 32 bits), bound (2 x 32 bits)
  struct Report {
    uint64_t number;
    cl::Event done;
    Word* word;  // a slot, or `pageable`
    Word pageable{};
  };

  void create();
  void make_slots();
  void free_slot(const Report& report);
  void remove_first_report();
  void enqueue_report();
  void enqueue_take();
  void enqueue_read();
  [[noreturn]] void raise_fault(const Word& word) const;

  Stream& stream_;
  std::atomic<cl_mem> handle_{nullptr};  // of word_
  std::atomic<uint64_t> enqueued_{0};    // kernels that may report
  std::atomic<uint64_t> reported_{0};    // kernels that the reports cover
  std::atomic<uint64_t> last_{0};        // the number of the last report
  std::atomic<uint64_t> raised_{0};      // reports up to this one were checked
  std::mutex mutex_;                     // guards the members below
  cl::Buffer word_, taken_;
  cl::Kernel take_;
  bool unread_ = false;  // no read of taken_ was enqueued since a fault may have been moved there
  // Pinned memory for the words of reports; none on devices that use the host's memory.
  cl::Buffer slots_;
  std::vector<Word*> free_slots_;
  std::deque<Report> reports_;  // a deque, because reads are enqueued into its elements
};

}  // namespace ocl

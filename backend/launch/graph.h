// Graphs: commands that are recorded once and then replayed by one loop. A replay involves neither
// Python nor dispatcher nor allocator, and binds no arguments.
//
//   Graph graph;
//   graph.capture_begin();  // on the current stream
//   ...                     // kernels, copies and fills are recorded; memory comes from a pool
//   graph.capture_end();
//   graph.replay();         // on the current stream
//
// Other memory that the commands use must stay allocated while the graph is replayed.
#pragma once

#include <optional>
#include <string>

#include "backend/queue/capture.h"

namespace ocl {

class Graph {
 public:
  // `keep`: capture_end() does not instantiate the graph.
  explicit Graph(bool keep = false) : keep_(keep) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Captures the current stream of the current device; pool 0 is a new one (allocator.h).
  void capture_begin(uint64_t pool = 0);
  // Raises when something could not be captured. In any case the streams enqueue again.
  void capture_end();
  void instantiate();
  // Enqueues the recorded commands on the current stream of the graph's device.
  void replay();
  // Ends a capture, deletes the recording, and gives up the memory pool.
  void reset();

  // The memory pool of the capture or recording.
  uint64_t pool() const;
  size_t size() const { return recording_.commands.size(); }
  // A line for each command.
  std::string describe() const;

 private:
  bool captured() const { return pool_ != 0 && !capture_; }
  void leave_pool();
  void bind_fault_words(Stream& stream);
  void enqueue_all(Stream& stream);
  void enqueue_alone(Stream& stream);

  const bool keep_;
  std::mutex mutex_;  // a replay holds it
  std::optional<Capture> capture_;
  Recording recording_;
  Device* device_ = nullptr;
  uint64_t pool_ = 0;
  bool instantiated_ = false, replayed_ = false;
  Stream* last_stream_ = nullptr;      // the stream of the last replay
  uint64_t kernels_ = 0;               // the number of kernels among the commands
  const std::string* last_ = nullptr;  // the name of the last kernel
  cl_mem fault_word_ = nullptr;        // the word that the kernels are bound to
};

// Whether the current stream of the current device is being captured; false before the first use of
// OpenCL.
bool capturing();

}  // namespace ocl

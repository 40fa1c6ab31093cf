// A collective in flight: it waits for the device, Gloo runs it on mapped memory, and the memory is
// unmapped.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>

#include "backend/queue/event.h"
#include "distributed/in_flight.h"
#include "distributed/staging.h"

namespace ocl {

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// The operation of a work. Results are lists of tensors, as in Gloo's works.
struct Operation {
  c10d::OpType type;
  Tensors reads;
  std::vector<Tensors> writes;
  // Starts the operation on the CPU tensors that the staging gives.
  std::function<WorkPointer(const Staging&)> start;
  int64_t divisor = 1;  // divides the results: for means, which Gloo does not have
  // Copies results from host buffers, if the operation uses some, before the memory is unmapped.
  std::function<void(const Staging&)> finish = {};
};

// The stream on which an operation maps memory. It is not the caller's, and waits for the event.
struct StagingStream {
  c10::Stream stream;
  Event ready;
  Event done = {};  // recorded after the commands that move the results
};

class StagedWork final : public c10d::Work {
 public:
  // `staging` must have noted the operation's tensors.
  StagedWork(int rank, Operation operation, Staging staging, std::vector<StagingStream> streams);

  // Runs on the issuing thread. A failure completes the work. The end of the work releases `hold`.
  void start(Issuer::Hold hold) noexcept;

  // True once the results are in the device's memory, so that any stream may use them.
  bool isCompleted() override;
  // wait() blocks the host until the operation has completed; synchronize() makes the current
  // streams wait until the results are unmapped.
  void synchronize() override { future_->wait(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  Tensors result() override;
  int sourceRank() const override;
  void abort() override;

 private:
  void begin();
  void when_done(const WorkPointer& inner);
  void complete(std::exception_ptr error) noexcept;
  void mark(std::exception_ptr error) noexcept;
  c10::intrusive_ptr<StagedWork> self();

  Operation operation_;
  std::vector<StagingStream> streams_;
  std::vector<c10::Stream> side_streams_;
  Staging staging_;
  Issuer::Hold hold_;
  std::optional<InFlight> in_flight_;
  WorkPointer inner_;  // guarded by mutex_
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  // kOwn: users do not have the future. kShared: they do, and may have added callbacks. kMarked: it
  // was completed before users had it.
  enum class Sharing : uint8_t { kOwn, kShared, kMarked };
  std::atomic<Sharing> sharing_{Sharing::kOwn};
};

// Several works that count as one, for coalesced operations.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<WorkPointer> works);
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  Tensors result() override;

 private:
  std::vector<WorkPointer> works_;
};

}  // namespace ocl

#include "distributed/work.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>

#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace ocl {
namespace {

using c10::ivalue::Future;

// The future of Gloo's work. Null for messages, and for collectives that Gloo composes of others.
c10::intrusive_ptr<Future> future_of(const WorkPointer& work) {
  try {
    return work->getFuture();
  } catch (const c10::Error&) {
    return nullptr;
  }
}

c10::intrusive_ptr<Future> make_future(const Operation& operation,
                                       const std::vector<StagingStream>& streams) {
  std::vector<c10::Device> devices;
  for (const StagingStream& stream : streams) devices.push_back(stream.stream.device());
  const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  const bool nested = operation.writes.size() > 1;
  return c10::make_intrusive<Future>(nested ? c10::ListType::create(list) : list, devices);
}

// Rounds integers towards zero, as NCCL does.
void divide(const at::Tensor& tensor, int64_t divisor) {
  if (at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) {
    tensor.div_(divisor, "trunc");
  } else {
    tensor.div_(divisor);
  }
}

// An error of Gloo with the name of the collective, which Gloo's messages lack.
std::exception_ptr named(const std::exception_ptr& error, c10d::OpType type) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error&) {
    return error;  // its text is clear, and callers need its class
  } catch (const std::exception& of_gloo) {
    return std::make_exception_ptr(
        std::runtime_error("occl: " + c10d::opTypeToString(type) + " failed: " + of_gloo.what()));
  } catch (...) {
    return error;
  }
}

// Marks the end of the commands that move the results to the device. With Quirk::kWaitRunsCommands,
// driver threads would start these commands some 50 us later, so this thread waits and runs them. A
// division takes longer than that, so this thread does not wait for it.
void settle(StagingStream& staging, int64_t divisor) {
  Stream& side = stream(staging.stream);
  if (side.device().has(Quirk::kWaitRunsCommands) && divisor == 1) side.drain();
  staging.done.record(side);
}

// Runs the action on a thread of its own. If no thread can be started, the caller runs it.
template <typename Action>
void run_aside(Action action) {
  try {
    std::thread(action).detach();
  } catch (const std::system_error&) {
    action();  // too many threads
  }
}

c10::IValue result_value(const std::vector<Tensors>& results) {
  if (results.size() > 1) return results;
  return results.empty() ? Tensors{} : results.front();
}

}  // namespace

StagedWork::StagedWork(int rank, Operation operation, Staging staging,
                       std::vector<StagingStream> streams)
    : Work(rank, operation.type),
      operation_(std::move(operation)),
      streams_(std::move(streams)),
      staging_(std::move(staging)),
      future_(make_future(operation_, streams_)) {
  std::vector<DeviceIndex> devices;
  for (const StagingStream& stream : streams_) {
    side_streams_.push_back(stream.stream);
    devices.push_back(stream.stream.device_index());
  }
  // A receive from any source may wait forever, so it does not count as in flight.
  if (opType_ != c10d::OpType::RECVANYSOURCE) in_flight_.emplace(std::move(devices));
}

c10::intrusive_ptr<StagedWork> StagedWork::self() {
  return c10::intrusive_ptr<StagedWork>::unsafe_reclaim_from_nonowning(this);
}

void StagedWork::start(Issuer::Hold hold) noexcept {
  const ProgressThread progress;
  hold_ = std::move(hold);
  try {
    begin();
  } catch (...) {
    complete(std::current_exception());
  }
}

void StagedWork::begin() {
  const at::NoGradGuard no_gradients;
  const c10::MultiStreamGuard guard(side_streams_);
  for (const StagingStream& stream : streams_) stream.ready.wait_until_reached();
  staging_.map();
  // start() holds Gloo's group, whose destructor joins Gloo's threads; one of them may be the last
  // to release this work.
  const WorkPointer inner = std::exchange(operation_.start, nullptr)(staging_);
  {
    std::lock_guard lock(mutex_);
    inner_ = inner;
  }
  when_done(inner);
}

void StagedWork::when_done(const WorkPointer& inner) {
  if (const auto future = future_of(inner)) {
    future->addCallback([work = self()](Future& done) mutable {
      work->complete(done.hasError() ? done.exception_ptr() : nullptr);
      Release::of(std::move(work));
    });
    return;
  }
  // Without a future, a thread must wait. Each message has a thread of its own, because messages
  // complete in any order.
  run_aside([work = self(), inner = inner]() mutable {
    std::exception_ptr error;
    try {
      inner->wait();
    } catch (...) {
      error = std::current_exception();
    }
    work->complete(error);
    Release::of(std::move(inner));
    Release::of(std::move(work));
  });
}

void StagedWork::complete(std::exception_ptr error) noexcept {
  const ProgressThread progress;
  const at::NoGradGuard no_gradients;
  const c10::MultiStreamGuard guard(side_streams_);
  if (error) error = named(error, opType_);
  const auto attempt = [&](const auto& step) {
    if (error) return;
    try {
      step();
    } catch (...) {
      error = std::current_exception();
    }
  };
  attempt([&] {
    if (operation_.finish) operation_.finish(staging_);
  });
  attempt([&] { staging_.unmap(); });
  staging_.abandon();  // after an error the results are not whole
  attempt([&] {
    if (operation_.divisor == 1) return;
    for (const Tensors& tensors : operation_.writes) {
      for (const at::Tensor& tensor : tensors) divide(staging_.noted(tensor), operation_.divisor);
    }
  });
  attempt([&] {
    for (StagingStream& each : streams_) settle(each, operation_.divisor);
  });
  hold_.reset();  // the next collective uses the same streams, which keep the order
  in_flight_.reset();
  staging_.release();
  finish(error);  // before the future's callbacks, which may query this work
  auto own = Sharing::kOwn;
  if (sharing_.compare_exchange_strong(own, Sharing::kMarked)) return mark(error);
  // Callbacks run on another thread: one may wait for another collective, which needs the few
  // threads of the issuer and Gloo.
  run_aside([work = self(), error]() mutable {
    work->mark(error);
    Release::of(std::move(work));
  });
}

// Marks the future as completed, which runs its callbacks.
void StagedWork::mark(std::exception_ptr error) noexcept {
  const ProgressThread progress;
  const at::NoGradGuard no_gradients;
  const c10::MultiStreamGuard guard(side_streams_);
  try {
    // The future records events on the current streams, which users of the results wait for.
    if (!error) future_->markCompleted(result_value(operation_.writes));
  } catch (...) {
    error = std::current_exception();
  }
  if (error) future_->setErrorIfNeeded(error);
}

c10::intrusive_ptr<Future> StagedWork::getFuture() {
  auto own = Sharing::kOwn;
  // A callback that is added now must not run on the thread that marks the future.
  if (!sharing_.compare_exchange_strong(own, Sharing::kShared) && own == Sharing::kMarked) {
    future_->wait();
  }
  return future_;
}

bool StagedWork::isCompleted() {
  return Work::isCompleted() &&
         std::all_of(streams_.begin(), streams_.end(),
                     [](const StagingStream& each) { return each.done.over(); });
}

Tensors StagedWork::result() {
  TORCH_CHECK(Work::isCompleted(), "the result of a collective is available once it has completed");
  TORCH_CHECK(operation_.writes.size() <= 1, "result() of a collective with lists of lists");
  return operation_.writes.empty() ? Tensors{} : operation_.writes.front();
}

int StagedWork::sourceRank() const {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(inner_, "the source rank is known once the work has completed");
  return inner_->sourceRank();
}

void StagedWork::abort() {
  WorkPointer inner;
  {
    std::lock_guard lock(mutex_);
    inner = inner_;
  }
  TORCH_CHECK(inner, "a work that has not begun cannot be aborted");
  inner->abort();
}

CoalescedWork::CoalescedWork(int rank, std::vector<WorkPointer> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(),
                     [](const WorkPointer& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(),
                     [](const WorkPointer& work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const WorkPointer& work : works_) {
    if (const std::exception_ptr error = work->exception()) return error;
  }
  return nullptr;
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (const WorkPointer& work : works_) work->wait(timeout);
  return true;
}

void CoalescedWork::synchronize() {
  for (const WorkPointer& work : works_) work->synchronize();
}

c10::intrusive_ptr<Future> CoalescedWork::getFuture() {
  c10::List<c10::intrusive_ptr<Future>> futures(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const WorkPointer& work : works_) futures.push_back(work->getFuture());
  return c10::collectAll(futures)->then(
      [works = works_](Future& all) -> c10::IValue {
        Tensors results;
        for (const WorkPointer& work : works) {
          work->getFuture()->waitAndThrow();
          for (at::Tensor& tensor : work->result()) results.push_back(std::move(tensor));
        }
        return results;
      },
      c10::ListType::create(c10::TensorType::get()));
}

Tensors CoalescedWork::result() {
  Tensors results;
  for (const WorkPointer& work : works_) {
    for (at::Tensor& tensor : work->result()) results.push_back(std::move(tensor));
  }
  return results;
}

}  // namespace ocl

// While a thread runs an operator, it may allocate memory and enqueue several commands before the
// kernel that finds a fault. All that memory may hold results of the kernel (fault_thread.h).
#pragma once

namespace ocl {

// Generated wrappers of operators open one. Inside another one it does nothing.
class OperatorScope {
 public:
  OperatorScope();
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

  static bool active() noexcept;
};

}  // namespace ocl

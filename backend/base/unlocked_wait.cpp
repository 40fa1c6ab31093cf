#include "backend/base/unlocked_wait.h"

namespace ocl {
namespace {

WaitWrapper wait_wrapper = nullptr;

}  // namespace

void set_wait_wrapper(WaitWrapper wrapper) { wait_wrapper = wrapper; }

void wait_unlocked(const std::function<void()>& wait) {
  wait_wrapper ? wait_wrapper(wait) : wait();
}

}  // namespace ocl

#include "backend/base/operator_scope.h"

#include "backend/base/fault_thread.h"

namespace ocl {
namespace {

thread_local int depth = 0;

}  // namespace

OperatorScope::OperatorScope() {
  if (depth == 0) fault_thread().command_enqueued();
  ++depth;
}

OperatorScope::~OperatorScope() { --depth; }

bool OperatorScope::active() noexcept { return depth > 0; }

}  // namespace ocl

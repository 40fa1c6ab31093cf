#pragma once

namespace ocl {

// Waits until PyTorch's threads of backward passes have freed their data. backward() returns before
// that. If such a thread drops the last reference to a Python object while the interpreter ends, it
// aborts the process.
void wait_for_backward_threads();
// Waits for the commands of all devices at the end of the process. Ignores failures.
void drain_devices() noexcept;

}  // namespace ocl

#pragma once

namespace ocl {

// Returns when PyTorch's threads of backward passes have freed what the passes held. A caller of
// backward() goes on before that. A thread that then drops the last reference to a Python object,
// while the interpreter ends, aborts the process.
void wait_for_backward_threads();

}  // namespace ocl

// The class of each instruction of LLVM that Oclgrind interprets.
#pragma once

#include <string>

#include "control_flow.h"

namespace llvm {
class CallInst;
}  // namespace llvm

namespace gpu_model {

Instruction classify(const llvm::Instruction& instruction);
bool is_barrier(const llvm::CallInst& call);
// "mad" of _Z3madfff(float, float, float).
std::string builtin_name(const llvm::Function& function);

}  // namespace gpu_model

// The class of each instruction.
#include "classes.h"

#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <set>
#include <string>

namespace gpu_model {

const std::array<const char*, kOps> kOpNames = {
    "free",     "float",   "double", "native",        "math",        "int",
    "multiply", "divide",  "long",   "long_multiply", "long_divide", "address",
    "control",  "barrier", "global", "local",         "constant",    "private"};

namespace {

enum AddressSpace { kPrivateSpace, kGlobalSpace, kConstantSpace, kLocalSpace };

const std::set<std::string> kNativeFunctions = {"sqrt", "rsqrt"};
const std::set<std::string> kMathFunctions = {
    "acos",  "acosh",  "acospi", "asin",     "asinh", "asinpi", "atan",   "atan2",     "atan2pi",
    "atanh", "atanpi", "cbrt",   "cos",      "cosh",  "cospi",  "erf",    "erfc",      "exp",
    "exp10", "exp2",   "expm1",  "fmod",     "frexp", "hypot",  "lgamma", "lgamma_r",  "log",
    "log10", "log1p",  "log2",   "logb",     "pow",   "pown",   "powr",   "remainder", "remquo",
    "rootn", "sin",    "sincos", "sinh",     "sinpi", "tan",    "tanh",   "tanpi",     "tgamma",
    "ldexp", "ilogb",  "modf",   "nextafter"};
const std::set<std::string> kMultiplyAdds = {"fma", "mad", "llvm.fma", "llvm.fmuladd"};

Op of_space(unsigned space) {
  switch (space) {
    case kGlobalSpace:
      return Op::kGlobal;
    case kLocalSpace:
      return Op::kLocal;
    case kConstantSpace:
      return Op::kConstant;
    default:
      return Op::kPrivate;
  }
}

uint32_t elements(const llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? vector->getNumElements() : 1;
}

bool is_double(const llvm::Type* type) { return type->getScalarType()->isDoubleTy(); }

Instruction number(const llvm::Type* type, Op narrow, Op wide, uint32_t flops = 0) {
  const bool is_wide =
      type->isFPOrFPVectorTy() ? is_double(type) : type->getScalarSizeInBits() > 32;
  return {is_wide ? wide : narrow, elements(type), flops * elements(type)};
}

Instruction memory(const llvm::Value* pointer, const llvm::Type* value) {
  const uint64_t bytes = value->getPrimitiveSizeInBits() / 8;
  return {of_space(pointer->getType()->getPointerAddressSpace()),
          static_cast<uint32_t>(bytes > 16 ? (bytes + 15) / 16 : 1), 0};
}

Instruction called(const llvm::CallInst& call) {
  const llvm::Function* function = call.getCalledFunction();
  if (!function || !function->isDeclaration()) return {Op::kFree, 0, 0};
  const std::string name = builtin_name(*function);
  const auto begins = [&](const char* text) { return name.rfind(text, 0) == 0; };
  const llvm::Type* type = call.getType();
  if (is_barrier(call)) return {Op::kBarrier, 1, 0};
  if (begins("llvm.dbg") || begins("llvm.lifetime") || begins("llvm.assume") || begins("as_") ||
      begins("llvm.experimental") || name == "mem_fence" || name == "read_mem_fence" ||
      name == "write_mem_fence" || name == "prefetch") {
    return {Op::kFree, 0, 0};
  }
  for (const llvm::Value* argument : call.args()) {  // vload, vstore, atomics, memcpy
    if (argument->getType()->isPointerTy() && kMathFunctions.count(name) == 0) {
      const bool stores = type->isVoidTy() && call.arg_size() > 0;
      return memory(argument, stores ? call.getArgOperand(0)->getType() : type);
    }
  }
  if (kMultiplyAdds.count(name) || begins("llvm.fma.") || begins("llvm.fmuladd.")) {
    return number(type, Op::kFloat, Op::kDouble, 2);
  }
  if (name == "dot") {
    const uint32_t n = elements(call.getArgOperand(0)->getType());
    return {Op::kFloat, n, 2 * n};
  }
  if (begins("native_") || begins("half_") || kNativeFunctions.count(name)) {
    return number(type, Op::kNative, Op::kMath, 1);
  }
  if (kMathFunctions.count(name)) {
    Instruction result = number(type, Op::kMath, Op::kMath, 1);
    if (is_double(type)) result.weight *= 4;
    return result;
  }
  if (type->isFPOrFPVectorTy()) return number(type, Op::kFloat, Op::kDouble, 1);
  if (begins("mul_hi") || begins("mad_hi")) return number(type, Op::kMultiply, Op::kLongMultiply);
  // Identifiers are numbers in registers that the compiler knows to be small.
  if (begins("get_")) return {Op::kInt, 1, 0};
  if (type->isIntOrIntVectorTy()) return number(type, Op::kInt, Op::kLong);
  return {Op::kInt, 1, 0};
}

}  // namespace

std::string builtin_name(const llvm::Function& function) {
  const std::string name = llvm::demangle(function.getName().str());
  return name.substr(0, name.find('('));
}

bool is_barrier(const llvm::CallInst& call) {
  const llvm::Function* function = call.getCalledFunction();
  if (!function || !function->isDeclaration()) return false;
  const std::string name = builtin_name(*function);
  return name == "barrier" || name == "work_group_barrier" || name == "wait_group_events";
}

Instruction classify(const llvm::Instruction& i) {
  using I = llvm::Instruction;
  const llvm::Type* type = i.getType();
  switch (i.getOpcode()) {
    case I::FAdd:
    case I::FSub:
    case I::FMul:
      return number(type, Op::kFloat, Op::kDouble, 1);
    case I::FNeg:
      return number(type, Op::kFloat, Op::kDouble);
    case I::FCmp:
      return number(i.getOperand(0)->getType(), Op::kFloat, Op::kDouble);
    case I::FPExt:
    case I::FPTrunc:
    case I::FPToSI:
    case I::FPToUI:
    case I::SIToFP:
    case I::UIToFP: {
      const bool wide = is_double(type) || is_double(i.getOperand(0)->getType());
      return {wide ? Op::kDouble : Op::kFloat, elements(type), 0};
    }
    case I::FDiv:
    case I::FRem: {
      Instruction result = number(type, Op::kMath, Op::kMath, 1);
      if (is_double(type)) result.weight *= 4;
      return result;
    }
    case I::Add:
    case I::Sub:
    case I::Shl:
    case I::LShr:
    case I::AShr:
    case I::And:
    case I::Or:
    case I::Xor:
      return number(type, Op::kInt, Op::kLong);
    case I::ICmp:
      return number(i.getOperand(0)->getType(), Op::kInt, Op::kLong);
    case I::Select:
      return number(type, Op::kInt, Op::kLong);
    case I::SExt:
      return {Op::kInt, elements(type), 0};
    case I::Mul:
      return number(type, Op::kMultiply, Op::kLongMultiply);
    case I::SDiv:
    case I::UDiv:
    case I::SRem:
    case I::URem:
      return number(type, Op::kDivide, Op::kLongDivide);
    case I::GetElementPtr: {
      const auto& address = llvm::cast<llvm::GetElementPtrInst>(i);
      return {address.hasAllConstantIndices() ? Op::kFree : Op::kAddress, 1, 0};
    }
    case I::Br:
      return {llvm::cast<llvm::BranchInst>(i).isConditional() ? Op::kControl : Op::kFree, 1, 0};
    case I::Switch:
      return {Op::kControl, 1, 0};
    case I::Load:
      return memory(i.getOperand(0), type);
    case I::Store:
      return memory(i.getOperand(1), i.getOperand(0)->getType());
    case I::Call:
      return called(llvm::cast<llvm::CallInst>(i));
    default:
      return {Op::kFree, 0, 0};
  }
}

}  // namespace gpu_model

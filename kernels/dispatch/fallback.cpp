#include "kernels/dispatch/fallback.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <mutex>
#include <set>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/launch/graph.h"
#include "kernels/core/operators/boxed.h"
#include "kernels/core/operators/operands.h"
#include "kernels/core/tensors/host_view.h"
#include "kernels/core/tensors/lazy_clone.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {
namespace {

std::mutex stats_mutex;
std::map<std::string, int64_t> stats;

// Describes the tensor arguments: "self: Float [2, 3] on ocl:0, ...".
std::string describe_arguments(const c10::FunctionSchema& schema,
                               c10::ArrayRef<c10::IValue> arguments) {
  std::string text;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    text += str(text.empty() ? "" : ", ", schema.arguments()[i].name(), ": ", tensor.scalar_type(),
                " ", tensor.sizes(), " on ", tensor.device(),
                detail::device_lacks_type(tensor) ? ", which has no cl_khr_fp64" : "");
  }
  return text;
}

void count_and_warn(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
  const std::string name = c10::toString(schema.operator_name());
  const std::string policy = environment("OCL_FALLBACK", "warn");
  TORCH_CHECK_VALUE(policy == "warn" || policy == "allow" || policy == "error",
                    "OCL_FALLBACK must be \"warn\", \"allow\" or \"error\", not \"",
                    printable(policy), "\"");
  TORCH_CHECK_NOT_IMPLEMENTED(policy != "error", name, " is not implemented for ocl (",
                              describe_arguments(schema, arguments),
                              "), and OCL_FALLBACK=error forbids to run it on the CPU; "
                              "see docs/errors.md");
  bool first = false;
  {
    std::lock_guard lock(stats_mutex);
    ++stats[name];
    static std::set<std::string> warned;
    first = policy == "warn" && warned.insert(name).second;
  }
  if (first) {
    TORCH_WARN(name, " is not implemented for ocl yet and runs on the CPU (",
               describe_arguments(schema, arguments),
               "). Results are right, but slower. torch.ocl.fallback_stats() counts such calls; "
               "OCL_FALLBACK=allow silences this, OCL_FALLBACK=error makes it an error.");
  }
}

// Operators of PyTorch that need some arguments (lengths, packed weights) on the CPU, for any
// device.
bool mixes_devices(const c10::OperatorName& op) {
  constexpr std::string_view kMixing[] = {"aten::_pack_padded_sequence", "aten::_nested",
                                          "aten::fbgemm_linear",
                                          "aten::_wrapped_quantized_linear_prepacked"};
  const std::string_view name = op.name;
  return !name.starts_with("aten::") ||
         std::any_of(std::begin(kMixing), std::end(kMixing),
                     [&](std::string_view each) { return name.starts_with(each); });
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

// Runs one call on CPU tensors over mapped memory, and puts the results back.
class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), schema_(op.schema()), stack_(stack), begin_(stack->size() - argument_count()) {}

  void run() {
    if (capturing()) {
      current_stream(current_device())
          .refuse_capture(str("run ", c10::toString(schema_.operator_name()), " on the CPU"));
    }
    for (size_t i = 0; i < argument_count(); ++i) {
      if (writes(schema_.arguments()[i])) {
        for_each_tensor(argument(i), [](const at::Tensor& tensor) { own_memory(tensor); });
      }
    }
    for (size_t i = 0; i < argument_count(); ++i) note(i);
    check_devices();
    for (size_t i = 0; i < argument_count(); ++i) replace(i);
    try {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    } catch (...) {
      keep_what_was_written();
      throw;
    }
    const size_t results = schema_.returns().size();
    for (size_t i = stack_->size() - results; i < stack_->size(); ++i) {
      (*stack_)[i] =
          replace_tensors((*stack_)[i], [&](const at::Tensor& result) { return restore(result); });
    }
    take_resized();
    const at::AutoDispatchBelowADInplaceOrView not_recorded;  // autograd ignores the copies below
    views_.write_back();                                      // before a resize frees that memory
    for (const Pair& pair : pairs_) {
      if (pair.resized) write_back(pair);
    }
  }

 private:
  struct Pair {
    at::Tensor ocl, cpu;
    bool written, resized = false;
  };

  // If the operator failed halfway, writes back what it has written, as on the CPU. A second
  // failure is only logged.
  void keep_what_was_written() {
    try {
      const at::AutoDispatchBelowADInplaceOrView not_recorded;
      views_.write_back();
    } catch (const std::exception& error) {
      TORCH_WARN("ocl: ", error.what());
    }
  }

  size_t argument_count() const { return schema_.arguments().size(); }
  c10::IValue& argument(size_t i) { return (*stack_)[begin_ + i]; }

  template <typename Body>
  static void for_each_tensor(const c10::IValue& value, Body&& body) {
    if (value.isTensor()) {
      body(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& each : value.toTensorVector()) body(each);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
        if (each) body(*each);
      }
    }
  }

  void note(size_t i) {
    const MapAccess access =
        writes(schema_.arguments()[i]) ? MapAccess::kReadWrite : MapAccess::kRead;
    for_each_tensor(argument(i), [&](const at::Tensor& tensor) {
      if (!on_ocl(tensor)) return;
      if (!device_) device_ = tensor.device();
      TORCH_CHECK(*device_ == tensor.device(), c10::toString(schema_.operator_name()),
                  ": expected all tensors to be on the same device, but found at least two "
                  "devices, ",
                  *device_, " and ", tensor.device());
      check_operands(tensor);
      views_.add(tensor, access);
    });
    if (argument(i).isDevice() && argument(i).toDevice().is_privateuseone()) {
      device_ = argument(i).toDevice();
    }
  }

  // Numbers may be on the CPU, and so may indices, which are in lists of optional tensors.
  void check_devices() {
    if (!device_ || mixes_devices(schema_.operator_name())) return;
    for (size_t i = 0; i < argument_count(); ++i) {
      if (argument(i).isOptionalTensorList()) continue;
      for_each_tensor(argument(i), [&](const at::Tensor& tensor) {
        TORCH_CHECK(!tensor.defined() || !tensor.is_cpu() || tensor.dim() == 0,
                    "Expected all tensors to be on the same device, but ",
                    schema_.arguments()[i].name(), " of ", c10::toString(schema_.operator_name()),
                    " is on cpu, others on ", *device_);
      });
    }
  }

  at::Tensor to_cpu(const at::Tensor& tensor, bool written) {
    if (!on_ocl(tensor)) return tensor;
    pairs_.push_back({tensor, views_.view(tensor), written});
    return pairs_.back().cpu;
  }

  void replace(size_t i) {
    const bool written = writes(schema_.arguments()[i]);
    c10::IValue& value = argument(i);
    value =
        replace_tensors(value, [&](const at::Tensor& tensor) { return to_cpu(tensor, written); });
    if (value.isDevice() && value.toDevice().is_privateuseone()) {
      value = c10::Device(at::kCPU);
    } else if (value.isGenerator() && value.toGenerator().device().is_privateuseone()) {
      value = c10::IValue();  // then uses the CPU's generator, which torch.manual_seed also seeds
    }
  }

  // The call may have resized the CPU tensor of a written argument, in place or into other memory.
  void take_resized() {
    for (Pair& pair : pairs_) {
      pair.resized = pair.written && pair.cpu.sizes() != pair.ocl.sizes();
      if (!pair.resized) continue;
      const at::Tensor own =
          at::empty_strided(pair.cpu.sizes(), pair.cpu.strides(), pair.cpu.options());
      pair.cpu = own.copy_(pair.cpu);
    }
  }

  static void write_back(const Pair& pair) {
    // The CPU tensor may have gaps, for example if a solution is a part of a factorization's
    // workspace.
    const auto reach = extent_bytes(pair.cpu) / pair.cpu.element_size();
    pair.ocl.resize_({static_cast<int64_t>(reach)});
    pair.ocl.as_strided_(pair.cpu.sizes(), pair.cpu.strides());
    pair.ocl.copy_(pair.cpu);
  }

  at::Tensor restore(const at::Tensor& result) {
    if (!result.defined()) return result;
    for (const Pair& pair : pairs_) {
      if (pair.written && pair.cpu.is_same(result)) return pair.ocl;
    }
    // Keeps the strides, unless dimensions are expanded, because such a tensor cannot be written.
    at::Tensor moved = at::empty_like(
        result, result.options().device(
                    device_.value_or(c10::Device(c10::DeviceType::PrivateUse1, current_device()))));
    moved.copy_(result);
    return moved;
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack* stack_;
  size_t begin_;
  HostViews views_;
  std::vector<Pair> pairs_;
  std::optional<c10::Device> device_;
};

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace

bool detail::device_lacks_type(const at::Tensor& tensor) {
  return is_double(tensor.scalar_type()) && on_ocl(tensor) &&
         !ocl_device(tensor).properties().has_fp64;
}

bool detail::promote_to_complex_half(std::initializer_list<at::Tensor> tensors) {
  at::native::ResultTypeState state;
  bool complex = false;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    complex = complex || tensor.is_complex();
    state = at::native::update_result_type_state(tensor, state);
  }
  return complex && at::native::result_type(state) == ScalarType::ComplexHalf;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  note_fallback(op, *stack);
  CpuCall(op, stack).run();
}

void note_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  count_and_warn(op.schema(), torch::jit::last(stack, op.schema().arguments().size()));
}

std::map<std::string, int64_t> fallback_stats() {
  std::lock_guard lock(stats_mutex);
  return stats;
}

void reset_fallback_stats() {
  std::lock_guard lock(stats_mutex);
  stats.clear();
}

namespace {

// ---- PyTorch's composite operators whose code reads tensors on the host. A composite runs for
// every device, so for ocl it would read an address that is not the host's. A registration for ocl
// replaces the composite. `make names` finds those that are missing.

constexpr const char* kOnTheCpu[] = {
    "_rowwise_prune",
    "_saturate_weight_to_fp16",
    "_sobol_engine_draw",
    "_sobol_engine_ff_",
    "_sobol_engine_initialize_state_",
    "_sobol_engine_scramble_",
    "_wrapped_quantized_linear_prepacked",
    "choose_qparams_optimized",
    "fbgemm_linear_fp16_weight",
    "fbgemm_linear_fp16_weight.out",
    "fbgemm_linear_fp16_weight_fp32_activation",
    "fbgemm_linear_fp16_weight_fp32_activation.out",
    "fbgemm_linear_int8_weight",
    "fbgemm_linear_int8_weight_fp32_activation",
    "fbgemm_linear_quantize_weight",
    "range.out_",
};

// The result has a pointer to an object of the CPU's library, so it stays on the CPU.
constexpr const char* kPacking[] = {
    "_wrapped_linear_prepack",
    "fbgemm_pack_gemm_matrix_fp16",
    "fbgemm_pack_quantized_matrix",
    "fbgemm_pack_quantized_matrix.KN",
};

// Operators that read only the argument `batch_sizes` on the host.
constexpr const char* kBatchSizes[] = {
    "_pad_packed_sequence", "gru.data", "lstm.data", "rnn_relu.data", "rnn_tanh.data",
};

// PyTorch registers the composite for the CPU's key. The operators that it calls run on ocl.
void run_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

c10::IValue on_host(const c10::IValue& value) {
  return replace_tensors(
      value, [](const at::Tensor& tensor) { return on_ocl(tensor) ? tensor.cpu() : tensor; });
}

void pack(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  note_fallback(op, *stack);
  const size_t count = op.schema().arguments().size();
  for (size_t i = 0; i < count; ++i) {
    c10::IValue& value = torch::jit::peek(*stack, i, count);
    value = on_host(value);
  }
  run_composite(op, stack);
}

void with_batch_sizes(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const int index = op.schema().argumentIndexWithName("batch_sizes").value();
  c10::IValue& value = torch::jit::peek(*stack, index, op.schema().arguments().size());
  value = on_host(value);
  run_composite(op, stack);
}

template <void (*kernel)(const c10::OperatorHandle&, torch::jit::Stack*), size_t count>
void register_all(torch::Library& m, const char* const (&names)[count]) {
  for (const char* name : names) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<kernel>());
  }
}

template <void (*on_the_cpu)(const c10::OperatorHandle&, torch::jit::Stack*)>
void register_host_operators(torch::Library& m) {
  register_all<on_the_cpu>(m, kOnTheCpu);
  register_all<&pack>(m, kPacking);
  register_all<&with_batch_sizes>(m, kBatchSizes);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_host_operators<&fallback>(m); }

// Composites would also run for tensors of these layouts.
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { register_host_operators<&layout_fallback>(m); }
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) { register_host_operators<&layout_fallback>(m); }
TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) { register_host_operators<&layout_fallback>(m); }
TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  register_host_operators<&layout_fallback>(m);
}

// Without these, autograd would not see the operators in the composite.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  register_all<&with_batch_sizes>(m, kBatchSizes);
}

TORCH_LIBRARY_IMPL(_quantized, PrivateUse1, m) {
  m.impl("wrapped_fbgemm_pack_gemm_matrix_fp16",
         torch::CppFunction::makeFromBoxedFunction<&pack>());
}

}  // namespace
}  // namespace ocl

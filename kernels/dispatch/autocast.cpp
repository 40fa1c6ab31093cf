// torch.autocast("ocl"). PyTorch's own lists name the operators that run in the lower precision, in
// float32, or in the widest type of their arguments. All others keep the types of their arguments.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <utility>

namespace ocl {
namespace {

using at::ScalarType, at::Tensor;

// torch.autocast turns itself off for types that torch.ocl.get_amp_supported_dtype() does not list.
// torch.set_autocast_dtype() accepts any type, so the type is checked here.
void check_autocast_dtype() {
  const ScalarType dtype = at::autocast::get_autocast_dtype(at::kPrivateUse1);
  TORCH_CHECK_VALUE(dtype == at::kHalf || dtype == at::kBFloat16, "autocast on ocl: the dtype is ",
                    dtype, ", but only torch.float16 and torch.bfloat16 are supported");
}

// Takes the place of the library in PyTorch's registration macros, so that kernels check the type
// before they cast.
struct CheckedLibrary {
  torch::Library& library;

  template <typename Name, typename Result, typename... Arguments>
  void impl(Name name, Result (*kernel)(Arguments...)) {
    library.impl(name, [kernel](Arguments... arguments) -> Result {
      check_autocast_dtype();
      return kernel(std::forward<Arguments>(arguments)...);
    });
  }
};

Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                   int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
              "autocast: float16 cannot hold the logarithms of probabilities near 0. Leave out the "
              "sigmoid before them and use torch.nn.functional.binary_cross_entropy_with_logits or "
              "torch.nn.BCEWithLogitsLoss, which are safe.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define OCL_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define OCL_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define OCL_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OCL_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, library) {
  using namespace at;  // the lists have types without it
  CheckedLibrary m{library};
  AT_FORALL_LOWER_PRECISION_FP(OCL_LOWER_PRECISION)
  AT_FORALL_FP32(OCL_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(OCL_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(OCL_PROMOTE)
  library.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}

}  // namespace
}  // namespace ocl

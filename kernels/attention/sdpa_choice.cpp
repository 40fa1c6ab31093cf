#include "kernels/attention/sdpa_choice.h"

#include <ATen/Context.h>
#include <ATen/ceil_div.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "backend/base/error.h"
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/algorithms/dot_bfloat16.h"
#include "kernels/core/grids/vector_registers.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/types/dtype.h"
#include "native/sdpa_choice.h"

namespace ocl {
namespace {

using at::SDPBackend;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr const char* kFused = "fused_attention";
const OptionalPaths optional({kFused});

// The bytes of local memory that a CPU-family kernel needs.
int64_t local_bytes(SdpaKernel which, const SdpaTile& tile, int64_t d, int64_t dv) {
  const int64_t sums_d = at::round_up<int64_t>(d, tile.rows),
                sums_dv = at::round_up<int64_t>(dv, tile.rows);
  const int64_t at_once = tile.reads == SdpaRows::kPairs ? 2 : 1;
  const auto items = [&](int64_t size) { return at::ceil_div(size, at_once); };
  int64_t rows = items(d) + sums_dv + tile.block;
  if (which == SdpaKernel::kGradQuery) rows = items(d) + items(dv) + sums_d + 2 * tile.block;
  if (which == SdpaKernel::kGradKey) {
    rows = items(d) + items(dv) + sums_d + sums_dv + 2 * tile.block;
  }
  if (tile.reads == SdpaRows::kPairs) rows += items(tile.block);
  const int64_t copies = tile.reads == SdpaRows::kInPlace ? 0 : items(tile.block) * std::max(d, dv);
  return (rows * tile.vectors * tile.width + copies) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

std::optional<SdpaTile> choose_sdpa_tile(Device& device, SdpaKernel which, int64_t lanes, int64_t d,
                                         int64_t dv, at::ScalarType type) {
  const auto local = static_cast<int64_t>(device.properties().local_memory);
  const auto widest = std::clamp(static_cast<int32_t>(device.parameters().vector_width), 4, 16);
  const bool wide = has_wide_registers(device);
  const bool pairs = multiplies_bfloat16(device, type);
  for (int32_t width = widest; width >= 4; width /= 2) {
    SdpaRows reads = type == ScalarType::Float ? SdpaRows::kInPlace : SdpaRows::kConverted;
    if (pairs && width == 16) reads = SdpaRows::kPairs;
    for (int32_t vectors = wide && lanes > width ? 2 : 1; vectors >= 1; --vectors) {
      for (int32_t block = 64; block >= 16; block /= 2) {
        const SdpaTile tile{width, vectors, block, wide && width == 16 ? 8 : 4, reads};
        if (local_bytes(which, tile, d, dv) <= local) return tile;
      }
    }
  }
  return std::nullopt;
}

namespace {

bool fits(Device& device, int64_t d, int64_t dv, ScalarType type) {
  return device.family() == KernelFamily::kGpu ||
         choose_sdpa_tile(device, SdpaKernel::kGradKey, 1, d, dv, type).has_value();
}

bool broadcasts(const Tensor& mask, const Tensor& query, const Tensor& key) {
  const std::array<c10::SymInt, 4> wanted{query.sym_size(0), query.sym_size(1), query.sym_size(2),
                                          key.sym_size(2)};
  if (mask.dim() > 4) return false;
  for (int64_t i = 1; i <= mask.dim(); ++i) {
    if (mask.sym_size(-i) != 1 && mask.sym_size(-i) != wanted[4 - i]) return false;
  }
  return true;
}

// An outer transform of torch.func may want the gradient of a tensor that it has wrapped.
bool may_require_grad(const Tensor& t) {
  constexpr c10::DispatchKeySet wrapped{c10::DispatchKey::FuncTorchGradWrapper,
                                        c10::DispatchKey::FuncTorchBatched};
  return t.requires_grad() || t.key_set().has_any(wrapped);
}

// Only DynamicLayer.h says whether a transform is vmap, but it includes a header that PyTorch does
// not ship.
bool is_inside_transform() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerBackMode);
}

// Each refusal_of_*() says why the kernels do not support an argument; nullptr: they do. The
// tensors have no memory while a program is traced.
const char* refusal_of_operand(const Tensor& each, const Tensor& query) {
  if (each.is_nested()) return "query, key or value is a nested tensor";
  if (each.dim() != 4) return "query, key and value need 4 dimensions";
  if (each.scalar_type() != query.scalar_type()) return "query, key and value need one dtype";
  if (each.sym_numel() == 0) return "query, key or value is empty";
  if (each.sym_size(-1) > kLargestHead) {
    static const std::string reason = str("heads have more than ", kLargestHead, " elements");
    return reason.c_str();
  }
  if (each.sym_size(0) != query.sym_size(0)) return "query, key and value need the same batch size";
  return nullptr;
}

const char* refusal_of_shapes(const Tensor& query, const Tensor& key, const Tensor& value,
                              bool enable_gqa) {
  const c10::SymInt heads = query.sym_size(1), key_heads = key.sym_size(1);
  if (value.sym_size(1) != key_heads) return "key and value need the same number of heads";
  if (value.sym_size(2) != key.sym_size(2)) return "key and value need the same number of rows";
  if (key.sym_size(3) != query.sym_size(3)) return "query and key need rows of the same size";
  if (heads == key_heads) return nullptr;
  if (!enable_gqa) return "query and key have different numbers of heads, without enable_gqa";
  return heads % key_heads == 0 ? nullptr
                                : "the query's number of heads is no multiple of the key's";
}

const char* refusal_of_mask(const Tensor& mask, const Tensor& query, const Tensor& key,
                            bool is_causal) {
  if (is_causal) return "attn_mask and is_causal are both given";
  if (may_require_grad(mask) && at::GradMode::is_enabled()) {
    return "the kernels compute no gradient of attn_mask";
  }
  return broadcasts(mask, query, key) ? nullptr : "attn_mask does not broadcast to the scores";
}

const char* refusal(const Tensor& query, const Tensor& key, const Tensor& value,
                    const MaybeTensor& mask, double dropout, bool is_causal, bool enable_gqa) {
  if (dropout != 0 && is_inside_transform()) {
    return "dropout inside torch.func, where vmap says which samples share their random numbers";
  }
  for (const Tensor* each : {&query, &key, &value}) {
    if (const char* const reason = refusal_of_operand(*each, query)) return reason;
  }
  const ScalarType type = query.scalar_type();
  if (!has_kernel_type(type) || compute_type(type) != ScalarType::Float) {
    return "the kernels take float32, float16 and bfloat16";
  }
  if (const char* const reason = refusal_of_shapes(query, key, value, enable_gqa)) return reason;
  if (mask && mask->defined()) {
    if (const char* const reason = refusal_of_mask(*mask, query, key, is_causal)) return reason;
  }
  // This fixes the sizes of heads in a traced program; the kernels are specialised for them, too.
  return fits(device(query.device().index()), query.sym_size(3).guard_int(__FILE__, __LINE__),
              value.sym_size(3).guard_int(__FILE__, __LINE__), type)
             ? nullptr
             : "heads of this size do not fit into the device's local memory";
}

int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
               double dropout, bool is_causal, std::optional<double> /*scale*/, bool enable_gqa) {
  const at::Context& context = at::globalContext();
  const char* reason = "the fused kernels are turned off";
  if (context.userEnabledOverrideableSDP()) {
    reason = is_disabled(kFused) ? "OCL_DISABLE"
                                 : refusal(query, key, value, mask, dropout, is_causal, enable_gqa);
    if (!reason) return static_cast<int64_t>(SDPBackend::overrideable);
  }
  // Raises the same error as on the CPU, whose fused kernel first reads the second last size of the
  // mask.
  if (mask && mask->defined() && mask->dim() < 2 && query.dim() == 4 && key.dim() == 4 &&
      dropout == 0 && !broadcasts(*mask, query, key)) {
    mask->sym_size(-2);
  }
  TORCH_CHECK(context.userEnabledMathSDP(),
              "No viable backend for scaled_dot_product_attention was found: the math backend is "
              "turned off, and the fused kernels of ocl do not apply (",
              reason, ")");
  return static_cast<int64_t>(SDPBackend::math);
}

}  // namespace

namespace native {

OCL_NATIVE("_fused_sdp_choice", fused_sdp_choice);
int64_t fused_sdp_choice(const Tensor& query, const Tensor& key, const Tensor& value,
                         const std::optional<Tensor>& attn_mask, double dropout_p, bool is_causal,
                         std::optional<double> scale, bool enable_gqa) {
  return choose(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

}  // namespace native
}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ocl::choose)

}  // namespace at::native

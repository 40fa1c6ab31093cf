// Masked softmax, and the "fast path" that nn.MultiheadAttention and nn.TransformerEncoderLayer
// take without gradients.
#include <ATen/ops/_native_multi_head_attention_native.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "kernels/core/operators/registration.h"
#include "kernels/pointwise/expression.h"
#include "native/multi_head.h"

namespace ocl {
namespace {

constexpr PointwiseOp kBias{"qkv_bias", "a + b"};
constexpr PointwiseOp kBiasAndScale{"qkv_bias_scale", "(a + b) * s0"};

enum MaskType : int64_t { kSource = 0, kKeyPadding = 1, kComplete = 2 };

// The mask, true for elements to leave out, in a shape that broadcasts to scores [B][heads][L][L].
at::Tensor broadcast_mask(const at::Tensor& mask, const at::Tensor& scores,
                          std::optional<int64_t> type) {
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool, "Mask should be a boolean tensor");
  if (type == kSource && mask.dim() == 2 && scores.dim() == 4) {
    TORCH_CHECK(mask.size(0) == scores.size(2) && mask.size(1) == scores.size(3),
                "_masked_softmax: a source mask has shape (L, L), not ", mask.sizes());
    return mask.view({1, 1, mask.size(0), mask.size(1)});
  }
  if (type == kKeyPadding && mask.dim() == 2 && scores.dim() == 4) {
    TORCH_CHECK(mask.size(0) == scores.size(0) && mask.size(1) == scores.size(3),
                "_masked_softmax: a key padding mask has shape (B, L), not ", mask.sizes());
    return mask.view({mask.size(0), 1, 1, mask.size(1)});
  }
  TORCH_CHECK(mask.sizes() == scores.sizes(), "_masked_softmax: mask of shape ", mask.sizes(),
              " for an input of shape ", scores.sizes());
  return mask;
}

}  // namespace

namespace native {

OCL_SHARED("_transformer_encoder_layer_fwd");

// Uses PyTorch's CPU version, which only calls operators; its CUDA version needs CUDA's attention
// kernels.
OCL_NATIVE("_native_multi_head_attention", multi_head_attention);
std::tuple<Tensor, Tensor> multi_head_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t embed_dim,
    int64_t num_head, const Tensor& qkv_weight, const Tensor& qkv_bias, const Tensor& proj_weight,
    const Tensor& proj_bias, const std::optional<Tensor>& mask, bool need_weights,
    bool average_attn_weights, std::optional<int64_t> mask_type) {
  TORCH_CHECK(num_head > 0, "_native_multi_head_attention: expected at least one head, got ",
              num_head);
  return at::native::native_multi_head_attention_cpu(
      query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
      need_weights, average_attn_weights, mask_type);
}

// Splits qkv [B][L][3 * D], padded if it is nested, into q, k, v [B][heads][L][D / heads], and
// divides q by the square root of D / heads.
OCL_NATIVE("_transform_bias_rescale_qkv", transform_bias_rescale_qkv);
std::tuple<Tensor, Tensor, Tensor> transform_bias_rescale_qkv(const Tensor& qkv_any,
                                                              const Tensor& qkv_bias,
                                                              int64_t num_heads) {
  const Tensor qkv = qkv_any.is_nested() ? qkv_any.to_padded_tensor(0) : qkv_any;
  TORCH_CHECK(qkv.dim() == 3, "_transform_bias_rescale_qkv: qkv needs 3 dimensions, but has shape ",
              qkv.sizes());
  const int64_t batch = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
  TORCH_CHECK(qkv.size(2) == 3 * width, "_transform_bias_rescale_qkv: the last size of qkv ",
              qkv.sizes(), " is no multiple of 3");
  TORCH_CHECK(num_heads > 0 && width % num_heads == 0,
              "_transform_bias_rescale_qkv: a third of the last size of qkv ", qkv.sizes(),
              " is no multiple of the ", num_heads, " heads");
  const int64_t per_head = width / num_heads;
  const Tensor in = qkv.contiguous().view({batch, length, 3, num_heads, per_head});
  const Tensor bias = qkv_bias.contiguous().view({3, num_heads, 1, per_head});
  const Tensor out = at::empty({3, batch, num_heads, length, per_head}, qkv.options());
  const ScalarType compute = compute_type(qkv.scalar_type());
  for (int64_t which = 0; which < 3; ++which) {
    const Tensor part = in.select(2, which).transpose(1, 2);
    if (which == 0) {
      const double scale = 1 / std::sqrt(static_cast<double>(per_head));
      evaluate(kBiasAndScale, out[which], {part, bias[which]}, compute, {scale});
    } else {
      evaluate(kBias, out[which], {part, bias[which]}, compute);
    }
  }
  return {out[0], out[1], out[2]};
}

OCL_NATIVE("_masked_softmax", masked_softmax);
Tensor masked_softmax(const Tensor& self, const Tensor& mask, std::optional<int64_t> dim,
                      std::optional<int64_t> mask_type) {
  const Tensor left_out = broadcast_mask(mask, self, mask_type);
  return at::_softmax(self.masked_fill(left_out, -INFINITY), dim.value_or(self.dim() - 1), false);
}

OCL_NATIVE("_masked_softmax_backward", masked_softmax_backward);
Tensor masked_softmax_backward(const Tensor& grad_output, const Tensor& output, const Tensor& mask,
                               std::optional<int64_t> dim) {
  TORCH_CHECK(mask.sizes() == output.sizes(), "_masked_softmax_backward: mask of shape ",
              mask.sizes(), " for an output of shape ", output.sizes());
  const Tensor grad = grad_output.masked_fill(mask, 0);
  return at::_softmax_backward_data(grad, output, dim.value_or(output.dim() - 1),
                                    output.scalar_type())
      .masked_fill(mask, 0);
}

}  // namespace native
}  // namespace ocl

// The description of an attention problem that the operators of sdpa.cpp give to the kernels.
#pragma once

#include "backend/launch/launch.h"
#include "generator/generator.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/core/types/parameters.h"

namespace ocl {

namespace sdpa {
#include "kernels/attention/sdpa_parameters.clh"
}

struct Attention {
  at::Tensor query, key, value;    // rows without gaps
  std::optional<at::Tensor> bias;  // [batch][heads][queries][keys], any strides
  bool causal;
  double dropout;
  PhiloxState random;
  sdpa::Problem problem{};

  int64_t batch() const { return query.size(0); }
  int64_t heads() const { return query.size(1); }
  int64_t key_heads() const { return key.size(1); }
};

// The forward kernel and the two kernels of the gradients.
enum class SdpaKernel : uint8_t { kForward, kGradQuery, kGradKey };

// A call of one of the kernels. `before` and `after`: the arguments before and after query, key,
// value and bias. In the forward pass, `before` is the output and log_sum [batch][heads][queries]
// in float32. In the backward pass, `after` begins with the gradient of the output.
struct AttentionCall {
  const Attention& attention;
  SdpaKernel which;
  std::initializer_list<at::Tensor> before, after;
};

// Adds the tensors and the problem as arguments of the kernel.
void add_attention(Arguments& arguments, const AttentionCall& call);

// The parameters for the defines of sdpa.clh, except DROPOUT: a field of kernels' structs.
struct AttentionCode {
  ScalarType type;
  bool causal, has_bias;
  int32_t d, dv;

  int64_t longest() const { return std::max(d, dv); }
  Defines defines() const {
    Defines defines;
    defines.set("DT", dtype_name(type)).set("D", d).set("DV", dv).set("D_MAX", longest());
    if (causal) defines.set("CAUSAL", 1);
    if (has_bias) defines.set("HAS_BIAS", 1);
    return defines;
  }
};
inline AttentionCode attention_code(const Attention& a) {
  return {a.query.scalar_type(), a.causal, a.bias.has_value(),
          static_cast<int32_t>(a.query.size(3)), static_cast<int32_t>(a.value.size(3))};
}

}  // namespace ocl

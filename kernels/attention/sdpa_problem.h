// Attention as the operators of sdpa.cpp hand it to the kernels.
#pragma once

#include "generator/generator.h"
#include "kernels/core/dtype.h"
#include "kernels/core/tensors.h"

namespace ocl {

// As in sdpa.clh.
enum Matrix { kQuery, kKey, kValue, kOut, kGrad, kGradQuery, kGradKey, kGradValue, kMatrices };
struct ProblemArgument {
  int64_t strides[kMatrices][3];
  int64_t bias_strides[4];
  int64_t heads, group, queries, keys;
  uint64_t seed, offset, threshold;
  float scale, keep_scale;
};

struct Attention {
  at::Tensor query, key, value;    // rows without gaps
  std::optional<at::Tensor> bias;  // [batch][heads][queries][keys], any strides
  bool causal;
  double dropout;
  PhiloxState random;
  ProblemArgument problem{};

  int64_t batch() const { return query.size(0); }
  int64_t heads() const { return query.size(1); }
  int64_t key_heads() const { return key.size(1); }
};

// The defines of sdpa.clh except DROPOUT, and what tells them apart in the key of a kernel.
inline Defines attention_defines(const Attention& a) {
  const int64_t d = a.query.size(3), dv = a.value.size(3);
  Defines defines;
  defines.set("DT", dtype_name(a.query.scalar_type()))
      .set("D", d)
      .set("DV", dv)
      .set("D_MAX", std::max(d, dv));
  if (a.causal) defines.set("CAUSAL", 1);
  if (a.bias) defines.set("HAS_BIAS", 1);
  return defines;
}
inline uint64_t attention_sizes(const Attention& a) {
  return static_cast<uint64_t>(a.query.size(3)) << 32 | static_cast<uint64_t>(a.value.size(3));
}
inline uint64_t attention_flags(const Attention& a) {
  return static_cast<uint64_t>(a.query.scalar_type()) << 8 | uint64_t{a.causal} |
         uint64_t{a.bias.has_value()} << 1;
}

}  // namespace ocl

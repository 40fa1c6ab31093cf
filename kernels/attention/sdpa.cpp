// Scaled dot product attention without a matrix of scores (sdpa.clh), through PyTorch's
// "overrideable" backend for devices outside of its tree (sdpa_choice.cpp).
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sum.h>

#include <cmath>

#include "generator/captured_draws.h"
#include "kernels/attention/sdpa_choice.h"
#include "kernels/attention/sdpa_decode.h"
#include "kernels/attention/sdpa_problem.h"
#include "kernels/attention/sdpa_unit.h"
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/operators/relations.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/pointwise/expression.h"
#include "native/sdpa.h"

namespace ocl {

static std::string describe(const AttentionCall& call) {
  static constexpr std::array kKinds{"attention", "gradient of attention's query",
                                     "gradients of attention's key and value"};
  const Attention& a = call.attention;
  return str(a.query.scalar_type(), ' ', kKinds[static_cast<size_t>(call.which)], " of ",
             a.query.sizes(), " and ", a.key.sizes());
}

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

void set_strides(sdpa::Problem& problem, sdpa::Matrix which, const Tensor& t) {
  for (int64_t i = 0; i < 3; ++i) problem.strides[which * 3 + i] = t.stride(i);
}

// The stride of a dimension of size 1 becomes 0, so that kernels load a number once.
void set_bias_strides(sdpa::Problem& problem, const Tensor& bias) {
  for (int64_t i = 0; i < 4; ++i) problem.bias_strides[i] = bias.size(i) > 1 ? bias.stride(i) : 0;
}

void check_shapes(const Tensor& query, const Tensor& key, const Tensor& value) {
  static constexpr const char* kOp = "scaled_dot_product_attention: ";
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4, kOp,
              "query, key and value need 4 dimensions, but have the shapes ", query.sizes(), ", ",
              key.sizes(), " and ", value.sizes());
  const auto check_same = [](int64_t dim, const char* size, const char* names, const Tensor& a,
                             const Tensor& b) {
    TORCH_CHECK(a.size(dim) == b.size(dim), kOp, names, " need the same ", size, ", but have ",
                a.size(dim), " and ", b.size(dim), " (shapes ", a.sizes(), " and ", b.sizes(), ")");
  };
  check_same(0, "batch size", "query and key", query, key);
  check_same(0, "batch size", "query and value", query, value);
  check_same(1, "number of heads", "key and value", key, value);
  check_same(2, "number of rows", "key and value", key, value);
  check_same(3, "size of a row", "query and key", query, key);
  TORCH_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0, kOp,
              "the number of heads of the query, ", query.size(1),
              ", is no multiple of that of key and value, ", key.size(1));
}

Attention describe(const Tensor& query, const Tensor& key, const Tensor& value,
                   const MaybeTensor& bias, bool is_causal, double dropout,
                   std::optional<double> scale) {
  check_shapes(query, key, value);
  for (const Tensor& each : {key, value}) {
    expect_type(each, query.scalar_type(), "scaled_dot_product_attention");
  }
  TORCH_CHECK(query.size(3) <= kLargestHead && value.size(3) <= kLargestHead,
              "scaled_dot_product_attention: the kernels of ocl take heads of up to ", kLargestHead,
              " elements; the query's have ", query.size(3), ", the value's ", value.size(3));
  TORCH_CHECK(dropout >= 0 && dropout <= 1,
              "dropout probability has to be between 0 and 1, but got ", dropout);
  Attention a{with_dense_rows(query),
              with_dense_rows(key),
              with_dense_rows(value),
              std::nullopt,
              is_causal,
              dropout,
              {}};
  sdpa::Problem& p = a.problem;
  p.heads = a.heads();
  p.group = a.heads() / a.key_heads();
  p.queries = query.size(2);
  p.keys = key.size(2);
  p.scale = static_cast<float>(scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3)))));
  p.keep_scale = static_cast<float>(dropout < 1 ? 1 / (1 - dropout) : 0);
  p.threshold = static_cast<uint64_t>(std::llround(std::ldexp(1 - dropout, 32)));
  if (bias && bias->defined()) {
    TORCH_CHECK(bias->scalar_type() == query.scalar_type(),
                "scaled_dot_product_attention: mask and query need one dtype, but have ",
                bias->scalar_type(), " and ", query.scalar_type());
    a.bias = bias->expand({a.batch(), a.heads(), p.queries, p.keys});
    set_bias_strides(p, *a.bias);
  }
  set_strides(p, sdpa::QUERY, a.query);
  set_strides(p, sdpa::KEY, a.key);
  set_strides(p, sdpa::VALUE, a.value);
  return a;
}

// A work-group of the GPU family: side_x by side_y work-items, each with `rows` rows
// (sdpa_tiles.clh).
struct SdpaGroup {
  int64_t side_x, side_y, rows;
  int64_t group_rows() const { return side_y * rows; }
};

// The bytes of local memory that a GPU-family kernel needs; must agree with sdpa_tiles.clh.
int64_t local_bytes(const SdpaGroup& group, int64_t longest) {
  const int64_t depth = std::min<int64_t>(group.side_x * group.side_y, 16),
                rows = group.group_rows(), keys = 4 * group.side_x,
                a_ld = rows + std::min<int64_t>(group.rows, 4), product = depth * (a_ld + keys + 4),
                sum = depth * at::round_up(longest, group.side_x), weights = keys * a_ld,
                partial = rows * (group.side_x + (group.side_x < 4 ? 1 : 4));
  return (std::max(product, sum) + weights + partial) * static_cast<int64_t>(sizeof(float));
}

// `most`: the most work-items of a group. Work-items of small groups have 4 rows instead of 8.
SdpaGroup group_of(const Device& device, size_t most, const SdpaTile& tile, int64_t longest) {
  const auto local = static_cast<int64_t>(device.properties().local_memory);
  if (const SdpaGroup tall{16, 8, 8};
      tile.rows == tall.rows && most >= 128 && local_bytes(tall, longest) <= local) {
    return tall;
  }
  int64_t side = std::min<int64_t>(16, int64_t{1} << (std::bit_width(most) - 1) / 2);
  const int64_t rows = std::min<int64_t>(tile.rows, 4);
  while (side > 1 && local_bytes({side, side, rows}, longest) > local) side /= 2;
  return {side, side, rows};
}

// The most rows per work-item whose sums and products stay in registers.
int32_t rows_on_gpu(const Device& device, const Attention& a, SdpaKernel which, bool quads) {
  const int64_t d = a.query.size(3), dv = a.value.size(3), longest = std::max(d, dv),
                sums = which == SdpaKernel::kGradKey ? 2 : 1,
                tiles = which == SdpaKernel::kForward ? 1 : 2;
  if (device.has(Quirk::kFewRegisters) || !quads) {
    // Compilers unroll the products of short heads completely. That takes more registers, and so
    // does dropout.
    const bool large = std::min(d, dv) < 32 || a.dropout > 0;
    return longest * sums <= 128 && !(large && device.has(Quirk::kFewRegisters)) ? 4 : 2;
  }
  // Registers for the sums and tiles of a row. Above the limits below, the compilers of AMD's and
  // NVIDIA's GPUs spill (tools/gpu_check.py): 8 rows leave no room for random numbers, and little
  // for a mask.
  const int64_t of_row = at::ceil_div<int64_t>(longest, 16) * sums + 4 * tiles;
  int64_t most_for_8 = which == SdpaKernel::kGradKey ? 16 : 12;
  if (a.bias) most_for_8 = 8;
  if (a.dropout > 0) most_for_8 = 0;
  if (of_row <= most_for_8) return 8;
  return of_row <= 24 ? 4 : 2;
}

// Whether the kernels can load four elements of a row at once.
bool in_quads(const Tensor& t) {
  for (int64_t i = 0; i < 3; ++i) {
    if (t.size(i) > 1 && t.stride(i) % 4 != 0) return false;
  }
  const auto bytes = 4 * static_cast<uint64_t>(t.element_size());
  return t.size(3) % 4 == 0 && view(t).offset % bytes == 0;
}

struct TiledAttention {
  AttentionCode code;
  SdpaKernel which;
  SdpaTile tile;
  bool quads, dropout;

  KernelSource source(Device& device, size_t most) const {
    const bool cpu = device.family() == KernelFamily::kCpu;
    Defines defines = code.defines();
    if (cpu) {
      defines.set("WIDTH", tile.width)
          .set("NV", tile.vectors)
          .set("MR", tile.rows)
          .set("BLOCK", tile.block);
      if (tile.reads == SdpaRows::kConverted) defines.set("COPY_ROWS", 1);
      if (tile.reads == SdpaRows::kPairs) defines.set("PAIRS", 1);
      if (which == SdpaKernel::kGradKey) defines.set("KEYS_IN_LANES", 1);
    } else {
      const SdpaGroup group = group_of(device, most, tile, code.longest());
      defines.set("SIDE", group.side_x).set("RM", group.rows).set("QUADS", quads);
      if (device.has(Quirk::kFewRegisters)) defines.set("FEW_REGISTERS", 1);
      if (which == SdpaKernel::kGradKey) defines.set("KEYS_IN_ROWS", 1);
    }
    if (which == SdpaKernel::kForward) defines.set("FORWARD", 1);
    if (dropout) defines.set("DROPOUT", 1);
    static constexpr std::array kNames{"attention_forward", "attention_grad_query",
                                       "attention_grad_key"};
    return {cpu ? "sdpa_cpu.cl" : "sdpa_gpu.cl", kNames[static_cast<size_t>(which)], defines};
  }
};

void run_tiles(const AttentionCall& call) {
  const Attention& a = call.attention;
  const SdpaKernel which = call.which;
  Device& device = ocl_device(a.query);
  const int64_t d = a.query.size(3), dv = a.value.size(3);
  const int64_t rows = which == SdpaKernel::kGradKey ? a.problem.keys : a.problem.queries;
  const int64_t heads = which == SdpaKernel::kGradKey ? a.key_heads() : a.heads();
  const bool gpu = device.family() == KernelFamily::kGpu;
  // Intel's compiler spills where it loads quads of long rows, or next to a mask or random numbers.
  const bool has_room =
      !device.has(Quirk::kFewRegisters) || (std::max(d, dv) <= 128 && !a.bias && a.dropout == 0);
  const bool quads = gpu && has_room && in_quads(a.query) && in_quads(a.key) && in_quads(a.value) &&
                     (which == SdpaKernel::kForward || in_quads(*call.after.begin()));
  SdpaTile tile{};
  if (gpu) {
    tile.rows = rows_on_gpu(device, a, which, quads);
  } else {
    const auto chosen = choose_sdpa_tile(device, which, rows, d, dv, a.query.scalar_type());
    TORCH_CHECK(chosen, "scaled_dot_product_attention: heads of ", d, " and ", dv,
                " elements do not fit into the local memory of ", device.label());
    tile = *chosen;
  }
  const Kernel& kernel =
      find_kernel(device, TiledAttention{attention_code(a), which, tile, quads, a.dropout > 0});
  Arguments arguments(stream_of(a.query), kernel);
  add_attention(arguments, call);
  const SdpaGroup group =
      gpu ? group_of(device, kernel.group, tile, std::max(d, dv)) : SdpaGroup{1, 1, 1};
  const int64_t per_task = gpu ? group.group_rows() : tile.width * tile.vectors;
  const auto blocks = static_cast<size_t>(at::ceil_div(rows, per_task));
  const Range units{blocks, static_cast<size_t>(heads), static_cast<size_t>(a.batch())};
  if (gpu) {
    const auto x = static_cast<size_t>(group.side_x), y = static_cast<size_t>(group.side_y);
    // Tiles at the edges compute as much as other tiles.
    const int64_t others = which == SdpaKernel::kGradKey ? a.problem.queries : a.problem.keys;
    const double scores = static_cast<double>(units.x) * per_task *
                          at::round_up(others, 4 * group.side_x) * a.heads() * a.batch();
    // The products per score: q k and w v; backward also g v and, for the keys, sums for both
    // gradients.
    const int64_t products = which == SdpaKernel::kForward     ? d + dv
                             : which == SdpaKernel::kGradQuery ? 2 * d + dv
                                                               : 2 * (d + dv);
    arguments.enqueue({units.x * x, units.y * y, units.z}, {x, y, 1}, scores * products);
  } else {
    arguments.enqueue(units, {1, 1, 1});
  }
}

const Algorithm<AttentionCall> kAlgorithms[] = {{"decode_attention", &refusal_of_decoding, &decode},
                                                {"unit_attention", &refusal_of_unit, &run_unit},
                                                {"tile_attention", nullptr, &run_tiles}};
const OptionalPaths optional({kAlgorithms[0].name, kAlgorithms[1].name});

void run(const Attention& a, SdpaKernel which, std::initializer_list<Tensor> before,
         std::initializer_list<Tensor> after) {
  run_first(kAlgorithms, AttentionCall{a, which, before, after});
}

// If each head has one query and heads share keys, makes those queries the queries of one head, so
// that the keys are read once. Returns a view of `out` in that form. Nothing is copied, and results
// and random numbers keep their order.
Tensor group_queries(Attention& a, const Tensor& out) {
  sdpa::Problem& p = a.problem;
  if (p.queries != 1 || p.group == 1 || a.causal) return out;
  const auto grouped = [&](const Tensor& t) {
    return t.select(2, 0).unflatten(1, {p.heads / p.group, p.group});
  };
  a.query = grouped(a.query);
  set_strides(p, sdpa::QUERY, a.query);
  if (a.bias) {
    a.bias = grouped(*a.bias);
    set_bias_strides(p, *a.bias);
  }
  Tensor result = grouped(out);
  p.queries = std::exchange(p.group, 1);
  p.heads = a.heads();
  return result;
}

// The output has the query's order of dimensions in memory, as in PyTorch's meta function.
Tensor empty_output(const Tensor& query, int64_t width) {
  if (query.size(3) == width) return at::empty_like(query);
  std::array<int64_t, 4> order{0, 1, 2, 3},
      sizes{query.size(0), query.size(1), query.size(2), width}, strides{};
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return query.stride(i) > query.stride(j); });
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= sizes[order[i]];
  }
  return at::empty_strided(sizes, strides, query.options());
}

// An empty tensor like `like` for the kernels to write. Its rows have no gaps.
Tensor empty_gradient(const Tensor& like) {
  const Tensor result = at::empty_like(like);
  return result.stride(-1) == 1 || result.size(-1) == 1
             ? result
             : at::empty_like(like, at::MemoryFormat::Contiguous);
}

constexpr PointwiseOp kProduct{"attention_delta", "a * b"};

}  // namespace

void add_attention(Arguments& arguments, const AttentionCall& call) {
  const Attention& a = call.attention;
  for (const Tensor& each : call.before) arguments.add(view(each));
  arguments.add(view(a.query)).add(view(a.key)).add(view(a.value));
  if (a.bias) arguments.add(view(*a.bias));
  for (const Tensor& each : call.after) arguments.add(view(each));
  add_philox(arguments, {a.problem.seed, a.problem.offset}, &a.problem, sizeof(a.problem),
             offsetof(sdpa::Problem, seed), offsetof(sdpa::Problem, offset));
}

namespace native {

// A mask is float32 even if the operands have 16 bits, because many masks have numbers that are too
// large for 16 bits.
static bool is_wider(const MaybeTensor& mask, const Tensor& query) {
  return mask && mask->defined() && mask->scalar_type() == ScalarType::Float &&
         query.scalar_type() != ScalarType::Float;
}

OCL_NATIVE("_scaled_dot_product_fused_attention_overrideable", fused_attention);
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                const std::optional<Tensor>& attn_bias, double dropout_p, bool is_causal,
                bool /*return_debug_mask*/, std::optional<double> scale) {
  if (is_wider(attn_bias, query)) {
    auto results = fused_attention(query.to(at::kFloat), key.to(at::kFloat), value.to(at::kFloat),
                                   attn_bias, dropout_p, is_causal, false, scale);
    std::get<0>(results) = std::get<0>(results).to(query.scalar_type());
    return results;
  }
  Attention a = describe(query, key, value, attn_bias, is_causal, dropout_p, scale);
  sdpa::Problem& p = a.problem;
  if (dropout_p > 0) {
    const int64_t counters = a.batch() * p.heads * p.queries * ((p.keys + 3) / 4);
    a.random = draw(std::nullopt, query.get_device(), static_cast<uint64_t>(counters));
    p.seed = a.random.seed;
    p.offset = a.random.offset;
  }
  Tensor out = empty_output(query, value.size(3));
  const Tensor written = with_dense_rows(out);
  const Tensor log_sum =
      at::empty({a.batch(), p.heads, p.queries}, query.options().dtype(ScalarType::Float));
  if (out.numel() > 0) {
    const Tensor result = group_queries(a, written);
    set_strides(p, sdpa::OUT, result);
    run(a, SdpaKernel::kForward, {result, log_sum}, {});
  }
  if (!written.is_same(out)) out.copy_(written);
  // Seed and offset are CPU tensors, because the backward pass passes them as numbers to kernels.
  const auto number = [](uint64_t value) {
    return at::scalar_tensor(static_cast<int64_t>(value), at::TensorOptions(ScalarType::Long));
  };
  return {out, log_sum, {}, {}, query.size(2), p.keys, number(p.seed), number(p.offset), {}};
}

OCL_NATIVE("_scaled_dot_product_fused_attention_overrideable_backward", fused_attention_backward);
std::tuple<Tensor, Tensor, Tensor, Tensor> fused_attention_backward(
    const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const Tensor& out,
    const Tensor& logsumexp, const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
    int64_t /*max_q*/, int64_t /*max_k*/, double dropout_p, bool is_causal,
    const Tensor& philox_seed, const Tensor& philox_offset, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !grad_input_mask[3] || !attn_bias.defined(),
      "scaled_dot_product_attention: the fused kernels of ocl have no gradient of the mask; "
      "scaled_dot_product_attention() itself chooses other operators for it");
  if (is_wider(attn_bias, query)) {
    const auto wide = [](const Tensor& t) { return t.to(at::kFloat); };
    const auto narrow = [&](const Tensor& t) {
      return t.defined() ? t.to(query.scalar_type()) : t;
    };
    const auto [of_query, of_key, of_value, none] = fused_attention_backward(
        wide(grad_out), wide(query), wide(key), wide(value), attn_bias, grad_input_mask, wide(out),
        logsumexp, {}, {}, 0, 0, dropout_p, is_causal, philox_seed, philox_offset, scale);
    return {narrow(of_query), narrow(of_key), narrow(of_value), none};
  }
  Attention a = describe(query, key, value, attn_bias, is_causal, dropout_p, scale);
  sdpa::Problem& p = a.problem;
  if (dropout_p > 0) {
    p.seed = static_cast<uint64_t>(philox_seed.item<int64_t>());
    p.offset = static_cast<uint64_t>(philox_offset.item<int64_t>());
  }
  static constexpr const char* kOp = "scaled_dot_product_attention's backward";
  const Relations relations(kOp);
  relations.sizes("out", out, {a.batch(), a.heads(), p.queries, value.size(3)});
  relations.same("grad_out", grad_out, "out", out);
  relations.count("logsumexp", logsumexp, {a.batch(), a.heads(), p.queries});
  for (const Tensor& each : {grad_out, out}) expect_type(each, query.scalar_type(), kOp);
  expect_type(logsumexp, ScalarType::Float, kOp);
  const Tensor grad = with_dense_rows(grad_out), log_sum = logsumexp.contiguous();
  const Tensor product = at::empty(out.sizes(), out.options().dtype(ScalarType::Float));
  evaluate(kProduct, product, {grad_out, out}, ScalarType::Float);
  const Tensor delta = at::sum(product, at::IntArrayRef{-1});
  set_strides(p, sdpa::GRAD, grad);
  Tensor grad_query, grad_key, grad_value;
  if (grad_input_mask[0]) {
    grad_query = empty_gradient(query);
    set_strides(p, sdpa::GRAD_QUERY, grad_query);
    run(a, SdpaKernel::kGradQuery, {grad_query}, {grad, log_sum, delta});
  }
  if (grad_input_mask[1] || grad_input_mask[2]) {
    grad_key = empty_gradient(key);
    grad_value = empty_gradient(value);
    set_strides(p, sdpa::GRAD_KEY, grad_key);
    set_strides(p, sdpa::GRAD_VALUE, grad_value);
    run(a, SdpaKernel::kGradKey, {grad_key, grad_value}, {grad, log_sum, delta});
  }
  return {grad_query, grad_key, grad_value, {}};
}

}  // namespace native
}  // namespace ocl

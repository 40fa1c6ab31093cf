#include "kernels/attention/sdpa_unit.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/core/grids/task_items.h"
#include "kernels/core/matrix_units/matrix_unit.h"
#include "kernels/core/matrix_units/matrix_unit_amx.h"

namespace ocl {
namespace {

using namespace amx;

constexpr int64_t kPanelBytes = 1 << 20;  // half of the second level cache
constexpr int64_t kMostKept = 32;         // the most blocks per item whose sums are kept

// The struct of sdpa_unit_cpu.cl.
struct Shares {
  int64_t task_words = 0;
  int32_t panel_rows = 0, parts = 0, items = 0;
  int32_t unused = 0;
};

// CHUNK: the rows whose weights are computed at once. Larger for long heads, so that their sums are
// loaded less often.
int64_t chunk_of(int64_t longest) { return longest > 64 ? 256 : 128; }

struct UnitAttention {
  AttentionCode code;
  SdpaKernel which;
  bool dropout;
  const MatrixUnit* unit;

  KernelSource source(Device&) const {
    Defines defines = code.defines();
    define_matrix_unit(defines, *unit, ScalarType::BFloat16);
    defines.set("CHUNK", chunk_of(code.longest()));
    if (dropout) defines.set("DROPOUT", 1);
    if (which == SdpaKernel::kForward) defines.set("FORWARD", 1);
    if (which == SdpaKernel::kGradKey) defines.set("KEYS_IN_LANES", 1);
    static constexpr std::array kNames{"attention_unit_forward", "attention_unit_grad_query",
                                       "attention_unit_grad_key"};
    return {"sdpa_unit_cpu.cl", kNames[static_cast<size_t>(which)], defines};
  }
};

// The number of a kernel's panels, or of its sums: for rows of Q or K (d), and of V or G (dv).
struct Counts {
  int64_t d, dv;
};
Counts panels_of(SdpaKernel which) {
  if (which == SdpaKernel::kForward) return {1, 1};
  return {2, which == SdpaKernel::kGradQuery ? 1 : 2};
}
Counts sums_of(SdpaKernel which) {
  return {which == SdpaKernel::kForward ? 0 : 1, which == SdpaKernel::kGradQuery ? 0 : 1};
}

// The size of a task's memory; must agree with memory_of() in sdpa_unit_cpu.cl for `kept` blocks.
int64_t scratch_words(SdpaKernel which, int64_t chunk, int64_t panel_rows, int64_t kept,
                      int64_t d_steps, int64_t dv_steps) {
  const Counts panels = panels_of(which), sums = sums_of(which);
  const bool forward = which == SdpaKernel::kForward;
  const int64_t of_rows = (panels.d * d_steps + panels.dv * dv_steps) * kStepWords;
  const int64_t lanes = (d_steps + (forward ? 0 : dv_steps)) * kStepWords;
  const int64_t scores = (forward ? 1 : 2) * 2 * chunk * kBlock;
  const int64_t pairs = (sums.d + sums.dv) * chunk * kBlock;
  const int64_t numbers = forward ? 0 : 2 * panel_rows;
  const int64_t state = (sums.d * d_steps + sums.dv * dv_steps) * kBlockWords + 2 * kBlock;
  return panel_rows / kBlock * of_rows + lanes + scores + pairs + numbers + kSpareWords +
         kept * state;
}

Shares choose_shares(const AttentionCall& call) {
  const Attention& a = call.attention;
  const sdpa::Problem& p = a.problem;
  const bool keys_in_lanes = call.which == SdpaKernel::kGradKey;
  const int64_t rows = keys_in_lanes ? p.queries : p.keys,
                lanes = keys_in_lanes ? p.keys : p.queries,
                blocks = at::ceil_div(lanes, kBlock) * (keys_in_lanes ? 1 : p.group),
                row_heads = keys_in_lanes ? p.group : 1;
  const int64_t d_steps = at::ceil_div(a.query.size(3), kBlock),
                dv_steps = at::ceil_div(a.value.size(3), kBlock);
  const int64_t chunk = chunk_of(std::max(a.query.size(3), a.value.size(3)));
  const Counts copies = panels_of(call.which);
  const int64_t chunk_bytes =
      (copies.d * d_steps + copies.dv * dv_steps) * chunk / kBlock * kStepWords * 4;
  const int64_t panels = at::ceil_div(rows, kPanelBytes / chunk_bytes * chunk);
  const int64_t panel_rows = at::round_up(at::ceil_div(rows, panels), chunk);
  const bool keeps = at::ceil_div(rows, panel_rows) * row_heads > 1;

  const int64_t heads = a.batch() * a.key_heads();
  const int64_t tasks = few_tasks(ocl_device(a.query));
  int64_t parts = keeps ? at::ceil_div(blocks, kMostKept) : 1;
  while (heads * parts % tasks && parts < blocks && heads * parts < 4 * tasks) ++parts;
  const int64_t kept = keeps ? at::ceil_div(blocks, parts) : 1;
  return {scratch_words(call.which, chunk, panel_rows, kept, d_steps, dv_steps),
          static_cast<int32_t>(panel_rows), static_cast<int32_t>(parts),
          static_cast<int32_t>(heads * parts)};
}

}  // namespace

const char* refusal_of_unit(const AttentionCall& call) {
  const Attention& a = call.attention;
  const sdpa::Problem& p = a.problem;
  Device& device = ocl_device(a.query);
  if (device.family() != KernelFamily::kCpu) return "for CPU devices";
  if (a.query.scalar_type() != ScalarType::BFloat16) return "for bfloat16";
  if (std::max(p.keys, p.queries) > INT32_MAX / 2) return "too many queries or keys";
  // The kernel finds the greatest score before it scales the scores.
  if (!(p.scale >= std::numeric_limits<float>::min())) return "a scale that is not positive";
  // Measured: the other kernels are faster here. A block of the unit has 32 x 32 scores.
  if (p.queries * p.keys < kBlock * kBlock) return "few queries and keys";
  const bool is_short = std::max(a.query.size(3), a.value.size(3)) < kBlock;
  if (is_short && std::min(p.queries, p.keys) < kBlock) return "few queries or keys of short heads";
  return refusal_of_matrix_unit(device, ScalarType::BFloat16);
}

void run_unit(const AttentionCall& call) {
  const Attention& a = call.attention;
  Device& device = ocl_device(a.query);
  const Shares shares = choose_shares(call);
  Stream& stream = stream_of(a.query);
  const int64_t tasks = std::min<int64_t>(few_tasks(device), shares.items);
  const at::Tensor counter = item_counter(stream, a.query);
  const at::Tensor scratch = at::empty({tasks * shares.task_words}, counter.options());
  Arguments arguments(
      stream, find_kernel(device, UnitAttention{attention_code(a), call.which, a.dropout > 0,
                                                matrix_unit(device)}));
  add_attention(arguments, call);
  arguments.add(view(counter)).add(view(scratch)).add(shares);
  arguments.enqueue({static_cast<size_t>(tasks)}, {1, 1, 1});
}

}  // namespace ocl

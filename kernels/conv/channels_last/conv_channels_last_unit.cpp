// Convolutions of channels_last tensors in bfloat16 by the matrix unit of a CPU: launches of
// conv_channels_last_unit.cl.
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/conv/channels_last/conv_channels_last.h"
#include "kernels/core/grids/task_items.h"
#include "kernels/core/matrix_units/matrix_unit.h"
#include "kernels/core/matrix_units/matrix_unit_amx.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

using namespace amx;
using namespace channels_last;

constexpr int64_t kMostAtOnce = 36;              // steps: AT_ONCE
constexpr int64_t kCopiesAtOnce = 12;            // steps whose copies stay in the first level cache
constexpr int64_t kPiece = 16;                   // positions
constexpr int64_t kPackedWords = (3 << 19) / 4;  // words of packed weights, for 2 MiB of cache
constexpr int64_t kPanelWords = (1 << 20) / 4;   // words of a panel of the weight gradient
constexpr int64_t kDepth = 32;                   // steps of a panel of the weight gradient
constexpr int64_t kItemsPerTask = 4;             // balance tasks that other processes disturb
constexpr int32_t kLeastChannels = 8;            // channels of a group; fewer leave tiles empty
constexpr double kLeastWork = 1 << 20;           // multiply-adds that are worth the launches

// As in conv_channels_last_unit.cl.
struct Blocks {
  int64_t task_words = kSpareWords;
  int32_t columns = 0, positions = 0, depth = 0;
  int32_t panels = 0, parts = 0, items = 0;
  int32_t line = 1, pieces = 1, at_once = 0;
};

struct UnitKernel {
  const char* name;
  const MatrixUnit* unit;

  KernelSource source(Device&) const {
    Defines defines = element_defines(ScalarType::BFloat16);
    define_matrix_unit(defines, *unit, ScalarType::BFloat16);
    defines.set("AT_ONCE", kMostAtOnce);
    return {"conv_channels_last_unit.cl", name, defines};
  }
};

at::Tensor words(int64_t count, const at::Tensor& like) {
  return at::empty({std::max<int64_t>(count, 1)},
                   like.options().dtype(at::kInt).memory_format(std::nullopt));
}

// A launch with a task for each item, at most as many as the device has, and their scratch memory.
class Launch {
 public:
  Launch(const char* name, const at::Tensor& result)
      : result_(result), device_(ocl_device(result)), name_(name) {}

  template <typename... Arguments>
  void run(Blocks blocks, int64_t items, const Arguments&... arguments) const {
    blocks.items = c10::checked_convert<int32_t>(items, "int32");
    const int64_t tasks = std::min(few_tasks(device_), items);
    const at::Tensor counter = item_counter(stream_of(result_), result_);
    const at::Tensor scratch = words(tasks * blocks.task_words, result_);
    launch(stream_of(result_), find_kernel(device_, UnitKernel{name_, matrix_unit(device_)}),
           {static_cast<size_t>(tasks)}, {}, view(result_), arguments..., view(counter),
           view(scratch), blocks);
  }

 private:
  const at::Tensor& result_;
  Device& device_;
  const char* name_;
};

int64_t blocks_of(int64_t count) { return at::ceil_div(count, kBlock); }

// Splits `all` into parts of about `size`, so that each task has several items.
int32_t part_size(int64_t all, int64_t others, int64_t tasks, int64_t least) {
  const int64_t parts = std::max<int64_t>(1, kItemsPerTask * tasks / others);
  return static_cast<int32_t>(std::max(at::ceil_div(all, parts), std::min(all, least)));
}

// Whether each piece lies in one line of the result. If lines would leave many pieces partly empty,
// pieces go across the ends of lines instead.
bool in_lines(const ConvPass& pass) {
  return pass.size[2] * 4 >= at::round_up<int64_t>(pass.size[2], kPiece) * 3;
}

// Whether to pad the rows of the source: if lines are short, most pieces would be copied otherwise,
// because taps read pixels left and right of a line.
bool has_short_lines(const ConvPass& pass, const at::Tensor& source) {
  const Ends ends = ends_of_rows(pass);
  return in_lines(pass) && pass.size[2] <= kPiece && pass.channels > 0 && pass.tap_count[2] > 1 &&
         ends.before + ends.after <= pass.source[2] && source.numel() < INT32_MAX / 2;
}

// A pass of the forward direction or of the data gradient. `weight` has the strides of the pass.
void run_pass(ConvPass pass, const ConvCall& call, const at::Tensor& unpadded, int32_t pitch,
              const at::Tensor& weight) {
  const at::Tensor source =
      has_short_lines(pass, unpadded) ? pad_rows(pass, unpadded, pitch) : unpadded;
  const int64_t steps = blocks_of(pass.channels) * pass.taps, row_blocks = blocks_of(pass.rows);
  const at::Tensor packed = words(pass.groups * row_blocks * steps * kStepWords, weight);
  if (steps > 0) {
    Launch("pack_unit_weights", packed)
        .run({}, int64_t{pass.groups} * row_blocks * pass.taps, view(weight), pass);
  }
  const int64_t most =
      std::max<int64_t>(1, kPackedWords / std::max<int64_t>(1, steps * kStepWords));
  const int64_t panels = at::ceil_div(row_blocks, std::min(most, row_blocks));
  Blocks blocks{.columns = static_cast<int32_t>(at::ceil_div(row_blocks, panels) * kBlock)};
  blocks.panels = static_cast<int32_t>(at::ceil_div(int64_t{pass.rows}, int64_t{blocks.columns}));
  const int64_t others = int64_t{blocks.panels} * pass.groups;
  const bool by_lines = in_lines(pass);
  blocks.line = by_lines ? pass.size[2] : pass.n;
  blocks.pieces = static_cast<int32_t>(at::ceil_div(int64_t{blocks.line}, kPiece));
  blocks.at_once = static_cast<int32_t>(std::min(steps, by_lines ? kMostAtOnce : kCopiesAtOnce));
  const int64_t pieces = int64_t{pass.n / blocks.line} * blocks.pieces;
  blocks.positions = static_cast<int32_t>(
      2 * part_size(at::ceil_div(pieces, int64_t{2}), others, few_tasks(call.device), 1));
  blocks.parts = static_cast<int32_t>(at::ceil_div(pieces, int64_t{blocks.positions}));
  blocks.task_words = int64_t{blocks.at_once} * kStepWords + blocks.columns * kBlock;
  Launch("conv_unit", call.result)
      .run(blocks, others * blocks.parts, view(source), view(packed),
           view(call.bias.defined() ? call.bias : packed),
           static_cast<int32_t>(call.bias.defined()), pass, pitch, source.numel());
}

const char* refusal(const ConvCall& call) {
  const ConvShape& s = call.shape;
  if (const char* reason = refusal_of_call(call, at::kBFloat16)) return reason;
  if (s.out_channels < kLeastChannels || (s.in_channels < kLeastChannels && s.groups > 1)) {
    return "few channels of a group";
  }
  if (s.work() < kLeastWork) return "small tensors";
  return refusal_of_matrix_unit(call.device, ScalarType::BFloat16);
}

// The pass of the forward direction, and the source that it reads. With few channels, the taps of a
// row are joined (join_taps_of_rows).
std::pair<ConvPass, at::Tensor> joined_pass(const ConvCall& call, const at::Tensor& weight) {
  const ConvShape& s = call.shape;
  ConvPass pass = forward_pass(s);
  take_weights(pass, pass.weight_channel, s.in_channels, weight);
  pass.weight_channel = 1;  // with one channel, the strides are those of either format
  if (!has_few_channels(s)) return {pass, call.source};
  const at::Tensor source = pad_rows(pass, call.source, s.in_channels);
  join_taps_of_rows(pass);
  return {pass, source};
}

at::Tensor channels_last_weight(const at::Tensor& weight) {
  return weight.contiguous(weight.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                             : at::MemoryFormat::ChannelsLast);
}

void run(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const at::Tensor weight = channels_last_weight(call.factor);
  if (call.direction == ConvDirection::kForward) {
    const auto [pass, source] = joined_pass(call, weight);
    return run_pass(pass, call, source, s.groups * s.in_channels, weight);
  }
  for (ConvPass pass : call.passes()) {
    take_weights(pass, pass.weight_row, s.in_channels, weight);
    run_pass(pass, call, call.source, s.groups * s.out_channels, weight);
  }
}

void run_weight(const ConvCall& call) {
  const ConvShape& s = call.shape;
  const at::Tensor& weight = call.result;
  const auto [pass, source] = joined_pass(call, weight);
  const int64_t steps = blocks_of(pass.n), row_blocks = blocks_of(pass.rows);
  const int64_t tasks = few_tasks(call.device);
  const at::Tensor grads = words(pass.groups * row_blocks * steps * kStepWords, weight);
  Blocks pack;
  pack.depth = part_size(steps, pass.groups * row_blocks, tasks, 1);
  Launch("pack_unit_grads", grads)
      .run(pack, pass.groups * row_blocks * at::ceil_div(steps, int64_t{pack.depth}),
           view(call.factor), pass);

  const int64_t all_blocks = blocks_of(pass.channels) * pass.taps;
  Blocks blocks{.depth = static_cast<int32_t>(std::min(steps, kDepth))};
  const int64_t most = std::max<int64_t>(1, kPanelWords / (blocks.depth * kStepWords));
  int64_t panels = at::ceil_div(all_blocks, most);
  panels = std::min(all_blocks, at::round_up(panels * pass.groups, tasks) / pass.groups);
  blocks.columns = static_cast<int32_t>(at::ceil_div(all_blocks, std::max<int64_t>(1, panels)));
  blocks.panels = static_cast<int32_t>(at::ceil_div(all_blocks, int64_t{blocks.columns}));
  const int64_t others = int64_t{blocks.panels} * pass.groups;
  const int64_t parts = std::max<int64_t>(1, tasks / others);
  blocks.positions = static_cast<int32_t>(at::round_up(at::ceil_div(steps, parts), kDepth));
  blocks.parts = static_cast<int32_t>(at::ceil_div(steps, int64_t{blocks.positions}));
  blocks.task_words = int64_t{blocks.columns} * blocks.depth * kStepWords + kSpareWords;
  const at::Tensor sums =
      words(blocks.parts * pass.groups * row_blocks * all_blocks * kBlockWords, weight);
  Launch("conv_unit_weight", sums)
      .run(blocks, others * blocks.parts, view(source), view(grads), pass, s.groups * s.in_channels,
           source.numel());
  launch(stream_of(weight),
         find_kernel(call.device, UnitKernel{"unpack_unit_weights", matrix_unit(call.device)}),
         {static_cast<size_t>(pass.groups * pass.rows)}, {}, view(weight), view(sums), pass,
         blocks.parts);
}

}  // namespace

const ConvAlgorithm kConvChannelsLastUnit{
    "channels_last_unit", true, &refusal, [](const ConvCall& call) {
      return call.direction == ConvDirection::kWeightGrad ? run_weight(call) : run(call);
    }};

}  // namespace ocl

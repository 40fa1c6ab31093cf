// Launches of packed_linear_cpu.cl and packed_linear_gpu.cl.
#include "kernels/matmul/packed/packed_linear.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include <bit>

#include "backend/base/error.h"
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/algorithms/dot_bfloat16.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/matrix_units/matrix_unit.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/x_space.h"

namespace ocl {
namespace {

using at::Tensor;

// With more rows of x than this, it is faster to unpack all weights first, because the product uses
// each weight for every row. With a matrix unit the limit is lower (measured).
constexpr int64_t kMostRows = 32, kMostRowsBesideUnit = 12;

constexpr const char* kKernel = "packed_linear";  // the kernel's name in each source

// The most weights that are unpacked at once, which bounds their memory.
constexpr int64_t kMostUnpacked = int64_t{1} << 24;

struct UnpackWeights {
  ScalarType type;
  bool first_upper;
  PackedZeros zeros_are;

  KernelSource source(Device& device) const {
    Defines defines = element_defines(type);
    define_grid(defines, device);
    defines.set("FIRST_UPPER", first_upper).set("ZEROS", static_cast<int64_t>(zeros_are));
    return {"packed_unpack.cl", "unpack_weights", defines.set("VW", 8)};
  }
};

// Unpacks rows first .. first + rows - 1 of the weights to the type, [rows][k]. Does not apply the
// scales of 8-bit weights.
Tensor unpacked(const PackedWeights& w, int64_t first, int64_t rows, ScalarType type) {
  const Tensor numbers = w.numbers.narrow(0, first, rows);
  if (w.bits() == 8) return numbers.to(type);
  Device& device = ocl_device(numbers);
  const auto of_rows = [&](const Tensor& t) { return t.narrow(1, first, rows).contiguous(); };
  const Tensor scales = of_rows(w.scales).to(type);
  const Tensor zeros = w.zeros.defined() ? of_rows(w.zeros) : scales;
  const Kernel& kernel = find_kernel(device, UnpackWeights{type, w.first_upper, w.zeros_are});
  const Tensor result = at::empty({rows, w.width()}, numbers.options().dtype(type));
  const auto words = static_cast<size_t>(w.width() / 8);
  const UnitGrid grid = unit_grid(device, static_cast<size_t>(rows), words, 8);
  launch(stream_of(result), kernel, grid.global, grid.local, view(result), view(numbers),
         view(scales), view(zeros), static_cast<uint64_t>(rows), uint64_t{words},
         static_cast<uint64_t>(w.group / 8), grid.per_item);
  return result;
}

struct PackedCall {
  Device& device;
  const Tensor& x;
  const PackedWeights& w;  // contiguous
  Tensor& out;             // an algorithm sets it

  int64_t m() const { return x.size(0); }
};

std::string describe(const PackedCall& call) {
  return str("product with weights of ", call.w.bits(), " bits, ", call.x.scalar_type(), ", ",
             call.m(), "x", call.w.width(), " by ", call.w.width(), "x", call.w.rows());
}

const char* refusal_of_packed(const PackedCall& call) {
  const PackedWeights& w = call.w;
  const bool by_unit = call.device.family() == KernelFamily::kCpu &&
                       multiplies_bfloat16(call.device, call.x.scalar_type()) &&
                       !refusal_of_matrix_unit(call.device, ScalarType::BFloat16);
  if (call.m() > (by_unit ? kMostRowsBesideUnit : kMostRows)) {
    return "each weight would be unpacked for many rows";
  }
  if (compute_type(call.x.scalar_type()) != ScalarType::Float) return "no kernel for the type";
  if (w.width() == 0) return "nothing to add";
  return w.rows() > INT32_MAX || w.width() > INT32_MAX ? "sizes have 32 bits" : nullptr;
}

// Unpacks the weights, then multiplies. For weights of 8 bits, the scales are applied to the
// product before it is rounded, because float16 and bfloat16 cannot hold scaled weights. CPU
// devices use float32 even if x is narrower, because they would convert narrower weights again,
// unless they multiply bfloat16 itself.
void run_unpacked(const PackedCall& call) {
  const auto& [device, x, w, result] = call;
  const ScalarType wide = compute_type(x.scalar_type());
  const bool pairs = multiplies_bfloat16(device, x.scalar_type());
  const bool widens = !pairs && (device.family() == KernelFamily::kCpu || w.bits() == 8);
  const ScalarType type = widens ? wide : x.scalar_type();
  const Tensor rows = x.to(type);
  Tensor out = at::empty({x.size(0), w.rows()}, x.options().dtype(w.bits() == 8 ? wide : type));
  const int64_t most = std::max<int64_t>(kMostUnpacked / std::max<int64_t>(w.width(), 1), 1);
  for (int64_t first = 0; first < w.rows(); first += most) {
    const int64_t count = std::min(most, w.rows() - first);
    gemm(out.narrow(1, first, count), rows, unpacked(w, first, count, type).t(), 1, {}, 0);
  }
  if (w.bits() == 8) out.mul_(w.scales);
  result = out.to(x.scalar_type());
}

// Parameters that the sources of packed_linear have in both families.
struct PackedCode {
  ScalarType type;
  uint8_t bits;
  bool first_upper;
  PackedZeros zeros_are;
  int32_t lanes, x_rows;

  Defines defines() const {
    return element_defines(type)
        .set("BITS", bits)
        .set("FIRST_UPPER", first_upper)
        .set("ZEROS", static_cast<int64_t>(zeros_are))
        .set("VW", lanes)
        .set("MR", x_rows);
  }
};

PackedCode packed_code(const Tensor& x, const PackedWeights& w, int32_t lanes, int32_t x_rows) {
  const auto bits = static_cast<uint8_t>(w.bits());
  return {x.scalar_type(), bits, w.first_upper, w.zeros_are, lanes, x_rows};
}

// Makes the result, and adds the arguments that all kernels have. `x`: the call's x with dense
// rows.
Arguments begin_launch(const PackedCall& call, const Tensor& x, const Kernel& kernel) {
  const PackedWeights& w = call.w;
  call.out = at::empty({call.m(), w.rows()}, x.options().memory_format(std::nullopt));
  Arguments arguments(stream_of(x), kernel);
  arguments.add(view(call.out))
      .add(view(x))
      .add(view(w.numbers))
      .add(view(w.scales))
      .add(view(w.zeros.defined() ? w.zeros : w.scales))
      .add(static_cast<int32_t>(x.size(0)))
      .add(static_cast<int32_t>(w.rows()))
      .add(static_cast<int32_t>(w.width()))
      .add(static_cast<int32_t>(w.group))
      .add(x.stride(0));
  return arguments;
}

// For packed_vector4_cpu.cl: MOST_WEIGHTS, and the most bytes that its arrays take.
constexpr int64_t kMostWeights = 4096;
constexpr size_t kLocalMemory = 40 << 10;

// A group is a multiple of two vectors of 4-bit weights.
int64_t cpu_lanes(const Device& device) {
  return std::clamp<int64_t>(static_cast<int64_t>(vector_lanes(device, ScalarType::Float)), 4, 16);
}

const char* refusal_of_rows(const PackedCall& call) {
  if (call.device.family() != KernelFamily::kCpu) return "for CPU devices";
  return refusal_of_packed(call);
}

const char* refusal_of_vector(const PackedCall& call, int64_t bits) {
  if (const char* const reason = refusal_of_rows(call)) return reason;
  if (call.m() != 1) return "for one row of x";
  return call.w.bits() == bits ? nullptr : "for weights of another width";
}

const char* refusal_of_vector8(const PackedCall& call) { return refusal_of_vector(call, 8); }

const char* refusal_of_vector4(const PackedCall& call) {
  if (const char* const reason = refusal_of_vector(call, 4)) return reason;
  const PackedWeights& w = call.w;
  const int64_t weights = 8 * cpu_lanes(call.device);  // weights in a vector of words
  if (call.device.properties().local_memory < kLocalMemory) return "too little local memory";
  if (w.width() % weights != 0) return "the width is no multiple of a vector";
  if (4 * w.group < weights) return "groups are shorter than a vector";
  if (w.group > kMostWeights) return "groups are too long";
  return view(w.numbers).offset % sizeof(uint32_t) == 0 ? nullptr : "weights are not aligned";
}

struct PackedCpu {
  PackedCode code;
  bool vector, pairs;
  int64_t group, x_space;  // for one row with weights of 4 and of 8 bits; else 0
  int64_t rows;

  KernelSource source(Device&) const {
    Defines defines = code.defines();
    if (group) {
      defines.set("GROUP", group).set("PAIRS", pairs);
      return {"packed_vector4_cpu.cl", kKernel, defines};
    }
    if (vector) return {"packed_vector8_cpu.cl", kKernel, defines.set("X_SPACE", x_space)};
    return {"packed_linear_cpu.cl", kKernel, defines.set("NR", rows)};
  }
};

// `vector`: there is one row of x.
void run_cpu(const PackedCall& call, bool vector) {
  const auto& [device, x, w, result] = call;
  // The most rows whose sums stay in registers.
  const int64_t x_rows = x.size(0) == 1 ? 1 : x.size(0) == 2 ? 2 : 4;
  const int64_t lanes = cpu_lanes(device);
  const bool groups = vector && w.bits() == 4;  // their size is part of the kernel
  const bool pairs = groups && multiplies_bfloat16(device, x.scalar_type());
  const int64_t rows = groups ? 32 : x_rows == 4 ? 2 : 4;
  const int64_t space = vector && !groups ? space_of_x(device, x.scalar_type(), w.width()) : 0;
  const Kernel& kernel = find_kernel(device, PackedCpu{packed_code(x, w, lanes, x_rows), vector,
                                                       pairs, groups ? w.group : 0, space, rows});
  const auto most = static_cast<int64_t>(device.parameters().tasks);
  const int64_t tasks = std::clamp<int64_t>(w.rows() * w.width() / 16384, 1, most);
  const int64_t rows_per_task = at::round_up(at::ceil_div(w.rows(), tasks), rows);
  const Tensor dense = with_dense_rows(x);
  Arguments arguments = begin_launch(call, dense, kernel);
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>(at::ceil_div(w.rows(), rows_per_task)),
                static_cast<size_t>(at::ceil_div(x.size(0), x_rows))},
               {});
}

// The weights of a vector: 8 bytes, if rows and groups consist of whole vectors. With 16 bytes, the
// unpacked floats would not fit into a GPU's registers.
int64_t gpu_lanes(const PackedWeights& w) {
  const int64_t whole = w.zeros_are == PackedZeros::kNone ? w.width() : w.group / 2;
  return whole % 8 == 0 ? 8 : 4;
}

const char* refusal_of_gpu(const PackedCall& call) {
  if (call.device.family() != KernelFamily::kGpu) return "for GPUs";
  return refusal_of_packed(call);
}

struct PackedGpu {
  PackedCode code;
  bool aligned;
  int64_t sharing;  // the most work-items for a row
  int64_t rows;     // rows of a work-item

  KernelSource source(Device&, size_t group) const {
    const auto items = static_cast<int64_t>(group), across = std::min(sharing, items);
    Defines defines = code.defines();
    defines.set("LANES", across).set("ROWS", items / across).set("NR", rows);
    if (aligned) defines.set("ALIGNED", 1);
    return {"packed_linear_gpu.cl", kKernel, defines};
  }
};

void run_gpu(const PackedCall& call) {
  const auto& [device, x, w, result] = call;
  const int64_t x_rows = x.size(0) == 1 ? 1 : 4, lanes = gpu_lanes(w);
  const int64_t blocks = w.width() * w.bits() / 8 / lanes;
  // The number of work-items that share a row.
  const auto wanted = static_cast<int64_t>(
      std::clamp<uint64_t>(std::bit_floor(static_cast<uint64_t>(blocks)), 4, 64));
  const BufferView weights = view(w.numbers);
  const bool aligned = weights.offset % lanes == 0 && w.width() * w.bits() / 8 % lanes == 0;
  // Rows per work-item: as many as leave four groups for each compute unit.
  const auto enough = static_cast<int64_t>(4 * device.properties().max_compute_units *
                                           device.parameters().work_group_size);
  const int64_t items_of_rows = w.rows() * wanted * at::ceil_div(x.size(0), x_rows);
  const auto rows_of_item = static_cast<int64_t>(std::clamp<uint64_t>(
      std::bit_floor(static_cast<uint64_t>(items_of_rows / enough)), 1, x_rows == 1 ? 4 : 2));
  const Kernel& kernel = find_kernel(
      device, PackedGpu{packed_code(x, w, lanes, x_rows), aligned, wanted, rows_of_item});
  const auto items = static_cast<int64_t>(kernel.group);
  const int64_t sharing = std::min(wanted, items), rows = items / sharing;
  const Tensor dense = with_dense_rows(x);
  Arguments arguments = begin_launch(call, dense, kernel);
  const auto across = static_cast<size_t>(sharing), along = static_cast<size_t>(rows);
  const auto groups = static_cast<size_t>(at::ceil_div(w.rows(), rows * rows_of_item));
  arguments.enqueue({across, along * groups, static_cast<size_t>(at::ceil_div(x.size(0), x_rows))},
                    {across, along, 1}, static_cast<double>(x.size(0)) * w.rows() * w.width());
}

constexpr Algorithm<PackedCall> kAlgorithms[] = {
    {"packed_vector4", refusal_of_vector4, [](const PackedCall& call) { run_cpu(call, true); }},
    {"packed_vector8", refusal_of_vector8, [](const PackedCall& call) { run_cpu(call, true); }},
    {"packed_rows", refusal_of_rows, [](const PackedCall& call) { run_cpu(call, false); }},
    {"packed_gpu", refusal_of_gpu, run_gpu},
    {"unpacked", nullptr, run_unpacked},
};

}  // namespace

Tensor packed_linear(const Tensor& x, const PackedWeights& weights) {
  PackedWeights dense = weights;
  dense.numbers = weights.numbers.contiguous();
  dense.scales = weights.scales.to(x.scalar_type()).contiguous();
  if (weights.zeros.defined()) dense.zeros = weights.zeros.contiguous();
  if (x.size(0) == 0 || weights.rows() == 0) {
    return at::empty({x.size(0), weights.rows()}, x.options().memory_format(std::nullopt));
  }
  Tensor out;
  run_first(kAlgorithms, PackedCall{ocl_device(x), x, dense, out});
  return out;
}

}  // namespace ocl

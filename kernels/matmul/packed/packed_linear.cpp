// Launches of packed_linear_cpu.cl and packed_linear_gpu.cl.
#include "kernels/matmul/packed/packed_linear.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include <bit>

#include "kernels/core/dot_bfloat16.h"
#include "kernels/core/dtype.h"
#include "kernels/core/grid.h"
#include "kernels/core/tensors.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/x_space.h"

namespace ocl {
namespace {

using at::Tensor;

// With more rows of x, it is faster to unpack all weights to floats first, since the product uses
// each of them for every row.
constexpr int64_t kMostRows = 32;

constexpr const char* kKernel = "packed_linear";  // of each source

// Unpacked weights of a product. More are unpacked in parts, which bounds their memory.
constexpr int64_t kMostUnpacked = int64_t{1} << 24;

// Rows first .. first + rows - 1 of the weights as numbers of the type, [rows][k]. The scales of
// 8-bit weights are left out.
Tensor unpacked(const PackedWeights& w, int64_t first, int64_t rows, ScalarType type) {
  const Tensor numbers = w.numbers.narrow(0, first, rows);
  if (w.bits() == 8) return numbers.to(type);
  Device& device = ocl_device(numbers);
  const auto of_rows = [&](const Tensor& t) { return t.narrow(1, first, rows).contiguous(); };
  const Tensor scales = of_rows(w.scales).to(type);
  const Tensor zeros = w.zeros.defined() ? of_rows(w.zeros) : scales;
  static Site site;
  const KernelKey key{
      &site,
      {static_cast<uint64_t>(type), static_cast<uint64_t>(w.zeros_are), uint64_t{w.first_upper}}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = element_defines(type);
    define_grid(defines, device);
    defines.set("FIRST_UPPER", w.first_upper).set("ZEROS", static_cast<int64_t>(w.zeros_are));
    return KernelSource{"packed_unpack.cl", "unpack_weights", defines.set("VW", 8)};
  });
  const Tensor result = at::empty({rows, w.width()}, numbers.options().dtype(type));
  const auto words = static_cast<size_t>(w.width() / 8);
  const UnitGrid grid = unit_grid(device, static_cast<size_t>(rows), words, 8);
  launch(stream_of(result), kernel, grid.global, grid.local, view(result), view(numbers),
         view(scales), view(zeros), static_cast<uint64_t>(rows), uint64_t{words},
         static_cast<uint64_t>(w.group / 8), grid.per_item);
  return result;
}

// The product with weights that are unpacked first. Weights of 8 bits are scaled after the product,
// before it is rounded, since float16 and bfloat16 do not hold them scaled. Where x is narrower
// than float32, CPU devices would convert narrower weights again: they take float32, unless they
// multiply bfloat16 itself.
Tensor product_unpacked(const Tensor& x, const PackedWeights& w) {
  Device& device = ocl_device(x);
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
  return out.to(x.scalar_type());
}

Defines packed_defines(const Tensor& x, const PackedWeights& w, int64_t lanes, int64_t x_rows) {
  Defines defines = element_defines(x.scalar_type());
  defines.set("BITS", w.bits())
      .set("FIRST_UPPER", w.first_upper)
      .set("ZEROS", static_cast<int64_t>(w.zeros_are))
      .set("VW", lanes)
      .set("MR", x_rows);
  return defines;
}

uint64_t packed_key(const Tensor& x, const PackedWeights& w, int64_t x_rows) {
  return static_cast<uint64_t>(x.scalar_type()) << 16 | static_cast<uint64_t>(x_rows) << 8 |
         static_cast<uint64_t>(w.bits()) << 4 | static_cast<uint64_t>(w.zeros_are) << 1 |
         uint64_t{w.first_upper};
}

void add_arguments(Arguments& arguments, const Tensor& out, const Tensor& x,
                   const PackedWeights& w) {
  arguments.add(view(out))
      .add(view(x))
      .add(view(w.numbers))
      .add(view(w.scales))
      .add(view(w.zeros.defined() ? w.zeros : w.scales))
      .add(static_cast<int32_t>(x.size(0)))
      .add(static_cast<int32_t>(w.rows()))
      .add(static_cast<int32_t>(w.width()))
      .add(static_cast<int32_t>(w.group))
      .add(x.stride(0));
}

// Of packed_vector4_cpu.cl: MOST_WEIGHTS, and what its arrays take at most.
constexpr int64_t kMostWeights = 4096;
constexpr size_t kLocalMemory = 40 << 10;

// Whether packed_vector4_cpu.cl or packed_vector8_cpu.cl applies.
bool has_vector_kernel(const Device& device, const Tensor& x, const PackedWeights& w,
                       int64_t lanes) {
  if (x.size(0) != 1) return false;
  if (w.bits() == 8) return true;
  const int64_t weights = 8 * lanes;  // of a vector of words
  return device.properties().local_memory >= kLocalMemory && w.width() % weights == 0 &&
         4 * w.group >= weights && w.group <= kMostWeights &&
         view(w.numbers).offset % sizeof(uint32_t) == 0;
}

void run_cpu(Device& device, const Tensor& out, const Tensor& x, const PackedWeights& w) {
  // With this many rows, the sums stay in registers.
  const int64_t x_rows = x.size(0) == 1 ? 1 : x.size(0) == 2 ? 2 : 4;
  // A group is a multiple of two vectors of 4-bit weights.
  const auto lanes =
      std::clamp<int64_t>(static_cast<int64_t>(vector_lanes(device, ScalarType::Float)), 4, 16);
  const bool vector = has_vector_kernel(device, x, w, lanes);
  const bool groups = vector && w.bits() == 4;  // their size is part of the kernel
  const bool pairs = groups && multiplies_bfloat16(device, x.scalar_type());
  const int64_t rows = groups ? 32 : x_rows == 4 ? 2 : 4;
  const int64_t space = space_of_x(device, x.scalar_type(), w.width());
  static Site site;
  const KernelKey key{
      &site,
      {packed_key(x, w, x_rows), static_cast<uint64_t>(groups ? w.group : vector),
       static_cast<uint64_t>(vector && !groups ? space : 0) << 1 | uint64_t{pairs}}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = packed_defines(x, w, lanes, x_rows);
    if (groups) {
      defines.set("GROUP", w.group).set("PAIRS", pairs);
      return KernelSource{"packed_vector4_cpu.cl", kKernel, defines};
    }
    if (vector) {
      return KernelSource{"packed_vector8_cpu.cl", kKernel, defines.set("X_SPACE", space)};
    }
    return KernelSource{"packed_linear_cpu.cl", kKernel, defines.set("NR", rows)};
  });
  const auto most = static_cast<int64_t>(device.parameters().tasks);
  const int64_t tasks = std::clamp<int64_t>(w.rows() * w.width() / 16384, 1, most);
  const int64_t rows_per_task = at::round_up(at::ceil_div(w.rows(), tasks), rows);
  Arguments arguments(stream_of(out), kernel);
  add_arguments(arguments, out, x, w);
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>(at::ceil_div(w.rows(), rows_per_task)),
                static_cast<size_t>(at::ceil_div(x.size(0), x_rows))},
               {});
}

// Weights of a vector: 8 bytes at a time, where rows and groups have whole vectors. With 16, the
// floats that they become do not fit into the registers of GPUs.
int64_t gpu_lanes(const PackedWeights& w) {
  const int64_t whole = w.zeros_are == PackedZeros::kNone ? w.width() : w.group / 2;
  return whole % 8 == 0 ? 8 : 4;
}

void run_gpu(Device& device, const Tensor& out, const Tensor& x, const PackedWeights& w) {
  const int64_t x_rows = x.size(0) == 1 ? 1 : 4, lanes = gpu_lanes(w);
  const int64_t blocks = w.width() * w.bits() / 8 / lanes;
  // Work-items that share a row.
  const auto wanted = static_cast<int64_t>(
      std::clamp<uint64_t>(std::bit_floor(static_cast<uint64_t>(blocks)), 4, 64));
  const BufferView weights = view(w.numbers);
  const bool aligned = weights.offset % lanes == 0 && w.width() * w.bits() / 8 % lanes == 0;
  // Rows of a work-item, as long as there are four groups for each unit.
  const auto enough = static_cast<int64_t>(4 * device.properties().max_compute_units *
                                           device.parameters().work_group_size);
  const int64_t items_of_rows = w.rows() * wanted * at::ceil_div(x.size(0), x_rows);
  const auto rows_of_item = static_cast<int64_t>(std::clamp<uint64_t>(
      std::bit_floor(static_cast<uint64_t>(items_of_rows / enough)), 1, x_rows == 1 ? 4 : 2));
  static Site site;
  const KernelKey key{
      &site,
      {packed_key(x, w, x_rows),
       static_cast<uint64_t>(wanted << 16 | lanes << 8 | rows_of_item << 1) | uint64_t{aligned},
       0}};
  const Kernel& kernel = find_kernel(device, key, [&](size_t group) {
    const auto items = static_cast<int64_t>(group), sharing = std::min(wanted, items);
    Defines defines = packed_defines(x, w, lanes, x_rows);
    defines.set("LANES", sharing).set("ROWS", items / sharing).set("NR", rows_of_item);
    if (aligned) defines.set("ALIGNED", 1);
    return KernelSource{"packed_linear_gpu.cl", kKernel, defines};
  });
  const auto items = static_cast<int64_t>(kernel.group);
  const int64_t sharing = std::min(wanted, items), rows = items / sharing;
  Arguments arguments(stream_of(out), kernel);
  add_arguments(arguments, out, x, w);
  const auto across = static_cast<size_t>(sharing), along = static_cast<size_t>(rows);
  const auto groups = static_cast<size_t>(at::ceil_div(w.rows(), rows * rows_of_item));
  arguments.enqueue({across, along * groups, static_cast<size_t>(at::ceil_div(x.size(0), x_rows))},
                    {across, along, 1}, static_cast<double>(x.size(0)) * w.rows() * w.width());
}

}  // namespace

Tensor packed_linear(const Tensor& x, const PackedWeights& weights) {
  const int64_t m = x.size(0);
  const bool has_kernel = compute_type(x.scalar_type()) == ScalarType::Float &&
                          weights.rows() <= INT32_MAX && weights.width() <= INT32_MAX;
  PackedWeights dense = weights;
  dense.numbers = weights.numbers.contiguous();
  dense.scales = weights.scales.to(x.scalar_type()).contiguous();
  if (weights.zeros.defined()) dense.zeros = weights.zeros.contiguous();
  if (m > kMostRows || !has_kernel || weights.width() == 0) return product_unpacked(x, dense);
  Tensor out = at::empty({m, weights.rows()}, x.options().memory_format(std::nullopt));
  if (out.numel() == 0) return out;
  const Tensor rows = x.stride(1) == 1 ? x : x.contiguous();
  Device& device = ocl_device(x);
  if (device.family() == KernelFamily::kGpu) {
    run_gpu(device, out, rows, dense);
  } else {
    run_cpu(device, out, rows, dense);
  }
  return out;
}

}  // namespace ocl

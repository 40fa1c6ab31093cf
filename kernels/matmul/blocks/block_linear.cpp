// Linear layers whose weights stay in the blocks of a GGUF file (torch_ocl/gguf.py).
#include <ATen/DeviceGuard.h>
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>

#include "backend/queue/fault.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

using at::Tensor;

constexpr int64_t kPart = 32;  // weights of a part

// A layout of ggml, with ggml's number for it.
struct BlockLayout {
  int64_t number;
  const char* name;
  int64_t parts, bytes;  // PARTS and BLOCK_BYTES of weight_blocks.clh
};

constexpr BlockLayout kLayouts[] = {{2, "Q4_0", 1, 18},   {3, "Q4_1", 1, 20},
                                    {8, "Q8_0", 1, 34},   {12, "Q4_K", 8, 144},
                                    {13, "Q5_K", 8, 176}, {14, "Q6_K", 8, 210}};

const BlockLayout& layout_of(const char* op, int64_t number) {
  const auto* const found = std::ranges::find(kLayouts, number, &BlockLayout::number);
  TORCH_CHECK_NOT_IMPLEMENTED(found != std::end(kLayouts), op, ": no kernel reads ggml type ",
                              number, "; torch_ocl.gguf.GEMV_TYPES lists those that one reads");
  return *found;
}

// Checks weights [..][n][bytes of a row].
struct Blocks {
  const BlockLayout& layout;
  Tensor bytes;

  int64_t parts() const { return bytes.size(-1) / layout.bytes * layout.parts; }
  int64_t width() const { return parts() * kPart; }
  int64_t rows() const { return bytes.size(-2); }
};

// Scales are two-byte numbers, which must be aligned.
Blocks blocks_of(const char* op, const Tensor& bytes, int64_t dims, int64_t type) {
  const BlockLayout& layout = layout_of(op, type);
  TORCH_CHECK(bytes.dim() == dims && bytes.scalar_type() == ScalarType::Byte &&
                  bytes.size(-1) % layout.bytes == 0,
              op, ": expected rows of ", layout.name, " blocks of ", layout.bytes,
              " bytes as uint8 with ", dims, " dimensions, but got ", bytes.scalar_type(),
              " of shape ", bytes.sizes());
  Tensor dense = bytes.contiguous();
  if (view(dense).offset % 2 != 0) dense = dense.clone();
  return {layout, dense};
}

void check_floats(const char* op, ScalarType type) {
  TORCH_CHECK(compute_type(type) == ScalarType::Float, op,
              ": expected float32, float16 or bfloat16, but got ", type);
}

struct BlockRows {
  ScalarType type;
  const char* layout;

  KernelSource source(Device& device) const {
    Defines defines = element_defines(type);
    define_grid(defines, device);
    return {"block_rows.cl", "block_rows", defines.set(layout, 1)};
  }
};

// [n][k] of the type.
Tensor gguf_rows(const Tensor& bytes, int64_t type, ScalarType dtype) {
  constexpr const char* kOp = "gguf_rows";
  const c10::OptionalDeviceGuard guard(bytes.device());
  const Blocks blocks = blocks_of(kOp, bytes, 2, type);
  check_floats(kOp, dtype);
  Tensor out = at::empty({blocks.rows(), blocks.width()}, bytes.options().dtype(dtype));
  if (out.numel() == 0) return out;
  Device& device = ocl_device(bytes);
  const auto rows = static_cast<size_t>(blocks.rows()), parts = static_cast<size_t>(blocks.parts());
  const UnitGrid grid = unit_grid(device, rows, parts, kPart);
  launch(stream_of(out), find_kernel(device, BlockRows{dtype, blocks.layout.name}), grid.global,
         grid.local, view(out), view(blocks.bytes), uint64_t{rows}, uint64_t{parts}, grid.per_item);
  return out;
}

// The number of a GPU's work-items that share a row of weights.
int64_t lanes_of(int64_t parts) {
  return static_cast<int64_t>(
      std::clamp<uint64_t>(std::bit_ceil(static_cast<uint64_t>(parts)), 4, 64));
}

struct BlockLinear {
  ScalarType type;
  const char* layout;
  int64_t x_rows, lanes;
  bool experts;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = element_defines(type);
    defines.set(layout, 1).set("MR", x_rows).set("EXPERTS", experts);
    if (device.family() == KernelFamily::kCpu) {
      return {"block_linear_cpu.cl", "block_linear", defines};
    }
    const auto items = static_cast<int64_t>(group), across = std::min(lanes, items);
    defines.set("LANES", across).set("ROWS", items / across);
    return {"block_linear_gpu.cl", "block_linear", defines};
  }
};

// The experts that each row chooses: ids [rows of x][choices], of int64.
struct Choice {
  const Tensor& ids;
  int64_t experts;
};

FaultArgument expert_fault() {
  static const int site =
      fault_site({"ocl::gguf_linear_of_experts", FaultClass::kRuntime, "expert", "experts"});
  return FaultArgument{site};
}

// `out`: [m][n], contiguous.
void multiply(const Tensor& out, const Tensor& x, const Blocks& blocks, const Choice* choice) {
  if (out.numel() == 0) return;
  if (blocks.parts() == 0) {
    out.zero_();
    return;
  }
  TORCH_CHECK(
      blocks.rows() <= INT32_MAX && blocks.parts() <= INT32_MAX / kPart && out.size(0) <= INT32_MAX,
      "gguf_linear: ", out.sizes(), " numbers from rows of ", blocks.width(),
      " weights: kernels count in 32 bits");
  Device& device = ocl_device(x);
  const int64_t m = out.size(0), n = blocks.rows();
  const int64_t x_rows = choice || m == 1 ? 1 : m == 2 ? 2 : 4;
  const int64_t wanted = lanes_of(blocks.parts());
  const Kernel& kernel = find_kernel(
      device, BlockLinear{x.scalar_type(), blocks.layout.name, x_rows, wanted, choice != nullptr});
  Arguments arguments(stream_of(x), kernel);
  arguments.add(view(out)).add(view(x)).add(view(blocks.bytes));
  if (choice) arguments.add(view(choice->ids));
  arguments.add(static_cast<int32_t>(m)).add(static_cast<int32_t>(n));
  arguments.add(static_cast<int32_t>(blocks.parts())).add(x.stride(0));
  if (choice) {
    arguments.add(static_cast<int32_t>(choice->ids.size(1)));
    arguments.add(static_cast<int32_t>(choice->experts)).add(expert_fault());
  }
  const auto across = static_cast<size_t>(at::ceil_div(m, x_rows));
  if (device.family() == KernelFamily::kCpu) {
    const auto most = static_cast<int64_t>(device.parameters().tasks);
    const int64_t tasks = std::clamp<int64_t>(n * blocks.width() / 16384, 1, most);
    const int64_t rows_per_task = at::ceil_div(n, tasks);
    arguments.add(static_cast<int32_t>(rows_per_task));
    arguments.enqueue({static_cast<size_t>(at::ceil_div(n, rows_per_task)), across}, {});
  } else {
    const size_t lanes = std::min(static_cast<size_t>(wanted), kernel.group);
    const size_t rows = kernel.group / lanes;
    arguments.enqueue({lanes, at::round_up(static_cast<size_t>(n), rows), across}, {lanes, rows, 1},
                      static_cast<double>(m) * n * blocks.width());
  }
}

void check_width(const char* op, const Tensor& x, const Blocks& blocks) {
  TORCH_CHECK(x.dim() == 2 && x.size(1) == blocks.width(), op, ": expected a matrix with rows of ",
              blocks.width(), " numbers, as many as weights, but got shape ", x.sizes());
  TORCH_CHECK(x.device() == blocks.bytes.device(), op, ": x is on ", x.device(),
              ", but the weights are on ", blocks.bytes.device());
  check_floats(op, x.scalar_type());
}

Tensor gguf_linear(const Tensor& x, const Tensor& bytes, int64_t type) {
  constexpr const char* kOp = "gguf_linear";
  const c10::OptionalDeviceGuard guard(x.device());
  const Blocks blocks = blocks_of(kOp, bytes, 2, type);
  check_width(kOp, x, blocks);
  Tensor out = at::empty({x.size(0), blocks.rows()}, x.options());
  multiply(out, with_dense_rows(x), blocks, nullptr);
  return out;
}

Tensor gguf_linear_of_experts(const Tensor& x, const Tensor& bytes, const Tensor& ids,
                              int64_t type) {
  constexpr const char* kOp = "gguf_linear_of_experts";
  const c10::OptionalDeviceGuard guard(x.device());
  const Blocks blocks = blocks_of(kOp, bytes, 3, type);
  check_width(kOp, x, blocks);
  TORCH_CHECK(ids.dim() == 2 && ids.size(0) == x.size(0) && ids.device() == x.device(), kOp,
              ": expected experts for each of ", x.size(0), " rows on ", x.device(),
              ", but got shape ", ids.sizes(), " on ", ids.device());
  TORCH_CHECK_TYPE(at::isIntegralType(ids.scalar_type(), /*includeBool=*/false), kOp,
                   ": expected integers as experts, but got ", ids.scalar_type());
  const Tensor chosen = ids.to(ScalarType::Long).contiguous();
  const Choice choice{chosen, bytes.size(0)};
  Tensor out = at::empty({ids.numel(), blocks.rows()}, x.options());
  multiply(out, with_dense_rows(x), blocks, &choice);
  return out.view({ids.size(0), ids.size(1), blocks.rows()});
}

}  // namespace
}  // namespace ocl

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("gguf_rows(Tensor blocks, int type, ScalarType dtype) -> Tensor");
  m.def("gguf_linear(Tensor x, Tensor blocks, int type) -> Tensor");
  m.def("gguf_linear_of_experts(Tensor x, Tensor blocks, Tensor ids, int type) -> Tensor");
}

TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) {
  m.impl("gguf_rows", TORCH_FN(ocl::gguf_rows));
  m.impl("gguf_linear", TORCH_FN(ocl::gguf_linear));
  m.impl("gguf_linear_of_experts", TORCH_FN(ocl::gguf_linear_of_experts));
}

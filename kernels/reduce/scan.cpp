// Cumulative operators along a dimension.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ceil_div.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <bit>
#include <cmath>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/operators/relations.h"
#include "kernels/core/tensors/extent.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/scan.h"

namespace ocl {
namespace {

constexpr size_t kLanes = 64;  // the most columns of a task
constexpr size_t kCpuPart = 8192, kGpuPart = 64;
constexpr size_t kItemsOfUnit = 512;    // work-items that keep a GPU's compute unit busy
constexpr int64_t kTotalBytes = 32;     // the largest State of scan.clh
constexpr size_t kLongGpuPart = 32768;  // a desktop's GPU is reset if a launch takes seconds

struct Scan {
  const char *name, *define;
  bool positions = false;
  size_t cost = 1;  // cost of an element, in additions
};
constexpr Scan kSum{"cumsum", "SUM"}, kProduct{"cumprod", "PRODUCT"},
    kLogSum{"logcumsumexp", "LOG_SUM", false, 16}, kMaximum{"cummax", "MAXIMUM", true, 2},
    kMinimum{"cummin", "MINIMUM", true, 2};

// The type of the running result. Floating-point numbers are added in double precision as on the
// CPU, if that is cheap on the device.
ScalarType state_type(const Device& device, const Scan& scan, ScalarType type) {
  const ScalarType compute = compute_type(type);
  if (scan.positions || device.family() != KernelFamily::kCpu || !device.properties().has_fp64) {
    return compute;
  }
  if (compute == ScalarType::Float) return ScalarType::Double;
  return compute == ScalarType::ComplexFloat ? ScalarType::ComplexDouble : compute;
}

struct ScanColumns {
  const char* kernel;
  const Scan* scan;
  ScalarType type;
  size_t lanes;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(state_type(device, *scan, type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("OUT", dtype_name(type)).set(scan->define, 1);
    defines.set("LANES", static_cast<int64_t>(lanes));
    return {"scan.cl", kernel, defines};
  }
};

// On GPUs, work-groups scan rows of at least kGroupRow elements. Fewer than kFewColumns columns of
// at least kFewColumnsRows elements are transposed to rows first.
constexpr uint64_t kGroupRow = 64, kFewColumns = 16, kFewColumnsRows = 4096;
constexpr size_t kPerItem = 4;      // PER of scan_rows_gpu.cl
constexpr size_t kTilesOfPart = 4;  // the fewest tiles of a part

bool takes_groups(const Device& device, const Scan& scan, ScalarType type, uint64_t size) {
  return device.family() == KernelFamily::kGpu && size >= kGroupRow &&
         !(&scan == &kProduct && c10::isComplexType(type));
}

struct ScanRows {
  const char* kernel;
  const Scan* scan;
  ScalarType type;
  size_t wanted;  // the most work-items of a group

  KernelSource source(Device& device, size_t group) const {
    const ScalarType state = state_type(device, *scan, type);
    Defines defines = compute_defines(state);
    defines.set("IN", dtype_name(type)).set("OUT", dtype_name(type)).set(scan->define, 1);
    defines.set("ITEMS", static_cast<int64_t>(std::min(group, wanted)));
    if (scan == &kProduct && c10::isFloatingType(state)) {
      // The range of exponents of the type in which the CPU multiplies: float for 16 bits, else
      // double.
      const bool narrow = type == ScalarType::Half || type == ScalarType::BFloat16;
      defines.set("SCALED", 1);
      defines.set("MAX_EXPONENT", narrow ? 128 : 1024).set("MIN_EXPONENT", narrow ? -149 : -1074);
    }
    return {"scan_rows_gpu.cl", kernel, defines};
  }
};

// Whether the parts of a row can be scanned in parallel. A part's product does not show whether the
// running product became zero or infinite inside of the part, and stayed so. So one thread of a CPU
// computes a long product of real numbers; on GPUs one group does, or one work-item for each
// column.
bool may_split(const Scan& scan, ScalarType type) {
  return &scan != &kProduct || c10::isIntegralType(type, /*includeBool=*/true);
}

// The work of a launch for Arguments::enqueue(). Each element is loaded and stored.
double work_of(const Scan& scan, const at::Tensor& in) {
  return 4.0 * static_cast<double>(scan.cost) * static_cast<double>(in.numel());
}

// The scan along rows of a contiguous tensor.
void launch_row_scan(const Scan& scan, const at::Tensor& in, const at::Tensor& out,
                     const at::Tensor& positions, uint64_t rows, uint64_t size) {
  Device& device = ocl_device(in);
  const size_t wanted = std::clamp<size_t>(std::bit_ceil(size / kPerItem), kFewItemsGroup, 256);
  const Kernel& kernel =
      find_kernel(device, ScanRows{"scan_rows", &scan, in.scalar_type(), wanted});
  const size_t items = std::min(kernel.group, wanted), tile = items * kPerItem;
  const uint64_t wanted_parts =
      may_split(scan, in.scalar_type()) ? parts_for(device, rows, size, tile * kTilesOfPart) : 1;
  const uint64_t share = at::round_up<uint64_t>(at::ceil_div(size, wanted_parts), tile);
  const uint64_t parts = at::ceil_div(size, share), groups = rows * parts;
  Stream& stream = stream_of(in);
  at::Tensor totals = in;  // not used
  if (parts > 1) {
    totals = at::empty({static_cast<int64_t>(groups) * kTotalBytes},
                       in.options().dtype(ScalarType::Byte));
    const Kernel& reduce =
        find_kernel(device, ScanRows{"scan_row_totals", &scan, in.scalar_type(), wanted});
    const size_t reducing = std::min(reduce.group, wanted);
    Arguments of_totals(stream, reduce);
    of_totals.add(view(in)).add(view(totals)).add(size).add(parts).add(share);
    of_totals.enqueue({groups * reducing}, {reducing}, work_of(scan, in));
  }
  Arguments arguments(stream, kernel);
  arguments.add(view(in)).add(view(out));
  if (scan.positions) arguments.add(view(positions));
  arguments.add(view(totals)).add(size).add(parts).add(share);
  arguments.enqueue({groups * items}, {items}, work_of(scan, in));
}

// All tensors are contiguous. `positions` is defined for scans that return positions.
void launch_scan(const Scan& scan, const at::Tensor& in, const at::Tensor& out,
                 const at::Tensor& positions, const Extent& extent) {
  static constexpr const char *kTotals = "scan_totals", *kScan = "scan";
  Device& device = ocl_device(in);
  if (extent.inner == 1 && takes_groups(device, scan, in.scalar_type(), extent.size)) {
    return launch_row_scan(scan, in, out, positions, extent.outer, extent.size);
  }
  const bool cpu = device.family() == KernelFamily::kCpu;
  const ScalarType type = in.scalar_type();
  const size_t lanes = cpu && extent.inner > 1 ? kLanes : 1;
  const uint64_t blocks = at::ceil_div(extent.inner, lanes);
  const bool splits = may_split(scan, type);
  uint64_t parts = splits ? parts_for(device, extent.outer * blocks, extent.size,
                                      cpu ? kCpuPart / lanes : kGpuPart)
                          : 1;
  if (!cpu && splits) {
    // A part joins the totals of all parts before it, so the number of parts is at most the
    // elements of a part.
    const auto balanced = static_cast<size_t>(std::sqrt(static_cast<double>(extent.size)));
    const size_t filling = device.properties().max_compute_units * kItemsOfUnit;
    const size_t wanted = std::min(at::ceil_div(filling, extent.outer * blocks),
                                   extent.size / std::max(balanced, kGpuPart));
    parts = std::max<uint64_t>(
        {parts, wanted, at::ceil_div(extent.size, std::max(balanced, kLongGpuPart))});
    parts = at::ceil_div(extent.size, at::ceil_div(extent.size, parts));  // without empty parts
  }
  const uint64_t units = extent.outer * parts, size = extent.size, inner = extent.inner;
  const UnitGrid grid =
      unit_grid(device, units, blocks, scan.cost * std::min(lanes, inner) * size / parts);
  const at::Tensor totals = parts == 1
                                ? in
                                : at::empty({static_cast<int64_t>(units * inner) * kTotalBytes},
                                            in.options().dtype(ScalarType::Byte));
  Stream& stream = stream_of(in);
  if (parts > 1) {
    Arguments of_totals(stream, find_kernel(device, ScanColumns{kTotals, &scan, type, lanes}));
    of_totals.add(view(in)).add(view(totals)).add(units).add(blocks).add(grid.per_item);
    of_totals.add(size).add(inner).add(parts).enqueue(grid.global, grid.local, work_of(scan, in));
  }
  Arguments arguments(stream, find_kernel(device, ScanColumns{kScan, &scan, type, lanes}));
  arguments.add(view(in)).add(view(out));
  if (scan.positions) arguments.add(view(positions));
  arguments.add(view(totals)).add(units).add(blocks).add(grid.per_item);
  arguments.add(size).add(inner).add(parts).enqueue(grid.global, grid.local, work_of(scan, in));
}

void run(const Scan& scan, const at::Tensor& self, const at::Tensor& out,
         const at::Tensor& positions, int64_t dim) {
  if (self.numel() == 0) return;
  check_device_has(ocl_device(self), self.scalar_type(), scan.name);
  // _cummax_helper, _cummin_helper and _logcumsumexp.out do not check their arguments.
  const Relations relations(scan.name);
  relations.same("the result", out, "the input", self);
  expect_type(out, self.scalar_type(), scan.name);
  if (scan.positions) {
    relations.same("the indices", positions, "the input", self);
    expect_type(positions, ScalarType::Long, scan.name);
  }
  if (!scan.positions) {  // the check of PyTorch's iterators on the CPU
    at::assert_no_internal_overlap(out);
    at::assert_no_partial_overlap(out, self);
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Extent extent = extent_of(self, dim);
  if (extent.inner > 1 && extent.inner < kFewColumns && extent.size >= kFewColumnsRows &&
      takes_groups(ocl_device(self), scan, self.scalar_type(), extent.size)) {
    const auto in_rows = [&](const at::Tensor& t) { return t.defined() ? t.movedim(dim, -1) : t; };
    return run(scan, in_rows(self), in_rows(out), in_rows(positions), -1);
  }
  const at::Tensor in = self.contiguous();
  const DenseOutput result(out);
  if (scan.positions) {
    const DenseOutput at(positions);
    launch_scan(scan, in, result.tensor(), at.tensor(), extent);
    at.finish();
  } else {
    launch_scan(scan, in, result.tensor(), {}, extent);
  }
  result.finish();
}

void cumsum(const at::Tensor& result, const at::Tensor& self, int64_t dim) {
  run(kSum, self, result, {}, dim);
}
void cumprod(const at::Tensor& result, const at::Tensor& self, int64_t dim) {
  run(kProduct, self, result, {}, dim);
}

}  // namespace

namespace native {

OCL_NATIVE_AS("_cummax_helper", cummax_helper, run(kMaximum, self, values, indices, dim))

OCL_NATIVE_AS("_cummin_helper", cummin_helper, run(kMinimum, self, values, indices, dim))

OCL_COMPLEX("_logcumsumexp.out,_logcumsumexp.default");
OCL_NATIVE("_logcumsumexp.out", logcumsumexp_out);
Tensor& logcumsumexp_out(const Tensor& self, int64_t dim, Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.is_complex(),
                              "\"logcumsumexp\" not implemented for '",
                              toString(self.scalar_type()), "'");
  at::native::resize_output(out, self.sizes());
  run(kLogSum, self, out, {}, dim);
  return out;
}

OCL_NATIVE("_logcumsumexp", logcumsumexp);
Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return logcumsumexp_out(self, dim, out);
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("cumsum.out", cumsum_stub, &ocl::cumsum)
OCL_STUB("cumprod.out", cumprod_stub, &ocl::cumprod)
OCL_COMPLEX("cumsum.out,cumprod.out");

}  // namespace at::native

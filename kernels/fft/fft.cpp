// Fourier transforms by Stockham's algorithm (fft.clh): launches of fft_cpu.cl, which does
// all passes in a task, and of fft_pass.cl, one launch per pass. Lengths with a prime factor
// above kMaxRadix become a convolution (Bluestein).
#include "kernels/fft/fft.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/real.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include "backend/base/error.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/extent.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/fft/fft_plan.h"

namespace ocl {
namespace {

using at::Tensor;

constexpr int64_t kTaskLength = 8192;  // longest transform of a CPU-family task

#include "kernels/fft/fft_cpu_parameters.clh"

struct Transform {
  Device& device;
  ScalarType type;  // type of real and imaginary parts
  Extent extent;
  std::vector<int64_t> radices;
  Tensor table;
  int64_t table_step;
  double sign, scale;
};

void add_real(Arguments& arguments, double value, ScalarType type) {
  add_number(arguments, value, type);
}

int64_t lanes_of(const Device& device, ScalarType type) {
  const auto lanes = static_cast<int64_t>(vector_lanes(device, type)) / 2;
  return device.family() == KernelFamily::kCpu ? std::min<int64_t>(lanes, 8) : 1;
}

Defines real_defines(const Device& device, ScalarType type) {
  Defines defines;
  define_grid(defines, device);
  defines.set("REAL", type == ScalarType::Double ? "double" : "float");
  if (type == ScalarType::Double) defines.set("DOUBLE", 1);
  return defines;
}

bool is_special(int64_t radix) { return radix <= 5; }

struct FftPass {
  ScalarType type;
  int64_t radix;

  KernelSource source(Device& device) const {
    Defines defines = real_defines(device, type);
    defines.set("LANES", lanes_of(device, type))
        .set("RADIX", radix)
        .set("MAX_RADIX", radix)
        .set("BUTTERFLY_NAME",
             is_special(radix) ? str("butterfly_", radix) : std::string("butterfly_n"));
    return {"fft_pass.cl", "fft_pass", defines};
  }
};

// Runs one launch per pass over the whole tensor. Returns the tensor that holds the result.
Tensor run_passes(const Transform& t, const Tensor& x) {
  Tensor from = x, to = at::empty_like(x), spare;
  size_t m = t.extent.size, s = t.extent.inner, step = t.table_step;
  for (size_t i = 0; i < t.radices.size(); ++i) {
    const int64_t radix = t.radices[i];
    m /= radix;
    const size_t units = t.extent.outer * m;
    const UnitGrid grid = unit_grid(t.device, units, s, radix * 2);
    Arguments arguments(stream_of(x), find_kernel(t.device, FftPass{t.type, radix}));
    arguments.add(view(from)).add(view(to)).add(view(t.table));
    arguments.add(uint64_t{units}).add(uint64_t{s}).add(grid.per_item);
    arguments.add(uint64_t{m}).add(uint64_t{step});
    add_real(arguments, t.sign, t.type);
    add_real(arguments, i + 1 == t.radices.size() ? t.scale : 1, t.type);
    arguments.enqueue(grid.global, grid.local);
    s *= radix;
    step *= radix;
    // `x` is only read: the passes alternate between `to` and `spare`.
    if (i + 1 < t.radices.size() && !spare.defined()) spare = at::empty_like(x);
    from = std::exchange(to, i == 0 ? spare : from);
  }
  return from;
}

struct FftTasks {
  ScalarType type;
  bool rows;
  uint8_t special;  // a bit for each special radix, and bit 6 for others
  int64_t greatest;

  KernelSource source(Device& device) const {
    Defines defines = real_defines(device, type);
    defines.set("LANES", lanes_of(device, type)).set("MAX_RADIX", greatest);
    for (const int64_t radix : {2, 3, 4, 5}) {
      if (special >> radix & 1) defines.set(str("RADIX_", radix), 1);
    }
    if (special >> 6 & 1) defines.set("RADIX_n", 1);
    if (rows) defines.set("ROWS", 1);
    return {"fft_cpu.cl", "fft", defines};
  }
};

// One launch of the CPU family, in which tasks compute whole transforms.
Tensor run_tasks(const Transform& t, const Tensor& x) {
  const Extent& extent = t.extent;
  const bool rows = extent.inner == 1;
  FftTasks wanted{t.type, rows, 0, 5};
  const size_t together = rows ? extent.outer : extent.inner;
  const size_t block = std::min<size_t>(together, lanes_of(t.device, t.type));
  Plan plan{};
  plan.outer = extent.outer, plan.n = extent.size, plan.inner = extent.inner;
  plan.block = block;
  plan.table_step = static_cast<uint64_t>(t.table_step);
  for (const int64_t radix : t.radices) {
    plan.radix[plan.passes++] = static_cast<int32_t>(radix);
    wanted.special |= 1 << (is_special(radix) ? radix : 6);
    wanted.greatest = std::max(wanted.greatest, radix);
  }
  const size_t units = at::ceil_div(together, block) * (rows ? 1 : extent.outer);
  const size_t cost = 2 * extent.numel() * (t.radices.size() + 1);
  const TaskShares shares = task_shares(t.device, units, cost);
  const Tensor out = at::empty_like(x);
  const Tensor work =
      at::empty({static_cast<int64_t>(shares.tasks * 2 * extent.size * block)}, x.options());
  Arguments arguments(stream_of(x), find_kernel(t.device, wanted));
  arguments.add(view(x)).add(view(out)).add(view(t.table)).add(view(work));
  arguments.add(plan).add(uint64_t{units}).add(shares.per_task);
  add_real(arguments, t.sign, t.type);
  add_real(arguments, t.scale, t.type);
  arguments.enqueue({shares.tasks}, {1});
  return out;
}

// The transform for a length with radices. `table` may be the table of a multiple of the length.
Tensor transform(const Tensor& x, int64_t dim, bool forward, double scale, Tensor table = {}) {
  const Extent extent = extent_of(x, dim);
  const auto n = static_cast<int64_t>(extent.size);
  if (n == 1) return scale == 1 ? x : at::mul(x, scale);
  if (!table.defined()) table = roots_of_unity(n, x.options());
  const Transform t{ocl_device(x),
                    c10::toRealValueType(x.scalar_type()),
                    extent,
                    radices_of(n),
                    table,
                    table.numel() / n,
                    forward ? -1.0 : 1.0,
                    scale};
  const bool tasks = t.device.family() == KernelFamily::kCpu && n <= kTaskLength;
  return tasks ? run_tasks(t, x) : run_passes(t, x);
}

bool has_passes(int64_t n) { return n == 1 || !radices_of(n).empty(); }

Tensor bluestein(const Tensor& x, int64_t dim, bool forward, double scale) {
  const Extent extent = extent_of(x, dim);
  const auto outer = static_cast<int64_t>(extent.outer), n = static_cast<int64_t>(extent.size),
             inner = static_cast<int64_t>(extent.inner);
  const Chirp chirp = chirp_of(n, forward, x.options(), [](const Tensor& row) {
    return transform(row, 0, /*forward=*/true, 1);
  });
  const Tensor factors = chirp.factors.view({n, 1});
  const Tensor padded = at::zeros({outer, chirp.m, inner}, x.options());
  Tensor begin = padded.narrow(1, 0, n);
  at::mul_out(begin, x.view({outer, n, inner}), factors);
  Tensor spectrum = transform(padded, 1, /*forward=*/true, 1);
  spectrum.mul_(chirp.spectrum.view({chirp.m, 1}));
  const Tensor convolved = transform(spectrum, 1, /*forward=*/false, scale / chirp.m);
  return at::mul(convolved.narrow(1, 0, n), factors).contiguous().view(x.sizes());
}

struct FftReal {
  const char* name;
  ScalarType type;

  KernelSource source(Device& device) const {
    return {"fft_real.cl", name, real_defines(device, type)};
  }
};

void launch_real(const char* name, const Tensor& in, const Tensor& out, const Tensor& table,
                 size_t rows, size_t columns, std::optional<uint64_t> half) {
  Device& device = ocl_device(in);
  const ScalarType type = c10::toRealValueType(in.scalar_type());
  const UnitGrid grid = unit_grid(device, rows, columns, 4);
  Arguments arguments(stream_of(in), find_kernel(device, FftReal{name, type}));
  arguments.add(view(in)).add(view(out)).add(view(table));
  arguments.add(uint64_t{rows}).add(uint64_t{columns}).add(grid.per_item);
  if (half) arguments.add(*half);
  arguments.enqueue(grid.global, grid.local);
}

std::vector<int64_t> with_last(const Tensor& x, int64_t size) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = size;
  return sizes;
}

bool in_halves(int64_t n) { return n % 2 == 0 && has_passes(n / 2); }

// Transforms all rows at once; `out` is contiguous.
void real_rows_at_once(const Tensor& x_any, const Tensor& out, double scale) {
  static constexpr const char* kEnd = "fft_real_end";
  const int64_t n = x_any.size(-1), last = x_any.dim() - 1, columns = out.size(-1), h = n / 2;
  Tensor x = x_any.contiguous();
  if (!in_halves(n)) {
    out.copy_(fft_along(x.to(out.scalar_type()), last, true, scale).narrow(-1, 0, columns));
    return;
  }
  // Pairs of real numbers are read as complex numbers, which must begin at even elements.
  if (x.storage_offset() % 2 != 0) x = x.clone();
  std::vector<int64_t> pairs = with_last(x, h);
  pairs.push_back(2);
  const Tensor table = roots_of_unity(n, out.options());
  const Tensor halves = transform(at::view_as_complex(x.view(pairs)), last, true, scale, table);
  launch_real(kEnd, halves, out, table, x.numel() / n, columns, h);
}

// Splits along the first dimension with several elements, so that a part needs no copy.
void real_rows(const Tensor& x, const Tensor& out, double scale) {
  constexpr int64_t kElements = int64_t{1} << 21;  // elements of a part
  if (x.dim() == 1 || x.numel() <= kElements) return real_rows_at_once(x, out, scale);
  if (x.size(0) == 1) return real_rows(x[0], out[0], scale);
  const int64_t share = std::max<int64_t>(kElements / (x.numel() / x.size(0)), 1);
  for (int64_t first = 0; first < x.size(0); first += share) {
    const int64_t count = std::min(share, x.size(0) - first);
    real_rows(x.narrow(0, first, count), out.narrow(0, first, count), scale);
  }
}

}  // namespace

Tensor fft_along(const Tensor& x, int64_t dim, bool forward, double scale) {
  return has_passes(x.size(dim)) ? transform(x, dim, forward, scale)
                                 : bluestein(x, dim, forward, scale);
}

Tensor fft_of_real_rows(const Tensor& x, bool onesided, double scale) {
  const int64_t n = x.size(-1);
  const Tensor out = at::empty(with_last(x, onesided ? n / 2 + 1 : n),
                               x.options().dtype(c10::toComplexType(x.scalar_type())));
  real_rows(x, out, scale);
  return out;
}

Tensor fft_to_real_rows(const Tensor& x, int64_t n, double scale) {
  static constexpr const char* kBegin = "fft_real_begin";
  const int64_t last = x.dim() - 1, h = n / 2;
  if (!in_halves(n)) {
    // The other half mirrors the first. The imaginary parts of the numbers that mirror themselves,
    // the first and the middle one of an even n, do not count.
    const Tensor all = at::empty(with_last(x, n), x.options());
    all.narrow(-1, 0, h + 1).copy_(x);
    const int64_t missing = n - h - 1;
    if (missing > 0) {
      all.narrow(-1, h + 1, missing).copy_(x.narrow(-1, 1, missing).flip({last}).conj());
    }
    at::view_as_real(all.narrow(-1, 0, 1)).select(-1, 1).zero_();
    if (n % 2 == 0) at::view_as_real(all.narrow(-1, h, 1)).select(-1, 1).zero_();
    return at::real(fft_along(all, last, false, scale)).contiguous();
  }
  const Tensor table = roots_of_unity(n, x.options());
  const Tensor halves = at::empty(with_last(x, h), x.options());
  launch_real(kBegin, x, halves, table, halves.numel() / h, h, std::nullopt);
  return at::view_as_real(transform(halves, last, false, scale, table)).view(with_last(x, n));
}

}  // namespace ocl

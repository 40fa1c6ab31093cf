// Padding by reflection and by repeating the edge, as maps (resample.h).
#include <ATen/native/Padding.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "backend/base/torch_version.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/resample/resample.h"
#include "native/padding.h"

namespace ocl {
namespace {

constexpr int64_t kMostByMaps = 8;  // padded elements on a side, in the backward pass

std::vector<Line> lines_of(MapKind kind, int64_t in, int64_t out, int64_t before) {
  std::vector<Line> lines;
  for (int64_t o = 0; o < out; ++o) {
    int64_t i = o - before;
    if (kind == MapKind::kReplication) {
      i = std::clamp<int64_t>(i, 0, in - 1);
    } else {
      i = std::abs(i);
      if (i >= in) i = 2 * (in - 1) - i;
    }
    lines.push_back({i, {1}});
  }
  return lines;
}

// Pads `from` into `to`; with `backward`, computes the input's gradient from the output's.
void pad(std::string_view op, MapKind kind, const at::Tensor& from, const at::Tensor& to,
         at::IntArrayRef padding, bool backward = false) {
  if (to.numel() == 0) return;
  expect_type(from, to.scalar_type(), op);
  const at::Tensor &in = backward ? to : from, &out = backward ? from : to;
  std::vector<DimensionMapPointer> maps;
  for (auto d = static_cast<int64_t>(padding.size()) / 2; d > 0; --d) {
    const int64_t before = padding[2 * (d - 1)];
    const DimensionMapKey key{
        kind, in.size(-d), out.size(-d), {static_cast<uint64_t>(before), uint64_t{0}}};
    maps.push_back(
        find_map(key, backward, [&] { return lines_of(kind, key.in, key.out, before); }));
  }
  apply_maps(op, from, to, maps);
}

// Along a dimension, each element of `to` becomes the sum of its copies in `from`.
void unpad(MapKind kind, const at::Tensor& from, const at::Tensor& to, int64_t dim, int64_t before,
           int64_t after) {
  const int64_t in = to.size(dim), out = from.size(dim);
  const int64_t first = std::max<int64_t>(0, -before), last = std::min(in, in + after);
  if (first > 0 || last < in) to.zero_();
  if (first < last) {
    to.narrow(dim, first, last - first).copy_(from.narrow(dim, first + before, last - first));
  }
  const auto add = [&](int64_t start, int64_t size, int64_t mirrored, int64_t edge) {
    if (size <= 0) return;
    const at::Tensor border = from.narrow(dim, start, size);
    if (kind == MapKind::kReplication) {
      to.narrow(dim, edge, 1).add_(border.sum(dim, /*keepdim=*/true));
    } else {
      to.narrow(dim, mirrored, size).add_(border.flip(dim));
    }
  };
  const int64_t left = std::min(before, out), right = std::min(after, out);
  add(0, left, before - left + 1, 0);
  add(out - right, right, in - 1 - after, in - 1);
}

// Gives a meta function's output the memory format of the input, as PyTorch's kernels do.
void restride(const at::Tensor& self, const at::Tensor& out) {
  if (self.dim() < 4 || self.suggest_memory_format() == at::MemoryFormat::Contiguous) return;
  if (out.is_contiguous()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
  }
}

// Checks the arguments and returns the padded shape; PyTorch has no meta function for these
// operators.
at::DimVector padded_shape(const at::Tensor& self, at::IntArrayRef padding, bool reflects) {
  const auto dims = static_cast<int64_t>(padding.size()) / 2;
  at::DimVector shape(self.sizes());
  bool any = false;  // One dimension that is not empty is enough, as on the CPU.
  for (int64_t d = 1; d <= dims; ++d) {
    const int64_t before = padding[2 * (d - 1)], after = padding[2 * d - 1], size = self.size(-d);
    TORCH_CHECK(!reflects || (before < size && after < size),
                "Padding size should be less than the corresponding input dimension, but got: "
                "padding (",
                before, ", ", after, ") at dimension ", self.dim() - d, " of input ", self.sizes());
    int64_t& padded = shape[self.dim() - d];
    constexpr int64_t kBeyond = int64_t{1} << 61;  // so that sums fit
    TORCH_CHECK(-kBeyond < std::min(before, after) && std::max(before, after) < kBeyond, "padding ",
                padding, " is too large");
    padded = size + before + after;
    TORCH_CHECK(padded >= 0, "input ", self.sizes(), " is too small for padding ", padding,
                ": dimension ", self.dim() - d, " would have size ", padded);
    any = any || padded >= 1;
  }
  TORCH_CHECK(any, "input ", self.sizes(), " is too small for padding ", padding,
              ": nothing would be left of it");
  return shape;
}

// Checked here, because some meta functions compare only the last dimension.
void check_gradient(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef padding,
                    bool reflects) {
  const at::DimVector shape = padded_shape(self, padding, reflects);
  TORCH_CHECK(grad_output.sizes() == shape, "grad_output has sizes ", grad_output.sizes(),
              ", but the padded input has ", shape);
}

// Computes a tensor's gradient from the padded tensor's gradient.
void pad_backward(std::string_view op, MapKind kind, const at::Tensor& grad,
                  const at::Tensor& result, at::IntArrayRef padding) {
  check_gradient(grad, result, padding, kind == MapKind::kReflection);
  if (result.numel() == 0) return;
  const ScalarType type = result.scalar_type();
  check_device_has(ocl_device(result), type, op);
  expect_type(grad, type, op);
  if (!at::isFloatingType(type) && !at::isComplexType(type)) {
    refuse_type(ocl_device(result), type, op);
  }
  // A transposed map is slow for large padding: its lines are up to twice as long as the padding,
  // and nearly all zeros.
  const auto greatest = std::max_element(padding.begin(), padding.end());
  if (*greatest <= kMostByMaps) return pad(op, kind, grad, result, padding, /*backward=*/true);
  // Rounds 16-bit numbers only once, at the end.
  at::Tensor from = grad.to(compute_type(type));
  for (auto d = static_cast<int64_t>(padding.size()) / 2; d > 0; --d) {
    at::DimVector sizes(from.sizes());
    sizes[from.dim() - d] = result.size(-d);
    const bool direct = d == 1 && from.scalar_type() == type;
    const at::Tensor to =
        direct ? result
               : at::empty(sizes, from.options().memory_format(from.suggest_memory_format()));
    unpad(kind, from, to, from.dim() - d, padding[2 * (d - 1)], padding[2 * d - 1]);
    from = to;
  }
  if (!from.is_same(result)) result.copy_(from);
}

// Only for the operators without a meta function.
void backward_out(std::string_view op, MapKind kind, const at::Tensor& grad_output,
                  const at::Tensor& self, at::IntArrayRef padding, at::Tensor& grad_input) {
  grad_input.resize_(self.sizes(), self.suggest_memory_format());
  pad_backward(op, kind, grad_output, grad_input, padding);
}

at::Tensor backward(std::string_view op, MapKind kind, const at::Tensor& grad_output,
                    const at::Tensor& self, at::IntArrayRef padding) {
  at::Tensor grad_input = at::empty({0}, self.options());
  backward_out(op, kind, grad_output, self, padding, grad_input);
  return grad_input;
}

}  // namespace

namespace native {

OCL_NATIVE("reflection_pad2d.out", reflection_pad2d_out);
OCL_COMPLEX("reflection_pad2d.out");
Tensor& reflection_pad2d_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
#if OCL_CHECKS_PADDING_BY_DIMENSIONS
  at::native::padding::check_valid_input(self, padding, 2);
#else
  at::native::padding::check_valid_input<2>(self, padding);
#endif
  out.resize_(padded_shape(self, padding, true), self.suggest_memory_format());
  pad("reflection_pad2d", MapKind::kReflection, self, out, padding);
  return out;
}

OCL_NATIVE("reflection_pad2d", reflection_pad2d);
OCL_COMPLEX("reflection_pad2d.default");
Tensor reflection_pad2d(const Tensor& self, IntArrayRef padding) {
  Tensor out = at::empty({0}, self.options());
  return reflection_pad2d_out(self, padding, out);
}

OCL_STRUCTURED_AS("reflection_pad1d.out", reflection_pad1d,
                  pad("reflection_pad1d", MapKind::kReflection, self, out, padding))
OCL_COMPLEX("reflection_pad1d.out");

OCL_STRUCTURED_AS("reflection_pad1d_backward.grad_input", reflection_pad1d_backward,
                  pad_backward("reflection_pad1d_backward", MapKind::kReflection, grad_output,
                               grad_input, padding))
OCL_COMPLEX("reflection_pad1d_backward.grad_input");

OCL_STRUCTURED_AS("replication_pad1d.out", replication_pad1d,
                  pad("replication_pad1d", MapKind::kReplication, self, out, padding))
OCL_COMPLEX("replication_pad1d.out");

OCL_STRUCTURED_AS("replication_pad1d_backward.grad_input", replication_pad1d_backward,
                  pad_backward("replication_pad1d_backward", MapKind::kReplication, grad_output,
                               grad_input, padding))
OCL_COMPLEX("replication_pad1d_backward.grad_input");

OCL_NATIVE("reflection_pad2d_backward.grad_input", reflection_pad2d_backward_out);
OCL_COMPLEX("reflection_pad2d_backward.grad_input");
Tensor& reflection_pad2d_backward_out(const Tensor& grad_output, const Tensor& self,
                                      IntArrayRef padding, Tensor& grad_input) {
  backward_out("reflection_pad2d_backward", MapKind::kReflection, grad_output, self, padding,
               grad_input);
  return grad_input;
}

OCL_NATIVE_AS("reflection_pad2d_backward", reflection_pad2d_backward,
              backward("reflection_pad2d_backward", MapKind::kReflection, grad_output, self,
                       padding))
OCL_COMPLEX("reflection_pad2d_backward.default");

OCL_STRUCTURED("replication_pad2d.out", replication_pad2d)
(const Tensor& self, IntArrayRef padding, const Tensor& out) {
  restride(self, out);
  pad("replication_pad2d", MapKind::kReplication, self, out, padding);
}
OCL_COMPLEX("replication_pad2d.out");

OCL_NATIVE("replication_pad2d_backward.grad_input", replication_pad2d_backward_out);
OCL_COMPLEX("replication_pad2d_backward.grad_input");
Tensor& replication_pad2d_backward_out(const Tensor& grad_output, const Tensor& self,
                                       IntArrayRef padding, Tensor& grad_input) {
  backward_out("replication_pad2d_backward", MapKind::kReplication, grad_output, self, padding,
               grad_input);
  return grad_input;
}

OCL_NATIVE_AS("replication_pad2d_backward", replication_pad2d_backward,
              backward("replication_pad2d_backward", MapKind::kReplication, grad_output, self,
                       padding))
OCL_COMPLEX("replication_pad2d_backward.default");

OCL_STRUCTURED("reflection_pad3d.out", reflection_pad3d)
(const Tensor& self, IntArrayRef padding, const Tensor& out) {
  restride(self, out);
  pad("reflection_pad3d", MapKind::kReflection, self, out, padding);
}
OCL_COMPLEX("reflection_pad3d.out");

OCL_STRUCTURED_AS("reflection_pad3d_backward.grad_input", reflection_pad3d_backward,
                  pad_backward("reflection_pad3d_backward", MapKind::kReflection, grad_output,
                               grad_input, padding))
OCL_COMPLEX("reflection_pad3d_backward.grad_input");

OCL_STRUCTURED("replication_pad3d.out", replication_pad3d)
(const Tensor& self, IntArrayRef padding, const Tensor& out) {
  restride(self, out);
  pad("replication_pad3d", MapKind::kReplication, self, out, padding);
}
OCL_COMPLEX("replication_pad3d.out");

OCL_NATIVE("replication_pad3d_backward.grad_input", replication_pad3d_backward_out);
OCL_COMPLEX("replication_pad3d_backward.grad_input");
Tensor& replication_pad3d_backward_out(const Tensor& grad_output, const Tensor& self,
                                       IntArrayRef padding, Tensor& grad_input) {
  backward_out("replication_pad3d_backward", MapKind::kReplication, grad_output, self, padding,
               grad_input);
  return grad_input;
}

OCL_NATIVE_AS("replication_pad3d_backward", replication_pad3d_backward,
              backward("replication_pad3d_backward", MapKind::kReplication, grad_output, self,
                       padding))
OCL_COMPLEX("replication_pad3d_backward.default");

}  // namespace native
}  // namespace ocl

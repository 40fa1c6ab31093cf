// The convolution operators: their checks, shapes and memory formats.
#include "kernels/conv/common/conv.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "kernels/conv/conv_algorithms.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/operators/relations.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"
#include "native/conv.h"

namespace ocl {
namespace {

// Stride, padding and dilation may be given once for all dimensions.
ConvShape::Dims as_dims(c10::IntArrayRef values, size_t spatial, int32_t fill) {
  ConvShape::Dims dims{fill, fill, fill};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t value = values[values.size() == 1 ? 0 : i];
    dims[3 - spatial + i] = c10::checked_convert<int32_t>(value, "int32");
  }
  return dims;
}

struct Parameters {
  c10::IntArrayRef stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// Drops parameters that have no effect but may be too large for the kernels: the stride if there is
// one output, the dilation if there is one tap, and padding beyond the kernel of a single output.
void drop_unused_steps(size_t spatial, const Parameters& p, std::vector<int64_t>& stride,
                       std::vector<int64_t>& padding, std::vector<int64_t>& dilation,
                       const ConvShape& shape) {
  const auto all = [&](c10::IntArrayRef values) {
    return values.size() == 1 ? std::vector<int64_t>(spatial, values[0]) : values.vec();
  };
  stride = all(p.stride);
  padding = all(p.padding);
  dilation = all(p.dilation);
  for (size_t i = 0; i < spatial; ++i) {
    const size_t d = 3 - spatial + i;
    if (shape.kernel[d] == 1) dilation[i] = 1;
    if (shape.out[d] > 1 || stride[i] <= shape.in[d]) continue;
    stride[i] = 1;
    const int64_t steps = shape.kernel[d] - 1;
    if (steps == 0 || dilation[i] < padding[i] / steps) {
      padding[i] = std::min(padding[i], dilation[i] * steps + 1);
    }
  }
}

// The shape of the forward convolution; for a transposed operator, input and output change roles.
ConvShape make_shape(c10::IntArrayRef input, c10::IntArrayRef weight, c10::IntArrayRef output,
                     const Parameters& p) {
  const size_t spatial = input.size() - 2;
  const auto &in = p.transposed ? output : input, &out = p.transposed ? input : output;
  ConvShape shape;
  shape.images = c10::checked_convert<int32_t>(in[0], "int32");
  shape.groups = c10::checked_convert<int32_t>(p.groups, "int32");
  shape.in_channels = c10::checked_convert<int32_t>(in[1] / p.groups, "int32");
  shape.out_channels = c10::checked_convert<int32_t>(out[1] / p.groups, "int32");
  shape.in = as_dims(in.slice(2), spatial, 1);
  shape.out = as_dims(out.slice(2), spatial, 1);
  shape.kernel = as_dims(weight.slice(2), spatial, 1);
  std::vector<int64_t> stride, padding, dilation;
  drop_unused_steps(spatial, p, stride, padding, dilation, shape);
  shape.stride = as_dims(stride, spatial, 1);
  shape.pad = as_dims(padding, spatial, 0);
  shape.dilation = as_dims(dilation, spatial, 1);
  return shape;
}

std::vector<int64_t> output_size(c10::IntArrayRef input, c10::IntArrayRef weight,
                                 const Parameters& p) {
  if (!p.transposed) {
    return at::native::conv_output_size(input, weight, p.padding, p.stride, p.dilation);
  }
  for (size_t d = 0; d + 2 < input.size(); ++d) {
    const auto at = [&](c10::IntArrayRef values) { return values[values.size() == 1 ? 0 : d]; };
    const int64_t more = at(p.output_padding), stride = at(p.stride), dilation = at(p.dilation);
    TORCH_CHECK(more < stride || more < dilation,
                "output padding must be smaller than either stride or dilation, but got "
                "output_padding ",
                more, ", stride ", stride, " and dilation ", dilation, " for dimension ", d + 2);
  }
  auto sizes = at::native::conv_input_size(input, weight, p.padding, p.output_padding, p.stride,
                                           p.dilation, p.groups);
  const c10::IntArrayRef pixels = c10::IntArrayRef(sizes).slice(2);
  TORCH_CHECK(std::all_of(pixels.begin(), pixels.end(), [](int64_t size) { return size > 0; }),
              "Given input size per channel: ", input.slice(2),
              ". Calculated output size per channel: ", pixels, ". Output size is too small");
  return sizes;
}

// CPU devices have fast kernels for float32, and a conversion is cheap compared to a convolution.
// convolve_as_channels_last() comes first.
bool better_in_float(const at::Tensor& tensor) {
  return compute_type(tensor.scalar_type()) != tensor.scalar_type() &&
         ocl_device(tensor).family() == KernelFamily::kCpu;
}

void check_types(const char* op, const at::Tensor& input, const char* name,
                 const at::Tensor& other) {
  TORCH_CHECK(input.scalar_type() == other.scalar_type(), op, ": input and ", name,
              " must have the same dtype, but got ", input.scalar_type(), " and ",
              other.scalar_type(), " (on ", ocl_device(input).label(), ")");
}

// Raises if the weights have no elements: the sums of a convolution would have no terms.
void check_weight(const at::Tensor& weight, bool transposed) {
  for (int64_t d = transposed ? 1 : 2; d < weight.dim(); ++d) {
    TORCH_CHECK(weight.size(d) > 0, d > 1 ? "kernel size" : "number of output channels",
                " should be greater than zero, but got weight of size ", weight.sizes());
  }
}

void check_list(const char* op, const char* name, c10::IntArrayRef values, int64_t spatial,
                int64_t least) {
  TORCH_CHECK(values.size() == 1 || static_cast<int64_t>(values.size()) == spatial, op,
              ": expected ", name, " to be a single number or ", spatial, " numbers, but got ",
              values);
  TORCH_CHECK(std::all_of(values.begin(), values.end(), [&](int64_t n) { return n >= least; }),
              name, " should be ", least > 0 ? "greater than zero" : "at least zero", ", but got ",
              values);
}

// The checks of at::convolution(). They are needed because other code than at::convolution() may
// call these operators.
void check_arguments(const char* op, const at::Tensor& input, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, const Parameters& p) {
  const int64_t spatial = input.dim() - 2;
  TORCH_CHECK(
      spatial >= 1 && spatial <= 3 && input.dim() == weight.dim(), op,
      ": expected an input and a weight with the same number of 3 to 5 dimensions, but got ",
      input.sizes(), " and ", weight.sizes());
  check_list(op, "stride", p.stride, spatial, 1);
  check_list(op, "padding", p.padding, spatial, 0);
  check_list(op, "dilation", p.dilation, spatial, 1);
  if (p.transposed) check_list(op, "output_padding", p.output_padding, spatial, 0);
  TORCH_CHECK(p.groups > 0, op, ": expected a positive number of groups, but got ", p.groups);
  const int64_t of_input = input.size(1), inner = weight.size(p.transposed ? 0 : 1);
  TORCH_CHECK((p.transposed ? of_input == inner
                            : of_input % p.groups == 0 && of_input / p.groups == inner) &&
                  weight.size(0) % p.groups == 0,
              op, ": a weight of shape ", weight.sizes(), " and ", p.groups,
              " groups do not fit an input of shape ", input.sizes());
  const int64_t channels = p.transposed ? weight.size(1) * p.groups : weight.size(0);
  Relations(op).sizes("bias", bias, {channels});
}

// Writes the result, which is not empty, with an algorithm for channels_last tensors. Returns false
// if none applies.
bool convolve_channels_last(ConvDirection direction, const ConvShape& shape,
                            const at::Tensor& result, const at::Tensor& source,
                            const at::Tensor& factor, const at::Tensor& bias,
                            const Epilogue& epilogue) {
  const bool of_weights = direction == ConvDirection::kWeightGrad;
  const at::MemoryFormat format =
      result.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  const at::Tensor read = source.contiguous(format);
  const at::Tensor by = factor.contiguous(of_weights ? format : factor.suggest_memory_format());
  return run_convolution(
      {direction, shape, true, result, read, by, bias, epilogue, ocl_device(source)});
}

at::Tensor in_format(const at::Tensor& result, at::MemoryFormat format) {
  const at::Tensor formatted = result.contiguous(format);
  // Sets the strides of the format. With one channel or one pixel the data is the same in both
  // formats, but later operators read the strides.
  formatted.unsafeGetTensorImpl()->empty_tensor_restride(format);
  return formatted;
}

// Computes one direction in a 16-bit type if an algorithm for channels_last tensors multiplies that
// type without a conversion to float32; else returns an undefined tensor. Converting to
// channels_last takes little time.
at::Tensor convolve_as_channels_last(ConvDirection direction, const ConvShape& shape,
                                     at::IntArrayRef sizes, at::MemoryFormat format,
                                     const at::Tensor& source, const at::Tensor& factor,
                                     const at::Tensor& bias) {
  Device& device = ocl_device(source);
  if (source.dim() == 3) {
    const at::Tensor plane =
        convolve_as_channels_last(direction, shape, {sizes[0], sizes[1], 1, sizes[2]}, format,
                                  source.unsqueeze(2), factor.unsqueeze(2), bias);
    return plane.defined() ? plane.squeeze(2) : plane;
  }
  const at::Tensor result = at::empty(
      sizes, source.options(),
      source.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast);
  const Epilogue none;
  const bool done =
      result.numel() > 0 &&
      can_run_convolution({direction, shape, true, result, source, factor, bias, none, device}) &&
      convolve_channels_last(direction, shape, result, source, factor, bias, none);
  return done ? in_format(result, format) : at::Tensor();
}

// Computes one direction in the given format. If no algorithm takes the channels_last tensors,
// converts them to contiguous ones and back.
at::Tensor convolve(ConvDirection direction, const ConvShape& shape, at::IntArrayRef sizes,
                    at::MemoryFormat format, const at::Tensor& source, const at::Tensor& factor,
                    const at::Tensor& bias, const Epilogue& epilogue) {
  const bool of_weights = direction == ConvDirection::kWeightGrad;
  Device& device = ocl_device(source);
  const Epilogue none;
  const Epilogue& fused = direction == ConvDirection::kForward ? epilogue : none;
  if (format != at::MemoryFormat::Contiguous) {
    const at::Tensor result = at::empty(sizes, source.options(), format);
    if (result.numel() == 0 ||
        convolve_channels_last(direction, shape, result, source, factor, bias, fused)) {
      return result;
    }
  }
  const at::Tensor result = at::empty(sizes, source.options());
  const at::Tensor read = source.contiguous(), by = factor.contiguous();
  if (of_weights && (read.numel() == 0 || by.numel() == 0)) {
    result.zero_();
  } else if (result.numel() > 0) {
    run_convolution({direction, shape, false, result, read, by, bias, fused, device});
  }
  if (direction == ConvDirection::kDataGrad) apply_epilogue(epilogue, result, result);
  return in_format(result, format);
}

// The gradient of the bias.
at::Tensor sum_of_channels(const at::Tensor& grad) {
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < grad.dim(); ++d) dims.push_back(d);
  return at::sum(grad, dims);
}

// A transposed convolution is the data gradient of an ordinary one.
ConvDirection direction_of(bool transposed) {
  return transposed ? ConvDirection::kDataGrad : ConvDirection::kForward;
}

}  // namespace

// If one argument is channels_last, the results are, too, as with cuDNN. Convolutions of volumes in
// float64 have contiguous results, as on the CPU.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight) {
  if (input.dim() == 5 && input.scalar_type() == at::kDouble) return at::MemoryFormat::Contiguous;
  const at::MemoryFormat of_input = input.suggest_memory_format();
  return of_input != at::MemoryFormat::Contiguous ? of_input : weight.suggest_memory_format();
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups, const Epilogue& epilogue) {
  const Parameters p{stride, padding, dilation, output_padding, transposed, groups};
  check_device_has(ocl_device(input), input.scalar_type(), "convolution");
  check_has_products(ocl_device(input), input.scalar_type(), "convolution");
  check_types("convolution", input, "weight", weight);
  check_arguments("convolution", input, weight, bias, p);
  check_weight(weight, transposed);
  if (bias && bias->defined()) check_types("convolution", input, "bias", *bias);
  if (input.is_complex()) refuse_type(ocl_device(input), input.scalar_type(), "convolution");
  if (epilogue.residual.defined()) check_types("convolution", input, "residual", epilogue.residual);
  const auto sizes = output_size(input.sizes(), weight.sizes(), p);
  TORCH_CHECK(!epilogue.residual.defined() || epilogue.residual.sizes() == sizes,
              "convolution: a residual of shape ", epilogue.residual.sizes(),
              " for a result of shape ", sizes);
  const ConvShape shape = make_shape(input.sizes(), weight.sizes(), sizes, p);
  const at::MemoryFormat format =
      epilogue.is_empty() ? convolution_format(input, weight) : at::MemoryFormat::Contiguous;
  const at::Tensor dense_bias = bias && bias->defined() ? bias->contiguous() : at::Tensor();
  if (better_in_float(input)) {
    const at::Tensor product = convolve_as_channels_last(direction_of(transposed), shape, sizes,
                                                         format, input, weight, dense_bias);
    if (product.defined()) {  // rounds before the epilogue, as separate operators do
      apply_epilogue(epilogue, product, product);
      return product;
    }
    // One kernel adds the residual and converts the sums.
    const bool adds = epilogue.residual.defined();
    const at::Tensor sums = convolution(
        input.to(at::kFloat), weight.to(at::kFloat),
        bias && bias->defined() ? std::optional(bias->to(at::kFloat)) : std::nullopt, stride,
        padding, dilation, transposed, output_padding, groups, adds ? Epilogue{} : epilogue);
    if (!adds) return sums.to(input.scalar_type());
    const at::Tensor result = at::empty(sums.sizes(), input.options());
    apply_epilogue(epilogue, sums, result);
    return result;
  }
  return convolve(direction_of(transposed), shape, sizes, format, input, weight, dense_bias,
                  epilogue);
}

namespace native {

// PyTorch splits complex convolutions into real ones. Only calls with a single complex operand get
// here; they are an error.
OCL_COMPLEX("convolution_overrideable");
OCL_NATIVE("convolution_overrideable", convolution);

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, int64_t groups) {
  return ocl::convolution(input, weight, bias, stride, padding, dilation, transposed,
                          output_padding, groups, {});
}

OCL_NATIVE("convolution_backward_overrideable", convolution_backward);

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad_output,
                                                        const Tensor& input, const Tensor& weight,
                                                        IntArrayRef stride, IntArrayRef padding,
                                                        IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> output_mask) {
  const Parameters p{stride, padding, dilation, output_padding, transposed, groups};
  check_device_has(ocl_device(input), input.scalar_type(), "convolution_backward");
  check_types("convolution_backward", input, "weight", weight);
  check_types("convolution_backward", input, "grad_output", grad_output);
  check_arguments("convolution_backward", input, weight, std::nullopt, p);
  const auto sizes = output_size(input.sizes(), weight.sizes(), p);
  TORCH_CHECK(grad_output.sizes() == sizes, "convolution_backward: grad_output has sizes ",
              grad_output.sizes(), ", but the convolution's result has ", sizes);
  const ConvShape shape = make_shape(input.sizes(), weight.sizes(), grad_output.sizes(), p);
  const auto format = convolution_format(input, weight);
  if (better_in_float(input)) {
    Tensor of_input, of_weight, of_bias;
    if (output_mask[0]) {
      of_input = convolve_as_channels_last(direction_of(!transposed), shape, input.sizes(), format,
                                           grad_output, weight, {});
    }
    if (output_mask[1]) {
      of_weight = convolve_as_channels_last(ConvDirection::kWeightGrad, shape, weight.sizes(),
                                            format, transposed ? grad_output : input,
                                            transposed ? input : grad_output, {});
    }
    if (output_mask[2]) of_bias = sum_of_channels(grad_output);
    const std::array<bool, 3> rest{output_mask[0] && !of_input.defined(),
                                   output_mask[1] && !of_weight.defined(), false};
    if (rest[0] || rest[1]) {
      const auto [input_sums, weight_sums, none] = convolution_backward(
          grad_output.to(at::kFloat), input.to(at::kFloat), weight.to(at::kFloat), stride, padding,
          dilation, transposed, output_padding, groups, rest);
      if (rest[0]) of_input = input_sums.to(input.scalar_type());
      if (rest[1]) of_weight = weight_sums.to(input.scalar_type());
    }
    return {of_input, of_weight, of_bias};
  }
  const Tensor grad = grad_output.contiguous(format);
  Tensor grad_input, grad_weight, grad_bias;
  if (output_mask[0]) {
    grad_input =
        convolve(direction_of(!transposed), shape, input.sizes(), format, grad, weight, {}, {});
  }
  if (output_mask[1]) {
    grad_weight = convolve(ConvDirection::kWeightGrad, shape, weight.sizes(), format,
                           transposed ? grad : input, transposed ? input : grad, {}, {});
  }
  if (output_mask[2]) grad_bias = sum_of_channels(grad);
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace native
}  // namespace ocl

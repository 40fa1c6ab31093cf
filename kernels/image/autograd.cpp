// Derivatives of the image operators. crop and paste are each other's derivatives. The derivatives
// of the other operators are operators themselves, so that torch.compile sees one node.
#include <ATen/ops/alias.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/image/ops.h"

namespace ocl::image {
namespace {

using c10::SymInt;
using c10::SymIntArrayRef;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

template <typename Signature>
auto handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

#define OCL_IMAGE_OP(name, ...)                                              \
  template <typename... Args>                                                \
  Tensor call_##name(const Args&... args) {                                  \
    static const auto op = handle<Tensor(__VA_ARGS__)>("torch_ocl::" #name); \
    return op.call(args...);                                                 \
  }
OCL_IMAGE_OP(crop, const Tensor&, SymIntArrayRef)
OCL_IMAGE_OP(paste, const Tensor&, const Tensor&, SymIntArrayRef)
OCL_IMAGE_OP(flip, const Tensor&, bool, bool)
OCL_IMAGE_OP(resize, const Tensor&, SymIntArrayRef, std::string_view, bool)
OCL_IMAGE_OP(_resize_backward, const Tensor&, SymIntArrayRef, std::string_view, bool)
OCL_IMAGE_OP(affine, const Tensor&, at::ArrayRef<double>, at::OptionalSymIntArrayRef,
             std::string_view, std::optional<at::ArrayRef<double>>)
OCL_IMAGE_OP(_affine_backward, const Tensor&, at::ArrayRef<double>, SymIntArrayRef,
             std::string_view)
OCL_IMAGE_OP(normalize, const Tensor&, at::ArrayRef<double>, at::ArrayRef<double>)
OCL_IMAGE_OP(_normalize_backward, const Tensor&, const Tensor&, at::ArrayRef<double>)
OCL_IMAGE_OP(gaussian_blur, const Tensor&, at::ArrayRef<double>)
OCL_IMAGE_OP(_gaussian_blur_backward, const Tensor&, at::ArrayRef<double>)
OCL_IMAGE_OP(adjust_brightness, const Tensor&, double)
OCL_IMAGE_OP(adjust_contrast, const Tensor&, double)
OCL_IMAGE_OP(adjust_saturation, const Tensor&, double)
OCL_IMAGE_OP(adjust_hue, const Tensor&, double)
OCL_IMAGE_OP(_adjust_backward, const Tensor&, const Tensor&, int64_t, double)
#undef OCL_IMAGE_OP

std::vector<SymInt> syms(AutogradContext* ctx, const char* key) {
  return ctx->saved_data[key].toSymIntVector();
}
std::vector<double> doubles(AutogradContext* ctx, const char* key) {
  return ctx->saved_data[key].toDoubleVector();
}
void save(AutogradContext* ctx, const char* key, SymIntArrayRef values) {
  ctx->saved_data[key] = c10::IValue(values);
}
void save(AutogradContext* ctx, const char* key, at::ArrayRef<double> values) {
  ctx->saved_data[key] = values.vec();
}
// Also saves the description, because hooks on saved tensors, such as save_on_cpu(), lose it. While
// a compiler traces, the saved description is empty; then the tensor's own is used.
void save_image(AutogradContext* ctx, const Tensor& img) {
  const ImageDescription said = description_of(img);
  ctx->save_for_backward({img});
  ctx->saved_data["color_space"] = said.color_space;
  ctx->saved_data["channel_order"] = said.channel_order;
  std::vector<double> range;
  if (said.value_range) range = {said.value_range->first, said.value_range->second};
  ctx->saved_data["value_range"] = std::move(range);
}
Tensor saved_image(AutogradContext* ctx) {
  Tensor img = ctx->get_saved_variables()[0];
  ImageDescription said{ctx->saved_data["color_space"].toStringRef(),
                        ctx->saved_data["channel_order"].toStringRef(), std::nullopt};
  const auto range = doubles(ctx, "value_range");
  if (!range.empty()) said.value_range = {range[0], range[1]};
  if (description_of(img) == said) return img;
  img = at::alias(img);
  describe(img, std::move(said));
  return img;
}
SymIntArrayRef last_two(SymIntArrayRef sizes) {
  return sizes.slice(sizes.size() - std::min<size_t>(2, sizes.size()));
}

struct Crop : Function<Crop> {
  static Tensor forward(AutogradContext* ctx, const Tensor& pic, SymIntArrayRef box) {
    at::AutoDispatchBelowADInplaceOrView guard;
    Tensor out = call_crop(pic, box);
    save(ctx, "box", box);
    save(ctx, "sizes", pic.sym_sizes());
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto box = syms(ctx, "box");
    const Tensor zeros = grads[0].new_zeros_symint(syms(ctx, "sizes"));
    return {call_paste(zeros, grads[0], SymIntArrayRef(box.data(), 2)), {}};
  }
};

struct Paste : Function<Paste> {
  static Tensor forward(AutogradContext* ctx, const Tensor& im1, const Tensor& im2,
                        SymIntArrayRef coord) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save(ctx, "coord", coord);
    save(ctx, "sizes", im2.sym_sizes());
    return call_paste(im1, im2, coord);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto coord = syms(ctx, "coord"), sizes = syms(ctx, "sizes");
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      result[0] = call_paste(grads[0], grads[0].new_zeros_symint(sizes), SymIntArrayRef(coord));
    }
    if (ctx->needs_input_grad(1)) {
      const std::vector<SymInt> box{coord[0], coord[1], coord[0] + sizes[sizes.size() - 1],
                                    coord[1] + sizes[sizes.size() - 2]};
      result[1] = call_crop(grads[0], SymIntArrayRef(box));
    }
    return result;
  }
};

struct Flip : Function<Flip> {
  static Tensor forward(AutogradContext* ctx, const Tensor& img, bool horizontal, bool vertical) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->saved_data["horizontal"] = horizontal;
    ctx->saved_data["vertical"] = vertical;
    return call_flip(img, horizontal, vertical);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {call_flip(grads[0], ctx->saved_data["horizontal"].toBool(),
                      ctx->saved_data["vertical"].toBool()),
            {},
            {}};
  }
};

struct Resize : Function<Resize> {
  static Tensor forward(AutogradContext* ctx, const Tensor& img, SymIntArrayRef size,
                        std::string_view interpolation, bool antialias) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save(ctx, "size", last_two(img.sym_sizes()));
    ctx->saved_data["interpolation"] = std::string(interpolation);
    ctx->saved_data["antialias"] = antialias;
    return call_resize(img, size, interpolation, antialias);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto size = syms(ctx, "size");
    const std::string interpolation = ctx->saved_data["interpolation"].toStringRef();
    return {call__resize_backward(grads[0], SymIntArrayRef(size), std::string_view(interpolation),
                                  ctx->saved_data["antialias"].toBool()),
            {},
            {},
            {}};
  }
};

struct Affine : Function<Affine> {
  static Tensor forward(AutogradContext* ctx, const Tensor& img, at::ArrayRef<double> matrix,
                        at::OptionalSymIntArrayRef size, std::string_view interpolation,
                        std::optional<at::ArrayRef<double>> fill) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save(ctx, "matrix", matrix);
    save(ctx, "size", last_two(img.sym_sizes()));
    ctx->saved_data["interpolation"] = std::string(interpolation);
    return call_affine(img, matrix, size, interpolation, fill);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto matrix = doubles(ctx, "matrix");
    const auto size = syms(ctx, "size");
    const std::string interpolation = ctx->saved_data["interpolation"].toStringRef();
    return {call__affine_backward(grads[0], at::ArrayRef<double>(matrix), SymIntArrayRef(size),
                                  std::string_view(interpolation)),
            {},
            {},
            {},
            {}};
  }
};

struct Normalize : Function<Normalize> {
  static Tensor forward(AutogradContext* ctx, const Tensor& img, at::ArrayRef<double> mean,
                        at::ArrayRef<double> std) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save_image(ctx, img);  // the result's description has the range that was mapped to 0 to 1
    save(ctx, "std", std);
    return call_normalize(img, mean, std);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto std = doubles(ctx, "std");
    return {
        call__normalize_backward(grads[0], saved_image(ctx), at::ArrayRef<double>(std)), {}, {}};
  }
};

struct GaussianBlur : Function<GaussianBlur> {
  static Tensor forward(AutogradContext* ctx, const Tensor& img, at::ArrayRef<double> radius) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save(ctx, "radius", radius);
    return call_gaussian_blur(img, radius);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto radius = doubles(ctx, "radius");
    return {call__gaussian_blur_backward(grads[0], at::ArrayRef<double>(radius)), {}};
  }
};

template <AdjustOp op>
struct Adjust : Function<Adjust<op>> {
  static Tensor forward(AutogradContext* ctx, const Tensor& img, double factor) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save_image(ctx, img);
    ctx->saved_data["factor"] = factor;
    switch (op) {
      case AdjustOp::kBrightness:
        return call_adjust_brightness(img, factor);
      case AdjustOp::kContrast:
        return call_adjust_contrast(img, factor);
      case AdjustOp::kSaturation:
        return call_adjust_saturation(img, factor);
      default:
        return call_adjust_hue(img, factor);
    }
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {call__adjust_backward(grads[0], saved_image(ctx), static_cast<int64_t>(op),
                                  ctx->saved_data["factor"].toDouble()),
            {}};
  }
};

template <typename F>
struct Apply;
template <typename... Args>
struct Apply<Tensor(AutogradContext*, Args...)> {
  template <typename Derivative>
  static Tensor call(Args... args) {
    return Derivative::apply(args...);
  }
};
template <typename Derivative>
constexpr auto kernel = &Apply<decltype(Derivative::forward)>::template call<Derivative>;

void register_derivatives(torch::Library& m) {
  m.impl("crop", kernel<Crop>);
  m.impl("paste", kernel<Paste>);
  m.impl("flip", kernel<Flip>);
  m.impl("resize", kernel<Resize>);
  m.impl("affine", kernel<Affine>);
  m.impl("normalize", kernel<Normalize>);
  m.impl("gaussian_blur", kernel<GaussianBlur>);
  m.impl("adjust_brightness", kernel<Adjust<AdjustOp::kBrightness>>);
  m.impl("adjust_contrast", kernel<Adjust<AdjustOp::kContrast>>);
  m.impl("adjust_saturation", kernel<Adjust<AdjustOp::kSaturation>>);
  m.impl("adjust_hue", kernel<Adjust<AdjustOp::kHue>>);
  for (const char* name : {"_resize_backward", "_affine_backward", "_normalize_backward",
                           "_gaussian_blur_backward", "_adjust_backward"}) {
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
  }
}

TORCH_LIBRARY_IMPL(torch_ocl, AutogradPrivateUse1, m) { register_derivatives(m); }
TORCH_LIBRARY_IMPL(torch_ocl, AutogradCPU, m) { register_derivatives(m); }

}  // namespace
}  // namespace ocl::image

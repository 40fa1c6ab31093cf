// Random variates that need an unknown number of uniform numbers, and operators that call other
// random operators.
#include <ATen/ExpandUtils.h>
#include <ATen/ceil_div.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

#include <limits>

#include "backend/base/error.h"
#include "backend/queue/fault.h"
#include "generator/captured_draws.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/random_variates.h"

namespace ocl {
namespace {

using at::Tensor;
using MaybeGenerator = std::optional<at::Generator>;

struct Variate {
  const char *name, *draw;  // an expression of x, y and the source (random_variate.cl)
  size_t cost;              // cost of an element, in additions
};
constexpr Variate kGamma{"_standard_gamma", "standard_gamma(x, &source)", 128};
constexpr Variate kLogGamma{"_sample_dirichlet", "log_gamma(x, &source)", 128};
constexpr Variate kPoisson{"poisson", "poisson(x, &source)", 256};
constexpr Variate kBinomial{"binomial", "binomial(x, y, &source)", 256};

double least_normal(ScalarType type) {
  return type == ScalarType::Half     ? 0x1p-14
         : type == ScalarType::Double ? std::numeric_limits<double>::min()
                                      : std::numeric_limits<float>::min();
}

// The greatest number below 1.
double below_one(ScalarType type) {
  return type == ScalarType::Half       ? 1 - 0x1p-11
         : type == ScalarType::BFloat16 ? 1 - 0x1p-8
         : type == ScalarType::Double   ? 1 - 0x1p-53
                                        : 1 - 0x1p-24;
}

// The type in which sums and samples are computed, so that rounding does not show.
ScalarType widest(const Tensor& tensor) {
  return ocl_device(tensor).properties().has_fp64 ? ScalarType::Double
                                                  : compute_type(tensor.scalar_type());
}

struct RandomVariate {
  const char* draw;
  ScalarType type, y;

  KernelSource source(Device&) const {
    Defines defines = compute_defines(compute_type(type));
    defines.set("OUT", dtype_name(type)).set("X", dtype_name(type));
    if (y != ScalarType::Undefined) defines.set("Y", dtype_name(y));
    defines.set("TINY", str("L(", std::hexfloat, least_normal(type), ")"));
    defines.set("DRAW", draw);
    return {"random_variate.cl", "random_variate", defines};
  }
};

// x and y have the same sizes; y may be undefined.
Tensor draw(const Variate& variate, const Tensor& x, const Tensor& y,
            const MaybeGenerator& generator) {
  const ScalarType type = x.scalar_type();
  Device& device = ocl_device(x);
  check_device_has(device, type, variate.name);
  check_floating(device, type, variate.name);
  const Tensor xs = x.contiguous(), ys = y.defined() ? y.contiguous() : y;
  const Tensor out = at::empty_like(xs);
  const auto count = static_cast<size_t>(out.numel());
  if (count == 0) return out;
  const PhiloxState state = ocl::draw(generator, out.get_device(), count);
  const ScalarType y_type = y.defined() ? y.scalar_type() : ScalarType::Undefined;
  Arguments arguments(stream_of(out),
                      find_kernel(device, RandomVariate{variate.draw, type, y_type}));
  arguments.add(view(out)).add(view(xs));
  if (y.defined()) arguments.add(view(ys));
  add_philox(arguments, state);
  arguments.add(uint64_t{count});
  if (device.family() == KernelFamily::kGpu) {
    const size_t group = arguments.group();
    arguments.add(uint64_t{1}).enqueue({at::round_up(count, group)}, {group});
  } else {
    const TaskShares shares = task_shares(device, count, count * variate.cost);
    arguments.add(shares.per_task).enqueue({shares.tasks}, {1});
  }
  return out;
}

// Draws positions in rows of relative frequencies: the first position whose cumulative sum reaches
// a uniform number from (0, sum]. A position of frequency zero is never drawn: it gets the greatest
// sum before it, which no number reaches there first.
void multinomial_with_replacement(Tensor& result, const Tensor& self, int64_t samples,
                                  MaybeGenerator generator) {
  const Tensor cumulative = self.cumsum(-1, widest(self));
  const Tensor sums = std::get<0>(at::where(self.gt(0), cumulative, -1).cummax(-1));
  const Tensor total = sums.narrow(-1, -1, 1);
  const Tensor valid =
      self.ge(0).all().logical_and(total.gt(0).logical_and(total.isfinite()).all());
  TORCH_CHECK(valid.item<bool>(),
              "invalid multinomial distribution: its entries must be finite and not negative, and "
              "their sum above zero");
  at::DimVector sizes(self.sizes());
  sizes.back() = samples;
  const Tensor uniform = at::rand(sizes, generator, sums.options());
  result.copy_(at::searchsorted(sums, uniform.neg().add(1).mul(total)));
}

}  // namespace

namespace native {

OCL_NATIVE_AS("_standard_gamma", standard_gamma, draw(kGamma, self, {}, generator))

OCL_NATIVE("poisson", poisson);
Tensor poisson(const Tensor& self, std::optional<at::Generator> generator) {
  static const int site = fault_site({"aten::poisson", FaultClass::kRuntime, "the rate of element",
                                      "numbers that are not less than"});
  const Tensor rates = draw(kPoisson, self, {}, generator);
  check_range(self, {0, std::numeric_limits<double>::infinity(), 0, site});
  return rates;
}

OCL_NATIVE("binomial", binomial);
Tensor binomial(const Tensor& count, const Tensor& prob, std::optional<at::Generator> generator) {
  TORCH_CHECK_VALUE(
      count.is_floating_point(),
      "binomial only supports floating-point dtypes for count, got: ", count.scalar_type());
  TORCH_CHECK_VALUE(
      prob.is_floating_point(),
      "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  const auto [x, y] = at::expand_outplace(count, prob);
  return draw(kBinomial, *x, *y, generator);
}

OCL_NATIVE("_sample_dirichlet", sample_dirichlet);
Tensor sample_dirichlet(const Tensor& self, std::optional<at::Generator> generator) {
  const ScalarType type = self.scalar_type();
  const Tensor sample = draw(kLogGamma, self.to(widest(self)), {}, generator).softmax(-1);
  return sample.to(type).clamp_(least_normal(type), below_one(type));
}

OCL_NATIVE("rrelu_with_noise.out", rrelu_with_noise_out);
Tensor& rrelu_with_noise_out(const Tensor& self, Tensor& noise, const Scalar& lower,
                             const Scalar& upper, bool training,
                             std::optional<at::Generator> generator, Tensor& out) {
  if (!training) {
    return at::leaky_relu_out(out, self, (lower.toDouble() + upper.toDouble()) / 2);
  }
  TORCH_CHECK(self.sizes() == noise.sizes(), "noise tensor shape must match self tensor shape. ",
              "Got self.shape = ", self.sizes(), " noise.shape = ", noise.sizes());
  noise.uniform_(lower.toDouble(), upper.toDouble(), generator);
  noise.masked_fill_(self.le(0).logical_not_(), 1);
  return at::mul_out(out, self, noise);
}

OCL_NATIVE("rrelu_with_noise", rrelu_with_noise);
Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper,
                        bool training, std::optional<at::Generator> generator) {
  Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return rrelu_with_noise_out(self, noise, lower, upper, training, generator, out);
}

OCL_NATIVE_AS("rrelu_with_noise_", rrelu_with_noise_,
              rrelu_with_noise_out(self, noise, lower, upper, training, generator, self))

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("multinomial", multinomial_with_replacement_stub, &ocl::multinomial_with_replacement)

}  // namespace at::native

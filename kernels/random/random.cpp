// Random numbers: the distributions for PyTorch's stubs, and dropout.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ceil_div.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <cmath>

#include "backend/base/error.h"
#include "backend/queue/fault.h"
#include "generator/captured_draws.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/pointwise/pointwise.h"
#include "native/random.h"

namespace ocl {
namespace {

using at::Tensor;
using at::TensorBase;
using MaybeGenerator = std::optional<at::Generator>;

// random.cl explains the expressions.
struct Distribution {
  const char* name;
  const char* expression;
  bool normal = false;
  size_t words = 1;       // the fewest 32-bit words per element
  bool floating = false;  // for floating-point types only
  bool integers = false;  // the expression uses integers
};

constexpr Distribution kUniform{
    .name = "uniform",
    .expression = "(ROUNDED(UNIT(w) * s1 + s0) < s2 ? UNIT(w) * s1 + s0 : (V)(s0))",
    .floating = true};
constexpr Distribution kNormal{
    .name = "normal", .expression = "z * s1 + s0", .normal = true, .floating = true};
constexpr Distribution kLogNormal{
    .name = "log_normal", .expression = "exp(z * s1 + s0)", .normal = true, .floating = true};
constexpr Distribution kExponential{
    .name = "exponential", .expression = "fmax(exponential_of(w), s1) * s0", .floating = true};
constexpr Distribution kCauchy{
    .name = "cauchy", .expression = "cauchy_of(w) * s1 + s0", .floating = true};
constexpr Distribution kGeometric{"geometric", "ceil(exponential_of(w) * s0)"};
constexpr Distribution kBernoulli{"bernoulli", "CHANCE(w)"};
constexpr Distribution kBernoulliTensor{"bernoulli_tensor",
                                        "CHANCE_OF(w, CONVERT(ulong, rint(x * C(4294967296))))"};
constexpr Distribution kBernoulliDouble{"bernoulli_double", "UNIT(w) < x ? C(1) : C(0)"};
constexpr Distribution kIntegers{
    .name = "random", .expression = "BELOW(w) + base", .integers = true};
constexpr Distribution kWideIntegers{
    .name = "random_64", .expression = "BELOW_64(w) + base", .words = 2, .integers = true};
constexpr Distribution kWidestIntegers{
    .name = "random_128", .expression = "BELOW_128(w, rest) + base", .words = 4, .integers = true};
constexpr Distribution kAllBits{
    .name = "random_bits", .expression = "AS(long, w)", .words = 2, .integers = true};
constexpr Distribution kDropout{.name = "dropout", .expression = "", .floating = true};

struct Numbers {
  std::array<double, 3> s{};
  uint64_t range = 0;
  int64_t base = 0;
};

// Binary digits of uniform numbers: few enough that rounding to the type or to float changes
// nothing.
int digits_of(ScalarType type) {
  switch (type) {
    case ScalarType::Double:
      return 53;
    case ScalarType::Half:
      return 11;
    case ScalarType::BFloat16:
      return 8;
    default:
      return 24;
  }
}

struct Draw {
  const Distribution* distribution;
  ScalarType out, in, compute;  // `in` may be undefined
  uint8_t words;
  uint16_t width;

  KernelSource source(Device&) const {
    const std::string name = str(distribution->name, "_", dtype_name(out));
    Defines defines = compute_defines(compute);
    defines.set("KERNEL", name)
        .set("OUT", dtype_name(out))
        .set("WIDTH", int64_t{width})
        .set("WORDS", int64_t{words})
        .set("DIGITS", digits_of(distribution == &kUniform ? out : compute))
        .set("EXPR", distribution->expression);
    if (distribution == &kUniform && c10::isReducedFloatingType(out)) {
      defines.set("ROUNDED(x)", str("ROUNDED_", dtype_name(out), "(x)"));
    }
    if (distribution->normal) defines.set("NORMAL", 1);
    if (distribution->integers) defines.set("STORED_AS_IT_IS", 1);
    if (in != ScalarType::Undefined) defines.set("IN", dtype_name(in));
    if (distribution == &kDropout) defines.set("DROPOUT", 1);
    return {"random.cl", name, defines};
  }
};

Draw make_draw(const Distribution& distribution, ScalarType out, Device& device, ScalarType in) {
  // Geometric integers may have more digits than float.
  const bool exact_integers =
      &distribution == &kGeometric && c10::isIntegralType(out, /*includeBool=*/true);
  const bool is_double = out == ScalarType::Double || in == ScalarType::Double ||
                         (exact_integers && device.properties().has_fp64);
  check_device_has(device, is_double ? ScalarType::Double : out, distribution.name);
  if (distribution.floating) check_floating(device, out, distribution.name);
  const size_t words = std::max<size_t>(is_double ? 2 : 1, distribution.words);
  const size_t width =
      device.family() == KernelFamily::kCpu ? device.parameters().vector_width / words : 1;
  const ScalarType compute = is_double ? ScalarType::Double : ScalarType::Float;
  return {
      &distribution, out, in, compute, static_cast<uint8_t>(words), static_cast<uint16_t>(width)};
}

// Tensors are dense, in the same order of memory; `in` and `mask` may be undefined.
void draw_dense(const Distribution& distribution, const Tensor& out, const Tensor& in,
                const Tensor& mask, const Numbers& numbers, const MaybeGenerator& maybe_generator) {
  Device& device = ocl_device(out);
  const Draw draw = make_draw(distribution, out.scalar_type(), device,
                              in.defined() ? in.scalar_type() : ScalarType::Undefined);
  const auto count = static_cast<size_t>(out.numel());
  const size_t per_block = 64 / draw.words;
  const size_t counters = at::ceil_div(count, per_block) * 16;
  const PhiloxState state = ocl::draw(maybe_generator, out.get_device(), counters);
  Arguments arguments(stream_of(out), find_kernel(device, draw));
  arguments.add(view(out));
  if (in.defined()) arguments.add(view(in));
  if (mask.defined()) arguments.add(view(mask));
  add_philox(arguments, state);
  add_numbers(arguments, numbers.s, draw.compute);
  arguments.add(numbers.range).add(numbers.base);
  arguments.add(uint64_t{count});

  const DeviceParameters& parameters = device.parameters();
  const size_t units = counters / draw.width;
  if (device.family() == KernelFamily::kGpu) {
    const size_t group = arguments.group();
    arguments.add(uint64_t{1}).enqueue({at::round_up(units, group)}, {group});
    return;
  }
  const size_t tasks = std::clamp<size_t>(count * 4 / parameters.grain, 1, parameters.tasks);
  const size_t per_task = at::ceil_div(units, tasks);
  arguments.add(uint64_t{per_task}).enqueue({at::ceil_div(units, per_task)}, {1});
}

void draw(const Distribution& distribution, const TensorBase& out_base, const Numbers& numbers,
          const MaybeGenerator& generator, const Tensor& in = {}) {
  if (out_base.numel() == 0) return;
  const Tensor out(out_base);
  if (out.is_contiguous()) return draw_dense(distribution, out, in, {}, numbers, generator);
  const Tensor dense = at::empty_like(out, at::MemoryFormat::Contiguous);
  draw_dense(distribution, dense, in, {}, numbers, generator);
  out.copy_(dense);
}

// The probability in units of 2^-32: it is the share of random words below this number.
uint64_t words_of(double probability) {
  return static_cast<uint64_t>(std::llround(std::ldexp(probability, 32)));
}

void uniform(at::TensorIteratorBase& iter, double from, double to, MaybeGenerator generator) {
  // Rounds the limits to the type first, as on the CPU.
  from = as_element(from, iter.dtype(0)).to<double>();
  to = as_element(to, iter.dtype(0)).to<double>();
  draw(kUniform, iter.tensor(0), {{from, to - from, to}}, generator);
}
void normal(const TensorBase& self, double mean, double std, MaybeGenerator generator) {
  draw(kNormal, self, {{mean, std}}, generator);
}
void log_normal(at::TensorIteratorBase& iter, double mean, double std, MaybeGenerator generator) {
  draw(kLogNormal, iter.tensor(0), {{mean, std}}, generator);
}
void exponential(at::TensorIteratorBase& iter, double lambda, MaybeGenerator generator) {
  const double least = iter.dtype(0) == ScalarType::Half ? 0x1p-24 : 0;  // rounding must not give 0
  draw(kExponential, iter.tensor(0), {{1 / lambda, least}}, generator);
}
void cauchy(at::TensorIteratorBase& iter, double median, double sigma, MaybeGenerator generator) {
  draw(kCauchy, iter.tensor(0), {{median, sigma}}, generator);
}
void geometric(at::TensorIteratorBase& iter, double p, MaybeGenerator generator) {
  draw(kGeometric, iter.tensor(0), {{-1 / std::log1p(-p)}}, generator);
}
void bernoulli_scalar(const TensorBase& self, double p, MaybeGenerator generator) {
  draw(kBernoulli, self, {{}, words_of(p)}, generator);
}
void bernoulli_tensor(const TensorBase& self, const TensorBase& p, MaybeGenerator generator) {
  const Tensor given = Tensor(p).to(self.device());
  static const int site = fault_site(
      {"aten::bernoulli", FaultClass::kRuntime, "the probability of element", "numbers from 0 to"});
  check_range(given, {0, 1, 1, site});
  at::assert_no_partial_overlap(self, given);
  const Tensor probability = given.expand(self.sizes()).contiguous();
  const bool is_double =
      self.scalar_type() == ScalarType::Double || probability.scalar_type() == ScalarType::Double;
  draw(is_double ? kBernoulliDouble : kBernoulliTensor, self, {}, generator, probability);
}

void random_from_to(at::TensorIteratorBase& iter, uint64_t range, int64_t base,
                    MaybeGenerator generator) {
  // If the range is not a power of two, random words cannot be divided equally. With 12 more bits
  // than the range has, frequencies differ by at most a factor 1 + 2^-12.
  const bool equal = (range & (range - 1)) == 0;
  const auto fits = [&](int bits) { return range >> (equal ? bits : bits - 12) == 0; };
  const Distribution& distribution = fits(32)            ? kIntegers
                                     : equal || fits(64) ? kWideIntegers
                                                         : kWidestIntegers;
  draw(distribution, iter.tensor(0), {{}, range, base}, generator);
}
void random_all_bits(at::TensorIteratorBase& iter, MaybeGenerator generator) {
  draw(kAllBits, iter.tensor(0), {}, generator);
}
// Draws integers from 0 to the greatest number of an integer type. For a floating-point type, the
// last number is the one up to which the type represents all integers.
void random(at::TensorIteratorBase& iter, MaybeGenerator generator) {
  const ScalarType type = iter.dtype(0);
  uint64_t range = 2;  // the range for bool
  if (c10::isFloatingType(type)) {
    range = (uint64_t{1} << digits_of(type)) + 1;
  } else if (type != ScalarType::Bool) {
    const bool sign = c10::isSignedType(type);
    const uint64_t bits = 8 * c10::elementSize(type) - (sign ? 1 : 0);
    if (bits == 64) return random_all_bits(iter, generator);
    range = uint64_t{1} << bits;
  }
  random_from_to(iter, range, 0, generator);
}

struct PhiloxStateKernel {
  KernelSource source(Device&) const { return {"philox_state.cl", "philox_state", {}}; }
};

// Seed and offset for the draws of generated kernels, in a tensor of two numbers. The argument
// `place`, a position in a program, only makes calls distinct.
Tensor draw_philox(int64_t counters, at::Device device, int64_t /*place*/) {
  TORCH_CHECK(device.is_privateuseone(), "draw_philox(): expected an ocl device, but got ", device);
  TORCH_CHECK_VALUE(counters >= 0, "draw_philox(): cannot draw ", counters, " times");
  const Tensor state = at::empty({2}, at::TensorOptions(device).dtype(ScalarType::Long));
  Arguments arguments(stream_of(state), find_kernel(ocl_device(state), PhiloxStateKernel{}));
  arguments.add(view(state));
  add_philox(arguments,
             ocl::draw(std::nullopt, state.get_device(), static_cast<uint64_t>(counters)));
  arguments.enqueue({1}, {1});
  return state;
}

// native_dropout with the random numbers of draw_philox()'s state, for programs that do not fuse
// it.
std::tuple<Tensor, Tensor> philox_dropout(const Tensor& x, double p, const Tensor& state) {
  TORCH_CHECK_VALUE(p > 0 && p < 1, "philox_dropout(): expected a p between 0 and 1, got ", p);
  TORCH_CHECK(state.scalar_type() == ScalarType::Long && state.numel() == 2,
              "philox_dropout(): expected the two numbers of ocl::draw_philox, got ",
              state.scalar_type(), " of shape ", state.sizes());
  TORCH_CHECK(x.is_floating_point(), "philox_dropout(): expected a floating-point tensor, got ",
              x.scalar_type());
  const Tensor host = state.cpu().contiguous();
  const auto* const words = host.const_data_ptr<int64_t>();
  at::Generator generator = make_generator(x.get_device());
  generator.set_current_seed(static_cast<uint64_t>(words[0]));
  generator.set_offset(static_cast<uint64_t>(words[1]));
  const Tensor in = x.contiguous(), out = at::empty_like(in);
  const Tensor mask = at::empty_like(in, in.options().dtype(ScalarType::Bool));
  draw_dense(kDropout, out, in, mask, {{1 / (1 - p)}, words_of(1 - p)}, generator);
  return {out, mask};
}

constexpr PointwiseOp kDropoutBackward{"dropout_backward", "a * b * C(s0)"};

}  // namespace

namespace native {

OCL_NATIVE("native_dropout", native_dropout);
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p,
                                          std::optional<bool> train) {
  const auto mask_options = input.options().dtype(ScalarType::Bool);
  const bool training = train.value_or(true);
  TORCH_CHECK(!training || !c10::isIntegralType(input.scalar_type(), /*includeBool=*/true),
              "result type Float can't be cast to the desired output type ", input.scalar_type());
  if (input.numel() == 0 || p == 0 || !training) {
    return {input.clone(), at::ones_like(input, mask_options)};
  }
  TORCH_CHECK(0 <= 1 - p && 1 - p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", 1 - p);
  if (p == 1) {  // draws nothing, like at::dropout
    return {input.mul(0), at::zeros_like(input, mask_options)};
  }
  const Tensor in = input.is_non_overlapping_and_dense() ? input : input.clone();
  const Tensor out = at::empty_like(in), mask = at::empty_like(in, mask_options);
  draw_dense(kDropout, out, in, mask, {{1 / (1 - p)}, words_of(1 - p)}, std::nullopt);
  return {out, mask};
}

OCL_NATIVE("native_dropout_backward", native_dropout_backward);
Tensor native_dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  if (!grad.is_floating_point() || mask.scalar_type() != ScalarType::Bool ||
      !std::isfinite(static_cast<float>(scale))) {
    return grad.mul(mask).mul(scale);  // each product promotes types
  }
  Tensor result;
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .check_all_same_dtype(false)
                                .declare_static_dtype(grad.scalar_type())
                                .add_output(result)
                                .add_const_input(grad)
                                .add_const_input(mask)
                                .build();
  pointwise(iter, kDropoutBackward, {scale}, grad.scalar_type());
  return iter.output();
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("uniform_", uniform_stub, &ocl::uniform)
OCL_STUB("normal", normal_stub, &ocl::normal)
OCL_COMPLEX("uniform_,normal_");  // draws both parts of a complex number
OCL_STUB("log_normal_", log_normal_stub, &ocl::log_normal)
OCL_STUB("exponential_", exponential_stub, &ocl::exponential)
OCL_STUB("cauchy_", cauchy_stub, &ocl::cauchy)
OCL_STUB("geometric_", geometric_stub, &ocl::geometric)
OCL_STUB("bernoulli_.float", bernoulli_scalar_stub, &ocl::bernoulli_scalar)
OCL_STUB("bernoulli_.Tensor,bernoulli.out", bernoulli_tensor_stub, &ocl::bernoulli_tensor)
OCL_STUB("random_.default", random_stub, &ocl::random)
OCL_STUB("random_.to", random_from_to_stub, &ocl::random_from_to)
OCL_STUB("random_.from", random_full_64_bits_range_stub, &ocl::random_all_bits)

}  // namespace at::native

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("draw_philox(SymInt counters, Device device, int place) -> Tensor",
        {at::Tag::nondeterministic_seeded});
  m.impl("draw_philox",
         torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(ocl::draw_philox)));
  m.def("philox_dropout(Tensor x, float p, Tensor state) -> (Tensor, Tensor)");
  m.impl("philox_dropout",
         torch::dispatch(c10::DispatchKey::PrivateUse1, TORCH_FN(ocl::philox_dropout)));
}

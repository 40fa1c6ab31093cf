// Random numbers: the distributions for PyTorch's stubs, and dropout.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ceil_div.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include <cmath>

#include "backend/error.h"
#include "backend/fault.h"
#include "generator/captured_draws.h"
#include "kernels/core/check_range.h"
#include "kernels/core/registration.h"
#include "kernels/core/tensors.h"
#include "kernels/pointwise/pointwise.h"
#include "native/random.h"

namespace ocl {
namespace {

using at::Tensor;
using at::TensorBase;
using MaybeGenerator = std::optional<at::Generator>;

// Expressions are explained in random.cl.
struct Distribution {
  const char* name;
  const char* expression;
  bool normal = false;
  bool wide = false;      // 64 bits per element, whatever its type
  bool floating = false;  // for floating-point types only
  bool integers = false;  // the expression is of integers
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
    .name = "exponential", .expression = "fmax(-log(OPEN_OR_ONE(w)), s1) * s0", .floating = true};
constexpr Distribution kCauchy{
    .name = "cauchy",
    .expression = "tan(L(3.14159265358979324) * (OPEN(w) - L(0.5))) * s1 + s0",
    .floating = true};
constexpr Distribution kGeometric{"geometric", "ceil(log(OPEN(w)) * s0)"};
constexpr Distribution kBernoulli{"bernoulli", "CHANCE(w)"};
constexpr Distribution kBernoulliTensor{"bernoulli_tensor", "UNIT(w) < x ? C(1) : C(0)"};
constexpr Distribution kIntegers{
    .name = "random", .expression = "BELOW(w) + base", .integers = true};
constexpr Distribution kWideIntegers{
    .name = "random_64", .expression = "BELOW_64(w) + base", .wide = true, .integers = true};
constexpr Distribution kAllBits{
    .name = "random_bits", .expression = "AS(long, w)", .wide = true, .integers = true};
constexpr Distribution kDropout{.name = "dropout", .expression = "", .floating = true};

struct Numbers {
  std::array<double, 3> s{};
  uint64_t range = 0;
  int64_t base = 0;
};

// Binary digits of uniform numbers, so few that rounding to the type or to float changes nothing.
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

struct Plan {
  const Distribution& distribution;
  Device& device;
  ScalarType out, compute;
  ScalarType in = ScalarType::Undefined;
  size_t words = 1;
  size_t width = 1;
};

Plan make_plan(const Distribution& distribution, ScalarType out, Device& device, ScalarType in) {
  const bool is_double = out == ScalarType::Double || in == ScalarType::Double;
  check_device_has(device, is_double ? ScalarType::Double : out, distribution.name);
  if (distribution.floating) check_floating(device, out, distribution.name);
  Plan plan{distribution, device, out, is_double ? ScalarType::Double : ScalarType::Float, in};
  plan.words = is_double || distribution.wide ? 2 : 1;
  if (device.family() == KernelFamily::kCpu) {
    plan.width = device.parameters().vector_width / plan.words;
  }
  return plan;
}

const Kernel& find(const Plan& plan) {
  KernelKey key{&plan.distribution};
  key.by[0] = static_cast<uint64_t>(plan.out) << 8 | static_cast<uint64_t>(plan.in);
  return find_kernel(plan.device, key, [&] {
    const std::string name = str(plan.distribution.name, "_", dtype_name(plan.out));
    Defines defines = compute_defines(plan.compute);
    defines.set("KERNEL", name)
        .set("OUT", dtype_name(plan.out))
        .set("WIDTH", static_cast<int64_t>(plan.width))
        .set("WORDS", static_cast<int64_t>(plan.words))
        .set("DIGITS", digits_of(&plan.distribution == &kUniform ? plan.out : plan.compute))
        .set("EXPR", plan.distribution.expression);
    if (&plan.distribution == &kUniform && c10::isReducedFloatingType(plan.out)) {
      defines.set("ROUNDED(x)", str("ROUNDED_", dtype_name(plan.out), "(x)"));
    }
    if (plan.distribution.normal) defines.set("NORMAL", 1);
    if (plan.distribution.integers) defines.set("STORED_AS_IT_IS", 1);
    if (plan.in != ScalarType::Undefined) defines.set("IN", dtype_name(plan.in));
    if (&plan.distribution == &kDropout) defines.set("DROPOUT", 1);
    return KernelSource{"random.cl", name, defines};
  });
}

// Tensors are dense, in the same order of memory; `in` and `mask` may be undefined.
void draw_dense(const Distribution& distribution, const Tensor& out, const Tensor& in,
                const Tensor& mask, const Numbers& numbers, const MaybeGenerator& maybe_generator) {
  const Plan plan = make_plan(distribution, out.scalar_type(), ocl_device(out),
                              in.defined() ? in.scalar_type() : ScalarType::Undefined);
  const auto count = static_cast<size_t>(out.numel());
  const size_t per_block = 64 / plan.words;
  const size_t counters = at::ceil_div(count, per_block) * 16;
  const PhiloxState state = ocl::draw(maybe_generator, out.get_device(), counters);
  Arguments arguments(stream_of(out), find(plan));
  arguments.add(view(out));
  if (in.defined()) arguments.add(view(in));
  if (mask.defined()) arguments.add(view(mask));
  add_philox(arguments, state);
  add_numbers(arguments, numbers.s, plan.compute);
  arguments.add(numbers.range).add(numbers.base);
  arguments.add(uint64_t{count});

  const DeviceParameters& parameters = plan.device.parameters();
  const size_t units = counters / plan.width;
  if (plan.device.family() == KernelFamily::kGpu) {
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

// The probability in units of 2^-32: random words below this number have it.
uint64_t words_of(double probability) {
  return static_cast<uint64_t>(std::llround(std::ldexp(probability, 32)));
}

void uniform(at::TensorIteratorBase& iter, double from, double to, MaybeGenerator generator) {
  // The limits are rounded to the type first, as on the CPU.
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
  // Replaces the logarithm of a uniform number that rounded to 1: never 0 in the type.
  const ScalarType type = iter.tensor(0).scalar_type();
  const double least = type == ScalarType::Double ? 0
                       : type == ScalarType::Half ? 0x1p-24
                                                  : 0x1p-25;
  draw(kExponential, iter.tensor(0), {{1 / lambda, least}}, generator);
}
void cauchy(at::TensorIteratorBase& iter, double median, double sigma, MaybeGenerator generator) {
  draw(kCauchy, iter.tensor(0), {{median, sigma}}, generator);
}
void geometric(at::TensorIteratorBase& iter, double p, MaybeGenerator generator) {
  draw(kGeometric, iter.tensor(0), {{1 / std::log1p(-p)}}, generator);
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
  draw(kBernoulliTensor, self, {}, generator, probability);
}

void random_from_to(at::TensorIteratorBase& iter, uint64_t range, int64_t base,
                    MaybeGenerator generator) {
  draw(range >> 32 ? kWideIntegers : kIntegers, iter.tensor(0), {{}, range, base}, generator);
}
void random_all_bits(at::TensorIteratorBase& iter, MaybeGenerator generator) {
  draw(kAllBits, iter.tensor(0), {}, generator);
}
// From 0 to the greatest number of an integer type, or to the last integer up to which a
// floating-point type represents all.
void random(at::TensorIteratorBase& iter, MaybeGenerator generator) {
  const ScalarType type = iter.dtype(0);
  uint64_t range = 2;  // for bool
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

// Seed and offset for the draws of generated kernels, in a tensor of two numbers. The argument
// `place`, a position in a program, only makes calls distinct.
Tensor draw_philox(int64_t counters, at::Device device, int64_t /*place*/) {
  TORCH_CHECK(device.is_privateuseone(), "draw_philox(): expected an ocl device, but got ", device);
  TORCH_CHECK_VALUE(counters >= 0, "draw_philox(): cannot draw ", counters, " times");
  const Tensor state = at::empty({2}, at::TensorOptions(device).dtype(ScalarType::Long));
  static Site site;
  const Kernel& kernel = find_kernel(ocl_device(state), {&site}, [] {
    return KernelSource{"philox_state.cl", "philox_state", Defines()};
  });
  Arguments arguments(stream_of(state), kernel);
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
  const Tensor host = state.cpu();
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
  if (input.numel() == 0 || p == 0 || (train.has_value() && !*train)) {
    return {input.clone(), at::ones_like(input, mask_options)};
  }
  TORCH_CHECK(0 <= 1 - p && 1 - p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", 1 - p);
  const Tensor in = input.is_non_overlapping_and_dense() ? input : input.clone();
  const Tensor out = at::empty_like(in), mask = at::empty_like(in, mask_options);
  draw_dense(kDropout, out, in, mask, {{p == 1 ? 0 : 1 / (1 - p)}, words_of(1 - p)}, std::nullopt);
  return {out, mask};
}

OCL_NATIVE("native_dropout_backward", native_dropout_backward);
Tensor native_dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  if (!grad.is_floating_point() || mask.scalar_type() != ScalarType::Bool ||
      !std::isfinite(static_cast<float>(scale))) {
    return grad.mul(mask).mul(scale);  // each product promotes
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
OCL_COMPLEX("uniform_,normal_");  // both parts are random
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

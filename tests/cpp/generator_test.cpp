#include "generator/generator.h"

#include <ATen/ops/empty.h>

#include "tests/cpp/support.h"

namespace ocl {
namespace {

GeneratorImpl& impl(const at::Generator& generator) {
  return *static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

TEST(Generator, LaunchesTakePartsOfOneSequence) {
  const at::Generator generator = make_generator(0);
  impl(generator).set_current_seed(7);
  const PhiloxState first = impl(generator).advance(100);
  const PhiloxState second = impl(generator).advance(1);
  EXPECT_EQ(first.seed, 7u);
  EXPECT_EQ(first.offset, 0u);
  EXPECT_EQ(second.offset, 100u);
  EXPECT_EQ(impl(generator).get_offset(), 101u);
}

TEST(Generator, SeedStartsTheSequenceAgain) {
  const at::Generator generator = make_generator(0);
  impl(generator).advance(5);
  impl(generator).set_current_seed(~uint64_t{0});
  EXPECT_EQ(impl(generator).current_seed(), ~uint64_t{0});
  EXPECT_EQ(impl(generator).get_offset(), 0u);
}

TEST(Generator, StateRoundTrip) {
  const at::Generator a = make_generator(0), b = make_generator(0);
  impl(a).set_current_seed(3);
  impl(a).advance(uint64_t{1} << 40);
  const auto state = impl(a).get_state();
  EXPECT_EQ(state->numel(), 16);
  EXPECT_TRUE(state->is_cpu());
  impl(b).set_state(*state);
  EXPECT_EQ(impl(b).current_seed(), 3u);
  EXPECT_EQ(impl(b).get_offset(), uint64_t{1} << 40);
}

TEST(Generator, StateOfAnotherSizeIsRefused) {
  const at::Generator generator = make_generator(0);
  const at::Tensor state = at::empty({8}, at::kByte), floats = at::empty({16}, at::kFloat);
  EXPECT_THROW(impl(generator).set_state(*state.unsafeGetTensorImpl()), c10::ValueError);
  EXPECT_THROW(impl(generator).set_state(*floats.unsafeGetTensorImpl()), c10::Error);
}

TEST(Generator, CloneIsIndependent) {
  const at::Generator generator = make_generator(0);
  impl(generator).advance(4);
  const at::Generator copy = generator.clone();
  impl(generator).advance(4);
  EXPECT_EQ(impl(copy).get_offset(), 4u);
  EXPECT_EQ(copy.device(), generator.device());
}

TEST(Generator, DefaultOneIsOfItsDevice) {
  EXPECT_EQ(default_generator(0), default_generator(0));
  EXPECT_NE(default_generator(0), default_generator(1));
  EXPECT_EQ(default_generator(1).device().index(), 1);
  EXPECT_THROW(default_generator(64), c10::Error);
}

}  // namespace
}  // namespace ocl

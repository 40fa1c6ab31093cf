#include "kernels/core/matrix_units/matrix_unit.h"

#include "backend/base/system.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

std::string unit_of(const Processor& processor) {
  const MatrixUnit* unit = matrix_unit_of(processor);
  return unit ? unit->name : "none";
}

Processor nvidia(unsigned capability) {
  return {.compute_capability = capability, .sub_group_size = 32};
}
Processor amd(std::string name, size_t lanes) {
  return {.gfx_name = std::move(name), .sub_group_size = lanes};
}
Processor intel(size_t lanes, bool has_matrices) {
  return {.sub_group_size = lanes, .has_intel_matrices = has_matrices};
}

TEST(MatrixUnit, IsOfTheProcessor) {
  const std::pair<Processor, std::string> expected[] = {
      {nvidia(61), "none"},  // Pascal
      {nvidia(70), "none"},  // Volta, whose layout is not documented
      {nvidia(72), "none"},
      {nvidia(75), "sm_75"},
      {nvidia(80), "sm_80"},
      {nvidia(86), "sm_80"},
      {nvidia(90), "sm_80"},
      {nvidia(120), "sm_80"},
      {amd("gfx803", 64), "none"},
      {amd("gfx1030", 32), "none"},
      {amd("gfx1100", 32), "gfx11"},
      {amd("gfx1151", 32), "gfx11"},
      {amd("gfx1100", 64), "none"},  // a compiler that is told to make sub-groups of 64
      {amd("gfx1200", 32), "gfx12"},
      {amd("gfx1201", 32), "gfx12"},
      {amd("gfx1250", 32), "none"},  // other instructions
      {amd("gfx908", 64), "none"},
      {amd("gfx90a", 64), "gfx90a"},
      {amd("gfx90c", 64), "none"},
      {amd("gfx942", 64), "gfx942"},
      {amd("AMD Radeon RX 7900 XTX (radeonsi, navi31)", 64), "none"},
      {intel(8, true), "intel_8"},    // Arc A770
      {intel(16, true), "intel_16"},  // Data Center GPU Max, Arc B580
      {intel(8, false), "none"},      // Gen9
      {intel(32, true), "none"},
      {{}, "none"},  // a CPU
      {{.has_amx = true}, "amx"},
  };
  for (const auto& [processor, name] : expected) {
    EXPECT_EQ(unit_of(processor), name) << processor.compute_capability << ' ' << processor.gfx_name
                                        << ' ' << processor.sub_group_size;
  }
}

TEST(MatrixUnit, HasWholeFragments) {
  for (const MatrixUnit& unit : matrix_units()) {
    for (const ScalarType type : {ScalarType::Half, ScalarType::BFloat16, ScalarType::Char}) {
      const UnitShape* shape = unit.shape(type);
      if (!shape) continue;
      EXPECT_EQ(shape->m * shape->n % unit.lanes, 0) << unit.name;
      EXPECT_EQ(16 % shape->m + 16 % shape->n, 0) << unit.name;
      EXPECT_GE(shape->rate, 1) << unit.name;
      const auto row_of_tile = 64 / static_cast<int64_t>(c10::elementSize(type));
      EXPECT_EQ(row_of_tile % shape->k, 0) << unit.name;
    }
    EXPECT_EQ(unit.shape(ScalarType::Float), nullptr);
  }
}

TEST(MatrixUnit, AmxIsKnownByAllItsFlags) {
  const std::string flags = "flags : avx512f avx512bw avx512_bf16 amx_bf16 avx512_fp16 amx_tile";
  EXPECT_FALSE(has_amx(""));
  EXPECT_FALSE(has_amx(flags));
  EXPECT_TRUE(has_amx(flags + " amx_int8"));
  EXPECT_TRUE(has_amx(flags + " amx_int8 flush_l1d"));
  EXPECT_FALSE(has_amx(flags + " amx_int8x"));
  EXPECT_FALSE(has_amx("flags : amx_tile amx_bf16 amx_int8"));  // AVX-512 is hidden
}

using DeviceMatrixUnit = test::DeviceTest;

TEST_P(DeviceMatrixUnit, IsKnownByTheProcessorAlone) {
  const Processor processor = processor_of(here());
  if (here().properties().type == "cpu") {
    const bool is_amx = here().family() == KernelFamily::kCpu && has_amx(host_instruction_sets());
    EXPECT_EQ(unit_of(processor), is_amx ? "amx" : "none");
  }
  EXPECT_EQ(matrix_unit(here()), matrix_unit_of(processor));
  EXPECT_NE(refusal_of_matrix_unit(here(), ScalarType::Float), nullptr);
}

OCL_ON_EVERY_DEVICE(DeviceMatrixUnit);

}  // namespace
}  // namespace ocl

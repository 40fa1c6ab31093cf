// The matrix units that kernels can use: a part of matrix_unit.cpp. UNIT_<name> in
// matrix_unit_*.clh is the code for the row <name>. Shapes are those of the instructions. Rates are
// rounded down from the vendors' figures for the unit's slowest device. Sums are the most that
// compilers keep in registers (docs/matrix_units.md).
namespace ocl {

// Whether the processor's name begins with `prefix`, and its kernels have sub-groups of this size.
inline bool is_gfx(const Processor& p, std::string_view prefix, size_t lanes) {
  return p.gfx_name.starts_with(prefix) && p.sub_group_size == lanes;
}

// clang-format off
inline constexpr MatrixUnit kMatrixUnits[] = {
    {"sm_80", [](const Processor& p) { return p.compute_capability >= 80; }, 32, 64,
     {16, 8, 16, 4}, {16, 8, 16, 4}, {16, 8, 32, 8}},
    {"sm_75", [](const Processor& p) { return p.compute_capability == 75; }, 32, 64,
     {16, 8, 8, 4}, {}, {8, 8, 16, 8}},
    {"gfx11", [](const Processor& p) { return is_gfx(p, "gfx11", 32); }, 32, 64,
     {16, 16, 16, 2}, {16, 16, 16, 2}, {16, 16, 16, 2}},
    {"gfx12", [](const Processor& p) { return is_gfx(p, "gfx120", 32); }, 32, 64,
     {16, 16, 16, 4}, {16, 16, 16, 4}, {16, 16, 16, 8}},
    {"gfx90a", [](const Processor& p) { return is_gfx(p, "gfx90a", 64); }, 64, 64,
     {16, 16, 16, 8}, {16, 16, 16, 8}, {16, 16, 16, 8}},
    {"gfx942", [](const Processor& p) { return is_gfx(p, "gfx94", 64); }, 64, 64,
     {16, 16, 16, 8}, {16, 16, 16, 8}, {16, 16, 32, 16}},
    {"intel_8", [](const Processor& p) { return p.has_intel_matrices && p.sub_group_size == 8; },
     8, 32, {8, 8, 16, 8}, {8, 8, 16, 8}, {8, 8, 32, 16}},
    {"intel_16", [](const Processor& p) { return p.has_intel_matrices && p.sub_group_size == 16; },
     16, 32, {8, 16, 16, 8}, {8, 16, 16, 8}, {8, 16, 32, 16}},
    {"amx", [](const Processor& p) { return p.has_amx; }, 1, 1024,
     {}, {16, 16, 32, 8}, {16, 16, 64, 16}, KernelFamily::kCpu},
};
// clang-format on

}  // namespace ocl

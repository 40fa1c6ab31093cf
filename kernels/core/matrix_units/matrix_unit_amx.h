// Sizes of matrix_unit_amx.clh and matrix_unit_amx_pack.clh, for hosts that allot scratch memory.
#pragma once

#include <cstdint>

namespace ocl::amx {

inline constexpr int64_t kBlock = 32;  // rows and columns: BLOCK
inline constexpr int64_t kBlockWords = kBlock * kBlock;
inline constexpr int64_t kStepWords = 512;    // STEP_WORDS
inline constexpr int64_t kSpareWords = 2560;  // SPARE_WORDS of float32, which takes most

}  // namespace ocl::amx

// Sets matches[0] to 1 if dot_bfloat16_cpu.clh computes correctly, else to 0.
#include "common.clh"
#include "dot_bfloat16_cpu.clh"

// The numbers 0 to 255 as bfloat16, which is exact.
static inline uint16 bits_of(const float16 x) { return as_uint16(x) >> 16; }

TASK __kernel void probe_dot_bfloat16(TENSOR(matches)) {
  const float16 lane = convert_float16(LANE_NUMBERS(int, 16)) + 1.0f;
  const uint16 a = bits_of(lane) | bits_of((float16)(2.0f)) << 16;
  const uint16 b = bits_of((float16)(3.0f)) | bits_of(lane + 4.0f) << 16;
  const float16 sum = dot_bfloat16(lane * 1000.0f, a, b);
  const float16 expected = lane * 1000.0f + lane * 3.0f + 2.0f * (lane + 4.0f);
  const uint16 rounded = bfloat16_bits(lane - 0.001f);  // rounds back to `lane`
  PTR(int, matches)[0] = all(sum == expected) && all(rounded == bits_of(lane));
}

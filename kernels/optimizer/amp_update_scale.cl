// Updates the scale of gradients. After a step with an infinite gradient it is multiplied by
// `backoff`; after `interval` consecutive steps without one, by `growth`, unless the result is
// infinite. Grid: one task.
#include "common.clh"

TASK __kernel void amp_update_scale(TENSOR(scale), TENSOR(growth_tracker), CTENSOR(found_inf),
                                    const float growth, const float backoff, const long interval) {
  __global float *s = PTR(float, scale);
  __global int *steps = PTR(int, growth_tracker);
  if (CPTR(float, found_inf)[0] != 0) {
    *s *= backoff;
    *steps = 0;
    return;
  }
  *steps += 1;
  if (*steps != interval) return;
  if (isfinite(*s * growth)) *s *= growth;
  *steps = 0;
}

// Multiplies gradients by `inv_scale`, in place. Sets `found_inf` to 1 if one is infinite or NaN.
// Grid: foreach.clh.
#include "foreach.clh"

#if WIDTH == 1
#define ANY(strange) ((strange) != 0)
#else
#define ANY(strange) (sum_of_lanes(strange) != 0)
#endif

#define APPLY(READ, WRITE)                        \
  READ(0, gradient)                               \
  strange = isfinite(gradient) ? strange : C(1);  \
  WRITE(0, gradient * inverse)

CHUNKED __kernel void amp_unscale(TABLE_PARAMS, TENSOR(found_inf), CTENSOR(inv_scale)) {
  OPEN_TABLE
  const T inverse = (T)CPTR(float, inv_scale)[0];
  FOR_CHUNKS(k) {
    FIND_CHUNK(k)
    POINTER(0)
    V strange = C(0);
    FOR_ELEMENTS(APPLY)
    if (ANY(strange)) PTR(float, found_inf)[0] = 1;
  }
}

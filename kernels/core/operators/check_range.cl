// Reports elements of type IN that are outside of `low` to `high`: their positions, or with
// INTEGERS their values. Both families.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"

#ifdef INTEGERS
#define PLACE(i, x) x
#else
#define PLACE(i, x) i
#endif

GRID __kernel void check_range(CTENSOR(in), const ulong count, const ulong per_item, const T low,
                               const T high, const long bound, FAULT_ARGUMENT) {
  FOR_UNITS(i, count, per_item) {
    const T x = LOAD(IN, CPTR(MEM(IN), in), i);
    if (!(x >= low && x <= high)) report_fault(FAULT_FORWARD, (long)PLACE(i, x), bound);
  }
}

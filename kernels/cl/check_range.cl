// Reports elements of type IN that are not from `low` to `high`; both families.
#include "common.clh"
#include "types.clh"
#include "math.clh"

__kernel void check_range(CTENSOR(in), const ulong count, const T low, const T high,
                          const long bound, FAULT_ARGUMENT) {
  for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) {
    const T x = LOAD(IN, CPTR(MEM(IN), in), i);
    if (!(x >= low && x <= high)) report_fault(FAULT_FORWARD, (long)i, bound);
  }
}

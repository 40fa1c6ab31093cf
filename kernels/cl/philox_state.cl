// Seed and offset of a generator, for kernels that were generated.
#include "common.clh"

__kernel void philox_state(TENSOR(out), const ulong seed, const ulong offset) {
  PTR(ulong, out)[0] = seed;
  PTR(ulong, out)[1] = offset;
}

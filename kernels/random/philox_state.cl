// Stores seed and offset of a generator in memory, for generated kernels.
#include "common.clh"

__kernel void philox_state(TENSOR(out), const ulong seed, const ulong offset) {
  PTR(ulong, out)[0] = seed;
  PTR(ulong, out)[1] = offset;
}

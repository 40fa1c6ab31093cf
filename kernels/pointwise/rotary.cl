// Rotary position embedding of rows: x * cos + cat(-x[middle:], x[:middle]) * sin. Products and the
// sum are rounded to IN (ROUNDED, and COMPUTE), as by separate operators.
// A unit of the grid is a row, whose elements i and middle + i are computed together.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#include "rotary_parameters.clh"
#pragma OPENCL FP_CONTRACT OFF

#define ROW(name) (CPTR(MEM(IN), name) + a * p.name[0] + b * p.name[1] + c * p.name[2])

GRID __kernel void rotary(CTENSOR(x), CTENSOR(cosine), CTENSOR(sine), TENSOR(out), const Rotary p,
                          const ulong units, const ulong per_item) {
  FOR_UNITS(u, units, per_item) {
    const long row = (long)u, c = row % p.size[2], b = row / p.size[2] % p.size[1],
               a = row / p.size[2] / p.size[1];
    __global const MEM(IN) *of_x = ROW(x), *cosines = ROW(cosine), *sines = ROW(sine);
    __global MEM(IN) *result = PTR(MEM(IN), out) + a * p.out[0] + b * p.out[1] + c * p.out[2];
    FOR_INNER(i, (ulong)p.middle) {
      const ulong j = i + p.middle;
      const T first = LOAD(IN, of_x, i), second = LOAD(IN, of_x, j);
      STORE(IN, result, i,
            ROUNDED(first * LOAD(IN, cosines, i)) + ROUNDED(-second * LOAD(IN, sines, i)));
      STORE(IN, result, j,
            ROUNDED(second * LOAD(IN, cosines, j)) + ROUNDED(first * LOAD(IN, sines, j)));
    }
  }
}

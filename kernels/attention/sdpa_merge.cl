// Joins the parts of keys of attention_decode (sdpa_decode.clh). Defines: DT and DV of
// sdpa.clh. units: rows of all heads; inner: DV.
#include "sdpa.clh"
#include "grid.clh"

GRID __kernel void attention_merge(TENSOR(out), TENSOR(log_sum), CTENSOR(partial),
                                   const Problem problem, const long parts, const ulong units,
                                   const ulong inner, const ulong per_item) {
  FOR_UNITS(u, units, per_item) {
    __global const float *part = CPTR(float, partial) + u * parts * PARTIAL_SIZE;
    float top = -INFINITY, total = 0;
    for (long p = 0; p < parts; ++p) top = fmax(top, part[p * PARTIAL_SIZE]);
    const float base = top == -INFINITY ? 0 : top;
    for (long p = 0; p < parts; ++p)
      total += exp(part[p * PARTIAL_SIZE] - base) * part[p * PARTIAL_SIZE + 1];
    const bool empty = total == 0;  // no key is visible
    const long row = u % problem.queries, head = u / problem.queries;
    __global MEM(DT) *result =
        OUT_MATRIX(OUT, out, head / problem.heads, head % problem.heads) + row * ROW(OUT);
    FOR_INNER(i, inner) {
      float sum = 0;
      for (long p = 0; p < parts; ++p)
        sum += exp(part[p * PARTIAL_SIZE] - base) * part[p * PARTIAL_SIZE + 2 + i];
      STORE(DT, result, i, empty ? 0 : sum / total);
      if (i == 0) PTR(float, log_sum)[u] = empty ? INFINITY : top + log(total);
    }
  }
}

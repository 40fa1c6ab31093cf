// Joins the parts of moments (moments.clh) and finishes with a `number`. A part has `share`
// elements, the last one what is left of `size`. Both families; a work-item per output.
//   VARIANCE     out = m2 / max(0, count - number), its root with ROOT; WITH_MEAN: mean, too
//   otherwise    mean, and out = 1 / sqrt(m2 / count + number), as normalisations keep them; with
//     RUNNING    running_mean and running_var move by `momentum` towards mean and unbiased variance
//     PARAM      the type of mean and out
#include "moments.clh"
#include "grid.clh"

GRID __kernel void moments_finish(CTENSOR(work), TENSOR(mean), TENSOR(out),
#ifdef RUNNING
                                  TENSOR(running_mean), TENSOR(running_var), const T momentum,
#endif
                                  const T number, const ulong outputs, const ulong parts,
                                  const ulong share, const ulong size, const ulong per_item) {
  FOR_UNITS(n, outputs, per_item) {
    __global const T *part_mean = CPTR(T, work) + n, *part_m2 = part_mean + parts * outputs;
    T count = (T)min(share, size), mean = part_mean[0], m2 = part_m2[0];
    for (ulong p = 1; p < parts; ++p) {
      const T more = (T)min(share, size - p * share);
      JOIN_MOMENTS(T, count, mean, m2, more, part_mean[p * outputs], part_m2[p * outputs])
    }
#ifdef VARIANCE
    const T variance = m2 / fmax(count - number, (T)0);
#ifdef ROOT
    STORE(PARAM, PTR(MEM(PARAM), out), n, sqrt(variance));
#else
    STORE(PARAM, PTR(MEM(PARAM), out), n, variance);
#endif
#ifdef WITH_MEAN
    STORE(PARAM, PTR(MEM(PARAM), mean), n, mean);
#endif
#else
    STORE(PARAM, PTR(MEM(PARAM), mean), n, mean);
    STORE(PARAM, PTR(MEM(PARAM), out), n, (T)1 / sqrt(m2 / count + number));
#ifdef RUNNING
#define MOVE(x, value)                                                                        \
  STORE(RUNNING, PTR(MEM(RUNNING), x), n,                                                     \
        (1 - momentum) * CAT(convert_, T)(LOAD(RUNNING, PTR(MEM(RUNNING), x), n)) + momentum * (value))
    MOVE(running_mean, mean);
    MOVE(running_var, m2 / (count - 1));
#endif
#endif
  }
}

// Pooling of volumes, contiguous: `planes` volumes of in[0] x in[1] x in[2], last dimension 2.
//   IN: element type (and COMPUTE)
//   ADAPTIVE: windows are equal shares of the volume; FRACTIONAL: their positions depend on random
//     samples [planes][samples]; dimension d uses sample p.sample[d]
//   max_pool3d: a NaN comes before all numbers; among equal elements the first one wins. Indices
//     are positions in a volume.
//   avg_pool3d, avg_pool3d_backward: an element of the gradient gathers from the windows that
//     contain it.
//   max_pool3d_parts, avg_pool3d_parts: for windows of thousands of elements. A work-item takes one
//     part of an output's window, whose elements are `parts` apart; ..._join combines the parts.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#include "pool3d_parameters.clh"

// The window of an output along one dimension: elements start, start + step, ... below end; `all`:
// their number with padding.
typedef struct {
  long start, end, step, all;
} Window;

#ifdef FRACTIONAL
#define SAMPLE_ARGUMENT CTENSOR(random),
#define SAMPLES , CPTR(MEM(IN), random) + plane * p.samples
#define SAMPLES_PARAMETER , __global const MEM(IN) *samples
// Rounds to the type IN, as if it were computed in that type.
static inline T rounded(const T x) {
  ulong bits;
  STORE(IN, (MEM(IN) *)&bits, 0, x);
  return LOAD(IN, (const MEM(IN) *)&bits, 0);
}
#else
#define SAMPLE_ARGUMENT
#define SAMPLES
#define SAMPLES_PARAMETER
#endif

static inline Window window_of(const long o, const Pool3 *p, const int d SAMPLES_PARAMETER) {
  Window w;
#ifdef ADAPTIVE
  w.start = o * p->in[d] / p->out[d];
  w.end = DIVIDE_UP((o + 1) * p->in[d], p->out[d]);
  w.all = w.end - w.start;
  w.step = 1;
#elif defined(FRACTIONAL)
  const long last = p->in[d] - p->extent[d];
  w.start = last;
  if (o + 1 < p->out[d]) {
    const T sample = LOAD(IN, samples, p->sample[d]);
    const T alpha = rounded(QUOTIENT((T)last, (T)(p->out[d] - 1)));
    w.start = (int)rounded(rounded(o + sample) * alpha) - (int)rounded(sample * alpha);
    w.start = clamp(w.start, 0L, last);  // samples should be from 0 to 1
  }
  w.end = min(w.start + p->extent[d], p->in[d]);
  w.all = p->extent[d];
  w.step = 1;
#else
  const long start = o * p->stride[d] - p->pad[d];
  const long end = start + (p->extent[d] - 1) * p->dilation[d] + 1;
  w.step = p->dilation[d];
  w.start = start < 0 ? start + ROUND_UP(-start, w.step) : start;
  w.end = min(end, p->in[d]);
  w.all = min(end, p->in[d] + p->pad[d]) - start;
#endif
  return w;
}

#define LOCATE(shape)                                                         \
  const long plane = (long)u / ((shape)[0] * (shape)[1]);                     \
  const long z = (long)u / (shape)[1] % (shape)[0], y = (long)u % (shape)[1]; \
  const long x = (long)i;
#define PLACE(shape, z, y, x) (((z) * (shape)[1] + (y)) * (shape)[2] + (x))
#define VOLUME(shape) ((shape)[0] * (shape)[1] * (shape)[2])
#define FIND_WINDOWS                                                                         \
  const Window zs = window_of(z, &p, 0 SAMPLES), ys = window_of(y, &p, 1 SAMPLES),           \
               xs = window_of(x, &p, 2 SAMPLES);
#define FOR_WINDOW                                     \
  for (long d = zs.start; d < zs.end; d += zs.step)    \
    for (long h = ys.start; h < ys.end; h += ys.step)  \
      for (long w = xs.start; w < xs.end; w += xs.step)

GRID __kernel void max_pool3d(CTENSOR(in), SAMPLE_ARGUMENT TENSOR(out), TENSOR(indices),
                              const Pool3 p, const ulong per_item) {
  const ulong length = (ulong)p.out[2];
  FOR_UNITS(u, (ulong)(p.planes * p.out[0] * p.out[1]), per_item) FOR_INNER(i, length) {
    LOCATE(p.out)
    FIND_WINDOWS
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane * VOLUME(p.in);
    long best = PLACE(p.in, zs.start, ys.start, xs.start);
    T most = LOWEST;
    FOR_WINDOW {
      const long at = PLACE(p.in, d, h, w);
      const T a = LOAD(IN, source, at);
      if (a > most || IS_NAN(a)) {
        most = a;
        best = at;
      }
    }
    STORE(IN, PTR(MEM(IN), out), u * length + i, most);
    PTR(long, indices)[u * length + i] = best;
  }
}

#define STEPS(w) ((w).start < (w).end ? DIVIDE_UP((w).end - (w).start, (w).step) : 0)
#define FOR_OUTPUTS(o) FOR_UNITS(o, (ulong)(p.planes * VOLUME(p.out)), per_item)
#define LOCATE_OUTPUT(o)                                                      \
  const ulong u = (o) / (ulong)p.out[2], i = (o) - u * (ulong)p.out[2];       \
  LOCATE(p.out)
#define FOR_PART(at, part)                                                                     \
  const long columns = STEPS(xs), rows = STEPS(ys), count = STEPS(zs) * rows * columns;        \
  for (long e = (long)(part); e < count; e += (long)parts) {                                   \
    const long line = e / columns, d = line / rows;                                            \
    const long at = PLACE(p.in, zs.start + d * zs.step, ys.start + (line - d * rows) * ys.step, \
                          xs.start + (e - line * columns) * xs.step);

GRID __kernel void max_pool3d_parts(CTENSOR(in), SAMPLE_ARGUMENT TENSOR(out), TENSOR(indices),
                                    const Pool3 p, const ulong parts, const ulong per_item) {
  FOR_OUTPUTS(o) FOR_INNER(part, parts) {
    LOCATE_OUTPUT(o)
    FIND_WINDOWS
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane * VOLUME(p.in);
    // If nothing is above the lowest number, the window's first element is the maximum.
    long best = part == 0 ? PLACE(p.in, zs.start, ys.start, xs.start) : LONG_MAX;
    T most = LOWEST;
    FOR_PART(at, part)
      const T a = LOAD(IN, source, at);
      if (a > most || IS_NAN(a)) {
        most = a;
        best = at;
      }
    }
    PTR(T, out)[o * parts + part] = most;
    PTR(long, indices)[o * parts + part] = best;
  }
}

GRID __kernel void max_pool3d_join(CTENSOR(values), CTENSOR(places), TENSOR(out), TENSOR(indices),
                                   const Pool3 p, const ulong parts, const ulong per_item) {
  FOR_OUTPUTS(o) FOR_INNER(i, (ulong)1) {
    __global const T *value = CPTR(T, values) + o * parts;
    __global const long *place = CPTR(long, places) + o * parts;
    T most = value[0];
    long best = place[0];
    for (ulong part = 1; part < parts; ++part) {
      const T a = value[part];
      const long at = place[part];
      // Finds the last NaN, else the first maximum.
      const int wins = IS_NAN(a) ? !IS_NAN(most) || at > best
                                 : a > most || (a == most && at < best);
      if (wins) {
        most = a;
        best = at;
      }
    }
    STORE(IN, PTR(MEM(IN), out), o, most);
    PTR(long, indices)[o] = best;
  }
}

#ifndef FRACTIONAL
static inline T divisor_of(const Window z, const Window y, const Window x, const Pool3 *p) {
  if (p->divisor) return (T)p->divisor;
  return p->count_padding ? (T)(z.all * y.all * x.all)
                          : (T)((z.end - z.start) * (y.end - y.start) * (x.end - x.start));
}

GRID __kernel void avg_pool3d(CTENSOR(in), TENSOR(out), const Pool3 p, const ulong per_item) {
  const ulong length = (ulong)p.out[2];
  FOR_UNITS(u, (ulong)(p.planes * p.out[0] * p.out[1]), per_item) FOR_INNER(i, length) {
    LOCATE(p.out)
    FIND_WINDOWS
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane * VOLUME(p.in);
    T sum = 0;
    FOR_WINDOW sum += LOAD(IN, source, PLACE(p.in, d, h, w));
    if (zs.start < zs.end && ys.start < ys.end && xs.start < xs.end)
      sum /= divisor_of(zs, ys, xs, &p);
    STORE(IN, PTR(MEM(IN), out), u * length + i, sum);
  }
}

GRID __kernel void avg_pool3d_parts(CTENSOR(in), TENSOR(out), const Pool3 p, const ulong parts,
                                    const ulong per_item) {
  FOR_OUTPUTS(o) FOR_INNER(part, parts) {
    LOCATE_OUTPUT(o)
    FIND_WINDOWS
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane * VOLUME(p.in);
    T sum = 0;
    FOR_PART(at, part)
      sum += LOAD(IN, source, at);
    }
    PTR(T, out)[o * parts + part] = sum;
  }
}

GRID __kernel void avg_pool3d_join(CTENSOR(sums), TENSOR(out), const Pool3 p, const ulong parts,
                                   const ulong per_item) {
  FOR_OUTPUTS(o) FOR_INNER(one, (ulong)1) {
    LOCATE_OUTPUT(o)
    FIND_WINDOWS
    T sum = 0;
    for (ulong part = 0; part < parts; ++part) sum += CPTR(T, sums)[o * parts + part];
    if (zs.start < zs.end && ys.start < ys.end && xs.start < xs.end)
      sum /= divisor_of(zs, ys, xs, &p);
    STORE(IN, PTR(MEM(IN), out), o, sum);
  }
}

#ifdef ADAPTIVE
#define FIRST(i, d) ((i)*p.out[d] / p.in[d])
#define LAST(i, d) (DIVIDE_UP((i + 1) * p.out[d], p.in[d]) - 1)
#else
#define FIRST(i, d) max(0L, ((i) + p.pad[d] - p.extent[d] + p.stride[d]) / p.stride[d])
#define LAST(i, d) min(p.out[d] - 1, ((i) + p.pad[d]) / p.stride[d])
#endif

GRID __kernel void avg_pool3d_backward(CTENSOR(in), TENSOR(out), const Pool3 p,
                                       const ulong per_item) {
  const ulong length = (ulong)p.in[2];
  FOR_UNITS(u, (ulong)(p.planes * p.in[0] * p.in[1]), per_item) FOR_INNER(i, length) {
    LOCATE(p.in)
    const long z_last = LAST(z, 0), y_last = LAST(y, 1), x_last = LAST(x, 2);
    __global const MEM(IN) *source = CPTR(MEM(IN), in) + plane * VOLUME(p.out);
    T sum = 0;
    for (long d = FIRST(z, 0); d <= z_last; ++d) {
      const Window zs = window_of(d, &p, 0);
      for (long h = FIRST(y, 1); h <= y_last; ++h) {
        const Window ys = window_of(h, &p, 1);
        for (long w = FIRST(x, 2); w <= x_last; ++w)
          sum += LOAD(IN, source, PLACE(p.out, d, h, w)) /
                 divisor_of(zs, ys, window_of(w, &p, 2), &p);
      }
    }
    STORE(IN, PTR(MEM(IN), out), u * length + i, sum);
  }
}
#endif

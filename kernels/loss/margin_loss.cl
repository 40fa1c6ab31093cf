// Margin losses of rows of `classes` scores; units of the grid (grid.clh) are rows.
//   IN: type of scores, weights and results; SQUARED: the margins are squared; WEIGHTED
//   multi_margin:           against one target class; losses are divided by `classes` only
//   multi_margin_backward:  times the gradient of each row
//   multilabel_margin:      against a list of targets that ends at the first -1; also writes a mask
//                           of the target classes
//   multilabel_backward
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"

#define X(d) LOAD(IN, CPTR(MEM(IN), x), n *classes + (d))

#ifdef WEIGHTED
#define WEIGHTS CTENSOR(weight),
#define WEIGHT(label) LOAD(IN, CPTR(MEM(IN), weight), label)
#else
#define WEIGHTS
#define WEIGHT(label) ((T)1)
#endif

#ifdef SQUARED
#define LOSS(z) ((z) * (z))
#define SLOPE(z) (2 * (z))
#else
#define LOSS(z) (z)
#define SLOPE(z) ((T)1)
#endif

#define FIND_LABEL(otherwise)                                \
  const long label = CPTR(long, target)[n];                  \
  if (label < 0 || label >= (long)classes) {                 \
    report_fault(FAULT_FORWARD, label, (long)classes);       \
    otherwise;                                               \
    continue;                                                \
  }

GRID __kernel void multi_margin(CTENSOR(x), WEIGHTS CTENSOR(target), TENSOR(out), const T margin,
                                const ulong rows, const ulong classes, const ulong per_item,
                                FAULT_ARGUMENT) {
  FOR_UNITS(n, rows, per_item) {
    FIND_LABEL(STORE(IN, PTR(MEM(IN), out), n, (T)0))
    const T least = margin - X(label);
    T sum = 0;
    for (ulong d = 0; d < classes; ++d) {
      const T z = least + X(d);
      if ((long)d != label && z > 0) sum += LOSS(z) * WEIGHT(label);
    }
    STORE(IN, PTR(MEM(IN), out), n, sum / classes);
  }
}

GRID __kernel void multi_margin_backward(CTENSOR(grad), CTENSOR(x), WEIGHTS CTENSOR(target),
                                         TENSOR(out), const T margin, const ulong rows,
                                         const ulong classes, const ulong per_item,
                                         FAULT_ARGUMENT) {
  FOR_UNITS(n, rows, per_item) {
    __global MEM(IN) *to = PTR(MEM(IN), out) + n * classes;
    FIND_LABEL()
    const T g = LOAD(IN, CPTR(MEM(IN), grad), n) / classes * WEIGHT(label);
    const T least = margin - X(label);
    T sum = 0;
    for (ulong d = 0; d < classes; ++d) {
      const T z = least + X(d);
      const T slope = (long)d != label && z > 0 ? g * SLOPE(z) : 0;
      sum -= slope;
      STORE(IN, to, d, slope);
    }
    STORE(IN, to, label, sum);
  }
}

// Loops over the targets of the row, until the list ends.
#define FOR_TARGETS                                                              \
  for (ulong k = 0; k < classes; ++k) {                                          \
    const long label = CPTR(long, target)[n * classes + k];                      \
    if (label == -1) break;                                                      \
    if (label < 0 || label >= (long)classes) {                                   \
      report_fault(FAULT_FORWARD, label, (long)classes);                         \
      break;                                                                     \
    }
#define IS_TARGET(d) (LOAD(IN, CPTR(MEM(IN), is_target), n *classes + (d)) != 0)

GRID __kernel void multilabel_margin(CTENSOR(x), CTENSOR(target), TENSOR(is_target), TENSOR(out),
                                     const ulong rows, const ulong classes, const ulong per_item,
                                FAULT_ARGUMENT) {
  FOR_UNITS(n, rows, per_item) {
    __global MEM(IN) *marks = PTR(MEM(IN), is_target) + n * classes;
    for (ulong d = 0; d < classes; ++d) STORE(IN, marks, d, (T)0);
    FOR_TARGETS
      STORE(IN, marks, label, (T)1);
    }
    T sum = 0;
    FOR_TARGETS
      const T least = 1 - X(label);
      for (ulong d = 0; d < classes; ++d) {
        const T z = least + X(d);
        if (!IS_TARGET(d) && z > 0) sum += z;
      }
    }
    STORE(IN, PTR(MEM(IN), out), n, sum / classes);
  }
}

GRID __kernel void multilabel_backward(CTENSOR(grad), CTENSOR(x), CTENSOR(target),
                                       CTENSOR(is_target), TENSOR(sums), TENSOR(out),
                                       const ulong rows, const ulong classes,
                                       const ulong per_item, FAULT_ARGUMENT) {
  FOR_UNITS(n, rows, per_item) {
    __global T *to = PTR(T, sums) + n * classes;
    const T g = LOAD(IN, CPTR(MEM(IN), grad), n) / classes;
    for (ulong d = 0; d < classes; ++d) to[d] = 0;
    FOR_TARGETS
      const T least = 1 - X(label);
      for (ulong d = 0; d < classes; ++d) {
        if (IS_TARGET(d) || !(least + X(d) > 0)) continue;
        to[d] += g;
        to[label] -= g;
      }
    }
    for (ulong d = 0; d < classes; ++d) STORE(IN, PTR(MEM(IN), out), n * classes + d, to[d]);
  }
}

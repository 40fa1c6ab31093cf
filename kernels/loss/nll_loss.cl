// Negative log-likelihood of a class per sample. `x` is [batch][classes][inner], targets
// [batch][inner]; sample n of batch * inner. A target equal to `ignore` is skipped; a target out of
// range reports a fault and is skipped.
//   IN: type of x, the weights and the results; WEIGHTED: there are weights
//   nll_each:    the loss of every sample. A work-item takes `per_item` samples.
//   nll_partial: sums `per_item` samples per work-item into `sums` [work-items][2]: loss, weight
//   nll_finish:  one work-item joins the `parts` sums; MEAN: divides by the weight.
//   nll_backward: adds to a zeroed gradient. EACH: a gradient per sample, else one; MEAN: divided
//                 by the total weight.
#include "common.clh"
#include "types.clh"
#include "math.clh"

#ifdef WEIGHTED
#define WEIGHTS CTENSOR(weight),
#define WEIGHT(target) LOAD(IN, CPTR(MEM(IN), weight), target)
#else
#define WEIGHTS
#define WEIGHT(target) ((T)1)
#endif
#define TARGETS CTENSOR(target), const ulong samples, const long classes, const ulong inner, \
                const long ignore, const ulong per_item, FAULT_ARGUMENT

// Loops over the work-item's samples whose `label` is a valid class.
#define FOR_SAMPLES                                                                    \
  const ulong last = min((get_global_id(0) + 1) * per_item, samples);                  \
  for (ulong n = get_global_id(0) * per_item; n < last; ++n) {                         \
    const long label = CPTR(long, target)[n];
#define SKIP_BAD(otherwise)                                                            \
    if (label == ignore || label < 0 || label >= classes) {                            \
      if (label != ignore) report_fault(FAULT_FORWARD, label, classes);                \
      otherwise;                                                                       \
      continue;                                                                        \
    }
#define POSITION (((n / inner) * (ulong)classes + (ulong)label) * inner + n % inner)

#ifndef BACKWARD

__kernel void nll_each(CTENSOR(x), WEIGHTS TENSOR(out), TARGETS) {
  FOR_SAMPLES
    SKIP_BAD(STORE(IN, PTR(MEM(IN), out), n, (T)0))
    const T loss = -LOAD(IN, CPTR(MEM(IN), x), POSITION) * WEIGHT(label);
    STORE(IN, PTR(MEM(IN), out), n, loss);
  }
}

// Kahan's summation, so that floats sum millions of samples without losing digits. (Infinity minus
// infinity would be NaN.)
#define ADD_EXACTLY(sum, lost, value)                     \
  {                                                       \
    const T term = (value) - lost;                        \
    const T next = sum + term;                            \
    lost = isfinite(next) ? (next - sum) - term : (T)0;   \
    sum = next;                                           \
  }

__kernel void nll_partial(CTENSOR(x), WEIGHTS TENSOR(sums), TARGETS) {
  if (get_global_id(0) * per_item >= samples) return;  // a group may have more items than parts
  T loss = 0, loss_lost = 0, total = 0, total_lost = 0;
  FOR_SAMPLES
    SKIP_BAD()
    const T w = WEIGHT(label);
    ADD_EXACTLY(loss, loss_lost, -LOAD(IN, CPTR(MEM(IN), x), POSITION) * w)
    ADD_EXACTLY(total, total_lost, w)
  }
  PTR(T, sums)[get_global_id(0) * 2] = loss;
  PTR(T, sums)[get_global_id(0) * 2 + 1] = total;
}

__kernel void nll_finish(CTENSOR(sums), TENSOR(out), TENSOR(total_weight), const ulong parts) {
  T loss = 0, total = 0;
  for (ulong i = 0; i < parts; ++i) {
    loss += CPTR(T, sums)[2 * i];
    total += CPTR(T, sums)[2 * i + 1];
  }
#ifdef MEAN
  loss /= total;
#endif
  STORE(IN, PTR(MEM(IN), out), 0, loss);
  STORE(IN, PTR(MEM(IN), total_weight), 0, total);
}

#else

__kernel void nll_backward(CTENSOR(grad), WEIGHTS CTENSOR(total_weight), TENSOR(out), TARGETS) {
#ifdef MEAN
  const T divisor = LOAD(IN, CPTR(MEM(IN), total_weight), 0);
#else
  const T divisor = 1;
#endif
  FOR_SAMPLES
    SKIP_BAD()
#ifdef EACH
    const T g = LOAD(IN, CPTR(MEM(IN), grad), n);
#else
    const T g = LOAD(IN, CPTR(MEM(IN), grad), 0);
#endif
    STORE(IN, PTR(MEM(IN), out), POSITION, -WEIGHT(label) * g / divisor);
  }
}

#endif

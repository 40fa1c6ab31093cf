// Connectionist temporal classification: the probability that a sequence of labels, with blanks
// between and around them (2 * length + 1 states), explains the rows of log_probs [time][batch]
// [labels]. A work-group of GROUP items takes one sequence of the batch, step by step in time. Its
// items share the states, item i taking every GROUP-th state from i on.
//   IN: type of all numbers (computed as stored); table: input length, target length and where the
//   targets begin, for each sequence
//   ctc_alpha: log_alpha [batch][time][width] forwards in time, and the loss
//   ctc_beta:  log_beta [batch][time][width] backwards in time
//   ctc_gradient: of log_probs; units of the grid (grid.clh) are pairs of time and sequence
//
// The states of the labels "a b" are _ a _ b _, where _ is the blank. From one step to the next a
// path stays in its state, moves to the next one, or skips a blank between different labels. alpha
// sums the probabilities of the paths up to a state, and beta of the paths from it on.
//
// Graves, Fernandez, Gomez, Schmidhuber: Connectionist Temporal Classification. ICML 2006.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#include "ctc_loss_parameters.clh"

#define STATES CTENSOR(log_probs), CTENSOR(targets), CTENSOR(table), const Ctc c
#define ONE_GROUP __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#define FIND_SEQUENCE(b)                                                            \
  __global const long *sequence = CPTR(long, table) + 3 * (long)(b);                \
  const long steps = sequence[0], states = 2 * sequence[1] + 1;                     \
  __global const long *target = CPTR(long, targets) + sequence[2];
// Clamps targets that are not labels, so that nothing reads beyond the rows; ctc_alpha reports
// them.
#define LABEL(s) ((s) % 2 ? clamp(target[(s) / 2], 0L, c.labels - 1) : c.blank)
#define LOG_PROB(t, b, label)                                                       \
  LOAD(IN, CPTR(MEM(IN), log_probs), (((t) * c.batch + (long)(b)) * c.labels + (label)))

// log(exp(x) + exp(y) + exp(z))
static inline T log_sum(const T x, const T y, const T z) {
  const T most = fmax(fmax(x, y), z);
  if (most == -INFINITY) return x + y + z;  // -infinity, or NaN, which fmax ignores
  return log(exp(x - most) + exp(y - most) + exp(z - most)) + most;
}

ONE_GROUP __kernel void ctc_alpha(STATES, TENSOR(log_alpha), TENSOR(loss), FAULT_ARGUMENT) {
  const long b = group_id(0), item = get_local_id(0);
  FIND_SEQUENCE(b)
  for (long k = item; k < states / 2; k += GROUP) {
    if (target[k] < 0 || target[k] >= c.labels) report_fault(FAULT_FORWARD, target[k], c.labels);
  }
  __global volatile MEM(IN) *alpha = PTR(MEM(IN), log_alpha) + b * c.time * c.width;
  for (long s = item; s < c.width; s += GROUP)
    alpha[s] = s < 2 && s < states && steps > 0 ? LOG_PROB(0, b, LABEL(s)) : -INFINITY;
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (long t = 1; t < steps; ++t) {
    __global volatile MEM(IN) *before = alpha + (t - 1) * c.width;
    for (long s = item; s < states; s += GROUP) {
      const long label = LABEL(s);
      const int skips = s > 1 && LABEL(s - 2) != label;
      alpha[t * c.width + s] =
          log_sum(before[s], s > 0 ? before[s - 1] : -INFINITY, skips ? before[s - 2] : -INFINITY) +
          LOG_PROB(t, b, label);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
  if (item > 0) return;
  if (steps == 0) {
    PTR(MEM(IN), loss)[b] = states == 1 ? 0 : INFINITY;
    return;
  }
  __global volatile MEM(IN) *last = alpha + (steps - 1) * c.width;
  PTR(MEM(IN), loss)[b] =
      -log_sum(last[states - 1], states > 1 ? last[states - 2] : -INFINITY, -INFINITY);
}

ONE_GROUP __kernel void ctc_beta(STATES, TENSOR(log_beta)) {
  const long b = group_id(0), item = get_local_id(0);
  FIND_SEQUENCE(b)
  if (steps == 0) return;
  __global volatile MEM(IN) *beta = PTR(MEM(IN), log_beta) + b * c.time * c.width;
  for (long s = item; s < c.width; s += GROUP)
    beta[(steps - 1) * c.width + s] =
        s < states && s + 2 >= states ? LOG_PROB(steps - 1, b, LABEL(s)) : -INFINITY;
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (long t = steps - 2; t >= 0; --t) {
    __global volatile MEM(IN) *after = beta + (t + 1) * c.width;
    for (long s = item; s < states; s += GROUP) {
      const long label = LABEL(s);
      const int skips = s + 2 < states && LABEL(s + 2) != label;
      beta[t * c.width + s] = log_sum(after[s], s + 1 < states ? after[s + 1] : -INFINITY,
                                      skips ? after[s + 2] : -INFINITY) +
                              LOG_PROB(t, b, label);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}

GRID __kernel void ctc_gradient(STATES, CTENSOR(grad), const ulong grad_stride, CTENSOR(loss),
                                CTENSOR(log_alpha), CTENSOR(log_beta), TENSOR(out),
                                const ulong rows, const ulong per_item) {
  FOR_UNITS(row, rows, per_item) {
    const long t = (long)row / c.batch, b = (long)row % c.batch;
    FIND_SEQUENCE(b)
    __global MEM(IN) *result = PTR(MEM(IN), out) + row * c.labels;
    const T nll = LOAD(IN, CPTR(MEM(IN), loss), b);
    if (t >= steps || (c.zero_infinity && nll == INFINITY)) {
      for (long k = 0; k < c.labels; ++k) STORE(IN, result, k, (T)0);
      continue;
    }
    for (long k = 0; k < c.labels; ++k) STORE(IN, result, k, -INFINITY);
    const long first = (b * c.time + t) * c.width;
    for (long s = 0; s < states; ++s) {
      const long label = LABEL(s);
      const T both = LOAD(IN, CPTR(MEM(IN), log_alpha), first + s) +
                     LOAD(IN, CPTR(MEM(IN), log_beta), first + s);
      STORE(IN, result, label, log_sum(LOAD(IN, result, label), both, -INFINITY));
    }
    const T g = LOAD(IN, CPTR(MEM(IN), grad), b * grad_stride);
    for (long k = 0; k < c.labels; ++k) {
      const T p = LOG_PROB(t, b, k);
      STORE(IN, result, k, (exp(p) - exp(LOAD(IN, result, k) + nll - p)) * g);
    }
  }
}

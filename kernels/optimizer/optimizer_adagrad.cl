// Adagrad (Duchi, Hazan, Singer: Adaptive subgradient methods. JMLR 12, 2011). Lists: parameters,
// gradients, sums of squares, numbers of steps.
#include "optimizer.clh"

#define APPLY(READ, WRITE)                        \
  READ(0, param)                                  \
  READ_GRADIENT(READ, WRITE)                      \
  READ(2, sum)                                    \
  DECAY                                           \
  sum += grad * grad;                             \
  param -= step_size * grad / (sqrt(sum) + eps);  \
  WRITE(0, param)                                 \
  WRITE(2, sum)

CHUNKED __kernel void KERNEL(OPTIMIZER_PARAMS, const T lr_decay, const T weight_decay,
                             const T eps) {
  OPEN_STEP
  FOR_CHUNKS(k) {
    FIND_PARAMETERS(k)
    POINTER(2)
    const T step_size = rate / (1 + (STEPS(3) - 1) * lr_decay);
    FOR_ELEMENTS(APPLY)
  }
}

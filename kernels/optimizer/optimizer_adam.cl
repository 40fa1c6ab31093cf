// Adam (Kingma, Ba, arXiv:1412.6980) and AdamW (Loshchilov, Hutter, arXiv:1711.05101; DECOUPLED:
// the weight decay is not added to the gradient). AMSGRAD: Reddi, Kale, Kumar, arXiv:1904.09237.
// Lists: parameters, gradients, averages, averages of squares, with AMSGRAD their maxima, and the
// numbers of steps. The bias corrections 1 - beta^step are computed from the logarithms of the
// betas, which is exact even in float. 1 - beta would not be, so rest1 and rest2 are arguments.
#include "optimizer.clh"

#ifdef AMSGRAD
#define READ_MAXIMUM(READ) READ(4, maximum)
#define WRITE_MAXIMUM(WRITE)          \
  maximum = MAX(maximum, squares);    \
  WRITE(4, maximum)
#define DENOMINATOR maximum
#define STEP_LIST 5
#else
#define READ_MAXIMUM(READ)
#define WRITE_MAXIMUM(WRITE)
#define DENOMINATOR squares
#define STEP_LIST 4
#endif

#if defined(WEIGHT_DECAY) && defined(DECOUPLED)
#undef DECAY
#define DECAY param -= rate * weight_decay * param;
#endif

#define APPLY(READ, WRITE)                                                        \
  READ(0, param)                                                                  \
  READ_GRADIENT(READ, WRITE)                                                      \
  READ(2, average)                                                                \
  READ(3, squares)                                                                \
  READ_MAXIMUM(READ)                                                              \
  DECAY                                                                           \
  average += rest1 * (grad - average);                                            \
  squares = beta2 * squares + rest2 * grad * grad;                                \
  WRITE_MAXIMUM(WRITE)                                                            \
  param -= step_size * average / (sqrt(DENOMINATOR) * correction2 + eps);    \
  WRITE(0, param)                                                                 \
  WRITE(2, average)                                                               \
  WRITE(3, squares)

CHUNKED __kernel void KERNEL(OPTIMIZER_PARAMS, const T beta2, const T rest1, const T rest2,
                             const T weight_decay, const T eps, const T log_beta1,
                             const T log_beta2) {
  OPEN_STEP
  FOR_CHUNKS(k) {
    FIND_PARAMETERS(k)
    POINTER(2)
    POINTER(3)
#ifdef AMSGRAD
    POINTER(4)
#endif
    const T steps = STEPS(STEP_LIST);
    const T step_size = rate / -expm1(steps * log_beta1);
    const T correction2 = (T)1 / sqrt(-expm1(steps * log_beta2));
    FOR_ELEMENTS(APPLY)
  }
}

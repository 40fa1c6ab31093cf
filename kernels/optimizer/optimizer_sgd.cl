// Stochastic gradient descent. Lists: parameters, gradients, with MOMENTUM its buffers.
//   FIRST_STEP: the buffers are not set yet; NESTEROV
#include "optimizer.clh"

#ifdef MOMENTUM
#ifdef FIRST_STEP
#define ACCUMULATE(READ) V buffer = grad;
#else
#define ACCUMULATE(READ) \
  READ(2, buffer)        \
  buffer = momentum * buffer + ((T)1 - dampening) * grad;
#endif
#ifdef NESTEROV
#define STEP_ALONG grad + momentum * buffer
#else
#define STEP_ALONG buffer
#endif
#define USE_MOMENTUM(READ, WRITE) \
  ACCUMULATE(READ)                \
  WRITE(2, buffer)                \
  grad = STEP_ALONG;
#else
#define USE_MOMENTUM(READ, WRITE)
#endif

#define APPLY(READ, WRITE)      \
  READ(0, param)                \
  READ_GRADIENT(READ, WRITE)    \
  DECAY                         \
  USE_MOMENTUM(READ, WRITE)     \
  param -= rate * grad;         \
  WRITE(0, param)

// PyTorch passes uninitialised buffers to the first step, and a skipped step counts as the first.
#if defined(FOUND_INF) && defined(FIRST_STEP) && defined(MOMENTUM)
#define CLEAR(READ, WRITE) WRITE(2, C(0))
#undef RETURN_IF_INF
#define RETURN_IF_INF                 \
  if (CPTR(float, inf)[0] != 0) {     \
    FOR_CHUNKS(k) {                   \
      FIND_CHUNK(k)                   \
      POINTER(2)                      \
      FOR_ELEMENTS(CLEAR)             \
    }                                 \
    return;                           \
  }
#endif

CHUNKED __kernel void KERNEL(OPTIMIZER_PARAMS, const T weight_decay, const T momentum,
                             const T dampening) {
  OPEN_STEP
  FOR_CHUNKS(k) {
    FIND_PARAMETERS(k)
#ifdef MOMENTUM
    POINTER(2)
#endif
    FOR_ELEMENTS(APPLY)
  }
}

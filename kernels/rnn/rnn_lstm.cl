// Cell of a long short-term memory (Hochreiter, Schmidhuber, Neural Computation 9, 1997) with the
// gates input, forget, cell, output. The workspace keeps them for the gradients.
//   BIAS, GRAD_HY, GRAD_CY: these arguments exist
#include "rnn.clh"

#define GATE(k) (FROM_INPUT(4, k) + FROM_HIDDEN(4, k))

GRID __kernel void lstm_cell(CTENSOR(input), CTENSOR(hidden), CTENSOR(cx), BIAS_PARAMS TENSOR(hy),
                             TENSOR(cy), TENSOR(workspace), const ulong rows, const ulong size,
                             const ulong per_item) {
  FOR_STATES {
    const V in = logistic(GATE(0)), forget = logistic(GATE(1));
    const V cell = tanh(GATE(2)), out = logistic(GATE(3));
    const V next = forget * READ(cx) + in * cell;
    WRITE(cy, next);
    WRITE(hy, out * tanh(next));
    WRITE_PART(workspace, 4, 0, in);
    WRITE_PART(workspace, 4, 1, forget);
    WRITE_PART(workspace, 4, 2, cell);
    WRITE_PART(workspace, 4, 3, out);
  }
}

#ifdef GRAD_HY
#define GRAD_HY_PARAM CTENSOR(grad_hy),
#define GRAD_HY_HERE READ(grad_hy)
#else
#define GRAD_HY_PARAM
#define GRAD_HY_HERE C(0)
#endif
#ifdef GRAD_CY
#define GRAD_CY_PARAM CTENSOR(grad_cy),
#define GRAD_CY_HERE READ(grad_cy)
#else
#define GRAD_CY_PARAM
#define GRAD_CY_HERE C(0)
#endif

GRID __kernel void lstm_cell_backward(GRAD_HY_PARAM GRAD_CY_PARAM CTENSOR(cx), CTENSOR(cy),
                                      CTENSOR(workspace), TENSOR(grad_gates), TENSOR(grad_cx),
                                      const ulong rows, const ulong size, const ulong per_item) {
  FOR_STATES {
    const V in = READ_PART(workspace, 4, 0), forget = READ_PART(workspace, 4, 1);
    const V cell = READ_PART(workspace, 4, 2), out = READ_PART(workspace, 4, 3);
    const V activated = tanh(READ(cy)), grad_h = GRAD_HY_HERE;
    const V grad_c = grad_h * out * (C(1) - activated * activated) + GRAD_CY_HERE;
    WRITE_PART(grad_gates, 4, 0, grad_c * cell * (C(1) - in) * in);
    WRITE_PART(grad_gates, 4, 1, grad_c * READ(cx) * (C(1) - forget) * forget);
    WRITE_PART(grad_gates, 4, 2, grad_c * in * (C(1) - cell * cell));
    WRITE_PART(grad_gates, 4, 3, grad_h * activated * (C(1) - out) * out);
    WRITE(grad_cx, grad_c * forget);
  }
}

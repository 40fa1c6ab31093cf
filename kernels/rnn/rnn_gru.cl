// Cell of a gated recurrent unit (Cho et al., arXiv:1406.1078) with the gates reset, update, new.
// For the gradients, the workspace keeps the gates, the state, and the hidden part of the new gate.
//   BIAS: the biases are arguments
#include "rnn.clh"

#define GATE(k) (FROM_INPUT(3, k) + FROM_HIDDEN(3, k))

GRID __kernel void gru_cell(CTENSOR(input), CTENSOR(hidden), CTENSOR(hx), BIAS_PARAMS TENSOR(hy),
                            TENSOR(workspace), const ulong rows, const ulong size,
                            const ulong per_item) {
  FOR_STATES {
    const V reset = logistic(GATE(0)), update = logistic(GATE(1));
    const V state = READ(hx), from_hidden = FROM_HIDDEN(3, 2);
    const V fresh = tanh(FROM_INPUT(3, 2) + reset * from_hidden);
    WRITE(hy, fresh + update * (state - fresh));
    WRITE_PART(workspace, 5, 0, reset);
    WRITE_PART(workspace, 5, 1, update);
    WRITE_PART(workspace, 5, 2, fresh);
    WRITE_PART(workspace, 5, 3, state);
    WRITE_PART(workspace, 5, 4, from_hidden);
  }
}

GRID __kernel void gru_cell_backward(CTENSOR(grad_hy), CTENSOR(workspace), TENSOR(grad_input),
                                     TENSOR(grad_hidden), TENSOR(grad_hx), const ulong rows,
                                     const ulong size, const ulong per_item) {
  FOR_STATES {
    const V reset = READ_PART(workspace, 5, 0), update = READ_PART(workspace, 5, 1);
    const V fresh = READ_PART(workspace, 5, 2), state = READ_PART(workspace, 5, 3);
    const V from_hidden = READ_PART(workspace, 5, 4), grad = READ(grad_hy);
    const V grad_update = grad * (state - fresh) * (C(1) - update) * update;
    const V grad_new = grad * (C(1) - update) * (C(1) - fresh * fresh);
    const V grad_reset = grad_new * from_hidden * (C(1) - reset) * reset;
    WRITE_PART(grad_input, 3, 0, grad_reset);
    WRITE_PART(grad_input, 3, 1, grad_update);
    WRITE_PART(grad_input, 3, 2, grad_new);
    WRITE_PART(grad_hidden, 3, 0, grad_reset);
    WRITE_PART(grad_hidden, 3, 1, grad_update);
    WRITE_PART(grad_hidden, 3, 2, grad_new * reset);
    WRITE(grad_hx, grad * update);
  }
}

// The element-wise part of nn.LSTM, nn.GRU and their cells. For devices other than the CPU, PyTorch
// calls one operator for it.
#include <ATen/TensorUtils.h>
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/rnn.h"

namespace ocl {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr size_t kCostOfState = 32;  // cost of a state, in additions

size_t width_on(const Device& device, ScalarType compute) {
  return device.family() == KernelFamily::kCpu ? vector_lanes(device, compute) : 1;
}

// A tensor argument of a kernel. An optional tensor sets a define if it is present.
struct Operand {
  Tensor tensor;
  const char* flag = nullptr;
};

struct RnnCell {
  const char *file, *name;
  ScalarType type;
  std::array<const char*, 2> flags;  // or nullptr

  KernelSource source(Device& device) const {
    const ScalarType compute = compute_type(type);
    Defines defines = compute_defines(compute);
    define_grid(defines, device);
    defines.set("DT", dtype_name(type))
        .set("WIDTH", static_cast<int64_t>(width_on(device, compute)));
    for (const char* flag : flags) {
      if (flag) defines.set(flag, 1);
    }
    return {file, name, defines};
  }
};

// `states`: a tensor of [rows][size]. All operands have its type.
void run(const char* file, const char* name, const Tensor& states,
         std::initializer_list<Operand> operands) {
  if (states.numel() == 0) return;
  Device& device = ocl_device(states);
  const ScalarType type = states.scalar_type();
  check_device_has(device, type, name);
  RnnCell cell{file, name, type, {}};
  size_t present = 0;
  for (const Operand& operand : operands) {
    if (operand.flag && operand.tensor.defined()) cell.flags.at(present++) = operand.flag;
    TORCH_CHECK(!operand.tensor.defined() || operand.tensor.scalar_type() == type, name,
                ": all tensors must be of one type, not ", type, " and ",
                operand.tensor.scalar_type());
  }
  const size_t width = width_on(device, compute_type(type));
  const auto rows = static_cast<uint64_t>(states.size(0)),
             size = static_cast<uint64_t>(states.size(1));
  const UnitGrid grid = unit_grid(device, rows, at::ceil_div(size, width), kCostOfState);
  Arguments arguments(stream_of(states), find_kernel(device, cell));
  for (const Operand& operand : operands) {
    if (operand.tensor.defined()) arguments.add(view(operand.tensor));
  }
  arguments.add(rows).add(size).add(grid.per_item).enqueue(grid.global, grid.local);
}

void check_cell(const char* name, int64_t parts, const Tensor& input_gates,
                const Tensor& hidden_gates, const Tensor& state, const MaybeTensor& input_bias,
                const MaybeTensor& hidden_bias) {
  at::checkDim(name, at::TensorArg(input_gates, "input_gates", 1), 2);
  at::checkDim(name, at::TensorArg(state, "prev_hidden", 3), 2);
  const int64_t rows = state.size(0), columns = state.size(1) * parts;
  at::checkSize(name, at::TensorArg(input_gates, "input_gates", 1), {rows, columns});
  at::checkSize(name, at::TensorArg(hidden_gates, "hidden_gates", 2), {rows, columns});
  for (const MaybeTensor& bias : {input_bias, hidden_bias}) {
    if (bias && bias->defined()) at::checkSize(name, at::TensorArg(*bias, "bias", 4), {columns});
  }
}

// Checks that a cell has both biases or none, as PyTorch's derivatives assume: they only test
// whether the input's bias exists, so the other one alone would get no gradient.
std::pair<Tensor, Tensor> biases(const char* name, const MaybeTensor& of_input,
                                 const MaybeTensor& of_hidden) {
  Tensor input = dense(of_input), hidden = dense(of_hidden);
  if (input.defined() == hidden.defined()) return {input, hidden};
  TORCH_CHECK_NOT_IMPLEMENTED(
      input.defined() || !hidden.requires_grad(), name,
      ": a bias of the hidden state that requires grad needs a bias of the input, too, on ",
      ocl_device(hidden).label(), "; pass zeros");
  if (input.defined()) return {input, at::zeros_like(input)};
  return {at::zeros_like(hidden), hidden};
}

Tensor empty_rows(const Tensor& like, int64_t columns) {
  return at::empty({like.size(0), columns}, like.options());
}

Tensor sum_of_rows(const Tensor& tensor, bool wanted) { return wanted ? tensor.sum(0) : Tensor(); }

}  // namespace

namespace native {

OCL_NATIVE("_thnn_fused_lstm_cell", lstm_cell);
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const MaybeTensor& input_bias,
                                             const MaybeTensor& hidden_bias) {
  check_cell("_thnn_fused_lstm_cell", 4, input_gates, hidden_gates, cx, input_bias, hidden_bias);
  const ScalarType type = c10::promoteTypes(input_gates.scalar_type(), cx.scalar_type());
  if (input_gates.scalar_type() != type || cx.scalar_type() != type) {
    const auto wide = [&](const MaybeTensor& t) { return t && t->defined() ? t->to(type) : t; };
    return lstm_cell(input_gates.to(type), hidden_gates.to(type), cx.to(type), wide(input_bias),
                     wide(hidden_bias));
  }
  const auto [of_input, of_hidden] = biases("_thnn_fused_lstm_cell", input_bias, hidden_bias);
  const Tensor hy = empty_rows(cx, cx.size(1)), cy = empty_rows(cx, cx.size(1)),
               workspace = empty_rows(cx, input_gates.size(1));
  run("rnn_lstm.cl", "lstm_cell", cx,
      {{input_gates.contiguous()},
       {hidden_gates.contiguous()},
       {cx.contiguous()},
       {of_input, "BIAS"},
       {of_hidden, "BIAS"},
       {hy},
       {cy},
       {workspace}});
  return {hy, cy, workspace};
}

OCL_NATIVE("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& grad_hy,
                                                      const MaybeTensor& grad_cy,
                                                      const Tensor& cx_any, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  const Tensor cx = cx_any.to(workspace.scalar_type());
  const Tensor grad_h = dense(grad_hy), grad_c = dense(grad_cy);
  if (!grad_h.defined() && !grad_c.defined()) return {};
  const Tensor grad_gates = empty_rows(workspace, workspace.size(1)),
               grad_cx = empty_rows(cx, cx.size(1));
  run("rnn_lstm.cl", "lstm_cell_backward", cx,
      {{grad_h, "GRAD_HY"},
       {grad_c, "GRAD_CY"},
       {cx.contiguous()},
       {cy.contiguous()},
       {workspace.contiguous()},
       {grad_gates},
       {grad_cx}});
  return {grad_gates, grad_cx, sum_of_rows(grad_gates, has_bias)};
}

OCL_NATIVE("_thnn_fused_gru_cell", gru_cell);
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const MaybeTensor& input_bias,
                                    const MaybeTensor& hidden_bias) {
  check_cell("_thnn_fused_gru_cell", 3, input_gates, hidden_gates, hx, input_bias, hidden_bias);
  const auto [of_input, of_hidden] = biases("_thnn_fused_gru_cell", input_bias, hidden_bias);
  const Tensor hy = empty_rows(hx, hx.size(1)), workspace = empty_rows(hx, 5 * hx.size(1));
  run("rnn_gru.cl", "gru_cell", hx,
      {{input_gates.contiguous()},
       {hidden_gates.contiguous()},
       {hx.contiguous()},
       {of_input, "BIAS"},
       {of_hidden, "BIAS"},
       {hy},
       {workspace}});
  return {hy, workspace};
}

OCL_NATIVE("_thnn_fused_gru_cell_backward", gru_cell_backward);
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const int64_t size = grad_hy.size(1);
  const Tensor grad_input = empty_rows(workspace, 3 * size),
               grad_hidden = empty_rows(workspace, 3 * size), grad_hx = empty_rows(grad_hy, size);
  run("rnn_gru.cl", "gru_cell_backward", grad_hy,
      {{grad_hy.contiguous()}, {workspace.contiguous()}, {grad_input}, {grad_hidden}, {grad_hx}});
  return {grad_input, grad_hidden, grad_hx, sum_of_rows(grad_input, has_bias),
          sum_of_rows(grad_hidden, has_bias)};
}

}  // namespace native
}  // namespace ocl

// The fused optimizers: all parameters in few launches. Kernels read values that only the device
// knows: a learning rate tensor, the gradient scaler's factors, the numbers of steps.
#include <cmath>

#include "backend/base/error.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/foreach/foreach.h"
#include "native/optimizer.h"

namespace ocl {
namespace {

using at::Tensor, at::TensorList;
using MaybeTensor = std::optional<Tensor>;

// A number, or a tensor of one element on the device.
struct LearningRate {
  double number = 0;
  Tensor element;

  LearningRate(double lr) : number(lr) {}
  LearningRate(const Tensor& lr) {
    if (lr.is_cpu()) {
      number = lr.item<double>();
    } else {
      element = lr;
    }
  }
};

struct Optimizer {
  const char* file;
  std::array<const char*, 4> flags;  // defines of the kernel
};
constexpr Optimizer kAdam{"optimizer_adam.cl", {"DECOUPLED", "AMSGRAD", "WEIGHT_DECAY"}},
    kSgd{"optimizer_sgd.cl", {"MOMENTUM", "NESTEROV", "FIRST_STEP", "WEIGHT_DECAY"}},
    kAdagrad{"optimizer_adagrad.cl", {"WEIGHT_DECAY"}};

struct Step {
  const char* name;
  const Optimizer* optimizer;
  c10::SmallVector<TensorList, 6> lists;  // parameters, gradients, state
  std::optional<TensorList> steps;
  LearningRate lr;
  MaybeTensor grad_scale, found_inf;
  bool maximize;
  std::array<bool, 4> flags;  // the optimizer's options
  c10::SmallVector<double, 6> numbers;
};

bool given(const MaybeTensor& tensor) { return tensor && tensor->defined(); }

void check(const Step& step) {
  for (const TensorList& list : step.lists) {
    TORCH_CHECK(list.size() == step.lists[0].size(), step.name,
                ": the lists of parameters, gradients and state have different lengths");
  }
  TORCH_CHECK(can_launch_over(step.lists), step.name,
              ": the parameters, gradients and state of one call must be on one device, without "
              "gaps, and of the same sizes and strides");
  for (const MaybeTensor& tensor : {step.grad_scale, step.found_inf}) {
    TORCH_CHECK(
        !given(tensor) || (tensor->device() == step.lists[0][0].device() &&
                           tensor->scalar_type() == ScalarType::Float && tensor->numel() > 0),
        step.name, ": grad_scale and found_inf must be a float32 number on the parameters' device");
  }
  const Tensor& lr = step.lr.element;
  const at::Device device = step.lists[0][0].device();
  TORCH_CHECK(!lr.defined() || (lr.device() == device && lr.numel() == 1), step.name,
              ": lr must be one element on the CPU or on the parameters' device ", device);
  if (!step.steps) return;
  TORCH_CHECK(step.steps->size() == step.lists[0].size(), step.name, ": expected ",
              step.lists[0].size(), " tensors of steps, one for each parameter, but got ",
              step.steps->size());
  for (const Tensor& each : *step.steps) {
    TORCH_CHECK(each.device() == device && each.numel() == 1, step.name,
                ": the numbers of steps must be single elements on the parameters' device ",
                device);
  }
}

struct Update {
  const char* name;
  const Optimizer* optimizer;
  ListTypes types;
  std::array<bool, 4> flags;
  bool maximize, grad_scale, found_inf;
  ScalarType lr;  // type of the element; may be undefined

  KernelSource source(Device& device) const {
    Defines defines = types.defines(device);
    const std::string kernel = str(name, "_", dtype_name(types.lists[0]));
    defines.set("KERNEL", kernel);
    for (size_t i = 0; i < flags.size(); ++i) {
      if (flags[i]) defines.set(optimizer->flags[i], 1);
    }
    if (maximize) defines.set("MAXIMIZE", 1);
    if (grad_scale) defines.set("GRAD_SCALE", 1);
    if (found_inf) defines.set("FOUND_INF", 1);
    if (lr != ScalarType::Undefined) defines.set("LR", dtype_name(lr));
    return {optimizer->file, kernel, defines};
  }
};

void run(const Step& step) {
  if (step.lists[0].empty()) return;
  check(step);
  TensorLists lists{device(step.lists[0][0].get_device()), step.lists, ScalarType::Float};
  for (const TensorList& list : step.lists) {
    lists.compute = c10::promoteTypes(lists.compute, list[0].scalar_type());
  }
  std::vector<Tensor> steps;  // the kernel reads elements of one type
  if (step.steps) {
    const ScalarType type = step.steps->front().scalar_type();
    for (const Tensor& each : *step.steps) {
      steps.push_back(each.scalar_type() == type ? each : each.to(type));
    }
    lists.lists.push_back(steps);
  }
  const Kernel& kernel = find_kernel(
      lists.device,
      Update{step.name, step.optimizer, lists.types(), step.flags, step.maximize,
             given(step.grad_scale), given(step.found_inf),
             step.lr.element.defined() ? step.lr.element.scalar_type() : ScalarType::Undefined});
  for_each_batch(lists, [&](const Batch& batch) {
    Arguments arguments(current_stream(lists.device.index()), kernel);
    batch.bind(arguments);
    if (step.lr.element.defined()) {
      arguments.add(view(step.lr.element));
    } else {
      add_number(arguments, step.lr.number, lists.compute);
    }
    if (given(step.grad_scale)) arguments.add(view(*step.grad_scale));
    if (given(step.found_inf)) arguments.add(view(*step.found_inf));
    for (const double number : step.numbers) add_number(arguments, number, lists.compute);
    batch.enqueue(arguments);
  });
}

}  // namespace

namespace native {
namespace {

void adam(const char* name, bool decoupled, TensorList self, TensorList grads, TensorList exp_avgs,
          TensorList exp_avg_sqs, TensorList max_exp_avg_sqs, TensorList state_steps,
          const LearningRate& lr, double beta1, double beta2, double weight_decay, double eps,
          bool amsgrad, bool maximize, const MaybeTensor& grad_scale,
          const MaybeTensor& found_inf) {
  Step step{.name = name,
            .optimizer = &kAdam,
            .lists = {self, grads, exp_avgs, exp_avg_sqs},
            .steps = state_steps,
            .lr = lr,
            .grad_scale = grad_scale,
            .found_inf = found_inf,
            .maximize = maximize,
            .flags = {decoupled, amsgrad, weight_decay != 0},
            .numbers = {beta2, 1 - beta1, 1 - beta2, weight_decay, eps, std::log(beta1),
                        std::log(beta2)}};
  if (amsgrad) step.lists.push_back(max_exp_avg_sqs);
  run(step);
}

void sgd(TensorList self, TensorList grads, TensorList momentum_buffers, double weight_decay,
         double momentum, const LearningRate& lr, double dampening, bool nesterov, bool maximize,
         bool is_first_step, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  const bool buffers = !momentum_buffers.empty();
  TORCH_CHECK(buffers || momentum == 0, "_fused_sgd_: momentum needs its buffers");
  Step step{.name = "fused_sgd",
            .optimizer = &kSgd,
            .lists = {self, grads},
            .steps = {},
            .lr = lr,
            .grad_scale = grad_scale,
            .found_inf = found_inf,
            .maximize = maximize,
            .flags = {buffers, nesterov, is_first_step, weight_decay != 0},
            .numbers = {weight_decay, momentum, dampening}};
  if (buffers) step.lists.push_back(momentum_buffers);
  run(step);
}

void adagrad(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps,
             const LearningRate& lr, double lr_decay, double weight_decay, double eps,
             bool maximize, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  run({.name = "fused_adagrad",
       .optimizer = &kAdagrad,
       .lists = {self, grads, state_sums},
       .steps = state_steps,
       .lr = lr,
       .grad_scale = grad_scale,
       .found_inf = found_inf,
       .maximize = maximize,
       .flags = {weight_decay != 0},
       .numbers = {lr_decay, weight_decay, eps}});
}

}  // namespace

#define OCL_ADAM(name, decoupled, lr_type)                                                       \
  void name(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,      \
            TensorList max_exp_avg_sqs, TensorList state_steps, lr_type lr, double beta1,        \
            double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,          \
            const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {                       \
    adam(#name, decoupled, self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, \
         beta1, beta2, weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);             \
  }
OCL_NATIVE("_fused_adam_", fused_adam);
OCL_ADAM(fused_adam, false, double)
OCL_NATIVE("_fused_adam_.tensor_lr", fused_adam_lr);
OCL_ADAM(fused_adam_lr, false, const Tensor&)
OCL_NATIVE("_fused_adamw_", fused_adamw);
OCL_ADAM(fused_adamw, true, double)
OCL_NATIVE("_fused_adamw_.tensor_lr", fused_adamw_lr);
OCL_ADAM(fused_adamw_lr, true, const Tensor&)
#undef OCL_ADAM

#define OCL_SGD(name, lr_type)                                                                 \
  void name(TensorList self, TensorList grads, TensorList buffers, double weight_decay,        \
            double momentum, lr_type lr, double dampening, bool nesterov, bool maximize,       \
            bool is_first_step, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) { \
    sgd(self, grads, buffers, weight_decay, momentum, lr, dampening, nesterov, maximize,       \
        is_first_step, grad_scale, found_inf);                                                 \
  }
OCL_NATIVE("_fused_sgd_", fused_sgd);
OCL_SGD(fused_sgd, double)
OCL_NATIVE("_fused_sgd_.tensor_lr", fused_sgd_lr);
OCL_SGD(fused_sgd_lr, const Tensor&)
#undef OCL_SGD

#define OCL_ADAGRAD(name, lr_type)                                                            \
  void name(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps, \
            lr_type lr, double lr_decay, double weight_decay, double eps, bool maximize,      \
            const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {                    \
    adagrad(self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize,  \
            grad_scale, found_inf);                                                           \
  }
OCL_NATIVE("_fused_adagrad_", fused_adagrad);
OCL_ADAGRAD(fused_adagrad, double)
OCL_NATIVE("_fused_adagrad_.tensor_lr", fused_adagrad_lr);
OCL_ADAGRAD(fused_adagrad_lr, const Tensor&)
#undef OCL_ADAGRAD

}  // namespace native
}  // namespace ocl

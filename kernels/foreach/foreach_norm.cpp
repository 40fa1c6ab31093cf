// _foreach_norm for the orders that gradient clipping uses: 1, 2 and infinity.
#include <ATen/CompositeExplicitAutogradFunctions.h>
#include <ATen/Functions.h>

#include "backend/base/error.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/foreach/foreach.h"
#include "native/foreach_norm.h"

namespace ocl {
namespace {

struct Norm {
  double order;
  const char* step;
  const char* merge;
  const char* finish;
};

constexpr Norm kNorms[] = {
    {1, "acc + fabs(a)", "x + y", "x"},
    {2, "acc + a * a", "x + y", "sqrt(x)"},
    {std::numeric_limits<double>::infinity(), "MAX(acc, fabs(a))", "MAX(x, y)", "x"},
};

const Norm* find_norm(const at::Scalar& order) {
  if (order.isComplex()) return nullptr;
  const auto* const found = std::find_if(std::begin(kNorms), std::end(kNorms), [&](const Norm& n) {
    return n.order == order.to<double>();
  });
  return found == std::end(kNorms) ? nullptr : found;
}

struct ForeachNorm {
  const Norm* norm;
  const char* kernel;
  ListTypes types;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = types.defines(device);
    defines.set("STEP(acc, a)", str("(", norm->step, ")"))
        .set("MERGE(x, y)", str("(", norm->merge, ")"))
        .set("FINISH(x)", str("(", norm->finish, ")"))
        .set("GROUP", static_cast<int64_t>(group));
    return {"foreach_norm.cl", kernel, defines};
  }
};

void run(const TensorLists& lists, const Norm& norm) {
  const ListTypes types = lists.types();
  const Kernel& chunks = find_kernel(lists.device, ForeachNorm{&norm, "norm_chunks", types});
  const Kernel& tensors = find_kernel(lists.device, ForeachNorm{&norm, "norm_tensors", types});
  Stream& stream = current_stream(lists.device.index());
  for_each_batch(lists, [&](const Batch& batch) {
    const at::Tensor partial = at::empty({static_cast<int64_t>(batch.chunks())},
                                         lists.lists[0][0].options().dtype(lists.compute));
    Arguments first(stream, chunks);
    batch.bind(first);
    first.add(view(partial));
    batch.enqueue(first);
    Arguments second(stream, tensors);
    batch.bind(second);
    second.add(view(partial)).enqueue({batch.tensors() * second.group()}, {second.group()});
  });
}

}  // namespace

namespace native {

OCL_NATIVE("_foreach_norm.Scalar", foreach_norm);
std::vector<Tensor> foreach_norm(at::TensorList self, const Scalar& order,
                                 std::optional<at::ScalarType> dtype) {
  const Norm* norm = find_norm(order);
  const auto floating = [](ScalarType type) {
    return c10::isFloatingType(type) && has_kernel_type(type);
  };
  const bool has_empty = std::any_of(self.begin(), self.end(),
                                     [](const Tensor& tensor) { return tensor.numel() == 0; });
  if (!norm || has_empty || !can_launch_over({self}) || !floating(self[0].scalar_type()) ||
      (dtype &&
       (!floating(*dtype) || c10::promoteTypes(self[0].scalar_type(), *dtype) != *dtype))) {
    return at::compositeexplicitautograd::_foreach_norm(self, order, dtype);
  }
  const ScalarType type = self[0].scalar_type(), out = dtype.value_or(type);
  std::vector<Tensor> results;
  results.reserve(self.size());
  for (size_t i = 0; i < self.size(); ++i) {
    results.push_back(at::empty({}, self[0].options().dtype(out)));
  }
  const TensorLists lists{device(self[0].get_device()),
                          {self, results},
                          c10::promoteTypes(compute_type(type), compute_type(out))};
  run(lists, *norm);
  return results;
}

}  // namespace native
}  // namespace ocl

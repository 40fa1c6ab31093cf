// Launches of index.cl.
#include "kernels/index/index.h"

#include <ATen/Context.h>

#include "backend/error.h"
#include "kernels/core/grid.h"
#include "kernels/core/tensors.h"

namespace ocl {
namespace {

constexpr int kMaxDims = 16;
constexpr int kMaxIndices = 8;

struct Plan {
  at::TensorIteratorBase& iter;
  const Indexing& indexing;
  IndexOperands operands;
  bool get;
  ScalarType type;  // of the elements in the kernel: an unsigned type where it only moves bits
  int ndim, indices;
  Device& device;
  bool row_index = true, row_dense = false;
  uint64_t int_indices = 0;  // a bit for each index tensor of 32 bits
  // Real and imaginary parts are added separately: dimension 0 is the parts.
  bool in_parts = false;

  int64_t size(int dim) const {
    if (in_parts && dim == 0) return 2;
    const int d = in_parts ? dim - 1 : dim;
    return d >= iter.ndim() ? 1 : iter.shape()[d];
  }
  int64_t stride(int operand, int dim) const {
    if (operand < 0) return 0;
    if (in_parts && dim == 0) {
      return operand >= operands.first_index ? 0 : static_cast<int64_t>(c10::elementSize(type));
    }
    const int d = in_parts ? dim - 1 : dim;
    return d >= iter.ndim() ? 0 : iter.strides(operand)[d];
  }
  size_t elements() const { return static_cast<size_t>(iter.numel()) * (in_parts ? 2 : 1); }
  bool computes() const { return indexing.combine || operands.other < 0; }
};

Plan make_plan(at::TensorIteratorBase& iter, const Indexing& indexing, IndexOperands operands,
               bool get, size_t indices) {
  TORCH_CHECK(iter.ndim() <= kMaxDims, indexing.name, ": ocl supports up to ", kMaxDims,
              " dimensions that cannot be joined, got ", iter.ndim());
  TORCH_CHECK_NOT_IMPLEMENTED(indices <= kMaxIndices, indexing.name, ": ocl supports up to ",
                              kMaxIndices, " index tensors, got ", indices);
  Plan plan{iter,
            indexing,
            operands,
            get,
            iter.dtype(0),
            std::max(iter.ndim(), 1),
            static_cast<int>(indices),
            ocl::device(iter.device(0).index())};
  int64_t element = iter.element_size(0);
  if (indexing.combine && std::string_view(indexing.combine) == kAddElements &&
      operands.other >= 0 && c10::isComplexType(plan.type)) {
    plan.in_parts = true;
    plan.type = c10::toRealValueType(plan.type);
    element /= 2;
    ++plan.ndim;
  }
  if (plan.computes()) {
    check_device_has(plan.device, plan.type, indexing.name);
  } else {
    plan.type = element > 8 ? ScalarType::ComplexDouble : bits_type(element);
  }
  for (int k = 0; k < plan.indices; ++k) {
    const int operand = operands.first_index + k;
    plan.row_index = plan.row_index && plan.stride(operand, 0) == 0;
    if (iter.dtype(operand) == ScalarType::Int) plan.int_indices |= 1ull << k;
  }
  plan.row_dense = plan.row_index && !plan.computes() && element <= 8 &&
                   plan.stride(0, 0) == element && plan.stride(operands.other, 0) == element;
  return plan;
}

// Whether the device cannot exchange elements of the type. No device exchanges 16 bytes at once.
bool lacks_atomics(const Plan& plan) {
  const size_t most = plan.device.properties().has_int64_atomics ? 8 : 4;
  return plan.indexing.combine && c10::elementSize(plan.type) > most;
}

// Whether one work-item writes an element, for several values may go there: in order, or because
// the device has no atomics for it.
bool has_one_writer(const Plan& plan) {
  return !plan.get && (lacks_atomics(plan) || at::globalContext().deterministicAlgorithms());
}

KernelKey make_key(const Plan& plan) {
  static Site site;
  KernelKey key{&site};
  key.by[0] = reinterpret_cast<uint64_t>(plan.indexing.combine);
  key.by[1] = reinterpret_cast<uint64_t>(plan.indexing.name);
  key.by[2] = static_cast<uint64_t>(plan.type) << 40 | plan.int_indices << 32 |
              static_cast<uint64_t>(plan.ndim) << 16 | static_cast<uint64_t>(plan.indices) << 8 |
              uint64_t{has_one_writer(plan)} << 4 | uint64_t{plan.get} << 3 |
              uint64_t{plan.operands.other < 0} << 2 | uint64_t{plan.row_index} << 1 |
              uint64_t{plan.row_dense};
  return key;
}

KernelSource make_source(const Plan& plan) {
  const auto bytes = static_cast<int64_t>(c10::elementSize(plan.type));
  Defines defines = compute_defines(compute_type(plan.type));
  define_grid(defines, plan.device);
  const std::string name =
      str(plan.indexing.name, plan.row_index ? "_rows_" : "_", dtype_name(plan.type));
  defines.set("KERNEL", name)
      .set("DT", dtype_name(plan.type))
      .set("BYTES", bytes)
      .set("NDIM", plan.ndim)
      .set("INDICES", plan.indices)
      .set("WRAP", plan.indexing.wrap ? 1 : 0)
      .set(plan.get ? "GET" : "PUT", 1);
  for (int k = 0; k < plan.indices; ++k) {
    defines.set(str("INDEX", k), plan.int_indices >> k & 1 ? "int" : "long");
  }
  if (plan.indexing.combine) {
    defines.set("COMBINE(x, y)", str("(", plan.indexing.combine, ")"));
  }
  if (has_one_writer(plan)) {
    defines.set("ONE_WRITER", 1);
    if (!plan.row_index) defines.set("ONE_ITEM", 1);
  }
  if (plan.operands.other < 0) defines.set("FILL", 1);
  if (plan.row_index) defines.set("ROW_INDEX", 1);
  if (plan.row_dense) {
    defines.set("ROW_DENSE", 1);
    if (plan.device.family() == KernelFamily::kCpu) defines.set("WIDTH", bytes == 8 ? 8 : 16);
  }
  return {"index.cl", name, defines};
}

void run(const Plan& plan, at::IntArrayRef sizes, at::IntArrayRef strides,
         const c10::Scalar& number) {
  const Kernel& kernel =
      find_kernel(plan.device, make_key(plan), [&] { return make_source(plan); });
  Arguments arguments(current_stream(plan.device.index()), kernel);
  arguments.add(resolve(plan.iter.data_ptr(0)));
  if (plan.operands.other < 0) {
    add_number(arguments, as_element(number, plan.type), compute_type(plan.type));
  } else {
    arguments.add(resolve(plan.iter.data_ptr(plan.operands.other)));
  }
  const int first = plan.operands.first_index;
  for (int k = 0; k < plan.indices; ++k) arguments.add(resolve(plan.iter.data_ptr(first + k)));

  // Mirrors Geometry of index.cl.
  c10::SmallVector<int64_t, 32> geometry;
  for (int d = 0; d < plan.ndim; ++d) geometry.push_back(plan.size(d));
  for (int operand = 0; operand < 2 + plan.indices; ++operand) {
    const int position = operand == 0   ? 0
                         : operand == 1 ? plan.operands.other
                                        : first + operand - 2;
    for (int d = 0; d < plan.ndim; ++d) geometry.push_back(plan.stride(position, d));
  }
  geometry.append(sizes.begin(), sizes.end());
  geometry.append(strides.begin(), strides.end());
  arguments.add_bytes(geometry.data(), geometry.size() * sizeof(int64_t));

  const auto inner = static_cast<size_t>(plan.size(0));
  const size_t units = plan.elements() / inner;
  UnitGrid grid = unit_grid(plan.device, units, inner, plan.row_dense ? 1 : 4);
  if (has_one_writer(plan)) {
    grid.global.y = grid.local.y = 1;
    if (!plan.row_index) grid.global.x = grid.local.x = 1;
    grid.per_item = units;
  }
  arguments.add(uint64_t{units})
      .add(grid.per_item)
      .add(FaultArgument{plan.indexing.fault_site})
      .enqueue(grid.global, grid.local);
}

}  // namespace

void index_get(at::TensorIteratorBase& iter, const Indexing& indexing, at::IntArrayRef sizes,
               at::IntArrayRef strides, IndexOperands operands) {
  if (iter.numel() == 0) return;
  run(make_plan(iter, indexing, operands, true, sizes.size()), sizes, strides, 0);
}

void index_put(at::TensorIteratorBase& iter, const Indexing& indexing, at::IntArrayRef sizes,
               at::IntArrayRef strides, IndexOperands operands, const c10::Scalar& number) {
  if (iter.numel() == 0) return;
  run(make_plan(iter, indexing, operands, false, sizes.size()), sizes, strides, number);
}

at::TensorIterator index_iterator(const at::Tensor& result, const at::Tensor& other,
                                  const at::Tensor& index) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false).add_output(
      result);
  if (other.defined()) config.add_const_input(other);
  config.add_const_input(index);
  return config.build();
}

}  // namespace ocl

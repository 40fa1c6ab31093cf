#include "kernels/index/index_plan.h"

#include <ATen/Context.h>

#include <algorithm>

#include "kernels/core/grids/exchanges.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {
namespace {

constexpr int kMaxDims = 16;
constexpr int kMaxIndices = 32;
constexpr double kMostAtomics = 1 << 24;  // writes of a launch with atomic functions
// From this many moves, and this many moves per target, sorting is faster than exchanges.
constexpr size_t kLeastCrowd = 100'000, kLeastForEach = 64;
constexpr size_t kMostSorted = size_t{1} << 24;  // beyond this, atomics need less memory

// Whether the device cannot exchange elements of the type. No device exchanges 16 bytes at once.
bool lacks_atomics(const IndexPlan& plan) {
  const size_t most = plan.device.properties().has_int64_atomics ? 8 : 4;
  return plan.indexing.combine && c10::elementSize(plan.type) > most;
}

// Whether work-items would mostly wait for each other.
bool is_crowded(const IndexPlan& plan, at::IntArrayRef sizes) {
  double targets = 1;
  for (const int64_t size : sizes) targets *= static_cast<double>(size);
  for (int d = 0; d < plan.ndim; ++d) {
    if (plan.stride(0, d) != 0) targets *= static_cast<double>(plan.size(d));
  }
  return static_cast<double>(plan.elements()) > targets * kLeastForEach;
}

}  // namespace

IndexPlan make_plan(at::TensorIteratorBase& iter, const Indexing& indexing, IndexOperands operands,
                    bool get, size_t indices) {
  TORCH_CHECK(iter.ndim() <= kMaxDims, indexing.name, ": ocl supports up to ", kMaxDims,
              " dimensions that cannot be joined, got ", iter.ndim());
  TORCH_CHECK_NOT_IMPLEMENTED(indices <= kMaxIndices, indexing.name, ": ocl supports up to ",
                              kMaxIndices, " index tensors, got ", indices);
  IndexPlan plan{iter,
                 indexing,
                 operands,
                 get,
                 iter.dtype(0),
                 std::max(iter.ndim(), 1),
                 static_cast<int>(indices),
                 ocl::device(iter.device(0).index())};
  while (plan.ndim > 1 && iter.shape()[plan.ndim - 1] == 1) --plan.ndim;
  int64_t element = iter.element_size(0);
  if (indexing.adds() && operands.other >= 0 && c10::isComplexType(plan.type)) {
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
    if (iter.dtype(operand) == ScalarType::Int) plan.int_indices |= uint32_t{1} << k;
  }
  // If all elements of a row go to one place, each element is a move.
  if (!get && plan.stride(0, 0) == 0) plan.row_index = false;
  plan.row_dense = plan.row_index && !plan.computes() && element <= 8 &&
                   plan.stride(0, 0) == element && plan.stride(operands.other, 0) == element;
  return plan;
}

bool in_quads(const IndexPlan& plan, at::IntArrayRef strides) {
  if (!plan.row_dense || plan.device.family() != KernelFamily::kGpu) return false;
  const auto aligned = [](int64_t bytes) { return bytes % kQuadBytes == 0; };
  const auto operand_is_aligned = [&](int operand) {
    bool all = aligned(static_cast<int64_t>(resolve(plan.iter.data_ptr(operand)).offset));
    for (int d = 1; d < plan.ndim; ++d) all = all && aligned(plan.stride(operand, d));
    return all;
  };
  return aligned(plan.size(0) * plan.stride(0, 0)) && std::ranges::all_of(strides, aligned) &&
         operand_is_aligned(0) && operand_is_aligned(plan.operands.other);
}

bool has_one_writer(const IndexPlan& plan) {
  const bool one_value = plan.operands.other < 0 && !plan.indexing.combine;
  return !plan.get && !one_value &&
         (plan.indexing.in_order || lacks_atomics(plan) ||
          at::globalContext().deterministicAlgorithms());
}

const char* atomic_function(const IndexPlan& plan) {
  const bool wide = plan.type == ScalarType::Long;
  if (!plan.indexing.combine || plan.device.family() == KernelFamily::kCpu ||
      !(wide || plan.type == ScalarType::Int) || has_one_writer(plan)) {
    return nullptr;
  }
  const std::string_view combine = plan.indexing.combine;
  if (combine == kAddElements) return wide ? "atom_add" : "atomic_add";
  const bool has_extrema = plan.device.properties().extensions.find(
                               " cl_khr_int64_extended_atomics ") != std::string::npos;
  if (wide && !has_extrema) return nullptr;
  if (combine == kGreaterElements) return wide ? "atom_max" : "atomic_max";
  if (combine == kLesserElements) return wide ? "atom_min" : "atomic_min";
  return nullptr;
}

size_t moves(const IndexPlan& plan) {
  return plan.row_index ? plan.elements() / static_cast<size_t>(plan.size(0)) : plan.elements();
}

const char* refusal_of_sorting(const IndexPlan& plan, at::IntArrayRef sizes) {
  if (plan.device.family() == KernelFamily::kCpu) return "a CPU is faster in order";
  const size_t count = moves(plan);
  if (has_one_writer(plan)) {
    if (count <= kMostInOrder) return "one work-item writes so few as fast";
    return count > UINT32_MAX ? "positions have 32 bits" : nullptr;
  }
  if (!plan.indexing.combine) return "the order does not matter";
  if (atomic_function(plan)) return "the device has an atomic function for it";
  if (count <= kLeastCrowd) return "few writes";
  if (count > kMostSorted) return "it would take much memory";
  return is_crowded(plan, sizes) ? nullptr : "few values go to each element";
}

const char* refusal_of_joining(const IndexPlan& plan) {
  constexpr int64_t kShortRow = 16;
  if (plan.device.family() == KernelFamily::kCpu) return "for GPUs";
  if (!plan.indexing.combine || plan.operands.other < 0) return "no values are combined";
  if (atomic_function(plan)) return "the device has an atomic function for it";
  if (has_one_writer(plan)) return "one work-item writes";
  // Joining values first is safe for sums (unless numbers near the largest one cancel), maxima and
  // minima.
  const std::string_view combine = plan.indexing.combine;
  if (combine != kAddElements && combine != kGreaterElements && combine != kLesserElements) {
    return "values may overflow or vanish without the old element";
  }
  return plan.row_index && plan.size(0) > kShortRow ? "a group has one row" : nullptr;
}

// Keeps a launch short even if all values go to one element.
double work_of(const IndexPlan& plan, size_t joined) {
  const auto count = static_cast<double>(moves(plan));
  const double most =
      atomic_function(plan) ? kMostAtomics : kMostExchanges * static_cast<double>(joined);
  if (!plan.indexing.combine || has_one_writer(plan)) return 0;
  return work_of_writes(plan.device, count, most);
}

}  // namespace ocl

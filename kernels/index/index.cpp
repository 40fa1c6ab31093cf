// Launches of index.cl, index_join_gpu.cl and index_sorted.cl.
#include "kernels/index/index.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/FunctionRef.h>

#include <bit>
#include <cmath>

#include "backend/error.h"
#include "kernels/core/algorithms.h"
#include "kernels/core/grid.h"
#include "kernels/core/tensors.h"
#include "kernels/index/index_plan.h"
#include "kernels/sort/sort.h"

namespace ocl {
namespace {

constexpr size_t kLeastBlock = 32;  // sorted writes that a work-item combines

KernelKey make_key(const IndexPlan& plan) {
  static Site site;
  KernelKey key{&site};
  key.by[0] = reinterpret_cast<uint64_t>(plan.indexing.combine);
  key.by[1] = reinterpret_cast<uint64_t>(plan.indexing.name);
  key.by[2] = static_cast<uint64_t>(plan.type) << 41 | uint64_t{plan.row_quads} << 40 |
              plan.int_indices << 32 | static_cast<uint64_t>(plan.ndim) << 16 |
              static_cast<uint64_t>(plan.indices) << 8 | uint64_t{plan.indexing.wrap} << 6 |
              uint64_t{plan.indexing.skips_outside} << 5 | uint64_t{has_one_writer(plan)} << 4 |
              uint64_t{plan.get} << 3 | uint64_t{plan.operands.other < 0} << 2 |
              uint64_t{plan.row_index} << 1 | uint64_t{plan.row_dense};
  return key;
}

// The defines of index.clh.
Defines make_defines(const IndexPlan& plan) {
  Defines defines = compute_defines(compute_type(plan.type));
  define_grid(defines, plan.device);
  defines.set("DT", dtype_name(plan.type))
      .set("BYTES", static_cast<int64_t>(c10::elementSize(plan.type)))
      .set("NDIM", plan.ndim)
      .set("INDICES", plan.indices)
      .set("WRAP", plan.indexing.wrap ? 1 : 0);
  for (int k = 0; k < plan.indices; ++k) {
    defines.set(str("INDEX", k), plan.int_indices >> k & 1 ? "int" : "long");
  }
  if (plan.indexing.combine) {
    defines.set("COMBINE(x, y)", str("(", plan.indexing.combine, ")"));
  }
  if (plan.indexing.adds() && plan.type == ScalarType::Float) defines.set("ADDS_FLOATS", 1);
  if (has_one_writer(plan)) defines.set("ONE_WRITER", 1);
  if (const char* function = atomic_function(plan)) defines.set("ATOMIC", function);
  if (plan.operands.other < 0) defines.set("FILL", 1);
  if (plan.row_index) defines.set("ROW_INDEX", 1);
  if (plan.indexing.skips_outside) defines.set("SKIP_OUTSIDE", 1);
  return defines;
}

KernelSource make_source(const IndexPlan& plan) {
  Defines defines = make_defines(plan);
  const std::string name =
      str(plan.indexing.name, plan.row_index ? "_rows_" : "_", dtype_name(plan.type));
  defines.set("KERNEL", name).set(plan.get ? "GET" : "PUT", 1);
  if (has_one_writer(plan) && !plan.row_index) defines.set("ONE_ITEM", 1);
  if (plan.row_dense) {
    defines.set("ROW_DENSE", 1);
    if (plan.row_quads) defines.set("ROW_QUADS", 1);
    if (plan.device.family() == KernelFamily::kCpu) {
      defines.set("WIDTH", c10::elementSize(plan.type) == 8 ? 8 : 16);
    }
  }
  return {"index.cl", name, defines};
}

void add_value(Arguments& arguments, const IndexPlan& plan, const c10::Scalar& number) {
  if (plan.operands.other < 0) {
    add_number(arguments, as_element(number, plan.type), compute_type(plan.type));
  } else {
    arguments.add(resolve(plan.iter.data_ptr(plan.operands.other)));
  }
}

void add_indices(Arguments& arguments, const IndexPlan& plan) {
  const int first = plan.operands.first_index;
  for (int k = 0; k < plan.indices; ++k) arguments.add(resolve(plan.iter.data_ptr(first + k)));
}

// Mirrors Geometry of index.clh.
using Geometry = c10::SmallVector<int64_t, 32>;

Geometry make_geometry(const IndexPlan& plan, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const int first = plan.operands.first_index;
  Geometry geometry;
  for (int d = 0; d < plan.ndim; ++d) geometry.push_back(plan.size(d));
  for (int operand = 0; operand < 2 + plan.indices; ++operand) {
    const int position = operand == 0   ? 0
                         : operand == 1 ? plan.operands.other
                                        : first + operand - 2;
    for (int d = 0; d < plan.ndim; ++d) geometry.push_back(plan.stride(position, d));
  }
  geometry.append(sizes.begin(), sizes.end());
  geometry.append(strides.begin(), strides.end());
  return geometry;
}

void add_geometry(Arguments& arguments, const Geometry& geometry) {
  arguments.add_bytes(geometry.data(), geometry.size() * sizeof(int64_t));
}

// Launches of index_sorted.cl.
class SortedWrites {
 public:
  SortedWrites(const IndexPlan& plan, at::IntArrayRef sizes, at::IntArrayRef strides)
      : plan_(plan),
        geometry_(make_geometry(plan, sizes, strides)),
        count_(moves(plan)),
        inner_(plan.row_index ? static_cast<size_t>(plan.size(0)) : 1) {
    int64_t farthest = 0;
    uint64_t strides_used = 0;
    const auto use = [&](int64_t size, int64_t stride) {
      farthest += (size - 1) * stride;
      strides_used |= static_cast<uint64_t>(stride);
    };
    // A row has one key, for its first element.
    for (int d = plan.row_index ? 1 : 0; d < plan.ndim; ++d) use(plan.size(d), plan.stride(0, d));
    for (size_t k = 0; k < sizes.size(); ++k) use(sizes[k], strides[k]);
    if (farthest < INT32_MAX) key_type_ = ScalarType::Int;
    // The key of a write to nowhere has all of these bits, and no other one has.
    const size_t from = strides_used == 0 ? 0 : std::countr_zero(strides_used);
    bits_ = {from, from + std::bit_width((static_cast<uint64_t>(farthest) >> from) + 1)};
  }

  void run(const c10::Scalar& number) {
    const at::Tensor unsorted = targets(), keys = at::empty_like(unsorted);
    const at::Tensor order = at::empty({static_cast<int64_t>(count_)}, options().dtype(at::kLong));
    sort_rows_gpu(unsorted, count_, /*descending=*/false, keys, order, bits_);
    if (!plan_.indexing.combine) {
      Arguments arguments = write("index_last", number, keys, order);
      add_geometry(arguments, geometry_);
      return enqueue(arguments, count_);
    }
    const size_t length =
        std::max(kLeastBlock, static_cast<size_t>(std::sqrt(static_cast<double>(count_))) / 4);
    const size_t blocks = at::ceil_div(count_, length);
    const at::Tensor partial = at::empty({static_cast<int64_t>(blocks * inner_)},
                                         options().dtype(compute_type(plan_.type)));
    Arguments arguments = write("index_blocks", number, keys, order);
    arguments.add(view(partial));
    add_geometry(arguments, geometry_);
    enqueue(arguments.add(uint64_t{count_}).add(uint64_t{length}), blocks);
    if (blocks == 1) return;
    Arguments join = launch("index_join");
    join.add(resolve(plan_.iter.data_ptr(0))).add(view(keys)).add(view(partial));
    add_geometry(join, geometry_);
    enqueue(join.add(uint64_t{count_}).add(uint64_t{length}), blocks);
  }

 private:
  at::Tensor targets() {
    const at::Tensor keys = at::empty({static_cast<int64_t>(count_)}, options().dtype(key_type_));
    Arguments arguments = launch("index_keys");
    add_indices(arguments, plan_);
    arguments.add(view(keys));
    add_geometry(arguments, geometry_);
    const auto size = static_cast<size_t>(plan_.size(0));
    const size_t units = plan_.elements() / size;
    const UnitGrid grid = unit_grid(plan_.device, units, plan_.row_index ? 1 : size);
    arguments.add(uint64_t{units})
        .add(grid.per_item)
        .add(FaultArgument{plan_.indexing.fault_site})
        .enqueue(grid.global, grid.local);
    return keys;
  }

  Arguments write(const char* kernel, const c10::Scalar& number, const at::Tensor& keys,
                  const at::Tensor& order) {
    Arguments arguments = launch(kernel);
    arguments.add(resolve(plan_.iter.data_ptr(0)));
    add_value(arguments, plan_, number);
    arguments.add(view(keys)).add(view(order));
    return arguments;
  }

  void enqueue(Arguments& arguments, size_t units) {
    const UnitGrid grid = unit_grid(plan_.device, units, inner_);
    arguments.add(uint64_t{units})
        .add(uint64_t{inner_})
        .add(grid.per_item)
        .enqueue(grid.global, grid.local);
  }

  Arguments launch(const char* kernel) {
    static Site site;
    KernelKey key = make_key(plan_);
    key.site = &site;
    key.by[3] = reinterpret_cast<uint64_t>(kernel) << 1 | uint64_t{key_type_ == ScalarType::Int};
    const Kernel& found = find_kernel(plan_.device, key, [&] {
      Defines defines = make_defines(plan_);
      const bool narrow = key_type_ == ScalarType::Int;
      defines.set("KEY", narrow ? "int" : "long").set("KEY_MAX", narrow ? "INT_MAX" : "LONG_MAX");
      return KernelSource{"index_sorted.cl", kernel, defines};
    });
    return Arguments(current_stream(plan_.device.index()), found);
  }

  at::TensorOptions options() const { return at::TensorOptions(plan_.iter.device(0)); }

  const IndexPlan& plan_;
  const Geometry geometry_;
  const size_t count_, inner_;
  KeyBits bits_;
  ScalarType key_type_ = ScalarType::Long;
};

constexpr size_t kJoinGroup = 64;  // as of unit_grid()

// The kernel for a launch that is not sorted. `joins`: joins_in_group().
const Kernel& find(const IndexPlan& plan, bool joins) {
  if (!joins) {
    return find_kernel(plan.device, make_key(plan), [&] { return make_source(plan); });
  }
  static Site site;
  KernelKey key = make_key(plan);
  key.site = &site;
  return find_kernel(plan.device, key, [&](size_t group) {
    KernelSource source = make_source(plan);
    source.file = "index_join_gpu.cl";
    source.defines.set("GROUP", static_cast<int64_t>(std::min(group, kJoinGroup)));
    return source;
  });
}

void run(IndexPlan plan, at::IntArrayRef sizes, at::IntArrayRef strides,
         const c10::Scalar& number) {
  plan.row_quads = in_quads(plan, strides);
  if (sorts(plan, sizes)) return SortedWrites(plan, sizes, strides).run(number);
  const bool joins = joins_in_group(plan);
  const Kernel& kernel = find(plan, joins);
  Arguments arguments(current_stream(plan.device.index()), kernel);
  arguments.add(resolve(plan.iter.data_ptr(0)));
  add_value(arguments, plan, number);
  add_indices(arguments, plan);
  add_geometry(arguments, make_geometry(plan, sizes, strides));

  const auto inner = static_cast<size_t>(plan.size(0));
  const size_t units = plan.elements() / inner;
  const size_t items = plan.row_quads ? inner * c10::elementSize(plan.type) / kQuadBytes : inner;
  UnitGrid grid = unit_grid(plan.device, units, items, plan.row_dense ? 1 : 4);
  if (has_one_writer(plan)) {
    grid.global.y = grid.local.y = 1;
    if (!plan.row_index) grid.global.x = grid.local.x = 1;
    grid.per_item = units;
  }
  const size_t group = std::min(kernel.group, kJoinGroup);
  const size_t joined = !joins           ? 1
                        : plan.row_index ? std::max<size_t>(1, group / grid.local.x)
                                         : group;
  arguments.add(uint64_t{units})
      .add(grid.per_item)
      .add(FaultArgument{plan.indexing.fault_site})
      .enqueue(grid.global, grid.local, work_of(plan, joined));
}

// The dimensions for which a launch's arguments fit. Only many dimensions and indices do not.
int most_dims(const Device& device, size_t indices) {
  const size_t bytes = std::min<size_t>(device.properties().max_parameter_size, 65536);
  const size_t words = bytes / sizeof(int64_t), others = 4 * indices + 24;  // tensors, bounds, ...
  // One dimension less, for the parts of complex numbers.
  const size_t dims = words > others ? (words - others) / (3 + indices) : 0;
  return static_cast<int>(std::max<size_t>(dims, 2)) - 1;
}

// Calls `run` for the iterator, or for each place in its outer dimensions.
void in_slices(at::TensorIteratorBase& iter, size_t indices,
               c10::function_ref<void(at::TensorIteratorBase&)> run) {
  if (iter.numel() == 0) return;
  const int inner = most_dims(ocl::device(iter.device(0).index()), indices);
  if (C10_LIKELY(iter.ndim() <= inner)) return run(iter);
  const at::IntArrayRef sizes = iter.shape().slice(inner);
  at::DimVector place(sizes.size(), 0);
  for (;;) {
    at::TensorIterator slice(iter);
    slice.select_all_keeping_dim(inner, place);
    run(slice);
    size_t d = 0;
    while (d < place.size() && ++place[d] == sizes[d]) place[d++] = 0;
    if (d == place.size()) return;
  }
}

}  // namespace

void index_get(at::TensorIteratorBase& iter, const Indexing& indexing, at::IntArrayRef sizes,
               at::IntArrayRef strides, IndexOperands operands) {
  in_slices(iter, sizes.size(), [&](at::TensorIteratorBase& slice) {
    run(make_plan(slice, indexing, operands, true, sizes.size()), sizes, strides, 0);
  });
}

void index_put(at::TensorIteratorBase& iter, const Indexing& indexing, at::IntArrayRef sizes,
               at::IntArrayRef strides, IndexOperands operands, const c10::Scalar& number) {
  in_slices(iter, sizes.size(), [&](at::TensorIteratorBase& slice) {
    run(make_plan(slice, indexing, operands, false, sizes.size()), sizes, strides, number);
  });
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

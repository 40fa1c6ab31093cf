// Launches of index.cl, index_join_gpu.cl and index_sorted.cl.
#include "kernels/index/index.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/FunctionRef.h>

#include <bit>
#include <cmath>

#include "backend/base/error.h"
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/index/index_plan.h"
#include "kernels/sort/sort.h"

namespace ocl {
namespace {

constexpr size_t kLeastBlock = 32;  // the fewest sorted writes that a work-item combines

// The parameters of the defines of index.clh.
struct Elements {
  const char *combine, *atomic;
  uint32_t int_indices;
  ScalarType type;
  uint8_t ndim, indices;
  bool wrap, skips_outside, one_writer, fill, row_index;

  Defines defines(const Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("DT", dtype_name(type))
        .set("BYTES", static_cast<int64_t>(c10::elementSize(type)))
        .set("NDIM", ndim)
        .set("INDICES", indices)
        .set("WRAP", wrap ? 1 : 0);
    for (int k = 0; k < indices; ++k) {
      defines.set(str("INDEX", k), int_indices >> k & 1 ? "int" : "long");
    }
    if (combine) {
      defines.set("COMBINE(x, y)", str("(", combine, ")"));
      const bool adds = std::string_view(combine) == kAddElements;
      if (adds && type == ScalarType::Float) defines.set("ADDS_FLOATS", 1);
    }
    if (one_writer) defines.set("ONE_WRITER", 1);
    if (atomic) defines.set("ATOMIC", atomic);
    if (fill) defines.set("FILL", 1);
    if (row_index) defines.set("ROW_INDEX", 1);
    if (skips_outside) defines.set("SKIP_OUTSIDE", 1);
    return defines;
  }
};

Elements elements_of(const IndexPlan& plan) {
  const Indexing& indexing = plan.indexing;
  return {indexing.combine,
          atomic_function(plan),
          plan.int_indices,
          plan.type,
          static_cast<uint8_t>(plan.ndim),
          static_cast<uint8_t>(plan.indices),
          indexing.wrap,
          indexing.skips_outside,
          has_one_writer(plan),
          plan.operands.other < 0,
          plan.row_index};
}

struct Move {
  const char* prefix;  // a part of the kernel's name
  Elements elements;
  bool get, row_dense, row_quads;

  KernelSource source(Device& device) const {
    Defines defines = elements.defines(device);
    const std::string name =
        str(prefix, elements.row_index ? "_rows_" : "_", dtype_name(elements.type));
    defines.set("KERNEL", name).set(get ? "GET" : "PUT", 1);
    if (elements.one_writer && !elements.row_index) defines.set("ONE_ITEM", 1);
    if (row_dense) {
      defines.set("ROW_DENSE", 1);
      if (row_quads) defines.set("ROW_QUADS", 1);
      if (device.family() == KernelFamily::kCpu) {
        defines.set("WIDTH", c10::elementSize(elements.type) == 8 ? 8 : 16);
      }
    }
    return {"index.cl", name, defines};
  }
};

constexpr size_t kJoinGroup = 64;  // see unit_grid()

struct JoinedMove {
  Move move;

  KernelSource source(Device& device, size_t group) const {
    KernelSource source = move.source(device);
    source.file = "index_join_gpu.cl";
    source.defines.set("GROUP", static_cast<int64_t>(std::min(group, kJoinGroup)));
    return source;
  }
};

struct SortedMove {
  const char* kernel;
  Elements elements;
  ScalarType key;

  KernelSource source(Device& device) const {
    Defines defines = elements.defines(device);
    const bool narrow = key == ScalarType::Int;
    defines.set("KEY", narrow ? "int" : "long").set("KEY_MAX", narrow ? "INT_MAX" : "LONG_MAX");
    return {"index_sorted.cl", kernel, defines};
  }
};

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
    // The key of a write that is skipped. No other key has all of these bits.
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
    const Kernel& found =
        find_kernel(plan_.device, SortedMove{kernel, elements_of(plan_), key_type_});
    return Arguments(current_stream(plan_.device.index()), found);
  }

  at::TensorOptions options() const { return at::TensorOptions(plan_.iter.device(0)); }

  const IndexPlan& plan_;
  const Geometry geometry_;
  const size_t count_, inner_;
  KeyBits bits_;
  ScalarType key_type_ = ScalarType::Long;
};

struct IndexCall {
  const IndexPlan& plan;
  at::IntArrayRef sizes, strides;  // sizes and strides of what is indexed
  const c10::Scalar& number;
};

std::string describe(const IndexCall& call) {
  return str(call.plan.indexing.name, " of ", moves(call.plan), " ",
             call.plan.row_index ? "rows" : "elements", ", ", call.plan.type);
}

// Launches the kernel whose work-items move elements or rows. `joins`: a group first joins its
// values for one element.
void move_each(const IndexCall& call, bool joins) {
  const IndexPlan& plan = call.plan;
  const Move move{plan.indexing.name, elements_of(plan), plan.get, plan.row_dense, plan.row_quads};
  const Kernel& kernel =
      joins ? find_kernel(plan.device, JoinedMove{move}) : find_kernel(plan.device, move);
  Arguments arguments(current_stream(plan.device.index()), kernel);
  arguments.add(resolve(plan.iter.data_ptr(0)));
  add_value(arguments, plan, call.number);
  add_indices(arguments, plan);
  add_geometry(arguments, make_geometry(plan, call.sizes, call.strides));

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

constexpr Algorithm<IndexCall> kAlgorithms[] = {
    {"sorted_writes",
     [](const IndexCall& call) { return refusal_of_sorting(call.plan, call.sizes); },
     [](const IndexCall& call) {
       SortedWrites(call.plan, call.sizes, call.strides).run(call.number);
     }},
    {"joined_writes", [](const IndexCall& call) { return refusal_of_joining(call.plan); },
     [](const IndexCall& call) { move_each(call, /*joins=*/true); }},
    {"each_move", nullptr, [](const IndexCall& call) { move_each(call, /*joins=*/false); }},
};
const OptionalPaths optional({kAlgorithms[0].name});

void run(IndexPlan plan, at::IntArrayRef sizes, at::IntArrayRef strides,
         const c10::Scalar& number) {
  plan.row_quads = in_quads(plan, strides);
  run_first(kAlgorithms, IndexCall{plan, sizes, strides, number});
}

// The most dimensions whose arguments fit into a launch. Only many dimensions with many indices do
// not.
int most_dims(const at::TensorIteratorBase& iter, const Indexing& indexing, size_t indices) {
  const Device& device = ocl::device(iter.device(0).index());
  const size_t bytes = std::min<size_t>(device.properties().max_parameter_size, 65536);
  const size_t words = bytes / sizeof(int64_t), others = 4 * indices + 24;  // tensors, bounds, ...
  const size_t dims = words > others ? (words - others) / (3 + indices) : 0;
  const size_t parts = c10::isComplexType(iter.dtype(0)) ? 1 : 0;  // a dimension of their own
  TORCH_CHECK_NOT_IMPLEMENTED(
      dims > parts, indexing.name, ": the arguments of ", indices,
      " index tensors do not fit in the ", bytes,
      " bytes of the device (CL_DEVICE_MAX_PARAMETER_SIZE); index in two steps");
  return static_cast<int>(dims - parts);
}

// Calls `run` for the iterator, or for each position in its outer dimensions.
void in_slices(at::TensorIteratorBase& iter, const Indexing& indexing, size_t indices,
               c10::function_ref<void(at::TensorIteratorBase&)> run) {
  if (iter.numel() == 0) return;
  const int inner = most_dims(iter, indexing, indices);
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
  in_slices(iter, indexing, sizes.size(), [&](at::TensorIteratorBase& slice) {
    run(make_plan(slice, indexing, operands, true, sizes.size()), sizes, strides, 0);
  });
}

void index_put(at::TensorIteratorBase& iter, const Indexing& indexing, at::IntArrayRef sizes,
               at::IntArrayRef strides, IndexOperands operands, const c10::Scalar& number) {
  in_slices(iter, indexing, sizes.size(), [&](at::TensorIteratorBase& slice) {
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

// Kernels and their launch. A struct has all parameters of a kernel's source, and makes the source.
// A table of each thread maps the fields of such structs to kernel objects, so a launch takes no
// lock and makes no allocation or string:
//
//   struct Scale {
//     ScalarType type;
//     bool inverse;
//
//     KernelSource source(Device&) const {
//       Defines defines;
//       defines.set("DT", dtype_name(type));
//       if (inverse) defines.set("INVERSE", 1);
//       return {"scale.cl", "scale", defines};
//     }
//   };
//   const Kernel& kernel = find_kernel(device, Scale{type, inverse});
//   launch(stream, kernel, {tasks}, {1}, BufferView, BufferView, float{2}, int64_t{n});
#pragma once

#include <c10/util/FunctionRef.h>

#include <array>
#include <type_traits>

#include "backend/device/buffer_view.h"
#include "backend/launch/specialisation.h"
#include "backend/program/program_cache.h"
#include "backend/queue/command_sink.h"

namespace ocl {

struct KernelSource {
  std::string file;
  std::string kernel;
  Defines defines;
  // Whether the kernel uses the size of its grid, get_global_size() or get_num_groups(). Such a
  // launch is not split, so its caller must respect the device's limits.
  bool whole_grid = false;
};

struct Kernel {
  cl_kernel handle = nullptr;
  const Program* program = nullptr;
  std::string name;
  size_t group = 1;  // the most work-items of a work-group, a power of two
  bool whole_grid = false;
  mutable bool launched = false;
  // Whether any thread has launched the kernel; nullptr: this is its only object.
  std::atomic<bool>* launched_by_any = nullptr;
};

struct Range {
  size_t x = 1, y = 1, z = 1;
  // For a local size that the source does not depend on: it is halved until the kernel can have it.
  bool may_shrink = false;

  size_t items() const { return x * y * z; }
};

// Whether a device can run the grid in one launch.
inline bool fits(const GridLimits& limits, const Range& global, const Range& local, double work) {
  if (work > limits.work || global.items() > limits.items) return false;
  const auto fits = [&](size_t items, size_t group) {
    return items <= limits.groups || items / group <= limits.groups;
  };
  return fits(global.x, local.x) && fits(global.y, local.y) && fits(global.z, local.z);
}

// Returns the kernel of this thread for the specialisation: a struct of numbers, enumerators,
// pointers to what never moves, and structs of these, of at most 48 bytes. The struct is local to a
// function or an anonymous namespace. The first call calls its method source(device), which may
// depend on the fields and the device alone. A source that depends on the size of the work-group is
// source(device, group) instead: it is called with smaller and smaller groups until the kernel can
// have them. Kernel::group is the last one.
template <typename Specialisation>
const Kernel& find_kernel(Device& device, const Specialisation& specialisation);

// Binds the arguments of a launch one by one, for launches whose number of arguments varies.
class Arguments {
 public:
  Arguments(Stream& stream, const Kernel& kernel)
      : sink_(stream),
        kernel_(kernel),
        handle_(sink_.kernel(kernel.handle, *kernel.program, kernel.name)) {}

  // BufferView: two kernel arguments (buffer and byte offset). FaultArgument: two (word and site).
  // Numbers and plain structs by value.
  template <typename T>
  Arguments& add(const T& value);
  Arguments& add_bytes(const void* data, size_t size);
  Arguments& add_buffer(cl_mem buffer);

  // For arguments that change from replay to replay: before_replay() sets them, given the kernel
  // object and the index of the argument.
  const CommandSink& sink() const { return sink_; }
  cl_kernel handle() const { return handle_; }
  cl_uint next() const { return index_; }
  size_t group() const { return kernel_.group; }

  // A grid beyond the device's limits becomes several launches with offsets. So a kernel uses
  // group_id() instead of get_group_id(), or sets KernelSource::whole_grid. `work`: the number of
  // float32 multiply-adds of all work-items, or an equivalent; for kernels that may take long.
  void enqueue(const Range& global, const Range& local, double work = 0);

 private:
  // Raises if the memory is not on the stream's device.
  [[noreturn]] void refuse(const BufferView& value) const;
  bool submit_part(const Range& offset, const Range& global, const Range& local, bool flush);

  const CommandSink sink_;
  const Kernel& kernel_;
  const cl_kernel handle_;
  cl_uint index_ = 0;
  bool reports_faults_ = false;
};

// Enqueues the kernel with these arguments, in the kernel's order.
template <typename... Args>
void launch(Stream& stream, const Kernel& kernel, const Range& global, const Range& local,
            const Args&... args) {
  Arguments arguments(stream, kernel);
  (arguments.add(args), ...);
  arguments.enqueue(global, local);
}

// The name of this thread's last kernel, and the number of its launches; for tests that assert
// which kernel ran.
const std::string& last_kernel();
uint64_t launch_count();
// The number of kernel objects that find_kernel() has made, in all threads. A thread that ends
// leaves its objects to the next new thread.
uint64_t kernel_objects();
// Counts kernels that other code than Arguments enqueued; the text of `last` must stay where it is.
void count_launches(Stream& stream, const std::string& last, uint64_t count);

// ---- implementation ----

namespace detail {
Kernel* lookup(const Device& device, const KernelKey& key);
// `grouped`: the source depends on the size of the work-group.
const Kernel& insert(Device& device, const KernelKey& key, bool grouped,
                     c10::function_ref<KernelSource(size_t group)> source);
// The largest part of the grid for one launch.
Range part_of(const GridLimits& limits, const Range& global, const Range& local, double work);
}  // namespace detail

template <typename Specialisation>
const Kernel& find_kernel(Device& device, const Specialisation& specialisation) {
  const KernelKey key = detail::key_of(specialisation);
  if (const Kernel* found = detail::lookup(device, key)) return *found;
  if constexpr (requires { specialisation.source(device, size_t{1}); }) {
    return detail::insert(device, key, true,
                          [&](size_t group) { return specialisation.source(device, group); });
  } else {
    return detail::insert(device, key, false,
                          [&](size_t) { return specialisation.source(device); });
  }
}

inline Arguments& Arguments::add_buffer(cl_mem buffer) {
  sink_.use(buffer);
  return add_bytes(&buffer, sizeof(buffer));
}

template <typename T>
Arguments& Arguments::add(const T& value) {
  if constexpr (std::is_same_v<T, BufferView>) {
    if (C10_UNLIKELY(&value.device() != &sink_.stream().device())) refuse(value);
    const cl_ulong offset = value.offset;
    add_buffer(value.buffer());
    return add_bytes(&offset, sizeof(offset));
  } else if constexpr (std::is_same_v<T, FaultArgument>) {
    const cl_mem word = sink_.stream().faults().word();
    const cl_int site = sink_.fault_site(handle_, index_, value.site);
    reports_faults_ = true;
    add_bytes(&word, sizeof(word));
    return add_bytes(&site, sizeof(site));
  } else {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                  !std::is_same_v<T, bool>);
    return add_bytes(&value, sizeof(T));
  }
}

}  // namespace ocl

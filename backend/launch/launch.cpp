#include "backend/launch/launch.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "backend/base/environment.h"
#include "backend/base/error.h"

namespace ocl {
namespace {

struct KeyHash {
  size_t operator()(const std::pair<KernelKey, DeviceIndex>& key) const {
    return key.first.hash + static_cast<uint64_t>(key.second);
  }
};

using DeviceKey = std::pair<KernelKey, DeviceIndex>;
using Table = std::unordered_map<DeviceKey, Kernel, KeyHash>;

// Kernel objects hold their arguments, so each thread has its own table. A thread that ends leaves
// its table to the next new thread. All are leaked when the process ends, because drivers may be
// unloaded by then.
struct Tables {
  std::mutex mutex;
  std::vector<Table*> free;
};
Tables& tables() {
  static auto* const instance = new Tables;
  return *instance;
}

thread_local Table* mine = nullptr;

struct AtThreadEnd {
  ~AtThreadEnd() {
    if (!mine) return;
    Tables& all = tables();
    std::lock_guard lock(all.mutex);
    all.free.push_back(std::exchange(mine, nullptr));
  }
};

C10_NOINLINE Table& take_table() {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  if (all.free.empty()) {
    mine = new Table;
  } else {
    mine = all.free.back();
    all.free.pop_back();
  }
  thread_local const AtThreadEnd give_back;
  return *mine;
}

Table& table() { return C10_LIKELY(mine != nullptr) ? *mine : take_table(); }

// All objects of one kernel, in different threads, share this.
struct Prototype {
  const Program* program = nullptr;
  std::string name;
  size_t group = 1;
  bool whole_grid = false;
  std::atomic<bool> launched{false};
};

struct Prototypes {
  std::mutex mutex;
  std::unordered_map<DeviceKey, Prototype, KeyHash> known;
  std::atomic<uint64_t> objects{0};
};
Prototypes& prototypes() {
  static auto* const instance = new Prototypes;
  return *instance;
}

Prototype* find_prototype(const Device& device, const KernelKey& key) {
  Prototypes& all = prototypes();
  std::lock_guard lock(all.mutex);
  const auto found = all.known.find({key, device.index()});
  return found == all.known.end() ? nullptr : &found->second;
}

struct LaunchRecord {
  const std::string* last = nullptr;
  uint64_t count = 0;
};
thread_local LaunchRecord record;

bool blocking() {
  static const bool set = environment_flag("OCL_LAUNCH_BLOCKING");
  return set;
}

cl_kernel create_kernel(const Program& program, const std::string& name) {
  cl_int code = CL_SUCCESS;
  const cl_kernel handle = clCreateKernel(program.handle(), name.c_str(), &code);
  if (code != CL_SUCCESS) {
    raise(code, str("cannot create the kernel ", name, " of ", program.label), "clCreateKernel");
  }
  return handle;
}

// The largest power of two of work-items that a group of the kernel can have. It depends on the
// registers that the kernel needs.
size_t most_items(const Device& device, const Program& program, const std::string& name) {
  const cl::Kernel kernel(create_kernel(program, name));
  size_t items = 0;
  const cl_int code = clGetKernelWorkGroupInfo(
      kernel(), device.handle()(), CL_KERNEL_WORK_GROUP_SIZE, sizeof(items), &items, nullptr);
  if (code != CL_SUCCESS || items == 0) {
    raise(code == CL_SUCCESS ? CL_OUT_OF_RESOURCES : code,
          str("cannot run the kernel ", name, " of ", program.label, " on ", device.label()),
          "clGetKernelWorkGroupInfo");
  }
  return std::bit_floor(items);
}

struct Built {
  const Program* program;
  std::string name;
  size_t group;
  bool whole_grid;
};

// Halves `group` until the source differs, and returns that size; 0: the source never differs. (A
// kernel may use smaller groups than the device allows, so the next half may be the same source.)
size_t smaller_group(size_t group, const KernelSource& refused,
                     c10::function_ref<KernelSource(size_t)> source) {
  while (group /= 2) {
    if (source(group).defines.text() != refused.defines.text()) break;
  }
  return group;
}

Built build(Device& device, bool grouped, c10::function_ref<KernelSource(size_t)> source) {
  const bool any = device.family() == KernelFamily::kCpu || device.has(Quirk::kLowGroupLimits);
  std::exception_ptr failure;  // the error of the first build that failed
  for (size_t group = device.parameters().work_group_size;;) {
    KernelSource wanted;
    const Program* built = nullptr;
    try {
      wanted = source(group);
      built = &program(device, wanted.file, wanted.defines);
    } catch (const c10::Error&) {
      // A compiler may refuse a kernel whose required group needs more registers than there are.
      if (failure) std::rethrow_exception(failure);
      if (!grouped || device.family() == KernelFamily::kCpu) throw;
      group = smaller_group(group, wanted, source);
      if (group == 0) throw;
      failure = std::current_exception();
      continue;
    }
    const size_t most = any ? group : most_items(device, *built, wanted.kernel);
    if (!grouped || group <= most) {
      return {built, wanted.kernel, std::min(group, most), wanted.whole_grid};
    }
    store_later(*built);  // it is never launched, but the next process asks for its limit
    group = most;
  }
}

}  // namespace

namespace detail {

Kernel* lookup(const Device& device, const KernelKey& key) {
  Table& kernels = table();
  const auto found = kernels.find({key, device.index()});
  return found == kernels.end() ? nullptr : &found->second;
}

const Kernel& insert(Device& device, const KernelKey& key, bool grouped,
                     c10::function_ref<KernelSource(size_t)> source) {
  refuse_fork();
  Prototypes& all = prototypes();
  Prototype* prototype = find_prototype(device, key);
  if (!prototype) {
    Built built = build(device, grouped, source);
    std::lock_guard lock(all.mutex);
    prototype = &all.known[{key, device.index()}];
    if (!prototype->program) {  // no other thread has made it meanwhile
      prototype->name = std::move(built.name);
      prototype->group = built.group;
      prototype->whole_grid = built.whole_grid;
      prototype->program = built.program;
    }
  }
  Kernel kernel;
  kernel.program = prototype->program;
  kernel.name = prototype->name;
  kernel.group = prototype->group;
  kernel.whole_grid = prototype->whole_grid;
  kernel.launched_by_any = &prototype->launched;
  kernel.handle = create_kernel(*kernel.program, kernel.name);
  all.objects.fetch_add(1, std::memory_order_relaxed);
  return table().emplace(std::pair{key, device.index()}, std::move(kernel)).first->second;
}

}  // namespace detail

Arguments& Arguments::add_bytes(const void* data, size_t size) {
  const cl_int code = clSetKernelArg(handle_, index_, size, data);
  if (C10_UNLIKELY(code != CL_SUCCESS)) {
    raise(code,
          str("cannot set argument ", index_, " (", size, " bytes) of the kernel ", kernel_.name,
              " of ", kernel_.program->label),
          "clSetKernelArg");
  }
  ++index_;
  return *this;
}

void Arguments::refuse(const BufferView& value) const {
  refuse_devices(sink_.stream().device(), value.device(),
                 str(" (argument ", index_, " of the kernel ", kernel_.name, ")"));
}

void Arguments::enqueue(const Range& global, const Range& wanted, double work) {
  Range local = wanted;
  while (C10_UNLIKELY(local.may_shrink && local.items() > kernel_.group)) {
    (local.y > 1 ? local.y : local.x) /= 2;
  }
  const GridLimits& limits = sink_.stream().device().parameters().grid;
  const bool flush = limits.is_long(work);
  bool enqueued = false;
  if (C10_LIKELY(kernel_.whole_grid || fits(limits, global, local, work))) {
    enqueued = submit_part({0, 0, 0}, global, local, flush);
  } else {
    const Range most = detail::part_of(limits, global, local, work);
    for (size_t z = 0; z < global.z; z += most.z) {
      for (size_t y = 0; y < global.y; y += most.y) {
        for (size_t x = 0; x < global.x; x += most.x) {
          enqueued = submit_part({x, y, z},
                                 {std::min(most.x, global.x - x), std::min(most.y, global.y - y),
                                  std::min(most.z, global.z - z)},
                                 local, flush);
        }
      }
    }
  }
  if (C10_LIKELY(enqueued)) count_launches(sink_.stream(), kernel_.name, 1);
}

// Returns true if the launch was enqueued, false if a graph recorded it.
bool Arguments::submit_part(const Range& offset, const Range& global, const Range& local,
                            bool flush) {
  Command command{{.kind = trace::Kind::kKernel,
                   .function = "clEnqueueNDRangeKernel",
                   .kernel = &kernel_.name,
                   .global = {global.x, global.y, global.z},
                   .local = {local.x, local.y, local.z}}};
  command.program = kernel_.program;
  command.launched = kernel_.launched_by_any;
  command.first = !kernel_.launched;
  command.flush = flush;
  command.reports_faults = reports_faults_;
  const bool enqueued = sink_.submit(
      command,
      [handle = handle_, offset = std::array{offset.x, offset.y, offset.z}, global = command.global,
       local = command.local](cl_command_queue queue, cl_event* event) {
        return clEnqueueNDRangeKernel(queue, handle, 3, offset.data(), global.data(), local.data(),
                                      0, nullptr, event);
      },
      [&] {
        return str("cannot launch the kernel ", kernel_.name, " of ", kernel_.program->label,
                   " on ", sink_.stream().device().label(), " with global size ", global.x, "x",
                   global.y, "x", global.z, " and local size ", local.x, "x", local.y, "x",
                   local.z);
      });
  if (C10_UNLIKELY(enqueued && command.first)) kernel_.launched = true;
  return enqueued;
}

const std::string& last_kernel() {
  static const std::string none;
  return record.last ? *record.last : none;
}

uint64_t launch_count() { return record.count; }

uint64_t kernel_objects() { return prototypes().objects.load(std::memory_order_relaxed); }

void count_launches(Stream& stream, const std::string& last, uint64_t count) {
  record.last = &last;
  record.count += count;
  if (C10_UNLIKELY(blocking())) stream.finish();
}

}  // namespace ocl

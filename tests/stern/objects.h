// The layer's records of OpenCL objects. Handles are PoCL's own, except those of events, which are
// the layer's. A command retains its objects, so memory is freed when its last command ends.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/stern/stern.h"

namespace stern {

// The objects of a type that the program holds references to.
template <typename State>
class Table {
 public:
  using Pointer = std::shared_ptr<State>;

  void add(const void* handle, Pointer state) {
    std::lock_guard lock(mutex_);
    objects_[handle] = {std::move(state), 1};
  }

  Pointer find(const void* handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.state;
  }

  bool retain(const void* handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found != objects_.end() && ++found->second.references;
  }

  // False: no such object. `last` gets the object when it was its last reference.
  bool release(const void* handle, Pointer* last) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return false;
    if (--found->second.references == 0) {
      *last = std::move(found->second.state);
      objects_.erase(found);
    }
    return true;
  }

  cl_uint references(const void* handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? 0 : found->second.references;
  }

  size_t alive() {
    std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  struct Entry {
    Pointer state;
    cl_uint references = 0;
  };
  std::mutex mutex_;
  std::unordered_map<const void*, Entry> objects_;
};

// Releases PoCL's reference when the layer's last one goes.
template <typename Handle, auto release>
struct Object {
  explicit Object(Handle object) : handle(object) {}
  ~Object() { (next->*release)(handle); }
  Object(const Object&) = delete;
  const Handle handle;
};

using Context = Object<cl_context, &cl_icd_dispatch::clReleaseContext>;

// Keeps an object that others of the program's depend on: a kernel its program, all their context.
template <typename State>
class Keep {
 public:
  Keep() = default;
  explicit Keep(const void* handle);
  Keep(Keep&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Keep& operator=(Keep&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Keep();

 private:
  const void* handle_ = nullptr;
};

struct Program : Object<cl_program, &cl_icd_dispatch::clReleaseProgram> {
  Program(cl_program handle, cl_context context) : Object(handle), context(context) {}
  const Keep<Context> context;
};

// A mapped region: bytes of its own on the host, with guards around them.
struct Mapping {
  Mapping(size_t offset, size_t size, cl_map_flags flags);
  ~Mapping();
  Mapping(const Mapping&) = delete;

  bool writes() const { return flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION); }
  bool guards_intact() const;
  static size_t alive();
  void poison();  // an access from now on is a segmentation fault

  const size_t offset, size;
  const cl_map_flags flags;
  const Stack stack = Stack::here();
  char* pointer = nullptr;      // the pointer that the program gets
  void* user_memory = nullptr;  // the memory of CL_MEM_USE_HOST_PTR, used instead
  bool ending = false;          // its unmap is enqueued
  bool active = false;          // its map has run, its unmap has not

 private:
  char* region_ = nullptr;
  size_t region_size_ = 0;
};

struct Buffer : Object<cl_mem, &cl_icd_dispatch::clReleaseMemObject> {
  using Object::Object;
  ~Buffer();

  Buffer& root() { return parent ? *parent : *this; }
  // Whether its memory is the card's, and counts.
  bool on_device() const { return !(flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_USE_HOST_PTR)); }

  cl_context context = nullptr;
  Keep<Context> kept;
  std::shared_ptr<Buffer> parent;  // set for sub-buffers
  size_t origin = 0, size = 0;
  cl_mem_flags flags = 0;
  void* host_pointer = nullptr;  // the memory of CL_MEM_USE_HOST_PTR
  std::mutex mutex;              // guards the members below; only used in the root
  bool resident = false;
  std::list<std::shared_ptr<Mapping>> mappings;  // with their offsets in the root
};

// Gives the buffer its memory, filled with 0xCD, if it has none yet; or an error.
cl_int make_resident(Buffer& buffer);
// Bytes of the card in use.
uint64_t memory_in_use();

struct Queue;
struct Event;
struct Kernel;

Table<Context>& contexts();
Table<Program>& programs();
Table<Kernel>& kernels();
Table<Buffer>& buffers();
Table<Queue>& queues();
Table<Event>& events();

template <typename State>
Table<State>& table();
template <>
Table<Context>& table();
template <>
Table<Program>& table();

template <typename State>
Keep<State>::Keep(const void* handle) : handle_(handle) {
  table<State>().retain(handle);
}

template <typename State>
Keep<State>::~Keep() {
  std::shared_ptr<State> last;
  if (handle_) table<State>().release(handle_, &last);
}

}  // namespace stern

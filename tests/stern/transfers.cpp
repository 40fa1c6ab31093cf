// Copies, fills, maps and markers: checked at once, run late.
#include <cstring>

#include "tests/stern/entry_points.h"
#include "tests/stern/profile.h"
#include "tests/stern/scheduler.h"

namespace stern {
namespace {

std::shared_ptr<Buffer> find(cl_mem handle) { return buffers().find(handle); }

bool inside(const Buffer& buffer, size_t offset, size_t size) {
  return size && offset <= buffer.size && size <= buffer.size - offset;
}

// The bytes from the first to the last of a rectangle.
struct Rectangle {
  size_t origin[3], region[3], row, slice;

  Rectangle(const size_t* from, const size_t* extent, size_t row_pitch, size_t slice_pitch) {
    std::memcpy(origin, from, sizeof origin);
    std::memcpy(region, extent, sizeof region);
    row = row_pitch ? row_pitch : region[0];
    slice = slice_pitch ? slice_pitch : region[1] * row;
  }
  bool inside(const Buffer& buffer) const {
    return region[0] && region[1] && region[2] &&
           (origin[2] + region[2] - 1) * slice + (origin[1] + region[1] - 1) * row + origin[0] +
                   region[0] <=
               buffer.size;
  }
};

cl_int invalid(const char* what, cl_int code = CL_INVALID_VALUE) {
  return refuse(code, std::string(what) + ": invalid arguments");
}

Command plain(cl_command_type type, const char* what) { return {type, {}, {}, what, {}, {}}; }

cl_int unmap_now(cl_command_queue queue, Buffer& root, const std::shared_ptr<Mapping>& mapping) {
  if (!mapping->guards_intact()) {
    abort_with("the program wrote beside the " + std::to_string(mapping->size) +
                   " bytes that it had mapped",
               &mapping->stack, "mapped here:");
  }
  const void* source = mapping->user_memory ? mapping->user_memory : mapping->pointer;
  cl_int code = CL_SUCCESS;
  if (mapping->writes()) {
    code = next->clEnqueueWriteBuffer(queue, root.handle, CL_TRUE, mapping->offset, mapping->size,
                                      source, 0, nullptr, nullptr);
  }
  mapping->poison();
  std::lock_guard lock(root.mutex);
  root.mappings.remove(mapping);
  return code;
}

}  // namespace

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking, size_t offset,
                           size_t size, void* host, cl_uint count, const cl_event* waits,
                           cl_event* event) {
  const auto buffer = find(handle);
  if (!buffer) return invalid("clEnqueueReadBuffer", CL_INVALID_MEM_OBJECT);
  if (!host || !inside(*buffer, offset, size)) return invalid("clEnqueueReadBuffer");
  Command command = plain(CL_COMMAND_READ_BUFFER, "clEnqueueReadBuffer");
  command.uses = {{buffer, false}};
  command.run = [=](cl_command_queue real) {
    return next->clEnqueueReadBuffer(real, buffer->handle, CL_TRUE, offset, size, host, 0, nullptr,
                                     nullptr);
  };
  return enqueue(queue, std::move(command), count, waits, event, blocking);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking, size_t offset,
                            size_t size, const void* host, cl_uint count, const cl_event* waits,
                            cl_event* event) {
  const auto buffer = find(handle);
  if (!buffer) return invalid("clEnqueueWriteBuffer", CL_INVALID_MEM_OBJECT);
  if (!host || !inside(*buffer, offset, size)) return invalid("clEnqueueWriteBuffer");
  Command command = plain(CL_COMMAND_WRITE_BUFFER, "clEnqueueWriteBuffer");
  command.uses = {{buffer, true}};
  // A blocking write only has to return after the host's bytes were copied.
  std::shared_ptr<char[]> copy;
  if (blocking) {
    copy = std::make_shared<char[]>(size);
    std::memcpy(copy.get(), host, size);
  }
  command.run = [=](cl_command_queue real) {
    return next->clEnqueueWriteBuffer(real, buffer->handle, CL_TRUE, offset, size,
                                      copy ? copy.get() : host, 0, nullptr, nullptr);
  };
  const cl_int code = enqueue(queue, std::move(command), count, waits, event);
  if (blocking && code == CL_SUCCESS) flush(queues().find(queue));
  return code;
}

cl_int clEnqueueReadBufferRect(cl_command_queue queue, cl_mem handle, cl_bool blocking,
                               const size_t* origin, const size_t* host_origin,
                               const size_t* region, size_t row, size_t slice, size_t host_row,
                               size_t host_slice, void* host, cl_uint count, const cl_event* waits,
                               cl_event* event) {
  const auto buffer = find(handle);
  if (!buffer) return invalid("clEnqueueReadBufferRect", CL_INVALID_MEM_OBJECT);
  const Rectangle r(origin, region, row, slice), to(host_origin, region, host_row, host_slice);
  if (!host || !r.inside(*buffer)) return invalid("clEnqueueReadBufferRect");
  Command command = plain(CL_COMMAND_READ_BUFFER_RECT, "clEnqueueReadBufferRect");
  command.uses = {{buffer, false}};
  command.run = [=](cl_command_queue real) {
    return next->clEnqueueReadBufferRect(real, buffer->handle, CL_TRUE, r.origin, to.origin,
                                         r.region, r.row, r.slice, to.row, to.slice, host, 0,
                                         nullptr, nullptr);
  };
  return enqueue(queue, std::move(command), count, waits, event, blocking);
}

cl_int clEnqueueWriteBufferRect(cl_command_queue queue, cl_mem handle, cl_bool blocking,
                                const size_t* origin, const size_t* host_origin,
                                const size_t* region, size_t row, size_t slice, size_t host_row,
                                size_t host_slice, const void* host, cl_uint count,
                                const cl_event* waits, cl_event* event) {
  const auto buffer = find(handle);
  if (!buffer) return invalid("clEnqueueWriteBufferRect", CL_INVALID_MEM_OBJECT);
  const Rectangle r(origin, region, row, slice), from(host_origin, region, host_row, host_slice);
  if (!host || !r.inside(*buffer)) return invalid("clEnqueueWriteBufferRect");
  Command command = plain(CL_COMMAND_WRITE_BUFFER_RECT, "clEnqueueWriteBufferRect");
  command.uses = {{buffer, true}};
  command.run = [=](cl_command_queue real) {
    return next->clEnqueueWriteBufferRect(real, buffer->handle, CL_TRUE, r.origin, from.origin,
                                          r.region, r.row, r.slice, from.row, from.slice, host, 0,
                                          nullptr, nullptr);
  };
  return enqueue(queue, std::move(command), count, waits, event, blocking);
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                           size_t to_offset, size_t size, cl_uint count, const cl_event* waits,
                           cl_event* event) {
  const auto source = find(from), target = find(to);
  if (!source || !target) return invalid("clEnqueueCopyBuffer", CL_INVALID_MEM_OBJECT);
  if (!inside(*source, from_offset, size) || !inside(*target, to_offset, size)) {
    return invalid("clEnqueueCopyBuffer");
  }
  const size_t begin = source->origin + from_offset, begin_of_target = target->origin + to_offset;
  if (&source->root() == &target->root() && begin < begin_of_target + size &&
      begin_of_target < begin + size) {
    return invalid("clEnqueueCopyBuffer", CL_MEM_COPY_OVERLAP);
  }
  Command command = plain(CL_COMMAND_COPY_BUFFER, "clEnqueueCopyBuffer");
  command.uses = {{source, false}, {target, true}};
  command.run = [=](cl_command_queue real) {
    return next->clEnqueueCopyBuffer(real, source->handle, target->handle, from_offset, to_offset,
                                     size, 0, nullptr, nullptr);
  };
  return enqueue(queue, std::move(command), count, waits, event);
}

cl_int clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem from, cl_mem to,
                               const size_t* from_origin, const size_t* to_origin,
                               const size_t* region, size_t from_row, size_t from_slice,
                               size_t to_row, size_t to_slice, cl_uint count, const cl_event* waits,
                               cl_event* event) {
  const auto source = find(from), target = find(to);
  if (!source || !target) return invalid("clEnqueueCopyBufferRect", CL_INVALID_MEM_OBJECT);
  const Rectangle a(from_origin, region, from_row, from_slice);
  const Rectangle b(to_origin, region, to_row, to_slice);
  if (!a.inside(*source) || !b.inside(*target)) return invalid("clEnqueueCopyBufferRect");
  Command command = plain(CL_COMMAND_COPY_BUFFER_RECT, "clEnqueueCopyBufferRect");
  command.uses = {{source, false}, {target, true}};
  command.run = [=](cl_command_queue real) {
    return next->clEnqueueCopyBufferRect(real, source->handle, target->handle, a.origin, b.origin,
                                         a.region, a.row, a.slice, b.row, b.slice, 0, nullptr,
                                         nullptr);
  };
  return enqueue(queue, std::move(command), count, waits, event);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem handle, const void* pattern,
                           size_t pattern_size, size_t offset, size_t size, cl_uint count,
                           const cl_event* waits, cl_event* event) {
  const auto buffer = find(handle);
  if (!buffer) return invalid("clEnqueueFillBuffer", CL_INVALID_MEM_OBJECT);
  const bool power = pattern_size && pattern_size <= 128 && !(pattern_size & (pattern_size - 1));
  if (!pattern || !power || offset % pattern_size || size % pattern_size ||
      !inside(*buffer, offset, size)) {
    return invalid("clEnqueueFillBuffer");
  }
  const std::string bytes(static_cast<const char*>(pattern), pattern_size);
  Command command = plain(CL_COMMAND_FILL_BUFFER, "clEnqueueFillBuffer");
  command.uses = {{buffer, true}};
  command.run = [=](cl_command_queue real) {
    if (profile().fills_reach_host && buffer->host_pointer) {
      char* const host = static_cast<char*>(buffer->host_pointer) + offset;
      for (size_t i = 0; i < size; ++i) host[i] = bytes[i % bytes.size()];
    }
    return next->clEnqueueFillBuffer(real, buffer->handle, bytes.data(), bytes.size(), offset, size,
                                     0, nullptr, nullptr);
  };
  return enqueue(queue, std::move(command), count, waits, event);
}

void* clEnqueueMapBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t size, cl_uint count,
                         const cl_event* waits, cl_event* event, cl_int* code_ret) {
  cl_int ignored;
  cl_int& code = code_ret ? *code_ret : ignored;
  const auto buffer = find(handle);
  code = !buffer                         ? CL_INVALID_MEM_OBJECT
         : inside(*buffer, offset, size) ? CL_SUCCESS
                                         : CL_INVALID_VALUE;
  if (code != CL_SUCCESS) return invalid("clEnqueueMapBuffer", code), nullptr;
  const std::shared_ptr<Buffer> root = buffer->parent ? buffer->parent : buffer;
  const auto mapping = std::make_shared<Mapping>(buffer->origin + offset, size, flags);
  if (!mapping->pointer) code = CL_OUT_OF_HOST_MEMORY;
  if (root->host_pointer) {
    mapping->user_memory = static_cast<char*>(root->host_pointer) + mapping->offset;
  }
  {
    std::lock_guard lock(root->mutex);
    for (const auto& other : root->mappings) {
      const bool overlap =
          other->offset < mapping->offset + size && mapping->offset < other->offset + other->size;
      if (overlap && !other->ending && (mapping->writes() || other->writes())) {
        code = CL_INVALID_OPERATION;
      }
    }
    if (code == CL_SUCCESS) root->mappings.push_back(mapping);
  }
  if (code != CL_SUCCESS) return invalid("clEnqueueMapBuffer", code), nullptr;
  Command command = plain(CL_COMMAND_MAP_BUFFER, "clEnqueueMapBuffer");
  command.uses = {{root, false}};
  command.mapping = mapping;
  command.run = [root, mapping](cl_command_queue real) {
    if (mapping->flags & CL_MAP_WRITE_INVALIDATE_REGION) return CL_SUCCESS;
    void* target = mapping->user_memory ? mapping->user_memory : mapping->pointer;
    return next->clEnqueueReadBuffer(real, root->handle, CL_TRUE, mapping->offset, mapping->size,
                                     target, 0, nullptr, nullptr);
  };
  code = enqueue(queue, std::move(command), count, waits, event, blocking);
  if (code == CL_SUCCESS) {
    return mapping->user_memory ? mapping->user_memory : mapping->pointer;
  }
  std::lock_guard lock(root->mutex);
  root->mappings.remove(mapping);
  return nullptr;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem handle, void* pointer, cl_uint count,
                               const cl_event* waits, cl_event* event) {
  const auto buffer = find(handle);
  if (!buffer) return invalid("clEnqueueUnmapMemObject", CL_INVALID_MEM_OBJECT);
  const std::shared_ptr<Buffer> root = buffer->parent ? buffer->parent : buffer;
  std::shared_ptr<Mapping> mapping;
  {
    std::lock_guard lock(root->mutex);
    for (const auto& each : root->mappings) {
      const void* given = each->user_memory ? each->user_memory : each->pointer;
      if (given == pointer && !each->ending) mapping = each;
    }
    if (mapping) mapping->ending = true;
  }
  if (!mapping) return invalid("clEnqueueUnmapMemObject");
  Command command = plain(CL_COMMAND_UNMAP_MEM_OBJECT, "clEnqueueUnmapMemObject");
  command.run = [root, mapping](cl_command_queue real) { return unmap_now(real, *root, mapping); };
  const cl_int code = enqueue(queue, std::move(command), count, waits, event);
  if (code != CL_SUCCESS) mapping->ending = false;
  return code;
}

cl_int clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint number, const cl_mem* objects,
                                  cl_mem_migration_flags, cl_uint count, const cl_event* waits,
                                  cl_event* event) {
  Command command = plain(CL_COMMAND_MIGRATE_MEM_OBJECTS, "clEnqueueMigrateMemObjects");
  if (!number || !objects) return invalid("clEnqueueMigrateMemObjects");
  for (cl_uint i = 0; i < number; ++i) {
    command.uses.push_back({find(objects[i]), false});
    if (!command.uses.back().buffer) {
      return invalid("clEnqueueMigrateMemObjects", CL_INVALID_MEM_OBJECT);
    }
  }
  return enqueue(queue, std::move(command), count, waits, event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* waits,
                                   cl_event* event) {
  return enqueue(queue, plain(CL_COMMAND_MARKER, "a marker"), count, waits, event);
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* waits,
                                    cl_event* event) {
  return enqueue(queue, plain(CL_COMMAND_BARRIER, "a barrier"), count, waits, event);
}

cl_int clEnqueueMarker(cl_command_queue queue, cl_event* event) {
  return stern::clEnqueueMarkerWithWaitList(queue, 0, nullptr, event);
}

cl_int clEnqueueBarrier(cl_command_queue queue) {
  return stern::clEnqueueBarrierWithWaitList(queue, 0, nullptr, nullptr);
}

cl_int clEnqueueWaitForEvents(cl_command_queue queue, cl_uint count, const cl_event* waits) {
  return stern::clEnqueueBarrierWithWaitList(queue, count, waits, nullptr);
}

}  // namespace stern

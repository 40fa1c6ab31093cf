// An OpenCL layer (cl_khr_layers) that writes launches to files: the arguments, and the buffers
// before and after the launch. isa_check.py executes them in an interpreter and compares.
//
// Environment
//   ISA_RECORD         the folder; each file of it is described in README.md
//   ISA_RECORD_MOST    launches of each kernel of a program (1)
//   ISA_RECORD_BYTES   launches with more bytes of buffers are left out (1 MiB)
//   ISA_RECORD_ITEMS   launches with more work-items are left out (65536)
//
// Records only programs made from source: OCL_CACHE_DIR=off makes every process compile.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

const cl_icd_dispatch* next = nullptr;
cl_icd_dispatch entry_points;

struct Program {
  std::string source, options;
  bool built = false;  // set by clBuildProgram: another program may get the handle later
};
struct Argument {
  size_t size = 0;
  std::string value;  // empty: local memory
};
struct Kernel {
  cl_program program = nullptr;
  std::string name;
  std::map<cl_uint, Argument> arguments;
};
struct Buffer {
  std::string name;  // its name in the file
  cl_mem handle = nullptr;
  size_t size = 0;
};

std::mutex mutex;  // guards the members below; a recorded launch holds it until it has ended
std::map<cl_program, Program> programs;
std::map<cl_kernel, Kernel> kernels;
std::map<cl_mem, bool> buffers;
std::map<std::string, size_t> recorded;  // launches by program and kernel

size_t number(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string folder() {
  const char* text = std::getenv("ISA_RECORD");
  return text ? text : ".";
}

std::string hex(const std::string& bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

// The file gets its name when it is complete. Returns false if it exists already.
bool write_file(const std::string& name, const std::string& bytes) {
  const std::string path = folder() + "/" + name;
  if (std::filesystem::exists(path)) return false;
  const std::string unfinished = path + "." + std::to_string(getpid());
  std::ofstream(unfinished, std::ios::binary) << bytes;
  std::filesystem::rename(unfinished, path);
  return true;
}

std::string bytes_of(cl_command_queue queue, const Buffer& buffer) {
  std::string bytes(buffer.size, '\0');
  const cl_int code = next->clEnqueueReadBuffer(queue, buffer.handle, CL_TRUE, 0, buffer.size,
                                                bytes.data(), 0, nullptr, nullptr);
  if (code != CL_SUCCESS) std::fprintf(stderr, "isa recorder: cannot read a buffer: %d\n", code);
  return bytes;
}

template <typename T>
T info(cl_mem memory, cl_mem_info what) {
  T value{};
  next->clGetMemObjectInfo(memory, what, sizeof value, &value, nullptr);
  return value;
}

// The buffer of an argument, or nullptr. The kernel's parameters say whether it is one, because a
// number may look like a handle.
cl_mem buffer_of(const Argument& argument) {
  cl_mem memory = nullptr;
  if (argument.value.size() == sizeof memory) {
    std::memcpy(&memory, argument.value.data(), sizeof memory);
  }
  return buffers.count(memory) ? memory : nullptr;
}

// The lines of the arguments; adds the buffers that they name.
std::string arguments_text(const Kernel& kernel, std::vector<Buffer>& used) {
  std::ostringstream text;
  for (const auto& [index, argument] : kernel.arguments) {
    if (argument.value.empty()) {
      text << "local " << argument.size << "\n";
      continue;
    }
    const cl_mem memory = buffer_of(argument);
    if (!memory) {
      text << "value " << hex(argument.value) << "\n";
      continue;
    }
    const auto parent = info<cl_mem>(memory, CL_MEM_ASSOCIATED_MEMOBJECT);
    const cl_mem root = parent ? parent : memory;
    size_t place = 0;
    while (place < used.size() && used[place].handle != root) ++place;
    if (place == used.size()) {
      used.push_back({std::to_string(place), root, info<size_t>(root, CL_MEM_SIZE)});
    }
    text << "buffer " << place << " " << (parent ? info<size_t>(memory, CL_MEM_OFFSET) : 0) << " "
         << hex(argument.value) << "\n";
  }
  return text.str();
}

struct Launch {
  cl_uint dimensions;
  const size_t *offset, *global, *local;

  size_t items() const {
    size_t product = 1;
    for (cl_uint i = 0; i < dimensions; ++i) product *= global[i];
    return product;
  }
};

std::string head_text(const Program& program, const Kernel& kernel, const Launch& launch) {
  std::ostringstream text;
  text << "options " << program.options << "\nkernel " << kernel.name << "\n";
  for (cl_uint i = 0; i < launch.dimensions; ++i) {
    text << "size " << launch.global[i] << " " << launch.local[i] << " "
         << (launch.offset ? launch.offset[i] : 0) << "\n";
  }
  return text.str();
}

cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char** sources,
                                      const size_t* lengths, cl_int* code) {
  const cl_program program =
      next->clCreateProgramWithSource(context, count, sources, lengths, code);
  std::string text;
  for (cl_uint i = 0; i < count; ++i) {
    text += lengths && lengths[i] ? std::string(sources[i], lengths[i]) : std::string(sources[i]);
  }
  const std::lock_guard lock(mutex);
  programs[program] = {text, "", false};
  return program;
}

// A program from a binary may get the handle of one that was released.
cl_program CL_API_CALL create_from_binary(cl_context context, cl_uint count,
                                          const cl_device_id* devices, const size_t* lengths,
                                          const unsigned char** binaries, cl_int* codes,
                                          cl_int* code) {
  const cl_program program =
      next->clCreateProgramWithBinary(context, count, devices, lengths, binaries, codes, code);
  const std::lock_guard lock(mutex);
  programs.erase(program);
  return program;
}

cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id* devices,
                                 const char* options, void(CL_CALLBACK* done)(cl_program, void*),
                                 void* data) {
  {
    const std::lock_guard lock(mutex);
    const auto found = programs.find(program);
    if (found != programs.end()) {
      found->second.options = options ? options : "";
      found->second.built = true;
    }
  }
  return next->clBuildProgram(program, count, devices, options, done, data);
}

cl_kernel CL_API_CALL create_kernel(cl_program program, const char* name, cl_int* code) {
  const cl_kernel kernel = next->clCreateKernel(program, name, code);
  const std::lock_guard lock(mutex);
  kernels[kernel] = {program, name, {}};
  return kernel;
}

cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size, const void* value) {
  {
    const std::lock_guard lock(mutex);
    const char* const bytes = static_cast<const char*>(value);
    kernels[kernel].arguments[index] = {size, value ? std::string(bytes, size) : ""};
  }
  return next->clSetKernelArg(kernel, index, size, value);
}

cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void* host,
                                 cl_int* code) {
  const cl_mem memory = next->clCreateBuffer(context, flags, size, host, code);
  const std::lock_guard lock(mutex);
  if (memory) buffers[memory] = true;
  return memory;
}

cl_mem CL_API_CALL create_sub_buffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                                     const void* region, cl_int* code) {
  const cl_mem memory = next->clCreateSubBuffer(buffer, flags, type, region, code);
  const std::lock_guard lock(mutex);
  if (memory) buffers[memory] = true;
  return memory;
}

cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel handle, cl_uint dimensions,
                                  const size_t* offset, const size_t* global, const size_t* local,
                                  cl_uint waits, const cl_event* wait_list, cl_event* event) {
  const auto enqueue = [&] {
    return next->clEnqueueNDRangeKernel(queue, handle, dimensions, offset, global, local, waits,
                                        wait_list, event);
  };
  std::unique_lock lock(mutex);
  const Kernel kernel = kernels[handle];
  const auto program = programs.find(kernel.program);
  const Launch launch{dimensions, offset, global, local};
  static const size_t most = number("ISA_RECORD_MOST", 1),
                      most_bytes = number("ISA_RECORD_BYTES", 1 << 20),
                      most_items = number("ISA_RECORD_ITEMS", 1 << 16);
  if (program == programs.end() || !program->second.built || !local ||
      launch.items() > most_items) {
    lock.unlock();
    return enqueue();
  }
  std::vector<Buffer> used;
  const std::string arguments = arguments_text(kernel, used);
  size_t bytes = 0;
  for (const Buffer& buffer : used) bytes += buffer.size;
  char key[20];
  std::snprintf(key, sizeof key, "%016zx",
                std::hash<std::string>()(program->second.source + program->second.options));
  size_t& count = recorded[key + kernel.name];
  if (count >= most || bytes > most_bytes) {
    lock.unlock();
    return enqueue();
  }
  std::string text = head_text(program->second, kernel, launch), contents;
  next->clFinish(queue);
  for (const Buffer& buffer : used) contents += bytes_of(queue, buffer);
  const cl_int code = enqueue();
  next->clFinish(queue);
  for (const Buffer& buffer : used) {
    contents += bytes_of(queue, buffer);
    text += "memory " + buffer.name + " " + std::to_string(buffer.size) + "\n";
  }
  write_file(std::string(key) + ".cl", program->second.source);
  write_file(std::string(key) + "_" + kernel.name + "_" + std::to_string(count++) + ".launch",
             text + arguments + "\n" + contents);
  return code;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what,
                                                                         size_t size, void* value,
                                                                         size_t* size_ret) {
  if (what != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  if (value && size < sizeof version) return CL_INVALID_VALUE;
  if (value) std::memcpy(value, &version, sizeof version);
  if (size_ret) *size_ret = sizeof version;
  return CL_SUCCESS;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL
clInitLayer(cl_uint entries, const cl_icd_dispatch* target, cl_uint* entries_ret,
            const cl_icd_dispatch** table_ret) {
  constexpr cl_uint kEntries = sizeof(cl_icd_dispatch) / sizeof(void*);
  if (entries < kEntries) return CL_INVALID_VALUE;
  if (!next) {
    next = target;
    entry_points = *target;
    entry_points.clCreateProgramWithSource = create_program;
    entry_points.clCreateProgramWithBinary = create_from_binary;
    entry_points.clBuildProgram = build_program;
    entry_points.clCreateKernel = create_kernel;
    entry_points.clSetKernelArg = set_argument;
    entry_points.clCreateBuffer = create_buffer;
    entry_points.clCreateSubBuffer = create_sub_buffer;
    entry_points.clEnqueueNDRangeKernel = enqueue_kernel;
  }
  *entries_ret = kEntries;
  *table_ret = &entry_points;
  return CL_SUCCESS;
}

}  // extern "C"

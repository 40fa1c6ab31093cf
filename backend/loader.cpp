#include <dlfcn.h>

#include "backend/opencl.h"

namespace ocl {
namespace {

void* library() {
  static void* const handle = [] {
    for (const char* name : {"libOpenCL.so.1", "libOpenCL.so"}) {
      if (void* opened = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return opened;
    }
    return static_cast<void*>(nullptr);
  }();
  return handle;
}

}  // namespace

void* opencl_symbol(const char* name) { return library() ? dlsym(library(), name) : nullptr; }

bool opencl_loader_present() { return library() != nullptr; }

}  // namespace ocl

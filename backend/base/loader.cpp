#include <algorithm>
#include <atomic>
#include <filesystem>

#include "backend/base/environment.h"
#include "backend/base/opencl.h"
#include "backend/base/printable.h"
#include "backend/base/system.h"

namespace ocl {
namespace {

// <prefix>/lib where this extension is in <prefix>/lib/pythonX.Y/site-packages/torch_ocl/torchX_Y.
// Otherwise empty: the folders above an unpacked package may be writable for everybody.
std::filesystem::path prefix_lib() {
  std::error_code ignored;
  const auto folder = std::filesystem::absolute(own_file(), ignored).parent_path();
  const auto package = folder.parent_path();
  const auto site = package.parent_path(), python = site.parent_path();
  const std::string site_name = site.filename().string();  // Debian's is dist-packages
  if (package.filename() != "torch_ocl" || !site_name.ends_with("-packages") ||
      !python.filename().string().starts_with("python")) {
    return {};
  }
  const auto lib = python.parent_path();
  const bool named = lib.filename() == "lib" || lib.filename() == "lib64";  // Fedora's is a link
  return named ? lib : std::filesystem::path();
}

// A library that is opened at the first use. Threads that open it at the same time get one handle.
// There is no lock, because a fork meanwhile would leave it locked in the child.
class Library {
 public:
  explicit Library(void* (*open)()) : open_(open) {}

  void* handle() {
    if (!opened_.load(std::memory_order_acquire)) {
      handle_.store(open_(), std::memory_order_relaxed);
      opened_.store(true, std::memory_order_release);
    }
    return handle_.load(std::memory_order_relaxed);
  }

 private:
  void* (*const open_)();
  std::atomic<void*> handle_{nullptr};
  std::atomic<bool> opened_{false};
};

// The runtime of `pip install torch-ocl[runtime]`, libintelocl.so; nullptr where there is none.
void* packaged_runtime() {
  static Library runtime([]() -> void* {
    const auto lib = prefix_lib();
    const auto file = lib / "libintelocl.so";
    std::error_code ignored;
    if (lib.empty() || !std::filesystem::exists(file, ignored)) return nullptr;
    if (others_could_write(file)) {
      TORCH_WARN("ocl: ", printable(file.string()),
                 " is not used: other users can write to it or to its folder");
      return nullptr;
    }
    return open_library(file.string().c_str());
  });
  return runtime.handle();
}

// The system's loader, or else the packaged runtime, which has all entry points itself.
void* library() {
  static Library loader([] {
    for (auto name = opencl_library_names(); *name; ++name) {
      if (void* opened = open_library(*name)) return opened;
    }
    return packaged_runtime();
  });
  return loader.handle();
}

bool is_among(const std::vector<cl::Platform>& platforms, const std::string& name) {
  for (const cl::Platform& each : platforms) {
    if (each.getInfo<CL_PLATFORM_NAME>() == name) return true;
  }
  return false;
}

}  // namespace

void* opencl_symbol(const char* name) {
  return library() ? library_symbol(library(), name) : nullptr;
}

bool opencl_loader_present() { return library() != nullptr; }

std::vector<cl::Platform> opencl_platforms() {
  std::vector<cl::Platform> platforms;
  const bool has_packaged = environment("OCL_ICD_VENDORS").empty() && packaged_runtime();
  try {
    cl::Platform::get(&platforms);
  } catch (const cl::Error&) {
    if (!has_packaged) throw;
  }
  if (!has_packaged) return platforms;
  // No .icd file names the packaged runtime. Objects of an ICD driver begin with the table of its
  // entry points (cl_khr_icd), so the loader's functions work with them anyway.
  const auto address = reinterpret_cast<void*(CL_API_CALL*)(const char*)>(
      library_symbol(packaged_runtime(), "clGetExtensionFunctionAddress"));
  const auto list = reinterpret_cast<decltype(&clGetPlatformIDs)>(
      address ? address("clIcdGetPlatformIDsKHR") : nullptr);
  cl_platform_id ids[8];
  cl_uint count = 0;
  if (!list || list(8, ids, &count) != CL_SUCCESS) return platforms;
  for (cl_uint i = 0; i < std::min<cl_uint>(count, 8); ++i) {
    const cl::Platform platform(ids[i]);
    if (!is_among(platforms, platform.getInfo<CL_PLATFORM_NAME>())) platforms.push_back(platform);
  }
  return platforms;
}

}  // namespace ocl

#include <dlfcn.h>

#include <cstdio>

#include "tests/stern/test_support.h"

namespace stern_test {
namespace {

void configure() {
  void* const layer = dlopen(STERN_LAYER, RTLD_NOW | RTLD_NOLOAD);
  if (!layer) return;  // it reads the environment when it is loaded
  reinterpret_cast<void (*)()>(dlsym(layer, "stern_configure"))();
}

std::vector<cl::Platform> platforms() {
  std::vector<cl::Platform> found;
  code_of([&] { cl::Platform::get(&found); });
  return found;
}

}  // namespace

Setting::Setting(const char* name, const std::string& value) : name_(name) {
  setenv(name, value.c_str(), 1);
  configure();
}

Setting::~Setting() {
  if (std::string(name_) == "STERN_PROFILE") {
    setenv(name_, "smallest", 1);
  } else {
    unsetenv(name_);
  }
  configure();
}

void SternTest::SetUp() { open(); }

void SternTest::open() {
  const auto found = platforms();
  ASSERT_FALSE(found.empty());
  std::vector<cl::Device> devices;
  found[0].getDevices(CL_DEVICE_TYPE_ALL, &devices);
  device = devices.at(0);
  context = cl::Context(device);
  queue = cl::CommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE);
}

void SternTest::TearDown() {
  if (queue()) code_of([&] { queue.finish(); });
}

cl::Kernel SternTest::kernel(const std::string& source, const char* name) {
  cl::Program program(context, source);
  try {
    program.build(std::vector<cl::Device>{device});
  } catch (const cl::Error&) {
    ADD_FAILURE() << program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device);
    throw;
  }
  return cl::Kernel(program, name);
}

}  // namespace stern_test

int main(int argc, char** argv) {
  setenv("OPENCL_LAYERS", STERN_LAYER, 1);
  for (const char* name : {"STERN_FAIL", "STERN_ORDER", "STERN_MEMORY", "STERN_BUILD_MS",
                           "STERN_SEED", "STERN_OVERLAP"}) {
    unsetenv(name);
  }
  setenv("STERN_PROFILE", "smallest", 1);
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the layer has threads
  const auto platforms = stern_test::platforms();
  // A loader that knows no layers shows the runtime itself.
  const bool loaded = !platforms.empty() && platforms[0].getInfo<CL_PLATFORM_NAME>() == "Smallest";
  if (!loaded) {
    std::puts(
        "skipped: the stern device needs PoCL (apt install pocl-opencl-icd) and a loader that "
        "knows "
        "layers (ocl-icd 2.3); one of them is not here, or OCL_ICD_VENDORS hides PoCL");
    return 0;
  }
  return RUN_ALL_TESTS();
}

// Helpers for the tests of the stern device, which use it as programs do, through the loader.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "backend/base/opencl.h"

namespace stern_test {

// Sets a variable of the environment, which the layer reads, for one test.
class Setting {
 public:
  Setting(const char* name, const std::string& value);
  ~Setting();

 private:
  const char* name_;
};

// The code of the error that a call raises, or CL_SUCCESS.
template <typename Body>
cl_int code_of(Body&& body) {
  try {
    body();
  } catch (const cl::Error& error) {
    return error.err();
  }
  return CL_SUCCESS;
}

class SternTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Platform, device, context and a queue that times.
  void open();
  cl::Kernel kernel(const std::string& source, const char* name = "f");
  cl::Buffer buffer(size_t bytes, cl_mem_flags flags = CL_MEM_READ_WRITE) {
    return cl::Buffer(context, flags, bytes);
  }
  cl_int launch(const cl::Kernel& kernel, const cl::NDRange& global, const cl::NDRange& local) {
    return code_of([&] { queue.enqueueNDRangeKernel(kernel, {}, global, local); });
  }
  std::vector<unsigned char> bytes_of(const cl::Buffer& buffer, size_t count) {
    std::vector<unsigned char> bytes(count);
    queue.enqueueReadBuffer(buffer, CL_TRUE, 0, count, bytes.data());
    return bytes;
  }

  cl::Device device;
  cl::Context context;
  cl::CommandQueue queue;
};

}  // namespace stern_test

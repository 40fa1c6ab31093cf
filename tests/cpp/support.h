// Helpers for the tests of the runtime.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "backend/base/error.h"
#include "backend/launch/launch.h"
#include "backend/memory/allocator.h"
#include "backend/memory/transfer.h"
#include "backend/queue/event.h"

namespace ocl::test {

// Numbers of the devices that the environment shows; none where there is no OpenCL.
inline std::vector<DeviceIndex> all_devices() {
  try {
    initialize();
  } catch (const std::exception&) {
    return {};
  }
  std::vector<DeviceIndex> indices;
  for (DeviceIndex i = 0; i < device_count(); ++i) indices.push_back(i);
  return indices;
}

// Runs on every device, which is current during the test.
class DeviceTest : public testing::TestWithParam<DeviceIndex> {
 protected:
  void SetUp() override { set_current_device(GetParam()); }
  void TearDown() override {
    synchronize(GetParam());
    set_current_device(0);
  }
  Device& here() const { return device(GetParam()); }
};

#define OCL_ON_EVERY_DEVICE(suite)                      \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite); \
  INSTANTIATE_TEST_SUITE_P(ocl, suite, testing::ValuesIn(::ocl::test::all_devices()))

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "torch_ocl_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file, std::ios::binary) << text;
  }

 private:
  std::filesystem::path path_;
};

// An environment variable with another value while the object lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* former = std::getenv(name)) former_ = former;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (former_) {
      setenv(name_, former_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> former_;
};

// The text of the exception that `body` raises; a failure when it raises none.
template <typename Exception = c10::Error, typename Body>
std::string error_text(Body&& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was raised";
  return "";
}

// A kernel that writes `value` after `rounds` of work that no compiler can leave out.
inline constexpr const char* kSlowKernel = R"(
__kernel void slow(__global char *out, const ulong offset, const int value, const ulong rounds) {
  uint state = (uint)value | 1u;
  for (ulong i = 0; i < rounds; ++i) state = state * 1664525u + 1013904223u + (state >> 7);
  *(__global int *)(out + offset) = state == 0x12345678u ? 0 : value;
}
)";

// Slow work on a stream, in one work-item, so that another stream finds a free core.
class SlowKernel {
 public:
  explicit SlowKernel(Device& device) : variable_("OCL_KERNEL_DIR", folder_.path().string()) {
    folder_.write("slow.cl", kSlowKernel);
    const Program& built = program(device, "slow.cl", Defines());
    kernel_.program = &built;
    kernel_.name = "slow";
    kernel_.handle = clCreateKernel(built.handle(), "slow", nullptr);
    kernel_.launched = true;  // keeps the program out of the cache
  }
  ~SlowKernel() { clReleaseKernel(kernel_.handle); }

  void operator()(Stream& stream, const BufferView& out, int value,
                  uint64_t rounds = 100'000'000) const {
    launch(stream, kernel_, {1}, {1}, out, value, rounds);
    stream.flush();
  }
  cl_kernel handle() const { return kernel_.handle; }

 private:
  TemporaryFolder folder_;
  Variable variable_;
  Kernel kernel_;
};

// Holds back what is enqueued on a stream from here on, until it is opened or ten seconds are over.
class Gate {
 public:
  explicit Gate(Stream& stream) : opened_(stream.device().context()) {
    stream.enqueue([&](cl_command_queue queue) {
      return clEnqueueBarrierWithWaitList(queue, 1, &opened_(), nullptr);
    });
    late_ = std::async(std::launch::async, [this] {
      if (asked_.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::timeout) {
        opened_.setStatus(CL_COMPLETE);
        return true;
      }
      return false;
    });
  }
  ~Gate() {
    if (late_.valid()) open();
  }
  Gate(const Gate&) = delete;

  // Whether nobody had waited for what is held back.
  bool open() {
    asked_.set_value();
    const bool late = late_.get();
    if (!late) opened_.setStatus(CL_COMPLETE);
    return !late;
  }

 private:
  cl::UserEvent opened_;
  std::promise<void> asked_;
  std::future<bool> late_;
};

inline int read_int(Stream& stream, const BufferView& view) {
  int value = 0;
  copy_to_host(stream, &value, view, sizeof(value));
  return value;
}

}  // namespace ocl::test

#include "backend/device/device.h"

#include <thread>

#include "tests/cpp/support.h"

namespace ocl {
namespace {

using test::error_text;

using DeviceProperty = test::DeviceTest;

TEST_P(DeviceProperty, AreMeaningful) {
  const DeviceProperties& p = here().properties();
  EXPECT_FALSE(p.name.empty());
  EXPECT_GE(p.version_major * 10 + p.version_minor, 12);
  EXPECT_GE(p.total_memory, p.max_allocation);
  EXPECT_GT(p.max_allocation, 0u);
  EXPECT_GE(p.max_compute_units, 1u);
  EXPECT_EQ(p.has_fp64, here().has_extension("cl_khr_fp64"));
  EXPECT_FALSE(here().has_extension("cl_khr_fp"));
  EXPECT_NE(here().label().find(p.name), std::string::npos);
}

TEST_P(DeviceProperty, NumbersBeyondAreRefused) {
  const DeviceIndex former = current_device();
  for (const int index : {-1, int{device_count()}, 100}) {
    const std::string text =
        error_text([&] { set_current_device(static_cast<DeviceIndex>(index)); });
    EXPECT_NE(text.find(str("ocl:", index, " does not exist")), std::string::npos) << text;
    EXPECT_NE(text.find(here().label()), std::string::npos) << text;
    EXPECT_EQ(current_device(), former);
  }
}

TEST_P(DeviceProperty, ThreadsHaveTheirOwnCurrentDevice) {
  DeviceIndex in_thread = -1;
  std::thread([&] { in_thread = current_device(); }).join();
  EXPECT_EQ(in_thread, 0);
  EXPECT_EQ(current_device(), GetParam());
}

OCL_ON_EVERY_DEVICE(DeviceProperty);

}  // namespace
}  // namespace ocl

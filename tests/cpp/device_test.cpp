#include "backend/device.h"

#include <thread>

#include "tests/cpp/support.h"

namespace ocl {
namespace {

using Positions = std::vector<size_t>;
using test::error_text;

TEST(VisibleDevices, SelectsInOrder) {
  EXPECT_EQ(parse_visible_devices("", 3), (Positions{0, 1, 2}));
  EXPECT_EQ(parse_visible_devices("2,0", 3), (Positions{2, 0}));
  EXPECT_EQ(parse_visible_devices("1", 2), Positions{1});
  EXPECT_EQ(parse_visible_devices("", 0), Positions{});
}

TEST(VisibleDevices, RefusesWhatIsMalformed) {
  for (const char* text :
       {"x", "0,", ",0", "0,,1", "-1", "0 1", " 0", "0x1", "1.5", "99999999999999999999"}) {
    EXPECT_THROW(parse_visible_devices(text, 3), c10::ValueError) << text;
  }
}

TEST(VisibleDevices, SaysWhatIsWrong) {
  const auto text = [](const char* value) {
    return error_text([&] { parse_visible_devices(value, 2); });
  };
  EXPECT_NE(text("0,5").find("names device 5, but the machine has 2 OpenCL device(s)"),
            std::string::npos);
  EXPECT_NE(text("1,1").find("names device 1 twice"), std::string::npos);
  EXPECT_NE(text("gpu").find("OCL_VISIBLE_DEVICES=\"gpu\" is not a list of device numbers"),
            std::string::npos);
}

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

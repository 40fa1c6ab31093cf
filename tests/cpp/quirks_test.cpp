#include "backend/device/quirks.h"

#include <set>

#include "backend/device/device.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

DeviceProperties made_by(std::string platform, std::string vendor, std::string type) {
  DeviceProperties p;
  p.platform = std::move(platform);
  p.vendor = std::move(vendor);
  p.type = std::move(type);
  return p;
}

TEST(Quirks, AreOfPlatformVendorAndType) {
  const DeviceProperties rusticl_cpu = made_by("rusticl", "Mesa", "cpu"),
                         rusticl_gpu = made_by("rusticl", "Intel", "gpu"),
                         unknown = made_by("A platform", "A vendor", "gpu");
  EXPECT_TRUE(quirks_of(rusticl_cpu) & bit(Quirk::kShortLoops));
  EXPECT_FALSE(quirks_of(rusticl_gpu) & bit(Quirk::kShortLoops));
  EXPECT_TRUE(quirks_of(rusticl_gpu) & bit(Quirk::kFinishNeedsCommand));
  EXPECT_TRUE(quirks_of(rusticl_gpu) & bit(Quirk::kFewRegisters));
  EXPECT_EQ(quirks_of(unknown), 0);
}

TEST(Quirks, RowsSayWhomAndWhy) {
  std::set<Quirk> seen;
  for (const QuirkRow& row : quirk_rows()) {
    EXPECT_TRUE(seen.insert(row.quirk).second) << row.name << " has two rows";
    EXPECT_FALSE(row.platform.empty() && row.vendor.empty() && row.type.empty()) << row.name;
    EXPECT_FALSE(row.reason.empty() || row.source.empty()) << row.name;
  }
}

using DeviceQuirks = test::DeviceTest;

TEST_P(DeviceQuirks, AreThoseOfItsProperties) {
  EXPECT_EQ(here().properties().quirks, quirks_of(here().properties()));
}

OCL_ON_EVERY_DEVICE(DeviceQuirks);

}  // namespace
}  // namespace ocl

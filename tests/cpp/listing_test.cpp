#include "backend/device/listing.h"

#include "backend/base/printable.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

using Positions = std::vector<size_t>;
using test::error_text;

DeviceProperties version(int major, int minor) {
  DeviceProperties p;
  p.version = str("OpenCL ", major, ".", minor);
  p.version_major = major;
  p.version_minor = minor;
  p.extensions = " cl_khr_fp16 ";
  p.max_parameter_size = 1024;
  return p;
}

TEST(Printable, KeepsWhatIsUtf8) {
  for (const std::string text :
       {"", "a\nb", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesOtherBytes) {
  EXPECT_EQ(printable("a\xFFz"), "a\\xffz");
  EXPECT_EQ(printable("\xC3"), "\\xc3");                             // ends too early
  EXPECT_EQ(printable("\xC0\xAF"), "\\xc0\\xaf");                    // longer than needed
  EXPECT_EQ(printable("\xE0\x80\xAF"), "\\xe0\\x80\\xaf");           // longer than needed
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // half of a UTF-16 pair
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above the last character
}

TEST(Listing, SkipsDevicesThatCannotRunTheKernels) {
  EXPECT_EQ(reason_to_skip(version(1, 2), {}), "");
  EXPECT_EQ(reason_to_skip(version(3, 0), {}), "");
  EXPECT_EQ(reason_to_skip(version(1, 1), {}), "it has OpenCL 1.1, but 1.2 is needed");
  EXPECT_EQ(reason_to_skip(version(2, 0), {.has_compiler = false}), "its driver has no compiler");
  EXPECT_EQ(reason_to_skip(version(2, 0), {.available = false}),
            "its driver says that it is not available");
}

TEST(Listing, SkipsDevicesOfFewArguments) {
  DeviceProperties p = version(1, 2);
  p.max_parameter_size = 256;
  EXPECT_EQ(reason_to_skip(p, {}), "its kernels take 256 bytes of arguments, but 1024 are needed");
}

TEST(Listing, SkipsDevicesWithoutLongIntegers) {
  DeviceProperties p = version(1, 2);
  EXPECT_EQ(reason_to_skip(p, {.profile = "EMBEDDED_PROFILE"}), "it has no 64-bit integers");
  p.extensions = " cles_khr_int64 cl_khr_fp16 ";
  EXPECT_EQ(reason_to_skip(p, {.profile = "EMBEDDED_PROFILE"}), "");
}

TEST(Listing, AddressesHaveADomain) {
  const PciAddress a{0, 1, 0, 0}, other_domain{1, 1, 0, 0}, unknown_domain{std::nullopt, 1, 0, 0};
  EXPECT_TRUE(may_be_same(a, a));
  EXPECT_FALSE(may_be_same(a, other_domain));
  EXPECT_TRUE(may_be_same(a, unknown_domain));
  EXPECT_TRUE(may_be_same(unknown_domain, other_domain));
  EXPECT_FALSE(may_be_same(a, {0, 2, 0, 0}));
  EXPECT_FALSE(may_be_same(a, {0, 1, 0, 1}));
}

TEST(Listing, PrefersTheVendorsNewestDriver) {
  const auto rank = [](const char* platform_vendor, int major, const char* driver) {
    DeviceProperties p = version(major, 0);
    p.vendor = "Advanced Micro Devices, Inc.";
    p.driver_version = driver;
    return driver_rank(p, platform_vendor);
  };
  constexpr const char *kVendor = "Advanced Micro Devices, Inc.", *kMesa = "Mesa/X.org";
  EXPECT_GT(rank(kVendor, 2, "3212.0 (HSA1.1,LC)"), rank(kMesa, 3, "24.1.0"));
  EXPECT_GT(rank(kVendor, 3, "1"), rank(kVendor, 2, "2"));
  EXPECT_GT(rank(kVendor, 2, "3212.0 (HSA1.1,LC)"), rank(kVendor, 2, "1800.8 (VM)"));
  EXPECT_LT(rank(kVendor, 2, "24.9.1"), rank(kVendor, 2, "24.10"))
      << "versions are numbers, not text";
  EXPECT_EQ(rank(kVendor, 2, "1.2"), rank(kVendor, 2, "1.2 beta"));
  EXPECT_EQ(rank(kVendor, 2, ""), rank(kVendor, 2, "unknown"));
}

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

}  // namespace
}  // namespace ocl

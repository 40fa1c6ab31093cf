#include "backend/device/address_space.h"

#include <gtest/gtest.h>

#include "backend/device/buffer_view.h"

namespace ocl {
namespace {

constexpr size_t kGranule = AddressSpace::kGranule;

const void* pointer(uintptr_t address) { return reinterpret_cast<const void*>(address); }

struct AddressSpaceTest : testing::Test {
  AddressSpace& space = AddressSpace::instance();
  Segment a, b;
};

TEST_F(AddressSpaceTest, FindsTheSegmentOfEachAddress) {
  const uintptr_t first = space.reserve(kGranule + 1, &a);  // two granules
  const uintptr_t second = space.reserve(100, &b);
  EXPECT_EQ(space.find(pointer(first)), &a);
  EXPECT_EQ(space.find(pointer(first + 2 * kGranule - 1)), &a);
  EXPECT_EQ(space.find(pointer(second)), &b);
  EXPECT_EQ(first % kGranule, 0u);
  space.release(first, kGranule + 1);
  EXPECT_EQ(space.find(pointer(first)), nullptr);
  EXPECT_EQ(space.find(pointer(first + kGranule)), nullptr);
  EXPECT_EQ(space.find(pointer(second)), &b);
  space.release(second, 100);
}

TEST_F(AddressSpaceTest, ReleasedNeighboursMerge) {
  const uintptr_t first = space.reserve(kGranule, &a);
  const uintptr_t second = space.reserve(kGranule, &a);
  const uintptr_t third = space.reserve(kGranule, &a);
  const uintptr_t last = space.reserve(kGranule, &b);  // keeps the addresses after it in use
  ASSERT_EQ(second, first + kGranule);
  ASSERT_EQ(third, second + kGranule);
  space.release(first, kGranule);
  space.release(third, kGranule);
  EXPECT_NE(space.reserve(2 * kGranule, &b), first);
  space.release(second, kGranule);  // joins both sides
  EXPECT_EQ(space.reserve(3 * kGranule, &a), first);
  EXPECT_EQ(space.find(pointer(third)), &a);
  space.release(first, 3 * kGranule);
  space.release(last, kGranule);
  space.release(last + kGranule, 2 * kGranule);
}

TEST_F(AddressSpaceTest, ForeignAddressIsRefused) {
  int on_the_stack = 0;
  EXPECT_EQ(space.find(&on_the_stack), nullptr);
  EXPECT_EQ(space.find(nullptr), nullptr);
  EXPECT_THROW(resolve(&on_the_stack), c10::Error);
  EXPECT_THROW(resolve(nullptr), c10::Error);
}

TEST_F(AddressSpaceTest, AddressBehindTheSegmentIsRefused) {
  a.size = 100;
  a.address = space.reserve(a.size, &a);
  EXPECT_EQ(resolve(pointer(a.address + 99)).offset, 99u);
  EXPECT_THROW(resolve(pointer(a.address + 100)), c10::Error);
  space.release(a.address, a.size);
}

TEST_F(AddressSpaceTest, RunningOutIsAnOutOfMemoryError) {
  EXPECT_THROW(space.reserve(size_t{1} << 50, &a), c10::OutOfMemoryError);
}

// Reading it from the host must fault, not give numbers.
TEST_F(AddressSpaceTest, NoMemoryIsBehindTheAddresses) {
  const uintptr_t address = space.reserve(kGranule, &a);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(address) = 1, "");
  space.release(address, kGranule);
}

}  // namespace
}  // namespace ocl

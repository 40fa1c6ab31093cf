#include "backend/base/binary_file.h"

#include <thread>

#include "tests/cpp/support.h"

namespace ocl {
namespace {

struct BinaryFileTest : testing::Test {
  test::TemporaryFolder folder;
  test::Variable variable{"OCL_CACHE_DIR", folder.path().string()};
  const std::string key = "device\ndriver 1\n#define A 1\n";
  const std::string binary = std::string(
                                 "\0\x7f"
                                 "ELF\n\n",
                                 7) +
                             std::string(10000, 'x');
  const std::filesystem::path path = binary_path(key);

  std::string content() {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  void replace(const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
};

TEST_F(BinaryFileTest, RoundTrip) {
  EXPECT_EQ(path.parent_path(), folder.path());
  EXPECT_EQ(read_binary(path, key), std::nullopt);
  ASSERT_TRUE(write_binary(path, key, binary));
  EXPECT_EQ(read_binary(path, key), binary);
  ASSERT_TRUE(write_binary(path, key, ""));
  EXPECT_EQ(read_binary(path, key), "");
}

TEST_F(BinaryFileTest, FolderIsMade) {
  const auto nested = folder.path() / "a" / "b" / "x.bin";
  ASSERT_TRUE(write_binary(nested, key, binary));
  EXPECT_EQ(read_binary(nested, key), binary);
}

TEST_F(BinaryFileTest, OtherKeyIsNotTaken) {
  ASSERT_TRUE(write_binary(path, key, binary));
  EXPECT_EQ(read_binary(path, key + "x"), std::nullopt);
  std::string same_length = key;
  same_length.back() = '2';
  EXPECT_EQ(read_binary(path, same_length), std::nullopt);
  EXPECT_NE(binary_path(key), binary_path(same_length));
}

TEST_F(BinaryFileTest, EveryTruncationIsNoticed) {
  ASSERT_TRUE(write_binary(path, key, binary));
  const std::string whole = content();
  for (size_t length = 0; length < whole.size(); length += length < 200 ? 1 : 997) {
    replace(whole.substr(0, length));
    EXPECT_EQ(read_binary(path, key), std::nullopt) << length;
  }
  replace(whole + "x");
  EXPECT_EQ(read_binary(path, key), std::nullopt);
}

TEST_F(BinaryFileTest, EveryDamagedByteIsNoticed) {
  ASSERT_TRUE(write_binary(path, key, binary));
  const std::string whole = content();
  for (size_t i = 0; i < whole.size(); i += i < 200 ? 1 : 997) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    replace(damaged);
    EXPECT_EQ(read_binary(path, key), std::nullopt) << i;
  }
}

TEST_F(BinaryFileTest, FolderThatCannotBeWrittenIsNoError) {
  EXPECT_FALSE(write_binary("/proc/no_such_folder/x.bin", key, binary));
}

TEST_F(BinaryFileTest, ReadersSeeWholeFilesWhileOthersWrite) {
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c'}) {
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 100; ++i) write_binary(path, key, std::string(50000 + letter, letter));
    });
  }
  std::thread reader([&] {
    int seen = 0;
    while (!done || seen == 0) {
      if (!std::filesystem::exists(path)) continue;
      const auto read = read_binary(path, key);
      ASSERT_TRUE(read.has_value());
      ASSERT_EQ(*read, std::string(50000 + (*read)[0], (*read)[0]));
      ++seen;
    }
  });
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  size_t files = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1u) << "temporary files are left";
}

TEST(CacheFolder, FollowsTheEnvironment) {
  const test::Variable cache("XDG_CACHE_HOME", "/x"), home("HOME", "/h");
  {
    const test::Variable chosen("OCL_CACHE_DIR", "/chosen");
    EXPECT_EQ(cache_folder(), "/chosen");
  }
  const test::Variable unset("OCL_CACHE_DIR", "");
  EXPECT_EQ(cache_folder(), "/x/torch_ocl");
  const test::Variable no_cache("XDG_CACHE_HOME", "");
  EXPECT_EQ(cache_folder(), "/h/.cache/torch_ocl");
}

}  // namespace
}  // namespace ocl

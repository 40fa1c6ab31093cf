#include "backend/base/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "backend/base/binary_file.h"
#include "backend/base/system.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

mode_t mode_of(const std::filesystem::path& path) {
  struct stat found {};
  EXPECT_EQ(lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

struct PrivateFileTest : testing::Test {
  test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "cache" / "torch_ocl" / "x.bin";
};

TEST_F(PrivateFileTest, IsOfTheUserAlone) {
  const mode_t before = umask(0);
  EXPECT_TRUE(write_private(path, "text"));
  umask(before);
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(mode_of(path.parent_path()), 0700u);
  EXPECT_EQ(mode_of(path.parent_path().parent_path()), 0700u);
  EXPECT_EQ(read_private(path), "text");
}

TEST_F(PrivateFileTest, FolderThatOthersCanWriteIsNotUsed) {
  ASSERT_TRUE(write_private(path, "text"));
  for (const mode_t mode : {0720, 0702, 01777}) {
    chmod(path.parent_path().c_str(), mode);
    EXPECT_EQ(read_private(path), std::nullopt) << mode;
    EXPECT_FALSE(write_private(path, "other")) << mode;
  }
  chmod(path.parent_path().c_str(), 0755);
  EXPECT_EQ(read_private(path), "text");
}

TEST_F(PrivateFileTest, FileThatOthersCanWriteIsReplaced) {
  for (const mode_t mode : {0620, 0602}) {
    ASSERT_TRUE(write_private(path, "text"));
    chmod(path.c_str(), mode);
    EXPECT_EQ(read_private(path), std::nullopt) << mode;
  }
  ASSERT_TRUE(write_private(path, "new"));
  EXPECT_EQ(read_private(path), "new");
  EXPECT_EQ(mode_of(path), 0600u);
}

TEST_F(PrivateFileTest, OfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_TRUE(write_private(path, "text"));
  ASSERT_EQ(chown(path.c_str(), 4321, 4321), 0);
  EXPECT_EQ(read_private(path), std::nullopt);
  ASSERT_TRUE(write_private(path, "new"));
  EXPECT_EQ(read_private(path), "new");
  ASSERT_EQ(chown(path.parent_path().c_str(), 4321, 4321), 0);
  EXPECT_EQ(read_private(path), std::nullopt);
  EXPECT_FALSE(write_private(path, "other"));
}

TEST_F(PrivateFileTest, LinksAndPipesAreNotRead) {
  ASSERT_TRUE(write_private(path, "text"));
  const auto link = path.parent_path() / "link.bin", pipe = path.parent_path() / "pipe.bin";
  std::filesystem::create_symlink(path, link);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_private(link), std::nullopt);
  EXPECT_EQ(read_private(pipe), std::nullopt);  // without waiting for a writer
  // The link is replaced, not what it leads to.
  ASSERT_TRUE(write_private(link, "new"));
  EXPECT_EQ(read_private(path), "text");
  EXPECT_EQ(read_private(link), "new");
}

TEST_F(PrivateFileTest, FileAboveTheLimitIsNotRead) {
  ASSERT_TRUE(write_private(path, "text"));
  std::filesystem::resize_file(path, kLargestFile + 1);  // takes no room on the disk
  EXPECT_EQ(read_private(path), std::nullopt);
}

TEST_F(PrivateFileTest, FolderMayBeALink) {
  ASSERT_TRUE(write_private(path, "text"));
  const auto link = folder.path() / "link";
  std::filesystem::create_directory_symlink(path.parent_path(), link);
  EXPECT_EQ(read_private(link / path.filename()), "text");
}

TEST(HomeFolder, IsListedWhereTheEnvironmentHasNone) {
  const test::Variable cache("XDG_CACHE_HOME", "relative"), chosen("OCL_CACHE_DIR", "");
  for (const char* told : {"", "relative"}) {
    const test::Variable home("HOME", told);
    EXPECT_TRUE(home_folder().empty() || home_folder().is_absolute());
    EXPECT_NE(home_folder(), "/tmp");
    EXPECT_EQ(cache_folder().empty(), home_folder().empty());
    if (!home_folder().empty()) EXPECT_EQ(cache_folder(), home_folder() / ".cache" / "torch_ocl");
  }
}

TEST(HomeFolder, NothingIsKeptWhenOff) {
  const test::Variable chosen("OCL_CACHE_DIR", "off");
  EXPECT_TRUE(cache_folder().empty());
  EXPECT_TRUE(binary_path("key").empty());
  EXPECT_FALSE(write_binary(binary_path("key"), "key", "binary"));
  EXPECT_EQ(read_binary(binary_path("key"), "key"), std::nullopt);
}

}  // namespace
}  // namespace ocl

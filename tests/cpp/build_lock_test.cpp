// Locks between processes: a killed process leaves none, and nobody waits for ever.
#include "backend/program/build_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "backend/base/system.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

using namespace std::chrono_literals;

// Returns the result of the body in a forked process.
template <typename Body>
bool in_fork(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct LockFileTest : testing::Test {
  test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "lock";
};

TEST_F(LockFileTest, KeepsOtherProcessesOutOfAByte) {
  const int file = open_lock_file(path);
  ASSERT_GE(file, 0);
  const auto free = [&](int64_t position) {
    return in_fork([&] { return lock_byte(open_lock_file(path), position, 0ms); });
  };
  const int64_t far = int64_t{1} << 59;
  EXPECT_TRUE(lock_byte(file, far, 0ms));
  EXPECT_FALSE(free(far));
  EXPECT_TRUE(free(far + 1));
  EXPECT_FALSE(in_fork([&] { return lock_byte(file, far, 0ms); })) << "a child has no lock";
  unlock_byte(file, far);
  EXPECT_TRUE(free(far));
  close(file);
}

TEST_F(LockFileTest, IsFreeWhenItsProcessIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool locked = lock_byte(open_lock_file(path), 7, 0ms);
    if (write(ends[1], &locked, 1) == 1) pause();
    _exit(1);
  }
  bool locked = false;
  ASSERT_EQ(read(ends[0], &locked, 1), 1);
  EXPECT_TRUE(locked);
  const int file = open_lock_file(path);
  EXPECT_FALSE(lock_byte(file, 7, 0ms));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(lock_byte(file, 7, 0ms));
  for (const int each : {file, ends[0], ends[1]}) close(each);
}

TEST_F(LockFileTest, IsNoLinkAndNoPipe) {
  std::filesystem::create_symlink(folder.path() / "elsewhere", path);
  EXPECT_LT(open_lock_file(path), 0);
  EXPECT_LT(open_lock_file(folder.path() / "missing" / "lock"), 0);
  EXPECT_FALSE(lock_byte(-1, 0, 100s));
}

class BuildLockTest : public test::DeviceTest {};

TEST_P(BuildLockTest, OtherProcessesWaitForTheSameProgram) {
  if (!here().has(Quirk::kBinaryCompiles)) GTEST_SKIP() << "only PoCL replaces files in place";
  Device& shared = here();  // a forked process cannot ask for it
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();  // before this process has the lock, with which threads wait, too
  if (child == 0) {
    char word = 0;
    const auto takes = [&](const char* key) { return BuildLock(shared, key, 0ms).locked(); };
    const bool told = read(ends[0], &word, 1) == 1;
    _exit(told && !takes("a program") && takes("another program") ? 0 : 1);
  }
  const BuildLock lock(shared, "a program");
  EXPECT_TRUE(lock.locked());
  ASSERT_EQ(write(ends[1], "", 1), 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int each : ends) close(each);
}

TEST_P(BuildLockTest, IsFreeAfterwards) {
  if (!here().has(Quirk::kBinaryCompiles)) GTEST_SKIP() << "only PoCL replaces files in place";
  Device& shared = here();
  { const BuildLock lock(shared, "a program"); }
  EXPECT_TRUE(in_fork([&] { return BuildLock(shared, "a program", 0ms).locked(); }));
}

OCL_ON_EVERY_DEVICE(BuildLockTest);

}  // namespace
}  // namespace ocl

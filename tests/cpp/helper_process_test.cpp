// Programs that answer through a pipe of their own, whatever else they do.
#include "backend/base/helper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/cpp/support.h"

namespace ocl {
namespace {

using Kind = HelperAnswer::Kind;
using namespace std::chrono_literals;

struct HelperTest : testing::Test {
  test::TemporaryFolder folder;

  HelperAnswer run(const std::string& text, std::chrono::seconds limit = 600s) {
    const auto path = folder.path() / "it's a \"$(name)\"; exit 1";
    std::ofstream(path) << "#!/bin/sh\n" << text << '\n';
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    HelperProcess helper(path, limit);
    for (;;) {
      if (const auto answer = helper.wait(10ms)) return *answer;
    }
  }

  void expect(const std::string& script, Kind kind, const std::string& text) {
    const HelperAnswer answer = run(script);
    EXPECT_EQ(answer.kind, kind) << script;
    EXPECT_EQ(answer.text, text) << script;
  }
};

TEST_F(HelperTest, TheAnswerIsTheFirstLineOfThePipe) {
  expect("echo 17 >&3", Kind::kLine, "17");
  expect("echo 17 >&3; exit 3", Kind::kLine, "17");
  expect("echo 42 is the answer; echo 43 >&2; echo 17 >&3; echo 18 >&3", Kind::kLine, "17");
  expect("echo $1 >&3", Kind::kLine, "600");
  expect("cat | wc -c >&3", Kind::kLine, "0");
}

TEST_F(HelperTest, ThereMayBeNoAnswer) {
  expect("echo 42", Kind::kEnded, "");
  expect("kill -9 $$", Kind::kEnded, "");
  EXPECT_EQ(run("while :; do sleep 1; done", 0s).kind, Kind::kTimedOut);
  HelperProcess missing(folder.path() / "missing", 1s);
  const auto answer = missing.wait(0ms);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Kind::kNotStarted);
  EXPECT_EQ(answer->text, "No such file or directory");
}

TEST_F(HelperTest, NeitherTheProgramNorItsChildrenKeepTheCallerWaiting) {
  const HelperAnswer answer = run("sleep 600 & echo $! >&3; wait");
  EXPECT_EQ(answer.kind, Kind::kLine);
  EXPECT_EQ(kill(std::atoi(answer.text.c_str()), SIGKILL), 0);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(HelperTest, CtrlCReachesTheCallerAlone) {
  const HelperAnswer answer = run("ps -o pgid= -p $$ >&3");
  EXPECT_EQ(answer.kind, Kind::kLine);
  EXPECT_NE(std::atoi(answer.text.c_str()), getpgrp());
}

TEST_F(HelperTest, WorksWhereTheStandardStreamsAreClosed) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    const HelperAnswer answer = run("echo 42; echo 17 >&3");
    _exit(answer.kind == Kind::kLine && answer.text == "17" ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Helper, ClosesInheritedFilesButThePipe) {
  const pid_t child = fork();
  if (child == 0) {
    const int file = fcntl(STDERR_FILENO, F_DUPFD, 4);
    dup2(STDERR_FILENO, 3);
    helper::begin();
    const bool kept = fcntl(3, F_GETFD) == FD_CLOEXEC && fcntl(STDERR_FILENO, F_GETFD) >= 0;
    _exit(kept && fcntl(file, F_GETFD) < 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ocl

#include "backend/base/helper_process.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ocl {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int kPipe = STDERR_FILENO + 1;  // the program writes to this descriptor
constexpr auto kGrace = 1s;               // so that the program can name a driver that hangs

// Returns -1 and sets errno where the program cannot be started.
pid_t start(const std::string& program, const std::string& limit, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return -1;
  }
  char* arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>(limit.c_str()),
                       nullptr};
  pid_t child = -1;
  int failure = posix_spawn_file_actions_adddup2(&actions, output, kPipe);
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO && !failure; ++stream) {
    failure = posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  }
  if (!failure) failure = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  if (!failure) {
    failure = posix_spawn(&child, program.c_str(), &actions, &attributes, arguments, environ);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = failure;
  return failure ? -1 : child;
}

}  // namespace

HelperProcess::HelperProcess(const std::filesystem::path& program,
                             std::chrono::seconds limit) noexcept
    : end_(std::chrono::steady_clock::now() + limit + kGrace) {
  int ends[2];
  const bool piped = pipe2(ends, O_CLOEXEC) == 0;
  if (piped) {
    pipe_ = ends[0];
    process_ = start(program.string(), std::to_string(limit.count()), ends[1]);
  }
  const int failure = errno;
  if (piped) close(ends[1]);
  if (process_ < 0)
    finish(HelperAnswer::Kind::kNotStarted, std::system_category().message(failure));
}

HelperProcess::~HelperProcess() {
  if (!answer_) finish(HelperAnswer::Kind::kTimedOut, "");
}

std::optional<HelperAnswer> HelperProcess::wait(milliseconds patience) {
  const auto begin = std::chrono::steady_clock::now();
  const auto end = std::min(end_, begin + patience);
  for (auto now = begin; !answer_; now = std::chrono::steady_clock::now()) {
    if (now >= end_) return finish(HelperAnswer::Kind::kTimedOut, "");
    if (now >= end) return std::nullopt;
    pollfd waited{pipe_, POLLIN, 0};
    const auto left = std::chrono::duration_cast<milliseconds>(end - now);
    if (poll(&waited, 1, static_cast<int>(left.count()) + 1) <= 0) continue;
    char part[512];
    const ssize_t count = read(pipe_, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return finish(HelperAnswer::Kind::kEnded, "");
    received_.append(part, static_cast<size_t>(count));
    // One line, not up to the end of the file: a process that a driver has started may keep the
    // pipe open.
    const size_t line = received_.find('\n');
    if (line != std::string::npos) {
      return finish(HelperAnswer::Kind::kLine, received_.substr(0, line));
    }
  }
  return answer_;
}

HelperAnswer HelperProcess::finish(HelperAnswer::Kind kind, std::string text) noexcept {
  answer_ = HelperAnswer{kind, std::move(text)};
  if (pipe_ >= 0) close(pipe_);
  if (process_ <= 0) return *answer_;
  if (kind == HelperAnswer::Kind::kTimedOut) kill(-process_, SIGKILL);
  kill(process_, SIGKILL);
  // Does not wait: a process that hangs in a driver's system call does not end.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (waitpid(process_, nullptr, WNOHANG) != 0 && errno != EINTR) break;
    usleep(10000);
  }
  return *answer_;
}

namespace helper {
namespace {

const char *of_hung = "", *of_crashed = "";

bool is_of_the_system(const Dl_info& library) {
  Dl_info own;
  if (dladdr(reinterpret_cast<void*>(&is_of_the_system), &own) &&
      own.dli_fbase == library.dli_fbase) {
    return true;
  }
  const char* const slash = std::strrchr(library.dli_fname, '/');
  const std::string_view name = slash ? slash + 1 : library.dli_fname;
  for (const std::string_view known : {"libc.so", "ld-", "libdl.", "libpthread.", "libstdc++",
                                       "libgcc_s", "libc10", "libOpenCL", "linux-vdso"}) {
    if (name.starts_with(known)) return true;
  }
  return false;
}

void name_driver(int signal) noexcept {
  void* calls[128];
  char line[4096] = {};
  std::strncat(line, signal == SIGALRM ? of_hung : of_crashed, 64);
  for (int call = backtrace(calls, 128) - 1; call >= 0; --call) {  // the outermost first
    Dl_info library;
    if (!dladdr(calls[call], &library) || !library.dli_fname || is_of_the_system(library)) continue;
    std::strncat(line, library.dli_fname, sizeof line - 100);
    break;
  }
  answer(line);
}

}  // namespace

void begin() noexcept {
  fcntl(kPipe, F_SETFD, FD_CLOEXEC);
#ifdef SYS_close_range
  if (syscall(SYS_close_range, kPipe + 1U, ~0U, 0U) == 0) return;
#endif
  const long limit = sysconf(_SC_OPEN_MAX);
  for (int file = kPipe + 1; file < limit && file < 65536; ++file) close(file);
}

void answer(const char* line) noexcept {
  char text[4097] = {};
  std::strncpy(text, line, sizeof text - 2);
  const size_t size = std::strlen(text);
  text[size] = '\n';
  for (size_t sent = 0; sent <= size;) {
    const ssize_t count = write(kPipe, text + sent, size + 1 - sent);
    if (count < 0 && errno != EINTR) break;
    if (count > 0) sent += static_cast<size_t>(count);
  }
  _exit(0);
}

void name_driver_that_fails(const char* hung, const char* crashed, int seconds) noexcept {
  of_hung = hung;
  of_crashed = crashed;
  void* call;
  backtrace(&call, 1);  // loads its library now: the handler must not take the loader's lock
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);  // the caller's threads may block signals
  struct sigaction action {};
  action.sa_handler = &name_driver;
  for (const int signal : {SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) {
    sigaction(signal, &action, nullptr);
  }
  alarm(static_cast<unsigned>(seconds));
}

}  // namespace helper
}  // namespace ocl

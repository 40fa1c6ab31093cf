#include "backend/system.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ocl {

void* open_library(const char* name) noexcept { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void* library_symbol(void* library, const char* name) noexcept { return dlsym(library, name); }

const char* const* opencl_library_names() noexcept {
  static const char* const names[] = {"libOpenCL.so.1", "libOpenCL.so", nullptr};
  return names;
}

std::filesystem::path own_file() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&own_file), &info)) return {};
  return info.dli_fname;
}

bool others_could_write(const std::filesystem::path& file) {
  struct stat own {};
  const bool owned = stat(own_file().c_str(), &own) == 0;
  const auto is_ours = [&](const std::filesystem::path& path) {
    struct stat found {};
    if (stat(path.c_str(), &found) != 0 || (found.st_mode & S_IWOTH)) return false;
    const uid_t user = found.st_uid;
    return user == 0 || user == geteuid() || (owned && user == own.st_uid);
  };
  std::error_code missing;
  const auto target = std::filesystem::canonical(file, missing);  // where a link leads
  return missing || !is_ours(target) || !is_ours(target.parent_path()) ||
         !is_ours(file.parent_path());
}

namespace {

// Starts the program with the standard output `output` and empty other streams; -1 where it cannot
// be started. The program closes other inherited files itself.
pid_t start(const std::string& program, int output) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  char* arguments[] = {const_cast<char*>(program.c_str()), nullptr};
  pid_t child = -1;
  const bool started =
      posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) == 0 &&
      posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
      posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
      posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  return started ? child : -1;
}

}  // namespace

int number_printed_by(const std::filesystem::path& program, int otherwise) noexcept {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return otherwise;
  const pid_t child = start(program.string(), ends[1]);
  close(ends[1]);
  std::string printed;
  char part[64];
  for (ssize_t count = 0; child > 0;) {
    count = read(ends[0], part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    printed.append(part, static_cast<size_t>(count));
  }
  close(ends[0]);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  int number = otherwise;
  return std::sscanf(printed.c_str(), "%d", &number) == 1 ? number : otherwise;
}

void close_inherited_files() noexcept {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, STDERR_FILENO + 1U, ~0U, 0U) == 0) return;
#endif
  const long limit = sysconf(_SC_OPEN_MAX);
  for (int file = STDERR_FILENO + 1; file < limit && file < 65536; ++file) close(file);
}

void after_fork(void (*action)()) { pthread_atfork(nullptr, nullptr, action); }

int process_id() noexcept { return getpid(); }

int64_t thread_id() noexcept { return syscall(SYS_gettid); }

namespace {

void* map_anonymous(size_t size, int protection) noexcept {
  void* mapped =
      mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

void* reserve_addresses(size_t size) noexcept { return map_anonymous(size, PROT_NONE); }

void* reserve_zeros(size_t size) noexcept { return map_anonymous(size, PROT_READ | PROT_WRITE); }

// MemAvailable of /proc/meminfo.
std::optional<size_t> available_host_memory() noexcept {
  FILE* const file = std::fopen("/proc/meminfo", "r");
  if (!file) return std::nullopt;
  char line[256];
  size_t kibibytes = 0;
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file)) {
    found = std::sscanf(line, "MemAvailable: %zu kB", &kibibytes) == 1;
  }
  std::fclose(file);
  return found ? std::optional(kibibytes << 10) : std::nullopt;
}

// The line of the first processor in /proc/cpuinfo.
std::string host_instruction_sets() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  }
  return {};
}

bool errors_are_read_at_a_terminal() noexcept { return isatty(STDERR_FILENO) != 0; }

void prefer_huge_pages(void* start, size_t size) noexcept {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<uintptr_t>(start) + kHugePage - 1) & ~(kHugePage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(start) + size) & ~(kHugePage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

void skip_destructors_if(bool (*condition)()) {
  on_exit(
      [](int status, void* asked) {
        std::fflush(nullptr);
        if (reinterpret_cast<bool (*)()>(asked)()) std::_Exit(status);
      },
      reinterpret_cast<void*>(condition));
}

}  // namespace ocl

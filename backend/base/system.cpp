#include "backend/base/system.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
  const auto target = std::filesystem::canonical(file, missing);  // the link's target
  return missing || !is_ours(target) || !is_ours(target.parent_path()) ||
         !is_ours(file.parent_path());
}

int open_lock_file(const std::filesystem::path& path) noexcept {
  return open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
}

namespace {

bool set_lock(int file, int64_t position, short kind) noexcept {
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_start = position;
  range.l_len = 1;
  return fcntl(file, F_SETLK, &range) == 0;
}

}  // namespace

bool lock_byte(int file, int64_t position, std::chrono::milliseconds patience) noexcept {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (auto pause = 1ms; !set_lock(file, position, F_WRLCK); pause = std::min(2 * pause, 20ms)) {
    const bool taken = errno == EACCES || errno == EAGAIN || errno == EINTR;
    if (!taken || std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

void unlock_byte(int file, int64_t position) noexcept { set_lock(file, position, F_UNLCK); }

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

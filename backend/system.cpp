#include "backend/system.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <io.h>
#include <windows.h>
#else
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#ifdef __APPLE__
#include <crt_externs.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace ocl {

#ifdef _WIN32

void* open_library(const char* name) noexcept { return LoadLibraryA(name); }

void* library_symbol(void* library, const char* name) noexcept {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

const char* const* opencl_library_names() noexcept {
  static const char* const names[] = {"OpenCL.dll", nullptr};
  return names;
}

std::filesystem::path own_file() {
  HMODULE module = nullptr;
  wchar_t name[32768];
  const DWORD flags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExW(flags, reinterpret_cast<LPCWSTR>(&own_file), &module)) return {};
  return std::wstring(name, GetModuleFileNameW(module, name, 32768));
}

int number_printed_by(const std::filesystem::path& program, int otherwise) noexcept {
  FILE* pipe = _wpopen((L"\"" + program.wstring() + L"\" 2>NUL").c_str(), L"r");
  if (!pipe) return otherwise;
  int number = otherwise;
  if (std::fscanf(pipe, "%d", &number) != 1) number = otherwise;
  _pclose(pipe);
  return number;
}

void close_inherited_files() noexcept {}

// Programs are in folders that only administrators or the user can write to.
bool others_could_write(const std::filesystem::path&) { return false; }

void after_fork(void (*)()) {}

int process_id() noexcept { return static_cast<int>(GetCurrentProcessId()); }
int64_t thread_id() noexcept { return GetCurrentThreadId(); }

void* reserve_addresses(size_t size) noexcept {
  return VirtualAlloc(nullptr, size, MEM_RESERVE, PAGE_NOACCESS);
}

void* reserve_zeros(size_t size) noexcept {
  return VirtualAlloc(nullptr, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

std::optional<size_t> available_host_memory() noexcept {
  MEMORYSTATUSEX status{.dwLength = sizeof(MEMORYSTATUSEX)};
  if (!GlobalMemoryStatusEx(&status)) return std::nullopt;
  return static_cast<size_t>(status.ullAvailPhys);
}

std::string host_instruction_sets() { return {}; }

bool errors_are_read_at_a_terminal() noexcept { return _isatty(_fileno(stderr)) != 0; }

void prefer_huge_pages(void*, size_t) noexcept {}

#else

void* open_library(const char* name) noexcept { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void* library_symbol(void* library, const char* name) noexcept { return dlsym(library, name); }

const char* const* opencl_library_names() noexcept {
#ifdef __APPLE__
  static const char* const names[] = {"/System/Library/Frameworks/OpenCL.framework/OpenCL",
                                      "libOpenCL.dylib", nullptr};
#else
  static const char* const names[] = {"libOpenCL.so.1", "libOpenCL.so", nullptr};
#endif
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

char** variables() {
#ifdef __APPLE__
  return *_NSGetEnviron();
#else
  return environ;
#endif
}

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
      posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, variables()) == 0;
  posix_spawn_file_actions_destroy(&actions);
  return started ? child : -1;
}

bool make_pipe(int (&ends)[2]) {
#ifdef __APPLE__
  if (pipe(ends) != 0) return false;
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  return true;
#else
  return pipe2(ends, O_CLOEXEC) == 0;
#endif
}

}  // namespace

int number_printed_by(const std::filesystem::path& program, int otherwise) noexcept {
  int ends[2];
  if (!make_pipe(ends)) return otherwise;
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

int64_t thread_id() noexcept {
#ifdef __linux__
  return syscall(SYS_gettid);
#else
  uint64_t id = 0;
  pthread_threadid_np(nullptr, &id);
  return static_cast<int64_t>(id);
#endif
}

namespace {

#ifdef MAP_NORESERVE
constexpr int kUncommitted = MAP_NORESERVE;
#else
constexpr int kUncommitted = 0;
#endif

void* map_anonymous(size_t size, int protection) noexcept {
  void* mapped = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | kUncommitted, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

void* reserve_addresses(size_t size) noexcept { return map_anonymous(size, PROT_NONE); }

void* reserve_zeros(size_t size) noexcept { return map_anonymous(size, PROT_READ | PROT_WRITE); }

// MemAvailable of /proc/meminfo, which only Linux has.
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

// The line of the first processor in /proc/cpuinfo, which only Linux has.
std::string host_instruction_sets() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  }
  return {};
}

bool errors_are_read_at_a_terminal() noexcept { return isatty(STDERR_FILENO) != 0; }

void prefer_huge_pages(void* start, size_t size) noexcept {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<uintptr_t>(start) + kHugePage - 1) & ~(kHugePage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(start) + size) & ~(kHugePage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

#endif

void skip_destructors_if(bool (*condition)()) {
#ifdef __GLIBC__
  on_exit(
      [](int status, void* asked) {
        std::fflush(nullptr);
        if (reinterpret_cast<bool (*)()>(asked)()) std::_Exit(status);
      },
      reinterpret_cast<void*>(condition));
#else
  static bool (*asked)() = nullptr;  // one condition
  asked = condition;
  std::atexit([] {
    std::fflush(nullptr);
    if (asked()) std::_Exit(EXIT_FAILURE);
  });
#endif
}

}  // namespace ocl

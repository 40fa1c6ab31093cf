#include "backend/program/build_lock.h"

#include <c10/util/hash.h>

#include <filesystem>
#include <mutex>
#include <unordered_map>

#include "backend/base/environment.h"
#include "backend/base/system.h"

namespace ocl {
namespace {

// The file is in PoCL's own cache folder, so that processes that share the folder share the locks.
std::filesystem::path lock_file() {
  std::filesystem::path folder = environment("POCL_CACHE_DIR");
  if (folder.empty()) {
    const std::filesystem::path cache = environment("XDG_CACHE_HOME");
    const std::filesystem::path home = environment("HOME");
    folder = (!cache.empty()  ? cache
              : !home.empty() ? home / ".cache"
                              : "/tmp") /
             "pocl" / "kcache";
  }
  return folder / "torch_ocl.lock";
}

int64_t position_of(const std::string& key) {
  return static_cast<int64_t>(std::stoull(c10::sha1(key).str().substr(0, 15), nullptr, 16));
}

// The system's locks belong to the process, so threads need locks of their own.
std::mutex& mutex_of(int64_t position) {
  static auto* const all = new std::mutex;
  static auto* const mutexes = new std::unordered_map<int64_t, std::mutex>;
  std::lock_guard lock(*all);
  return (*mutexes)[position];
}

// Never closed: closing would release the locks of all threads.
int file() {
  static const int opened = open_lock_file(lock_file());
  return opened;
}

}  // namespace

BuildLock::BuildLock(const Device& device, const std::string& key,
                     std::chrono::milliseconds patience) {
  if (!device.has(Quirk::kBinaryCompiles)) return;
  if (file() < 0) return;
  const int64_t position = position_of(key);
  among_threads_ = std::unique_lock(mutex_of(position));
  if (lock_byte(file(), position, patience)) position_ = position;
}

BuildLock::~BuildLock() {
  if (locked()) unlock_byte(file(), position_);
}

}  // namespace ocl

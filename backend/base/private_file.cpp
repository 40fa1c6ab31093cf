#include "backend/base/private_file.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ocl {
namespace {

std::string random_name(const std::string& name) {
  std::random_device random;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = name + ".";
  for (int i = 0; i < 16; ++i) text += kDigits[random() % kDigits.size()];
  return text + ".tmp";
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  explicit operator bool() const { return number_ >= 0; }
  int operator()() const { return number_; }

 private:
  int number_;
};

void warn_once(const std::filesystem::path& path, const std::string& why) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  TORCH_WARN("ocl: ", printable(path.string()), " is not used: ", why,
             ", so another user may have written files that would be run. Remove it, or "
             "set OCL_CACHE_DIR to a folder that only you can write");
}

bool is_private(const Descriptor& opened, const std::filesystem::path& path, mode_t kind,
                Refusal refusal = Refusal::kWarns) {
  const auto refuse = [&](const std::string& why) {
    if (refusal == Refusal::kWarns) warn_once(path, why);
    return false;
  };
  struct stat found {};
  if (fstat(opened(), &found) != 0 || (found.st_mode & S_IFMT) != kind) return false;
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return refuse(str("it belongs to user ", found.st_uid, ", not to ", geteuid()));
  }
  return found.st_mode & (S_IWGRP | S_IWOTH) ? refuse("others can write to it") : true;
}

// Opens the folder, so that files are opened in the folder that was checked, even if its path is
// changed later.
Descriptor open_folder(const std::filesystem::path& folder, Refusal refusal = Refusal::kWarns) {
  const auto& path = folder.empty() ? std::filesystem::path(".") : folder;
  Descriptor opened(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened && is_private(opened, path, S_IFDIR, refusal)) return opened;
  return Descriptor(-1);
}

void make_folder(const std::filesystem::path& folder) {
  if (folder.empty() || std::filesystem::exists(folder)) return;
  make_folder(folder.parent_path());
  mkdir(folder.c_str(), 0700);
}

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::filesystem::path home_folder() {
  const std::filesystem::path told = environment("HOME");
  if (told.is_absolute()) return told;
  std::vector<char> space(16384);
  passwd entry{}, *found = nullptr;
  if (getpwuid_r(geteuid(), &entry, space.data(), space.size(), &found) != 0 || !found) return {};
  const std::filesystem::path listed = found->pw_dir ? found->pw_dir : "";
  return listed.is_absolute() ? listed : std::filesystem::path();
}

std::optional<std::string> read_private(const std::filesystem::path& path) {
  const Descriptor folder = open_folder(path.parent_path());
  if (!folder) return std::nullopt;
  const Descriptor file(
      openat(folder(), path.filename().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    if (errno == ELOOP) warn_once(path, "it is a symbolic link");
    return std::nullopt;
  }
  if (!is_private(file, path, S_IFREG)) return std::nullopt;
  struct stat found {};
  if (fstat(file(), &found) != 0 || static_cast<size_t>(found.st_size) > kLargestFile) {
    return std::nullopt;
  }
  std::string content;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t count = read(file(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) return content;
    content.append(part.data(), static_cast<size_t>(count));
    if (content.size() > kLargestFile) return std::nullopt;  // it grew while it was read
  }
}

bool write_private(const std::filesystem::path& path, std::string_view content,
                   Refusal refusal) noexcept {
  try {
    make_folder(path.parent_path());
    const Descriptor folder = open_folder(path.parent_path(), refusal);
    if (!folder) return false;
    const std::string temporary = random_name(path.filename().string());
    const Descriptor file(openat(folder(), temporary.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return false;
    if (write_all(file(), content) &&
        renameat(folder(), temporary.c_str(), folder(), path.filename().c_str()) == 0) {
      return true;
    }
    unlinkat(folder(), temporary.c_str(), 0);
  } catch (const std::exception&) {  // the caller makes it again another time
  }
  return false;
}

}  // namespace ocl

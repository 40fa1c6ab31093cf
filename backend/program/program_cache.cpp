#include "backend/program/program_cache.h"

#include <c10/util/hash.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "backend/base/binary_file.h"
#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/printable.h"
#include "backend/base/private_file.h"
#include "backend/base/system.h"
#include "backend/program/build_lock.h"
#include "backend/program/program_build.h"
#include "backend/program/user_program.h"

namespace ocl {
namespace {

struct Entry : Program {
  const Device* device = nullptr;
  std::string key;
  std::string options;
  BuildSteps steps = BuildSteps::kOne;
  std::string object;                    // for kCompileAndLink, until it is stored
  std::vector<KernelSignature> kernels;  // only for users' programs
  bool dirty = false;                    // launched since it was stored
};

// A program, which the first thread that needs it builds. Other threads wait only if they need the
// same program.
struct Slot {
  std::mutex building;
  std::unique_ptr<Entry> entry;
};

struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, Slot> programs;  // device index + key
  std::vector<Entry*> dirty;
  std::atomic<bool> any_dirty{false};
  ProgramCacheStats stats;
  BuildProgress progress;
};

Cache& cache() {
  static auto* const instance = new Cache;
  return *instance;
}

// Nobody reads the warnings in the log, but PoCL prints their number on the terminal. Redirecting
// the standard error would also catch the output of other threads.
const char* without_warnings() { return shows_build_logs() ? "" : " -w"; }

std::string build_options(const Device& device) {
  std::string options = str("-cl-std=CL1.2", without_warnings());
  if (device.properties().correctly_rounded_divide) {
    options += " -cl-fp32-correctly-rounded-divide-sqrt";
  } else {
    options += " -DROUGH_DIVISION=1";
  }
  static const std::string added = environment("OCL_BUILD_OPTIONS");
  return added.empty() ? options : options + " " + added;
}

std::string make_key(const Device& device, const std::string& options, const std::string& source) {
  const DeviceProperties& p = device.properties();
  static const std::string none;
  const std::string& target = p.type == "cpu" ? host_target() : none;
  std::string key;
  // The lengths make keys unique: two different lists of parts never have the same key.
  for (const std::string* part :
       {&p.platform, &p.name, &p.driver_version, &p.version, &target, &options, &source}) {
    key += str(part->size(), ' ', *part, '\n');
  }
  return key;
}

void dump(const std::string& file, const std::string& key, const char* ending,
          const std::string& text) {
  const std::string folder = environment("OCL_DUMP_DIR");
  if (folder.empty()) return;
  const std::string stem = std::filesystem::path(file).stem();
  const auto path = std::filesystem::path(folder) / (stem + "_" + c10::sha1(key).str() + ending);
  if (write_private(path, text, Refusal::kSilent)) return;
  TORCH_WARN_ONCE("ocl: cannot write ", printable(path.string()),
                  ": OCL_DUMP_DIR must be a folder with room, which only you can write to");
}

bool keeps_programs() { return !cache_folder().empty(); }

// Makes the program again from its binary, because a compiled program keeps its compiler's memory.
void drop_compiler(Device& device, Entry& entry) {
  if (!device.has(Quirk::kKeepsCompiler)) return;
  try {
    entry.handle = program_of_binary(device, binary_of(entry.handle), entry.options, entry.steps);
  } catch (const std::exception&) {  // the compiled program works, too
  }
}

// Leaves the handle empty if there is no binary, or the driver does not accept it any more.
void load_binary(Device& device, Entry& entry, bool of_user) {
  if (!keeps_programs() || shows_build_logs()) return;
  try {
    auto stored = read_binary(binary_path(entry.key), entry.key);
    if (!stored) return;
    if (of_user) entry.kernels = take_signatures(*stored);
    entry.handle = program_of_binary(device, *stored, entry.options, entry.steps);
  } catch (const std::exception&) {
    entry.kernels.clear();
  }
}

std::string one_line(const std::string& defines) {
  std::string text;
  std::istringstream lines(defines);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view kDefine = "#define ";
    text += (text.empty() ? "" : ", ") + line.substr(kDefine.size());
  }
  return text;
}

}  // namespace

Defines& Defines::set(std::string_view name, std::string_view value) {
  text_.append("#define ").append(name).append(" ").append(value).append("\n");
  return *this;
}

Defines& Defines::set(std::string_view name, int64_t value) {
  return set(name, std::to_string(value));
}

Defines& Defines::append(const Defines& others) {
  text_ += others.text_;
  return *this;
}

namespace {

struct Request : ProgramSource {
  bool of_user = false;
  bool reads_files = false;  // #includes files, whose content is not in the key
};

Slot& find_slot(const Device& device, const Request& request, const std::string& key) {
  Cache& all = cache();
  std::lock_guard lock(all.mutex);
  const std::string again = request.reads_files ? str('\n', all.programs.size()) : "";
  return all.programs[str(int{device.index()}, '\n', key, again)];
}

BuiltProgram build(Device& device, const Request& request, const Entry& entry) {
  try {
    return build_program(device, request, entry.steps);
  } catch (const c10::Error& error) {
    dump(request.file, entry.key, ".log", error.what_without_backtrace());
    throw;
  }
}

const Entry& find_or_make(Device& device, const Request& request) {
  const std::string key = make_key(device, request.options, request.source);
  Slot& slot = find_slot(device, request, key);
  std::lock_guard building(slot.building);
  if (slot.entry) return *slot.entry;
  auto created = std::make_unique<Entry>();
  created->device = &device;
  created->key = key;
  created->options = request.options;
  // Users' programs need the signatures of their kernels, which a linked program does not report.
  if (device.has(Quirk::kBinaryCompiles) && keeps_programs() && !request.of_user) {
    created->steps = BuildSteps::kCompileAndLink;
  }
  created->label = str(request.file, " [", request.label, "]");
  dump(request.file, key, ".cl", request.source);
  const BuildLock among_processes(device, key);
  if (!request.reads_files) load_binary(device, *created, request.of_user);
  const bool loaded = created->handle() != nullptr;
  const auto start = std::chrono::steady_clock::now();
  if (!loaded) {
    std::optional<SlowNotice> notice;
    if (errors_are_read_at_a_terminal()) {
      try {
        notice.emplace(std::chrono::seconds(2),
                       [text = str("torch_ocl: compiling ", request.file, " for ", device.label(),
                                   "\n")] { std::fputs(text.c_str(), stderr); });
      } catch (const std::system_error&) {  // no thread could be started
      }
    }
    BuiltProgram built = build(device, request, *created);
    created->handle = std::move(built.handle);
    created->object = std::move(built.object);
    if (request.of_user) created->kernels = signatures_of(created->handle, device);
    drop_compiler(device, *created);
    created->dirty = !request.reads_files;
  }
  Cache& all = cache();
  std::lock_guard lock(all.mutex);
  (loaded ? all.stats.loaded : all.stats.built) += 1;
  if (!loaded && errors_are_read_at_a_terminal()) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::fputs(all.progress.add(taken.count()).c_str(), stderr);
  }
  slot.entry = std::move(created);
  return *slot.entry;
}

}  // namespace

const Program& program(Device& device, const std::string& file, const Defines& defines) {
  return find_or_make(device, {file, one_line(defines.text()), build_options(device),
                               defines.text() + kernel_source(file)});
}

UserProgram user_program(Device& device, const std::string& source, const std::string& options) {
  const bool has_standard = options.find("-cl-std=") != std::string::npos;
  const bool wants_warnings = options.find("-W") != std::string::npos;  // -Werror
  const std::string all = str("-cl-kernel-arg-info ", has_standard ? "" : "-cl-std=CL1.2 ", options,
                              wants_warnings ? "" : without_warnings());
  const bool reads_files = includes_files(source) || options.find("-include") != std::string::npos;
  const Entry& entry = find_or_make(
      device, {"the source given to compile_kernel", all, all, source, true, reads_files});
  return {&entry, &entry.kernels};
}

void store_later(const Program& program) {
  auto& entry = const_cast<Entry&>(static_cast<const Entry&>(program));
  Cache& all = cache();
  std::lock_guard lock(all.mutex);
  if (!entry.dirty) return;
  all.dirty.push_back(&entry);
  all.any_dirty = true;
}

void store_programs() noexcept {
  Cache& all = cache();
  if (C10_LIKELY(!all.any_dirty.load(std::memory_order_relaxed)) || !keeps_programs()) return;
  std::vector<Entry*> dirty;
  {
    std::lock_guard lock(all.mutex);
    dirty.swap(all.dirty);
    all.any_dirty = false;
  }
  for (Entry* entry : dirty) {
    try {
      std::string binary = std::exchange(entry->object, {});
      if (entry->steps != BuildSteps::kCompileAndLink) {
        const BuildLock lock(*entry->device, entry->key);
        binary = binary_of(entry->handle);
      }
      if (binary.empty()) continue;
      const std::string signatures =
          entry->kernels.empty() ? std::string() : put_signatures(entry->kernels);
      write_binary(binary_path(entry->key), entry->key, signatures + binary);
    } catch (const std::exception&) {
      continue;  // the driver has no binaries, so each process builds the program
    }
  }
}

std::string BuildProgress::add(double seconds) {
  seconds_ += seconds;
  ++programs_;
  if (seconds_ < next_) return {};
  while (next_ <= seconds_) next_ *= 2;
  const std::filesystem::path folder = cache_folder();
  return str("torch_ocl: compiled ", programs_, " programs in ", std::lround(seconds_), " s",
             folder.empty() ? ", which are not kept (OCL_CACHE_DIR)"
                            : str(", which are kept in ", folder.string()),
             "\n");
}

SlowNotice::SlowNotice(std::chrono::milliseconds patience, std::function<void()> say)
    : thread_([over = over_.get_future(), patience, say = std::move(say)] {
        if (over.wait_for(patience) == std::future_status::timeout) say();
      }) {}

SlowNotice::~SlowNotice() {
  over_.set_value();
  thread_.join();
}

ProgramCacheStats program_cache_stats() {
  std::lock_guard lock(cache().mutex);
  return cache().stats;
}

}  // namespace ocl

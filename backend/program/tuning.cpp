#include "backend/program/tuning.h"

#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include "backend/base/binary_file.h"
#include "backend/base/error.h"
#include "backend/base/printable.h"

namespace ocl {
namespace {

Tunable* first = nullptr;  // the first of the list of all objects

using Key = std::pair<const Tunable*, uint64_t>;  // tunable, problem
using Table = std::map<Key, int64_t>;

// Threads read it without a lock: a table never changes, and is not freed when another replaces it.
struct Tables {
  std::array<std::atomic<const Table*>, 64> current{};
  std::mutex mutex;
  std::vector<std::unique_ptr<const Table>> all;

  const Table& replace(DeviceIndex device, Table table) {
    all.push_back(std::make_unique<const Table>(std::move(table)));
    current[device].store(all.back().get(), std::memory_order_release);
    return *all.back();
  }
};

Tables& tables() {
  static auto* const instance = new Tables;
  return *instance;
}

thread_local Key last_key;
thread_local int64_t last_choice = -1;

std::string file_key(const Device& device) {
  const DeviceProperties& p = device.properties();
  return str("tuning by name\n", p.platform, '\n', p.name, '\n', p.driver_version, '\n',
             family_name(p.family), '\n', p.type == "cpu" ? host_target() : "");
}

Tunable& tunable_of(const std::string& name) {
  Tunable* const found = Tunable::find(name);
  TORCH_CHECK_VALUE(found != nullptr, "there is no tunable '", name, "'");
  return *found;
}

// Parses lines of "tunable problem variant"; lines with an unknown name are skipped.
Table parse(const std::string& text) {
  Table table;
  std::istringstream lines(text);
  std::string name, variant;
  uint64_t problem = 0;
  while (lines >> name >> problem >> variant) {
    const Tunable* const tunable = Tunable::find(name);
    const int64_t choice = tunable ? tunable->candidate_of(variant) : -1;
    if (choice >= 0) table[{tunable, problem}] = choice;
  }
  return table;
}

const Table& table_of(const Device& device) {
  Tables& all = tables();
  const auto& current = all.current[device.index()];
  if (const Table* found = current.load(std::memory_order_acquire)) return *found;
  std::lock_guard lock(all.mutex);
  if (const Table* found = current.load(std::memory_order_acquire)) return *found;
  Table table;
  const std::string key = file_key(device);
  if (const auto text = read_binary(binary_path(key), key)) table = parse(*text);
  return all.replace(device.index(), std::move(table));
}

}  // namespace

Tunable::Tunable(const char* name, std::string (*variant)(int64_t))
    : name_(name), variant_(variant), next_(first) {
  while (!variant(candidates_).empty()) ++candidates_;
  first = this;
}

int64_t Tunable::candidate_of(std::string_view variant) const {
  for (int64_t candidate = 0; candidate < candidates_; ++candidate) {
    if (variant_(candidate) == variant) return candidate;
  }
  return -1;
}

Tunable* Tunable::find(std::string_view name) {
  Tunable* found = first;
  while (found != nullptr && found->name_ != name) found = found->next_;
  return found;
}

int64_t choose_tuned(const Device& device, const Tunable& tunable, uint64_t problem,
                     c10::function_ref<bool(int64_t)> fits,
                     c10::function_ref<int64_t()> otherwise) {
  const Table& table = table_of(device);
  const Key key{&tunable, problem};
  const auto found = table.find(key);
  last_key = key;
  int64_t choice = tunable.forced();
  if (choice < 0 && found != table.end()) choice = found->second;
  const bool possible = choice >= 0 && choice < tunable.candidates() && fits(choice);
  last_choice = possible ? choice : otherwise();
  return last_choice;
}

uint64_t pack_sizes(std::initializer_list<int64_t> sizes) {
  uint64_t packed = 0;
  for (const int64_t size : sizes) {
    packed = packed << 6 | std::bit_width(static_cast<uint64_t>(std::max<int64_t>(size, 1) - 1));
  }
  return packed;
}

TunedProblem last_tuned() {
  if (last_choice < 0) return {};
  return {last_key.first->name(), last_key.second, last_key.first->candidates(), last_choice};
}

void forget_tuned() { last_choice = -1; }

void force_tuned(const std::string& tunable, int64_t choice) { tunable_of(tunable).force(choice); }

void set_tuned(DeviceIndex index, const std::string& tunable, uint64_t problem, int64_t choice) {
  const Key key{&tunable_of(tunable), problem};
  TORCH_CHECK_VALUE(choice < key.first->candidates(), "the tunable '", tunable, "' has ",
                    key.first->candidates(), " candidates, not a ", choice, "th");
  table_of(device(index));  // reads the file
  std::lock_guard lock(tables().mutex);
  Table table = *tables().current[index].load(std::memory_order_relaxed);
  if (choice < 0) {
    table.erase(key);
  } else {
    table[key] = choice;
  }
  tables().replace(index, std::move(table));
}

std::string save_tuned(DeviceIndex index) {
  Device& of = device(index);
  TORCH_CHECK_VALUE(!cache_folder().empty(),
                    "there is no folder for the measured choices: OCL_CACHE_DIR is \"off\", or "
                    "the user has no home. Set OCL_CACHE_DIR to the path of a folder");
  std::ostringstream text;
  for (const auto& [key, choice] : table_of(of)) {
    text << key.first->name() << ' ' << key.second << ' ' << key.first->variant(choice) << '\n';
  }
  const std::string key = file_key(of);
  const std::filesystem::path path = binary_path(key);
  TORCH_CHECK(write_binary(path, key, text.str()), "cannot write ", printable(path.string()),
              " (OCL_CACHE_DIR says where)");
  return printable(path.string());
}

}  // namespace ocl

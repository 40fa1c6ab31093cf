#include "tests/stern/report.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "tests/stern/failure.h"
#include "tests/stern/launch.h"
#include "tests/stern/scheduler.h"

namespace stern {
namespace {

constexpr size_t kSmallGroup = 32, kManyGroups = 64, kFewItems = 1000, kMuchMemory = 1 << 20;

struct Remarks {
  size_t launches = 0, small_groups = 0, few_items = 0;
};

struct Notes {
  std::mutex mutex;
  std::map<std::string, Remarks> kernels;
  size_t builds = 0, building = 0, most_building = 0;
};
Notes& notes() {
  static auto* const instance = new Notes;
  return *instance;
}

bool wanted(const char* variable) { return environment(variable, "0") != "0"; }

}  // namespace

void lint(const std::string& kernel, size_t items, size_t group, size_t buffer_bytes) {
  static const bool on = wanted("STERN_LINT");
  if (!on) return;
  std::lock_guard lock(notes().mutex);
  Remarks& remarks = notes().kernels[kernel];
  ++remarks.launches;
  remarks.small_groups += group < kSmallGroup && items / group > kManyGroups;
  remarks.few_items += items < kFewItems && buffer_bytes > kMuchMemory;
}

void build_began() {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  ++all.builds;
  if (++all.building > all.most_building) all.most_building = all.building;
}

void build_ended() {
  std::lock_guard lock(notes().mutex);
  --notes().building;
}

void report_at_exit() {
  std::lock_guard lock(notes().mutex);
  if (wanted("STERN_REPORT")) {
    std::ostringstream text;
    text << "alive: contexts " << contexts().alive() << ", queues " << queues().alive()
         << ", buffers " << buffers().alive() << ", programs " << programs().alive() << ", kernels "
         << kernels().alive() << ", events " << events().alive() << ", maps " << Mapping::alive()
         << "; bytes of the device in use: " << memory_in_use();
    say(text.str());
    say("builds: " + std::to_string(notes().builds) + ", at most " +
        std::to_string(notes().most_building) + " at once");
  }
  if (wanted("STERN_COUNT")) {
    for (const auto& [entry, n] : calls()) say("calls: " + entry + " " + std::to_string(n));
  }
  if (!wanted("STERN_LINT")) return;
  for (const auto& [kernel, remarks] : notes().kernels) {
    if (!remarks.small_groups && !remarks.few_items) continue;
    std::ostringstream text;
    text << "lint: " << kernel << ", " << remarks.launches << " launches: " << remarks.small_groups
         << " in more than " << kManyGroups << " groups of fewer than " << kSmallGroup
         << " work-items, " << remarks.few_items << " of fewer than " << kFewItems
         << " work-items for buffers of more than 1 MiB";
    say(text.str());
  }
}

}  // namespace stern

extern "C" {

__attribute__((visibility("default"))) unsigned long stern_alive(const char* objects) {
  stern::settle();
  const std::string wanted = objects;
  if (wanted == "contexts") return stern::contexts().alive();
  if (wanted == "queues") return stern::queues().alive();
  if (wanted == "buffers") return stern::buffers().alive();
  if (wanted == "programs") return stern::programs().alive();
  if (wanted == "kernels") return stern::kernels().alive();
  if (wanted == "events") return stern::events().alive();
  if (wanted == "maps") return stern::Mapping::alive();
  stern::say("stern_alive: there are no objects called \"" + wanted + "\"");
  std::abort();
}

}  // extern "C"

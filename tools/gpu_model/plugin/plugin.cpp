// A plugin for Oclgrind that writes what each launch of a kernel would do on a GPU, a line of JSON
// for each launch (log.cpp has the fields).
//
//   GPU_MODEL_LOG=counts.jsonl OCLGRIND_PLUGINS=libgpu_model.so program
//
// Of a launch with many work-groups, only some run: the first, the last, and others between them.
// So the program's results are wrong. A launch that was recorded before, with the same program,
// grid and numbers, does not run at all.
//
//   GPU_MODEL_GROUPS    the most groups of a launch that run (default 6); 0: all, whatever the
//                       budget is
//   GPU_MODEL_BUDGET    millions of instructions after which a launch ends (default 2); the first
//                       and the last group run anyway
//   GPU_MODEL_WHOLE     a regular expression: all groups of these kernels run, in each launch, and
//                       only some are recorded. For kernels whose results are addresses in others
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/CRC.h>
#include <llvm/Support/CommandLine.h>
#include <oclgrind/Context.h>
#include <oclgrind/Kernel.h>
#include <oclgrind/KernelInvocation.h>
#include <oclgrind/Memory.h>
#include <oclgrind/Plugin.h>
#include <oclgrind/Program.h>
#include <oclgrind/WorkGroup.h>
#include <oclgrind/WorkItem.h>

#include <optional>
#include <regex>

#include "log.h"

namespace gpu_model {
namespace {

using oclgrind::KernelInvocation;
using oclgrind::Size3;
using oclgrind::TypedValue;
using oclgrind::WorkGroup;
using oclgrind::WorkItem;

// Oclgrind has no call that leaves out groups. This gives access to its private list of groups that
// have yet to run, which a template argument may name.
std::vector<Size3>& waiting_groups(KernelInvocation& invocation);
template <std::vector<Size3> KernelInvocation::*member>
struct Member {
  friend std::vector<Size3>& waiting_groups(KernelInvocation& invocation) {
    return invocation.*member;
  }
};
template struct Member<&KernelInvocation::m_workGroups>;

size_t linear(const Size3& id, const Size3& size) { return id.x + (id.y + id.z * size.y) * size.x; }

// The positions of the groups that run, in their order: the first, the last, the middle one, and
// others spread evenly. At least two; with `most` of 0 all.
std::vector<size_t> sample(size_t groups, size_t most) {
  if (groups == 1) return {0};
  std::vector<size_t> order = {0, groups - 1};
  const size_t between = groups - 2;
  const size_t chosen = most == 0 ? between : std::min(between, std::max<size_t>(most, 2) - 2);
  for (size_t i = 0; i < chosen; ++i) {
    // The middle one first, since a budget may end the launch.
    const size_t place = (i + chosen / 2) % chosen;
    order.push_back(1 + (2 * place + 1) * between / (2 * chosen));
  }
  return order;
}

std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

class Recorder : public oclgrind::Plugin {
 public:
  explicit Recorder(const oclgrind::Context* context)
      : Plugin(context), log_(text_of("GPU_MODEL_LOG")), group_(flow_, places_) {
    const std::string groups = text_of("GPU_MODEL_GROUPS"), budget = text_of("GPU_MODEL_BUDGET");
    if (!groups.empty()) most_groups_ = std::stoul(groups);
    if (!budget.empty()) budget_ = std::stod(budget) * 1e6;
    const std::string whole = text_of("GPU_MODEL_WHOLE");
    if (!whole.empty()) whole_.emplace(whole);
  }

  bool isThreadSafe() const override { return false; }

  void kernelBegin(const KernelInvocation* invocation) override {
    const oclgrind::Kernel& kernel = *invocation->getKernel();
    auto& waiting = waiting_groups(const_cast<KernelInvocation&>(*invocation));
    launch_ = describe(*invocation);
    all_run_ = whole_ && std::regex_search(kernel.getName(), *whole_);
    const auto [known, is_new] = recorded_.try_emplace(launch_.signature, log_.next());
    launch_.same_as = is_new ? std::nullopt : std::optional(known->second);
    sampled_.clear();
    if (is_new) {
      sampled_ = sample(waiting.size(), most_groups_);
      // A program that is gone may have had its instructions at the same addresses.
      flow_ = {};
      places_ = {};
    }
    std::vector<Size3> order;
    std::vector<bool> chosen(waiting.size());
    for (const size_t i : sampled_) {
      order.push_back(waiting[i]);
      chosen[i] = true;
    }
    for (size_t i = 0; all_run_ && i < waiting.size(); ++i) {
      if (!chosen[i]) order.push_back(waiting[i]);
    }
    waiting = std::move(order);
    begun_ = 0;
    ends_ = {};
    middle_ = {};
    began_at_ = group_.instructions();
  }

  void workGroupBegin(const WorkGroup* group) override {
    is_recorded_ = begun_ < sampled_.size();
    last_item_ = nullptr;  // a new work-item may have the address of a deleted one
    size_ = group->getGroupSize();
    if (is_recorded_) group_.begin(size_.x * size_.y * size_.z);
  }

  void instructionExecuted(const WorkItem* item, const llvm::Instruction* instruction,
                           const TypedValue&) override {
    if (is_recorded_) group_.instruction(number(item), instruction);
  }

  void memoryLoad(const oclgrind::Memory* memory, const WorkItem* item, size_t address,
                  size_t size) override {
    access(memory, item, address, size, Kind::kLoad);
  }

  void memoryStore(const oclgrind::Memory* memory, const WorkItem* item, size_t address,
                   size_t size, const uint8_t*) override {
    access(memory, item, address, size, Kind::kStore);
  }

  // Oclgrind calls this for copies that the whole group makes, not a work-item.
  void memoryLoad(const oclgrind::Memory*, const WorkGroup*, size_t, size_t) override {
    if (is_recorded_) group_.asynchronous_copy();
  }

  // Each atomic operation loads, and most store, too.
  void memoryAtomicLoad(const oclgrind::Memory* memory, const WorkItem* item, oclgrind::AtomicOp,
                        size_t address, size_t size) override {
    access(memory, item, address, size, Kind::kAtomic);
  }

  void workGroupBarrier(const WorkGroup*, uint32_t) override {
    if (is_recorded_) group_.barrier();
  }

  void workGroupComplete(const WorkGroup* group) override {
    const size_t index = begun_++;
    if (!is_recorded_) return;
    const bool is_end = sampled_[index] == 0 || sampled_[index] + 1 == launch_.groups;
    (is_end ? ends_ : middle_).add(group_.finish());
    is_recorded_ = false;
    const bool is_over = group_.instructions() - began_at_ > budget_;
    if (most_groups_ != 0 && begun_ >= 2 && is_over) stop();
  }

  void kernelEnd(const KernelInvocation*) override {
    if (!log_.write(launch_, ends_, middle_)) {
      std::cerr << "gpu_model: cannot write " << text_of("GPU_MODEL_LOG") << std::endl;
      std::abort();
    }
    last_item_ = nullptr;
  }

 private:
  Launch describe(const KernelInvocation& invocation) {
    const oclgrind::Kernel& kernel = *invocation.getKernel();
    Launch launch;
    launch.kernel = kernel.getName();
    const auto copy = [](const Size3& size) { return std::array{size.x, size.y, size.z}; };
    launch.global = copy(invocation.getGlobalSize());
    launch.local = copy(invocation.getLocalSize());
    const Size3 groups = invocation.getNumGroups();
    launch.groups = groups.x * groups.y * groups.z;
    launch.local_bytes = kernel.getLocalMemorySize();
    const std::string& source = kernel.getProgram()->getSource();
    launch.program =
        llvm::crc32(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(source.data()), source.size()));
    launch.signature = signature(launch, kernel);
    invocation_ = const_cast<KernelInvocation*>(&invocation);
    return launch;
  }

  // Ends the launch: the groups that wait do not run.
  void stop() {
    auto& waiting = waiting_groups(*invocation_);
    sampled_.resize(begun_);
    if (all_run_) return;
    waiting.resize(begun_);
  }

  void access(const oclgrind::Memory* memory, const WorkItem* item, size_t address, size_t size,
              Kind kind) {
    if (!is_recorded_) return;
    const unsigned space = memory->getAddressSpace();
    const Op op = space == oclgrind::AddrSpacePrivate ? Op::kPrivate
                  : space == oclgrind::AddrSpaceLocal ? Op::kLocal
                                                      : Op::kGlobal;
    if (op == Op::kPrivate) return;
    group_.access(number(item), address, static_cast<uint32_t>(size), kind, op);
  }

  // Oclgrind runs a work-item until it waits, so most calls are for the same one as the last call.
  size_t number(const WorkItem* item) {
    if (item != last_item_) {
      last_item_ = item;
      last_number_ = linear(item->getLocalID(), size_);
    }
    return last_number_;
  }

  Log log_;
  ControlFlow flow_;
  Places places_;
  Group group_;
  size_t most_groups_ = 6;
  double budget_ = 2e6;
  std::optional<std::regex> whole_;
  std::map<std::string, size_t> recorded_;

  Launch launch_;
  KernelInvocation* invocation_ = nullptr;
  std::vector<size_t> sampled_;  // positions of the groups that are recorded
  size_t begun_ = 0;             // groups that have run
  bool all_run_ = false, is_recorded_ = false;
  uint64_t began_at_ = 0;
  GroupCounts ends_, middle_;
  Size3 size_;
  const WorkItem* last_item_ = nullptr;
  size_t last_number_ = 0;
};

Recorder* recorder = nullptr;

}  // namespace
}  // namespace gpu_model

extern "C" {

void initializePlugins(oclgrind::Context* context) {
  if (gpu_model::recorder) return;  // a second context of the process
  // LLVM assumes that Oclgrind's target has no vectors. Where the elements of a vector are used
  // alone, it would load them one by one, but GPUs load the vector.
  const char* const options[] = {"gpu_model", "-disable-vector-combine"};
  llvm::cl::ParseCommandLineOptions(2, options);
  gpu_model::recorder = new gpu_model::Recorder(context);
  context->registerPlugin(gpu_model::recorder);
}

void releasePlugins(oclgrind::Context* context) {
  context->unregisterPlugin(gpu_model::recorder);
  delete gpu_model::recorder;
  gpu_model::recorder = nullptr;
}
}

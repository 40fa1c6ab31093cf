#include "generator/captured_draws.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/base/error.h"

namespace ocl {
namespace {

// The random numbers that one graph draws from one generator.
struct Draws {
  uint64_t token;  // used in place of a seed; random, so that it equals no seed
  uint64_t capture;
  c10::intrusive_ptr<GeneratorImpl> generator;
  uint64_t counters = 0;  // per replay
  PhiloxState start{};    // at the last replay
};

std::mutex mutex;
std::vector<std::weak_ptr<Draws>>& all() {
  static auto* const draws = new std::vector<std::weak_ptr<Draws>>;
  return *draws;
}
// The size of all(): if it is 0, other kernels skip the search.
std::atomic<size_t> count{0};

template <typename Predicate>
std::shared_ptr<Draws> find(Predicate&& matches) {
  std::lock_guard lock(mutex);
  for (const std::weak_ptr<Draws>& each : all()) {
    if (std::shared_ptr<Draws> draws = each.lock(); draws && matches(*draws)) return draws;
  }
  return nullptr;
}

std::shared_ptr<Draws> add(Capture& capture, GeneratorImpl& generator) {
  auto draws =
      std::make_shared<Draws>(Draws{c10::detail::getNonDeterministicRandom(), capture.id(),
                                    c10::intrusive_ptr<GeneratorImpl>::reclaim_copy(&generator)});
  capture.before_replay([draws] {
    std::lock_guard lock(draws->generator->mutex_);
    draws->start = draws->generator->advance(draws->counters);
  });
  std::lock_guard lock(mutex);
  std::erase_if(all(), [](const std::weak_ptr<Draws>& each) { return each.expired(); });
  all().push_back(draws);
  count = all().size();
  return draws;
}

struct Argument {
  std::vector<std::byte> bytes;
  size_t seed_at, offset_at;

  void put(const PhiloxState& state) {
    if (seed_at != kNotThere) std::memcpy(bytes.data() + seed_at, &state.seed, 8);
    if (offset_at != kNotThere) std::memcpy(bytes.data() + offset_at, &state.offset, 8);
  }
};

}  // namespace

PhiloxState draw_captured(Capture& capture, GeneratorImpl& generator, uint64_t counters) {
  std::shared_ptr<Draws> draws = find([&](const Draws& each) {
    return each.capture == capture.id() && each.generator.get() == &generator;
  });
  if (!draws) draws = add(capture, generator);
  return {draws->token, std::exchange(draws->counters, draws->counters + counters)};
}

void add_philox(Arguments& arguments, const PhiloxState& state, const void* data, size_t bytes,
                size_t seed_at, size_t offset_at) {
  std::shared_ptr<Draws> draws;
  if (C10_UNLIKELY(count.load(std::memory_order_relaxed) != 0)) {
    draws = find([&](const Draws& each) { return each.token == state.seed; });
  }
  if (!draws) {
    arguments.add_bytes(data, bytes);
    return;
  }
  const auto* const begin = static_cast<const std::byte*>(data);
  Argument argument{{begin, begin + bytes}, seed_at, offset_at};
  const auto place = [offset = state.offset](const Draws& draws) {
    return PhiloxState{draws.start.seed, draws.start.offset + offset};
  };
  argument.put(place(*draws));
  const cl_kernel kernel = arguments.handle();
  const cl_uint index = arguments.next();
  arguments.add_bytes(argument.bytes.data(), bytes);
  arguments.sink().before_replay([draws, kernel, index, argument, place]() mutable {
    argument.put(place(*draws));
    const cl_int code = clSetKernelArg(kernel, index, argument.bytes.size(), argument.bytes.data());
    if (code != CL_SUCCESS) raise(code, "cannot set a graph's random numbers", "clSetKernelArg");
  });
}

void add_philox(Arguments& arguments, const PhiloxState& state) {
  add_philox(arguments, state, &state.seed, sizeof(state.seed), 0, kNotThere);
  add_philox(arguments, state, &state.offset, sizeof(state.offset), kNotThere, 0);
}

}  // namespace ocl

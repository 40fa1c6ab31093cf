// Random numbers in graphs. At the start of each replay, one advance() takes all counters that the
// graph needs from a generator. So a replay draws the same numbers as the operators would, and each
// replay draws new ones. Kernels get seed and offset as arguments, which replays set.
#pragma once

#include <cstring>

#include "backend/launch/launch.h"
#include "generator/generator.h"

namespace ocl {

// draw() during a capture. In the result, the seed is a token for the graph's draws, and the offset
// counts from the start of a replay.
PhiloxState draw_captured(Capture& capture, GeneratorImpl& generator, uint64_t counters);

// Adds an argument of `bytes` bytes with the seed and the offset of `state` at the given positions
// (kNotThere: not in the argument). For a state from a capture, a captured launch gets the numbers
// of each replay. Any other launch gets the numbers of the last replay.
inline constexpr size_t kNotThere = static_cast<size_t>(-1);
void add_philox(Arguments& arguments, const PhiloxState& state, const void* data, size_t bytes,
                size_t seed_at, size_t offset_at);

// Adds seed and offset as two arguments.
void add_philox(Arguments& arguments, const PhiloxState& state);

}  // namespace ocl

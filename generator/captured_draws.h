// Random numbers in graphs. A graph takes all that it draws from a generator with one advance() at
// the start of each replay, so a replay draws what the same operators would draw, and the next one
// draws others. Kernels get seed and offset as arguments, which replays set.
#pragma once

#include <cstring>

#include "backend/launch.h"
#include "generator/generator.h"

namespace ocl {

// draw() during a capture. The result's seed names the graph's draws, its offset counts from where
// a replay begins.
PhiloxState draw_captured(Capture& capture, GeneratorImpl& generator, uint64_t counters);

// Adds an argument of `bytes` bytes that holds the seed and the offset of `state`, or one of both,
// at these places in it (kNotThere: not). A state from a capture is replaced: by what each replay
// draws where the launch is captured, too, or else by what the last replay drew.
inline constexpr size_t kNotThere = static_cast<size_t>(-1);
void add_philox(Arguments& arguments, const PhiloxState& state, const void* data, size_t bytes,
                size_t seed_at, size_t offset_at);

// Adds the two numbers as arguments.
void add_philox(Arguments& arguments, const PhiloxState& state);

}  // namespace ocl

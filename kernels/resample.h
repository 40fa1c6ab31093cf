// Separable maps of the last dimensions of a tensor: along each of them an output is a weighted sum
// of neighbouring inputs (upsampling), or one of the inputs (nearest neighbours, padding). The
// transposed maps are the derivative: gathered, without atomics.
#pragma once

#include <c10/util/FunctionRef.h>

#include "kernels/image/band.h"

namespace ocl {

using image::Line;

struct DimensionMap {
  DimensionMap(int64_t in, int64_t out) : band(in, out), tight(in, out) {}
  image::Band band;
  image::Band tight;  // with as few weights as the longest line has
  // Outputs of `tight` from same_from to same_to have the same weights and start `hop` (1 or 2)
  // inputs further each; hop 0: none.
  int64_t hop = 0, same_from = 0, same_to = 0;
  bool selects = false;   // each output is one of the inputs
  bool identity = false;  // and the one at its own place
};
using DimensionMapPointer = std::shared_ptr<const DimensionMap>;

enum class MapKind {
  kNearest,
  kNearestExact,
  kLinear,
  kCubic,
  kLinearAntialiased,
  kCubicAntialiased,
  kReflection,
  kReplication
};

struct DimensionMapKey {
  MapKind kind;
  int64_t in, out;
  std::array<uint64_t, 2> parameters{};  // what else the lines depend on
  bool operator==(const DimensionMapKey&) const = default;
};

// The map that these lines describe, or its transposed; the last ones asked for are kept.
DimensionMapPointer find_map(const DimensionMapKey& key, bool transposed,
                             c10::function_ref<std::vector<Line>()> lines);

// to = from, each of the last dimensions through its map.
void apply_maps(std::string_view op, const at::Tensor& from, const at::Tensor& to,
                at::ArrayRef<DimensionMapPointer> maps);

}  // namespace ocl

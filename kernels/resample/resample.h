// Separable maps of the last dimensions of a tensor. Along each dimension an output is a weighted
// sum of adjacent inputs (upsampling), or one of the inputs (nearest neighbours, padding). The
// derivative is the transposed map, which gathers and needs no atomics.
#pragma once

#include <c10/util/FunctionRef.h>

#include "kernels/image/band.h"

namespace ocl {

using image::Line;

struct DimensionMap {
  DimensionMap(int64_t in, int64_t out) : band(in, out), tight(in, out) {}
  image::Band band;
  image::Band tight;  // has as many weights per output as the longest line needs, not rounded up
  // The outputs of `tight` from same_from up to same_to have the same weights, and each starts
  // `hop` (1 or 2) inputs after the one before. hop 0: there is no such range.
  int64_t hop = 0, same_from = 0, same_to = 0;
  bool selects = false;   // each output is one of the inputs
  bool identity = false;  // each output is the input at the same position
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
  std::array<uint64_t, 2> parameters{};  // all other parameters of the lines
  bool operator==(const DimensionMapKey&) const = default;
};

// The map that `lines` describes, or its transpose, from an LRU cache.
DimensionMapPointer find_map(const DimensionMapKey& key, bool transposed,
                             c10::function_ref<std::vector<Line>()> lines);

// to = from with each of the last maps.size() dimensions mapped, in the order of `maps`.
void apply_maps(std::string_view op, const at::Tensor& from, const at::Tensor& to,
                at::ArrayRef<DimensionMapPointer> maps);

}  // namespace ocl

// The tables of algorithms, and the choice among them.
#include "kernels/conv/conv_algorithms.h"

#include <algorithm>
#include "kernels/core/algorithms/algorithms.h"

namespace ocl {
namespace {

using Row = const ConvAlgorithm*;

// The first row that applies is used. Algorithms for special shapes come before general ones, and
// faster ones before slower ones. An algorithm whose cost depends on the sizes refuses if another
// one is estimated or measured to be faster.
constexpr Row kForwardAndDataGrad[] = {
    &kConvChannelsLastProduct,
    &kConvChannelsLastUnit,
    &kConvChannelsLastPairs,
    &kConvChannelsLastDepthwise,
    &kConvChannelsLastWinograd,
    &kConvChannelsLast,
    &kConvDepthwise,
    &kConvWinograd,
    &kConvBroadcast,
    &kConvPadded,
    &kConvSplit,
    &kConvWinogradGpu,
    &kConvTiles,
    &kConvDirect,
    &kConvPlain,
};

constexpr Row kWeightGrad[] = {
    &kConvChannelsLastProduct,
    &kConvChannelsLastUnit,
    &kConvChannelsLastDepthwise,
    &kConvChannelsLastWeight,
    &kConvDepthwise,
    &kConvBroadcast,
    &kConvPadded,
    &kConvSplit,
    &kConvWinogradGpu,
    &kConvTiles,
    &kConvPlain,
};

const OptionalPaths optional_forward(std::span<const Row>(kForwardAndDataGrad), kConvPlain),
    optional_weight(std::span<const Row>(kWeightGrad), kConvPlain);

std::span<const Row> table_of(ConvDirection direction) {
  static constexpr std::span<const Row> kTables[] = {kForwardAndDataGrad, kForwardAndDataGrad,
                                                     kWeightGrad};
  return kTables[static_cast<size_t>(direction)];
}

PreferredAlgorithm& preferred() {
  static auto* const instance = [] {
    std::vector<const char*> names;
    for (const std::span<const Row> table :
         {table_of(ConvDirection::kForward), table_of(ConvDirection::kWeightGrad)}) {
      for (const Row row : table) {
        const auto same = [&](std::string_view name) { return name == row->name; };
        if (std::ranges::none_of(names, same)) names.push_back(row->name);
      }
    }
    return new PreferredAlgorithm("OCL_CONV_ALGORITHM", std::move(names));
  }();
  return *instance;
}

}  // namespace

bool can_run_convolution(const ConvCall& call) {
  const char* const wanted = preferred().name();
  const bool can = std::ranges::any_of(table_of(call.direction), [&](Row row) {
    const bool is_wanted = !wanted || std::string_view(wanted) == row->name;
    return is_wanted && !is_disabled(row->name) && !refusal(*row, call);
  });
  // Describes a call in the log.
  if (!can && !wanted) choose_algorithm(table_of(call.direction), preferred(), call);
  return can;
}

bool run_convolution(const ConvCall& call) {
  const Row algorithm = choose_algorithm(table_of(call.direction), preferred(), call);
  if (algorithm) algorithm->run(call);
  return algorithm != nullptr;
}

void prefer_conv_algorithm(std::string_view name) { preferred().set(name); }

}  // namespace ocl

#include "kernels/conv/cpu/winograd_order.h"

#include <algorithm>
#include <array>

#include "backend/program/tuning.h"

namespace ocl {
namespace {

std::string name_of_order(int64_t order) {
  constexpr std::array<const char*, kOrders> kNames{"other", "by_tiles", "by_rows"};
  return order < kOrders ? kNames[order] : "";
}
Tunable tunable("conv_cpu", &name_of_order);

// Measured costs in multiply-adds of transforming a tile of one channel (in one lane of a vector),
// and of transforming a filter.
constexpr int64_t kTileCost = 80, kFilterCost = 100;
// kByTiles reads all transformed filters again for each block of tiles, kByRows all transformed
// inputs again for each panel of rows. Measured: kByRows is faster where the tiles are at most this
// multiple of the rows. Blocks of channels_last tensors have more tiles, and read the filters less
// often.
constexpr double kTilesPerRow = 4, kTilesPerRowOfChannelsLast = 0.25;
constexpr int64_t kLeastRowVectors = 4;  // enough for the tasks

}  // namespace

WinogradOrder choose_winograd_order(const ConvCall& call, const WinogradProblem& p, int64_t lanes,
                                    int64_t slots, int64_t padded_rows) {
  const WinogradProblem::Geometry& g = p.geometry;
  const int64_t channels = g.channels, tiles = p.tiles();
  const auto estimate = [&]() -> int64_t {
    const int64_t cost = padded_rows * channels * (kWinogradPlanes * tiles + kFilterCost) +
                         (g.rows + channels) * slots * kTileCost;
    const int64_t direct = channels * g.rows * 9 * g.images * g.height * g.width;
    if (cost >= direct) return kOther;
    const double most = g.rows * (call.channels_last ? kTilesPerRowOfChannelsLast : kTilesPerRow);
    const bool by_rows = static_cast<double>(tiles) <= most && g.rows >= kLeastRowVectors * lanes &&
                         kWinogradPlanes * channels * tiles <= kMostWinogradScratch;
    return by_rows ? kByRows : kByTiles;
  };
  const uint64_t key = pack_sizes({g.images, g.rows, g.channels, g.height, g.width}) << 1 |
                       static_cast<uint64_t>(p.filters.flipped) |
                       uint64_t{call.channels_last} << 32;
  return static_cast<WinogradOrder>(choose_tuned(
      call.device, tunable, key, [](int64_t) { return true; }, estimate));
}

int64_t winograd_tasks(const Device& device, int64_t parts, int64_t floats) {
  return std::min({static_cast<int64_t>(device.parameters().tasks), parts,
                   std::max<int64_t>(kMostWinogradScratch / floats, 1)});
}

}  // namespace ocl

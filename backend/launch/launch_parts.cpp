// The parts of a grid that is larger than a device allows.
#include <ATen/ceil_div.h>

#include <algorithm>
#include <cmath>

#include "backend/launch/launch.h"

namespace ocl {

// Work is split along z first, so that the groups of a part are neighbours.
Range detail::part_of(const GridLimits& limits, const Range& global, const Range& local,
                      double work) {
  const auto most = [&](size_t items, size_t group) {
    return std::min(items, std::min(limits.items / group, limits.groups) * group);
  };
  Range part{most(global.x, local.x), most(global.y, local.y), most(global.z, local.z)};
  const auto product = [](const Range& r) {
    return static_cast<double>(r.x) * static_cast<double>(r.y) * static_cast<double>(r.z);
  };
  const double items = product(part);
  double excess = std::max(work / limits.work * items / product(global),
                           items / static_cast<double>(limits.items));
  const auto shorten = [&](size_t& items, size_t group) {
    if (excess <= 1) return;
    const size_t groups = at::ceil_div(items, group);
    const auto pieces = static_cast<size_t>(std::min(std::ceil(excess), double(groups)));
    size_t share = at::ceil_div(groups, pieces);
    // May round down to 0, where shorter parts in other dimensions are needed as well.
    if (share > 1 && static_cast<double>(share) * excess > static_cast<double>(groups)) --share;
    items = std::min(items, share * group);
    excess *= static_cast<double>(share) / static_cast<double>(groups);
  };
  shorten(part.z, local.z);
  shorten(part.y, local.y);
  shorten(part.x, local.x);
  return part;
}

}  // namespace ocl

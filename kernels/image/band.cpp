#include "kernels/image/band.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>

#include "kernels/core/algorithms/lru_cache.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl::image {
namespace {

constexpr size_t kKept = 64;
constexpr int64_t kMostPixels = int64_t{1} << 27;  // per line; each takes 100 bytes
constexpr int kResizeShift = 22, kBoxShift = 24;

double triangle(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

// Cubic convolution (Keys 1981).
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

Line antialiased_line(int64_t o, int64_t in, double scale, Interpolation interpolation) {
  const bool bicubic = interpolation == Interpolation::kBicubic;
  const double stretch = std::max(scale, 1.0), support = (bicubic ? 2 : 1) * stretch;
  const double center = (o + 0.5) * scale;
  const int64_t from = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
  const int64_t to = std::min(in, static_cast<int64_t>(center + support + 0.5));
  Line line{from, {}};
  double sum = 0;
  for (int64_t i = from; i < to; ++i) {
    const double x = (i - center + 0.5) * (1 / stretch);
    line.weights.push_back(bicubic ? cubic(x, -0.5) : triangle(x));
    sum += line.weights.back();
  }
  if (sum != 0) {
    for (double& weight : line.weights) weight /= sum;
  }
  return line;
}

Line plain_line(int64_t o, int64_t in, double scale, Interpolation interpolation) {
  const bool bicubic = interpolation == Interpolation::kBicubic;
  double position = (o + 0.5) * scale - 0.5;
  if (!bicubic) position = std::max(position, 0.0);
  const int64_t first = static_cast<int64_t>(std::floor(position)) - (bicubic ? 1 : 0);
  const int64_t count = bicubic ? 4 : 2;
  const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, in - 1); };
  Line line{inside(first), std::vector<double>(inside(first + count - 1) - inside(first) + 1)};
  for (int64_t i = first; i < first + count; ++i) {
    const double x = i - position;
    line.weights[inside(i) - line.start] += bicubic ? cubic(x, -0.75) : triangle(x);
  }
  return line;
}

// The input position of each output of Pillow's nearest-neighbour scaling; -1 outside.
std::vector<int32_t> positions_of(int64_t in, int64_t out, double scale, double start) {
  std::vector<int32_t> positions(out, -1);
  double position = start + scale * 0.5;  // then `scale` is added repeatedly, as in Pillow
  for (int32_t& each : positions) {
    if (position >= 0 && position < static_cast<double>(in)) each = static_cast<int32_t>(position);
    position += scale;
  }
  return positions;
}

// Lines with a single weight, or with none if the input position is outside.
std::vector<Line> lines_at(const std::vector<int32_t>& positions) {
  std::vector<Line> lines;
  for (const int32_t i : positions) {
    lines.push_back(i < 0 ? Line{0, {}} : Line{i, {1}});
  }
  return lines;
}

// Makes the band for the lines, or for the transposed lines.
std::shared_ptr<Band> make_band(int64_t in, int64_t out, const std::vector<Line>& lines,
                                bool transposed, int64_t multiple = kLanes) {
  auto band = transposed ? std::make_shared<Band>(out, in) : std::make_shared<Band>(in, out);
  band->derivative = transposed;
  fill(*band, transposed ? transpose(lines, in) : lines, multiple);
  return band;
}

std::shared_ptr<Band> make_resize(int64_t in, int64_t out, Interpolation interpolation,
                                  bool antialias, bool transposed) {
  const double scale = static_cast<double>(in) / out;
  std::vector<Line> lines;
  if (interpolation == Interpolation::kNearest) {
    lines = lines_at(positions_of(in, out, scale, 0));
  } else {
    for (int64_t o = 0; o < out; ++o) {
      lines.push_back(antialias ? antialiased_line(o, in, scale, interpolation)
                                : plain_line(o, in, scale, interpolation));
    }
  }
  auto band = make_band(in, out, lines, transposed);
  band->shift = kResizeShift;
  for (const double weight : band->weights) {
    band->fixed.push_back(
        static_cast<int32_t>(weight * (1 << kResizeShift) + (weight < 0 ? -0.5 : 0.5)));
  }
  return band;
}

// The lines of a box blur: `whole` pixels to both sides have the weight `inner`, and one more pixel
// at each end has the weight `outer`. The first and last pixel of the line are repeated outside.
std::vector<Line> box_lines(int64_t size, int64_t whole, double inner, double outer) {
  std::vector<Line> lines;
  for (int64_t o = 0; o < size; ++o) {
    const int64_t first = std::max<int64_t>(o - whole - 1, 0);
    const int64_t last = std::min(o + whole + 1, size - 1);
    Line line{first, std::vector<double>(last - first + 1)};
    // Computes the number of pixels outside without a loop, because the radius may be huge.
    const int64_t before = std::max<int64_t>(0, whole - o);
    const int64_t after = std::max<int64_t>(0, o + whole - last);
    for (int64_t i = std::max(first, o - whole); i <= std::min(last, o + whole); ++i) {
      line.weights[i - first] += inner;
    }
    line.weights.front() += static_cast<double>(before) * inner + outer;
    line.weights.back() += static_cast<double>(after) * inner + outer;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::shared_ptr<Band> make_box(int64_t size, float radius, bool transposed) {
  const auto whole = static_cast<int64_t>(radius);
  const double inner = 1 / (2.0 * radius + 1), outer = (1 - (2.0 * whole + 1) * inner) / 2;
  // In the range of equal weights, only weights of the box are read.
  auto band = make_band(size, size, box_lines(size, whole, inner, outer), transposed,
                        transposed ? kLanes : 1);
  if (transposed) return band;

  const int64_t one = int64_t{1} << kBoxShift;
  const auto fixed_inner = static_cast<uint32_t>(static_cast<float>(one) / (radius * 2 + 1));
  const int64_t fixed_outer = (one - (whole * 2 + 1) * int64_t{fixed_inner}) / 2;
  Band fixed(size, size);
  fill(fixed, box_lines(size, whole, fixed_inner, static_cast<double>(fixed_outer)), 1);
  band->fixed.assign(fixed.weights.begin(), fixed.weights.end());
  band->shift = kBoxShift;
  band->unsigned_sums = true;

  band->same_from = std::min(size, whole + 1);
  band->same_to = std::max(band->same_from, size - whole - 1);
  return band;
}

struct Key {
  int64_t in, out;
  int kind;  // the interpolation, or one of the constants
  double a = 0, b = 0;
  bool antialias = false, transposed = false;
  bool operator==(const Key&) const = default;
};

constexpr int kBox = -1, kPositions = -2;

// Leaked: its tensors must not be destroyed after their device at the end of the process.
BandPointer kept_band(const Key& key, c10::function_ref<BandPointer()> make) {
  check_table(key.in, key.out);
  static auto& kept = *new LruCache<Key, BandPointer>(kKept);
  return kept.get(key, make);
}

}  // namespace

void check_table(int64_t in, int64_t out) {
  TORCH_CHECK_NOT_IMPLEMENTED(std::max(in, out) <= kMostPixels,
                              "ocl pads, resizes and blurs dimensions of at most ", kMostPixels,
                              " elements, not ", in, " to ", out);
}

void fill(Band& band, const std::vector<Line>& lines, int64_t multiple) {
  band.taps = 1;
  for (const Line& line : lines) {
    band.taps = std::max(band.taps, static_cast<int64_t>(line.weights.size()));
  }
  const int64_t rounded = at::round_up(band.taps, multiple);
  if (band.taps > 1 && rounded <= band.in_size) band.taps = rounded;
  band.starts.resize(band.out_size);
  band.weights.resize(band.out_size * band.taps);
  for (int64_t o = 0; o < band.out_size; ++o) {
    const Line& line = lines[o];
    const int64_t start = std::min(line.start, band.in_size - band.taps);
    band.starts[o] = static_cast<int32_t>(start);
    std::copy(line.weights.begin(), line.weights.end(),
              band.weights.begin() + o * band.taps + (line.start - start));
  }
}

std::vector<Line> transpose(const std::vector<Line>& lines, int64_t in_size) {
  std::vector<Line> result(in_size, {-1, {}});
  for (size_t o = 0; o < lines.size(); ++o) {
    for (size_t k = 0; k < lines[o].weights.size(); ++k) {
      Line& line = result[lines[o].start + k];
      if (line.start < 0) line.start = static_cast<int64_t>(o);
      line.weights.resize(o - line.start + 1);
      line.weights.back() += lines[o].weights[k];
    }
  }
  for (Line& line : result) line.start = std::max<int64_t>(line.start, 0);
  return result;
}

BandPointer resize_band(int64_t in, int64_t out, Interpolation interpolation, bool antialias,
                        bool transposed) {
  return kept_band({in, out, static_cast<int>(interpolation), 0, 0, antialias, transposed},
                   [&] { return make_resize(in, out, interpolation, antialias, transposed); });
}

BandPointer box_band(int64_t size, float radius, bool transposed) {
  return kept_band({size, size, kBox, radius, 0, false, transposed},
                   [&] { return make_box(size, radius, transposed); });
}

// Gwosdek et al., Theoretical foundations of Gaussian convolution by extended box filtering, 2011:
// equations 7, 11 and 14, in single precision as in Pillow.
float box_radius(float deviation, int passes) {
  const float variance = deviation * deviation / passes;
  const auto length = static_cast<float>(std::sqrt(12.0 * variance + 1.0));
  const auto whole = static_cast<float>(std::floor((length - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  return whole + part;
}

BandPointer position_band(int64_t in, int64_t out, double scale, double start, bool transposed) {
  return kept_band({in, out, kPositions, scale, start, false, transposed}, [&] {
    std::vector<int32_t> positions = positions_of(in, out, scale, start);
    if (transposed) return make_band(in, out, lines_at(positions), true);
    auto band = std::make_shared<Band>(in, out);
    band->starts = std::move(positions);
    return band;
  });
}

std::pair<at::Tensor, at::Tensor> Band::tables(const at::Tensor& img, at::ScalarType weight) const {
  Stream& current = stream_of(img);
  const c10::Stream stream = current.unpack();
  const std::lock_guard lock(mutex_);
  for (const OnDevice& each : on_devices_) {
    if (each.stream == stream && each.weight == weight) return {each.starts, each.weights};
  }
  const CapturePause pause(current);  // a graph keeps the band
  const auto from = [&](const void* data, int64_t size, at::ScalarType type) {
    return at::from_blob(const_cast<void*>(data), {size}, at::TensorOptions().dtype(type));
  };
  at::Tensor values =
      weight == at::ScalarType::Int
          ? from(fixed.data(), out_size * taps, at::ScalarType::Int)
          : from(weights.data(), out_size * taps, at::ScalarType::Double).to(weight);
  on_devices_.push_back({stream, weight,
                         from(starts.data(), out_size, at::ScalarType::Int).to(img.device()),
                         values.to(img.device())});
  return {on_devices_.back().starts, on_devices_.back().weights};
}

}  // namespace ocl::image

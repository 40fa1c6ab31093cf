// The passes of the image operators as loops on the CPU, with the kernels' own arithmetic
// (kernels/image/cl/image_math.clh).
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "kernels/image/passes.h"

namespace ocl::image {
namespace {

using std::floor;

// The shared arithmetic, included once for bytes, once for float and once for double, because
// OpenCL C has no templates.
#define IN_FLOAT(x) static_cast<T>(static_cast<float>(x))
#define T float
#define V float
struct Bytes {
  using T_ = float;
#define BYTES
#include "kernels/image/cl/image_hue_backward.clh"
#include "kernels/image/cl/image_math.clh"
#undef BYTES
};
struct Single {
  using T_ = float;
#include "kernels/image/cl/image_hue_backward.clh"
#include "kernels/image/cl/image_math.clh"
};
#undef T
#undef V
#define T double
#define V double
struct Double {
  using T_ = double;
#include "kernels/image/cl/image_hue_backward.clh"
#include "kernels/image/cl/image_math.clh"
};
#undef T
#undef V
#undef IN_FLOAT

template <typename Stored>
using ArithmeticOf =
    std::conditional_t<std::is_same_v<Stored, uint8_t>, Bytes,
                       std::conditional_t<std::is_same_v<Stored, double>, Double, Single>>;

constexpr int64_t kGrain = 16384;  // the fewest pixels per thread

// Calls body(first, last) in parallel for shares of `units`; a unit costs as much as `cost` pixels.
template <typename Body>
void in_parallel(int64_t units, int64_t cost, const Body& body) {
  at::parallel_for(0, units, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cost)), body);
}

template <typename Body>
void dispatch(ScalarType type, const Body& body) {
  AT_DISPATCH_FLOATING_TYPES_AND3(at::kByte, at::kHalf, at::kBFloat16, type, "torch_ocl::image",
                                  [&] { body(scalar_t()); });
}

template <typename Stored, typename Sum>
Stored rounded(Sum sum, int shift) {
  if constexpr (std::is_same_v<Stored, uint8_t>) {
    return static_cast<uint8_t>(std::clamp<int64_t>(static_cast<int64_t>(sum) >> shift, 0, 255));
  } else {
    return static_cast<Stored>(sum);
  }
}

// Converts a result to the image's type. NaN, which an infinite factor causes, becomes 0 in bytes.
template <typename Stored, typename T>
Stored stored(T value) {
  if constexpr (std::is_same_v<Stored, uint8_t>) {
    return value > 0 ? static_cast<uint8_t>(std::min<T>(value, 255)) : 0;
  } else {
    return static_cast<Stored>(value);
  }
}

template <typename In, typename Out, typename Weight>
void band(const BandPass& pass, const std::vector<Weight>& weights) {
  using Sum = std::conditional_t<std::is_same_v<In, uint8_t>, int64_t, Weight>;
  const Band& band = pass.band;
  const In* in = pass.in.const_data_ptr<In>();
  Out* out = pass.out.mutable_data_ptr<Out>();
  const int64_t inner = pass.inner;
  Sum start = 0;
  if constexpr (std::is_same_v<In, uint8_t>) {
    start = int64_t{1} << (band.shift - 1);
  } else if (!band.derivative) {
    start = -start;
  }
  in_parallel(pass.outer * band.out_size, inner * band.taps, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t o = row % band.out_size;
      const In* x = in + (row / band.out_size * band.in_size + band.starts[o]) * inner;
      const Weight* w = weights.data() + o * band.taps;
      for (int64_t i = 0; i < inner; ++i) {
        Sum sum = start;
        for (int64_t k = 0; k < band.taps; ++k) {
          if (w[k] != 0) sum += static_cast<Sum>(x[k * inner + i]) * w[k];
        }
        out[row * inner + i] = rounded<Out>(sum, band.shift);
      }
    }
  });
}

// Positions in the input: in fixed point, or in double precision with centres at halves.
struct Steps {
  explicit Steps(const AffinePass& pass) : m(pass.fixed(16)) {}
  int64_t at(int64_t x, int64_t y, int row) const {
    return x * m[row] + y * m[row + 1] + m[row + 2];
  }
  static int64_t whole(int64_t p) { return p >> 16; }
  static double part(int64_t) { return 0; }
  const std::array<int64_t, 6> m;
};
struct Centres {
  explicit Centres(const AffinePass& pass) : m(pass.matrix) {}
  double at(int64_t x, int64_t y, int row) const {
    return m[row] * (static_cast<double>(x) + 0.5) + m[row + 1] * (static_cast<double>(y) + 0.5) +
           m[row + 2];
  }
  // Clamps far positions, so that they stay in the range of the integers.
  static int64_t whole(double p) { return static_cast<int64_t>(std::floor(std::min(p, 1e18))); }
  static double part(double p) { return p - std::floor(p); }
  const std::array<double, 6> m;
};

template <typename Stored, typename Positions>
void affine(const AffinePass& pass) {
  // For bytes in double precision, as in Pillow.
  using A = std::conditional_t<std::is_same_v<Stored, uint8_t>, Double, ArithmeticOf<Stored>>;
  using T = typename A::T_;
  const Positions positions(pass);
  const int64_t channels = pass.in.size(-3);
  // The derivative adds each output's gradient to the inputs that it depends on.
  const Tensor& seen = pass.backward ? pass.out : pass.in;
  const Tensor& made = pass.backward ? pass.in : pass.out;
  const int64_t height = seen.size(-2), width = seen.size(-1);
  const int64_t out_height = made.size(-2), out_width = made.size(-1);
  const int order = static_cast<int>(pass.interpolation), taps = std::max(1, 2 * order);
  // Weights and clamped indices of the pixels along one axis for position p.
  const auto see = [&](auto p, int64_t size, int64_t* at, T* weights) {
    const auto q = order == 0 ? p : p - static_cast<decltype(p)>(0.5);
    for (int k = 0; k < taps; ++k) {
      at[k] = std::clamp<int64_t>(positions.whole(q) + k - (order == 2), 0, size - 1);
    }
    const T d = static_cast<T>(positions.part(q));
    weights[0] = order == 0 ? 1 : 1 - d, weights[1] = d;
    if (order == 2) A::image_cubic_weights(weights, d);
    return d;
  };
  const Stored* in = pass.in.const_data_ptr<Stored>();
  Stored* out = pass.out.mutable_data_ptr<Stored>();
  const int64_t images = seen.numel() / (channels * height * width);
  const auto pixel = [&](int64_t image, int64_t x, int64_t y) {
    const auto px = positions.at(x, y, 0), py = positions.at(x, y, 3);
    const bool inside =
        px >= 0 && py >= 0 && positions.whole(px) < width && positions.whole(py) < height;
    int64_t xs[4], ys[4];
    T wx[4], wy[4], dx = 0, dy = 0;
    if (inside) dx = see(px, width, xs, wx), dy = see(py, height, ys, wy);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t plane = image * channels + c;
      const int64_t there = (plane * out_height + y) * out_width + x, here = plane * height * width;
      if (pass.backward) {
        if (!inside) continue;
        for (int j = 0; j < taps; ++j) {
          for (int i = 0; i < taps; ++i) {
            Stored& to = out[here + ys[j] * width + xs[i]];
            to =
                static_cast<Stored>(static_cast<T>(to) + wx[i] * wy[j] * static_cast<T>(in[there]));
          }
        }
      } else if (!inside) {
        out[there] = static_cast<Stored>(pass.fill[c]);
      } else {
        T line[4] = {}, v[4] = {};
        for (int j = 0; j < taps; ++j) {
          for (int i = 0; i < taps; ++i) v[i] = static_cast<T>(in[here + ys[j] * width + xs[i]]);
          line[j] = order == 0   ? v[0]
                    : order == 1 ? A::image_linear(v[0], v[1], dx)
                                 : A::image_cubic(v[0], v[1], v[2], v[3], dx);
        }
        T value = order == 0   ? line[0]
                  : order == 1 ? A::image_linear(line[0], line[1], dy)
                               : A::image_cubic(line[0], line[1], line[2], line[3], dy);
        out[there] = stored<Stored>(value);
      }
    }
  };
  // In the derivative, rows add to the same inputs, so only images are processed in parallel.
  const int64_t rows = pass.backward ? out_height : 1;
  in_parallel(images * out_height / rows, rows * out_width, [&](int64_t first, int64_t last) {
    for (int64_t row = first * rows; row < last * rows; ++row) {
      for (int64_t x = 0; x < out_width; ++x) pixel(row / out_height, x, row % out_height);
    }
  });
}

template <typename In, typename Out>
void pixels(const PixelPass& pass) {
  using A = ArithmeticOf<In>;
  using T = typename A::T_;
  const Colors& colors = pass.colors;
  const Shape shape = shape_of(pass.in, "image");
  const int64_t size = shape.pixels(), channels = shape.channels;
  const In* in = pass.in.const_data_ptr<In>();
  const bool levels = pass.op == PixelOp::kBlend && pass.other.defined();
  const T* level = levels ? pass.other.const_data_ptr<T>() : nullptr;
  const In* seen = pass.op == PixelOp::kHueBackward ? pass.other.const_data_ptr<In>() : nullptr;
  Out* out = pass.out.mutable_data_ptr<Out>();
  const auto as = [](double value) { return static_cast<T>(value); };
  const T factor = as(pass.factor), low = as(colors.low), high = as(colors.high);
  const T wr = as(colors.luma[0]), wg = as(colors.luma[1]), wb = as(colors.luma[2]);
  const std::array<int, 3> places{colors.red, colors.green, colors.blue};

  if (pass.op == PixelOp::kBlend || pass.op == PixelOp::kNormalize) {
    in_parallel(shape.images * channels, size, [&](int64_t first, int64_t last) {
      for (int64_t i = first * size; i < last * size; ++i) {
        const int64_t plane = i / size, c = plane % channels;
        const T x = static_cast<T>(in[i]);
        if (pass.op == PixelOp::kNormalize) {
          out[i] = static_cast<Out>(
              A::image_normalize(x, low, high - low, as(pass.mean[c]), as(pass.deviation[c])));
        } else {
          const T base = levels ? level[plane / channels] : low;
          out[i] = stored<Out>(c == colors.alpha ? x : A::image_blend(base, x, factor, low, high));
        }
      }
    });
    return;
  }
  in_parallel(shape.images * size, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t image = i / size * channels * size, p = i % size;
      T rgb[3] = {}, other[3] = {};
      for (int k = 0; k < 3; ++k) {
        rgb[k] = static_cast<T>(in[image + places[k] * size + p]);
        if (seen) other[k] = static_cast<T>(seen[image + places[k] * size + p]);
      }
      const T luma = A::image_luma(rgb[0], rgb[1], rgb[2], wr, wg, wb);
      if (pass.op == PixelOp::kLuma) {
        out[i] = static_cast<Out>(luma);
        continue;
      }
      if (pass.op == PixelOp::kSaturate) {
        for (T& value : rgb) value = A::image_blend(luma, value, factor, low, high);
      } else if (pass.op == PixelOp::kHueBackward) {
        A::image_turn_hue_backward(rgb, other, factor);
      } else if constexpr (std::is_same_v<In, uint8_t>) {
        double r = rgb[0], g = rgb[1], b = rgb[2];
        Double::image_turn_hue_bytes(&r, &g, &b, pass.factor);
        rgb[0] = static_cast<T>(r), rgb[1] = static_cast<T>(g), rgb[2] = static_cast<T>(b);
      } else {
        A::image_turn_hue(&rgb[0], &rgb[1], &rgb[2], factor);
      }
      for (int k = 0; k < 3; ++k) out[image + places[k] * size + p] = stored<Out>(rgb[k]);
      if (colors.alpha >= 0) {
        out[image + colors.alpha * size + p] =
            static_cast<Out>(in[image + colors.alpha * size + p]);
      }
    }
  });
}

}  // namespace

void on_cpu(const BandPass& pass) {
  if (pass.in.scalar_type() == ScalarType::Byte) {
    return band<uint8_t, uint8_t>(pass, pass.band.fixed);
  }
  if (pass.in.scalar_type() == ScalarType::Double) {
    return band<double, double>(pass, pass.band.weights);
  }
  const std::vector<float> weights(pass.band.weights.begin(), pass.band.weights.end());
  dispatch(pass.in.scalar_type(), [&](auto in) {
    dispatch(pass.out.scalar_type(), [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      if constexpr (!std::is_same_v<In, uint8_t> && !std::is_same_v<Out, uint8_t>) {
        band<In, Out>(pass, weights);
      }
    });
  });
}

void on_cpu(const GatherPass& pass) {
  const int64_t height = pass.out.size(-2), width = pass.out.size(-1), channels = pass.in.size(-3);
  const int64_t in_height = pass.in.size(-2), in_width = pass.in.size(-1);
  dispatch(pass.in.scalar_type(), [&](auto type) {
    using Stored = decltype(type);
    const Stored* in = pass.in.const_data_ptr<Stored>();
    Stored* out = pass.out.mutable_data_ptr<Stored>();
    in_parallel(pass.out.numel() / width, width, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const int64_t plane = row / height, y = pass.ys.starts[row % height];
        for (int64_t i = 0; i < width; ++i) {
          const int64_t x = pass.xs.starts[i];
          out[row * width + i] = x < 0 || y < 0 ? static_cast<Stored>(pass.fill[plane % channels])
                                                : in[(plane * in_height + y) * in_width + x];
        }
      }
    });
  });
}

void on_cpu(const AffinePass& pass) {
  if (pass.backward) pass.out.zero_();
  dispatch(pass.in.scalar_type(), [&](auto type) {
    if (pass.small_steps()) {
      affine<decltype(type), Steps>(pass);
    } else {
      affine<decltype(type), Centres>(pass);
    }
  });
}

void on_cpu(const PixelPass& pass) {
  dispatch(pass.in.scalar_type(), [&](auto in) {
    using In = decltype(in);
    if (pass.in.scalar_type() == pass.out.scalar_type()) {
      pixels<In, In>(pass);
    } else {
      pixels<In, float>(pass);  // for normalized uint8 and intermediate results
    }
  });
}

}  // namespace ocl::image

// The parts of torchvision's deform_conv2d around its matrix products, for a block of images. A tap
// of the kernel reads the image at a position that an offset moves, interpolates between four
// pixels, and multiplies by a mask. `columns` has a row for each channel and tap, and a column for
// each position of the result: [channels][taps][images][out_h][out_w].
//   IN     type of all tensors, except for the image's gradient, which has COMPUTE
//   CHUNK  channels that a work-item takes for one tap; HAS_MASK: there is a mask
//   deform_columns:  makes the columns; a unit is a row of the result for one tap and chunk
//   deform_offset:   the gradients of offsets and mask from that of the columns; a unit is a row of
//                    the result for one tap and group of offsets
//   deform_input:    adds the gradient of the images, which is zeroed before; a unit is a chunk of
//                    planes, and adds in the order of taps and places, from `begin` to `end`
//   deform_input_atomic: the same; units as deform_columns
#include "common.clh"
#include "types.clh"
#include "math.clh"
#include "grid.clh"
#ifdef ATOMIC
#include "atomic_add.clh"
#endif
#include "deform_conv_parameters.clh"

#define PLANE (s.height * s.width)
#define PLACES (s.out_height * s.out_width)
#define GROUP_CHANNELS (s.channels / s.groups)
#define COLUMN_AT(c) ((((c) * s.taps + tap) * s.images + image) * PLACES + place)
#define TAP_AT (((image * s.groups + group) * s.taps + tap) * PLACES + place)
#define OFFSET_AT(direction) \
  ((((image * s.groups + group) * s.taps + tap) * 2 + direction) * PLACES + place)

// Loops over the work-item's positions and taps; declares `image`, `group`, and the first channel
// `first`.
#define FOR_PLACES(chunks, chunk)                                                            \
  FOR_UNITS(u, units, per_item) FOR_INNER(out_x, (ulong)s.out_width) {                       \
    const long out_y = (long)u % s.out_height, row = (long)u / s.out_height;                 \
    const long image = row % s.images, tap = row / s.images % s.taps;                        \
    const long part = row / s.images / s.taps, group = part / (chunks);                      \
    const long in_group = part % (chunks) * (chunk);                                         \
    const long first = group * GROUP_CHANNELS + in_group;                                    \
    const long channels = min((long)(chunk), GROUP_CHANNELS - in_group);                     \
    const long place = out_y * s.out_width + (long)out_x;

// The four pixels around a position; those outside of the image have the weight 0.
typedef struct {
  long at[4];
  bool inside[4];
  T ly, lx;  // distances from the upper left pixel
  T nothing; // 0; NaN if an offset is NaN, as in torchvision's kernels for GPUs
  bool any;  // whether the position is less than a pixel outside
} Corners;

static inline Corners find_corners(const T y, const T x, const Deform s) {
  Corners k;
  const T low_y = floor(y), low_x = floor(x), height = (T)s.height, width = (T)s.width;
  k.ly = y - low_y;
  k.lx = x - low_x;
  const bool top = low_y >= 0 && low_y < height, bottom = low_y >= -1 && low_y < height - 1;
  const bool left = low_x >= 0 && low_x < width, right = low_x >= -1 && low_x < width - 1;
  k.inside[0] = top && left;
  k.inside[1] = top && right;
  k.inside[2] = bottom && left;
  k.inside[3] = bottom && right;
  const long row = top || bottom ? (long)low_y : 0, column = left || right ? (long)low_x : 0;
  for (int i = 0; i < 4; ++i) k.at[i] = (row + i / 2) * s.width + column + i % 2;
  k.any = y > -1 && y < height && x > -1 && x < width;
  k.nothing = isnan(y) || isnan(x) ? y + x : 0;
  return k;
}

#define CORNER(plane, k, i) ((k).inside[i] ? LOAD(IN, plane, (k).at[i]) : (T)0)
#define INTERPOLATED(k, v0, v1, v2, v3)                                                       \
  (k.any ? (1 - k.ly) * (1 - k.lx) * v0 + (1 - k.ly) * k.lx * v1 + k.ly * (1 - k.lx) * v2 +   \
               k.ly * k.lx * v3                                                               \
         : k.nothing)

#ifdef HAS_MASK
#define TAP_MASK LOAD(IN, CPTR(MEM(IN), mask), TAP_AT)
#else
#define TAP_MASK 1
#endif
// The corners `k` that the tap reads at this position, and its mask.
#define FIND_TAP                                                                             \
  const Corners k = find_corners(                                                            \
      (T)(out_y * s.stride_y - s.pad_y + tap / s.taps_x * s.dilation_y) +                    \
          LOAD(IN, CPTR(MEM(IN), offset), OFFSET_AT(0)),                                     \
      (T)((long)out_x * s.stride_x - s.pad_x + tap % s.taps_x * s.dilation_x) +              \
          LOAD(IN, CPTR(MEM(IN), offset), OFFSET_AT(1)), s);                                 \
  const T masked = TAP_MASK;

GRID __kernel void deform_columns(CTENSOR(in), CTENSOR(offset), CTENSOR(mask), TENSOR(columns),
                                  const Deform s, const ulong units, const ulong per_item) {
  FOR_PLACES(s.chunks, CHUNK)
    FIND_TAP
    __global const MEM(IN) *plane = CPTR(MEM(IN), in) + (image * s.channels + first) * PLANE;
    for (long c = 0; c < channels; ++c, plane += PLANE) {
      const T value = INTERPOLATED(k, CORNER(plane, k, 0), CORNER(plane, k, 1),
                                   CORNER(plane, k, 2), CORNER(plane, k, 3));
      STORE(IN, PTR(MEM(IN), columns), COLUMN_AT(first + c), masked * value);
    }
  }
}

// The derivative by a coordinate is that at the exact position, so it is not 0 up to one pixel
// outside.
GRID __kernel void deform_offset(CTENSOR(columns), CTENSOR(in), CTENSOR(offset), CTENSOR(mask),
                                 TENSOR(grad_offset), TENSOR(grad_mask), const Deform s,
                                 const ulong units, const ulong per_item) {
  FOR_PLACES(1, GROUP_CHANNELS)
    FIND_TAP
    __global const MEM(IN) *plane = CPTR(MEM(IN), in) + (image * s.channels + first) * PLANE;
    T of_y = 0, of_x = 0, of_mask = 0;
    for (long c = 0; c < channels; ++c, plane += PLANE) {
      const T g = LOAD(IN, CPTR(MEM(IN), columns), COLUMN_AT(first + c));
      const T v0 = CORNER(plane, k, 0), v1 = CORNER(plane, k, 1), v2 = CORNER(plane, k, 2),
              v3 = CORNER(plane, k, 3);
      of_y += masked * (k.lx * (v3 - v1) + (1 - k.lx) * (v2 - v0)) * g;
      of_x += masked * (k.ly * (v3 - v2) + (1 - k.ly) * (v1 - v0)) * g;
      of_mask += g * INTERPOLATED(k, v0, v1, v2, v3);
    }
    STORE(IN, PTR(MEM(IN), grad_offset), OFFSET_AT(0), of_y);
    STORE(IN, PTR(MEM(IN), grad_offset), OFFSET_AT(1), of_x);
#ifdef HAS_MASK
    STORE(IN, PTR(MEM(IN), grad_mask), TAP_AT, of_mask);
#endif
  }
}

#define ADD_TAP(ADD_TO)                                                                      \
  FIND_TAP                                                                                   \
  if (k.any) {                                                                               \
    const T weight[4] = {(1 - k.ly) * (1 - k.lx), (1 - k.ly) * k.lx, k.ly * (1 - k.lx),      \
                         k.ly * k.lx};                                                       \
    __global T *plane = PTR(T, out) + (image * s.channels + first) * PLANE;                  \
    for (long c = 0; c < channels; ++c, plane += PLANE) {                                    \
      const T g = LOAD(IN, CPTR(MEM(IN), columns), COLUMN_AT(first + c));                    \
      for (int i = 0; i < 4; ++i) {                                                          \
        if (k.inside[i]) ADD_TO(plane + k.at[i], masked * weight[i] * g);                    \
      }                                                                                      \
    }                                                                                        \
  }

#ifdef ATOMIC
__kernel void deform_input_atomic(CTENSOR(columns), CTENSOR(offset), CTENSOR(mask), TENSOR(out),
                                  const Deform s, const ulong units, const ulong per_item) {
  FOR_PLACES(s.chunks, CHUNK) ADD_TAP(add_atomically)
  }
}
#else
#define ADD_IN_ORDER(p, x) *(p) += x
GRID __kernel void deform_input(CTENSOR(columns), CTENSOR(offset), CTENSOR(mask), TENSOR(out),
                                const Deform s, const ulong units, const ulong per_item,
                                const long begin, const long end) {
  FOR_UNITS(u, units, per_item) {
    const long part = (long)u / s.images, image = (long)u % s.images;
    const long group = part / s.chunks, in_group = part % s.chunks * CHUNK;
    const long first = group * GROUP_CHANNELS + in_group;
    const long channels = min((long)CHUNK, GROUP_CHANNELS - in_group);
    for (long i = begin; i < end; ++i) {
      const long tap = i / PLACES, place = i % PLACES;
      const long out_y = place / s.out_width, out_x = place % s.out_width;
      ADD_TAP(ADD_IN_ORDER)
    }
  }
}
#endif

// torchvision's roi_align and ps_roi_align: the mean of bilinear samples in each bin of a box, and
// the gradient of the images. The formulas are those of its CPU kernels. roi.clh has the defines
// and grids; in addition
//   ALIGNED  boxes are moved by half a pixel, and may be smaller than one
#include "roi.clh"

typedef struct {
  long image;
  T y, x;          // upper left corner of the box
  T bin_y, bin_x;  // the sizes of a bin
  long samples_y, samples_x;
  T count;  // the divisor of sums
} Box;

// The number of samples along a side of a bin; negative for a box whose corners are exchanged.
static inline long samples_of(const T bin, const long samples) {
  if (samples > 0) return samples;
  const T count = ceil(bin);
  return fabs(count) < (T)0x7FFFFFFF ? (long)count : 0;
}

static inline Box find_box(CTENSOR(boxes), const long n, const Roi s, const T scale,
                           FAULT_ARGUMENT) {
#ifdef ALIGNED
  const T offset = L(0.5);
#else
  const T offset = 0;
#endif
  Box box;
  box.image = image_of(BOX_NUMBER(n, 0), s, FAULT_FORWARD);
  box.x = BOX_NUMBER(n, 1) * scale - offset;
  box.y = BOX_NUMBER(n, 2) * scale - offset;
  T width = BOX_NUMBER(n, 3) * scale - offset - box.x;
  T height = BOX_NUMBER(n, 4) * scale - offset - box.y;
#ifndef ALIGNED
  width = width < 1 ? 1 : width;
  height = height < 1 ? 1 : height;
#endif
  box.bin_y = QUOTIENT(height, (T)s.bins_y);
  box.bin_x = QUOTIENT(width, (T)s.bins_x);
  box.samples_y = samples_of(box.bin_y, s.samples);
  box.samples_x = samples_of(box.bin_x, s.samples);
  box.count = (T)(box.samples_y * box.samples_x);
#ifndef POSITION
  if (box.count < 1) box.count = 1;
#endif
  return box;
}

// Finds the samples *first to *last of a bin, starting at `low`, that may be inside of an image of
// this size. If their number is given, these are all samples: those outside are skipped one by one.
static inline void clip_samples(const T low, const T bin, const long samples, const long given,
                                const long size, long *first, long *last) {
  *first = 0;
  *last = samples;
  if (given > 0 || samples <= 0) return;
  // Samples are at most one pixel apart. The margin covers the rounding of large coordinates.
  const T step = bin / (T)samples, margin = 2 + fabs(low) / (1 << 20);
  const T begin = (-1 - low) / step - margin, end = ((T)size - low) / step + margin;
  *first = begin > 0 ? (long)fmin(begin, (T)samples) : 0;
  *last = end < (T)samples ? (long)fmax(end, (T)0) + 1 : samples;
  *last = min(*last, samples);
}

typedef struct {
  long at[4];
  T weight[4];
} Corners;

// The two pixels around a coordinate, and the weight of the second one.
static inline T neighbours(T x, const long size, long *low, long *high) {
  x = x <= 0 ? 0 : x;
  *low = (long)x;
  if (*low >= size - 1) {
    *low = *high = size - 1;
    return 0;
  }
  *high = *low + 1;
  return x - (T)*low;
}

// Whether the sample is inside; NaN is not.
static inline bool find_corners(const T y, const T x, const Roi s, Corners *corners) {
  if (!(y >= -1 && y <= (T)s.height && x >= -1 && x <= (T)s.width)) return false;
  long y_low, y_high, x_low, x_high;
  const T ly = neighbours(y, s.height, &y_low, &y_high);
  const T lx = neighbours(x, s.width, &x_low, &x_high);
  const T hy = 1 - ly, hx = 1 - lx;
  corners->at[0] = y_low * s.width + x_low;
  corners->at[1] = y_low * s.width + x_high;
  corners->at[2] = y_high * s.width + x_low;
  corners->at[3] = y_high * s.width + x_high;
  corners->weight[0] = hy * hx;
  corners->weight[1] = hy * lx;
  corners->weight[2] = ly * hx;
  corners->weight[3] = ly * lx;
  return true;
}

#define SAMPLE_AT(low, bin, i, samples) \
  (low + QUOTIENT(((T)(i) + L(0.5)) * bin, (T)(samples)))
// Loops over the samples inside of the image, and their corners k.
#define FOR_SAMPLES                                                                          \
  const T low_y = box.y + (T)py * box.bin_y, low_x = box.x + (T)px * box.bin_x;              \
  long first_y, last_y, first_x, last_x;                                                     \
  clip_samples(low_y, box.bin_y, box.samples_y, s.samples, s.height, &first_y, &last_y);     \
  clip_samples(low_x, box.bin_x, box.samples_x, s.samples, s.width, &first_x, &last_x);      \
  for (long iy = first_y; iy < last_y; ++iy) {                                               \
    const T y = SAMPLE_AT(low_y, box.bin_y, iy, box.samples_y);                              \
    for (long ix = first_x; ix < last_x; ++ix) {                                             \
      Corners k;                                                                             \
      if (!find_corners(y, SAMPLE_AT(low_x, box.bin_x, ix, box.samples_x), s, &k)) continue;

GRID __kernel void roi_align(CTENSOR(in), CTENSOR(boxes), TENSOR(out), const Roi s, const T scale,
                             const ulong units, const ulong per_item, FAULT_ARGUMENT) {
  FOR_BINS
    const Box box = find_box(boxes_base, boxes_offset, n, s, scale, FAULT_FORWARD);
    T sum[CHUNK];
    for (int c = 0; c < CHUNK; ++c) sum[c] = 0;
    if (box.image >= 0) {
      __global const MEM(IN) *image =
          CPTR(MEM(IN), in) + (box.image * s.channels + CHANNEL_IN(first)) * PLANE;
      FOR_SAMPLES
          for (long c = 0; c < channels; ++c) {
            __global const MEM(IN) *plane = image + c * PLANE;
            sum[c] +=
                k.weight[0] * LOAD(IN, plane, k.at[0]) + k.weight[1] * LOAD(IN, plane, k.at[1]) +
                k.weight[2] * LOAD(IN, plane, k.at[2]) + k.weight[3] * LOAD(IN, plane, k.at[3]);
          }
        }
      }
    }
    for (long c = 0; c < channels; ++c) {
      STORE(IN, PTR(MEM(IN), out), BIN_AT(first + c), QUOTIENT(sum[c], box.count));
    }
  }
}

// Adds the gradients of a bin to the corners of its samples.
#define ADD_BIN(ADD_TO)                                                                      \
  T g[CHUNK];                                                                                \
  for (long c = 0; c < channels; ++c) {                                                      \
    g[c] = LOAD(IN, CPTR(MEM(IN), grad), BIN_AT(first + c));                                 \
  }                                                                                          \
  __global T *image_out = PTR(T, out) + (box.image * s.channels + CHANNEL_IN(first)) * PLANE; \
  FOR_SAMPLES                                                                                \
      for (long c = 0; c < channels; ++c) {                                                  \
        for (int i = 0; i < 4; ++i) {                                                        \
          ADD_TO(image_out + c * PLANE + k.at[i], QUOTIENT(g[c] * k.weight[i], box.count));  \
        }                                                                                    \
      }                                                                                      \
    }                                                                                        \
  }

#ifdef ATOMIC
__kernel void roi_align_input_atomic(CTENSOR(grad), CTENSOR(boxes), TENSOR(out), const Roi s,
                                     const T scale, const ulong units, const ulong per_item,
                                     FAULT_ARGUMENT) {
  FOR_BINS
    const Box box = find_box(boxes_base, boxes_offset, n, s, scale, FAULT_FORWARD);
    if (box.image < 0) continue;
    ADD_BIN(add_atomically)
  }
}
#else
#define ADD_IN_ORDER(p, x) *(p) += x
GRID __kernel void roi_align_input(CTENSOR(grad), CTENSOR(boxes), TENSOR(out), const Roi s,
                                   const T scale, const ulong units, const ulong per_item,
                                   FAULT_ARGUMENT, const long begin, const long end) {
  FOR_PLANES
    for (long n = begin; n < end; ++n) {
      const Box box = find_box(boxes_base, boxes_offset, n, s, scale, FAULT_FORWARD);
      if (box.image != image) continue;
      FOR_BINS_OF_BOX { ADD_BIN(ADD_IN_ORDER) }
    }
  }
}
#endif

// torchvision's roi_pool and ps_roi_pool: the maximum or the mean of the pixels in each bin of a
// box, and the gradient of the images. The formulas are those of its CPU kernels. roi.clh has the
// defines and grids; POSITION: the mean, else the maximum and its position (`argmax`).
#include "roi.clh"

#ifdef POSITION
#define PLACES(tensor)
#else
#define PLACES(tensor) tensor,
#endif

// Converts to int as the CPU does, where that is defined; NaN becomes a position far outside.
static inline long whole(const T x) { return isnan(x) ? INT_MIN : (long)convert_int_sat(x); }

// Finds the pixels *first to *last of bin p, along a side of an image of this size.
static inline void find_span(const T low, const T high, const T scale, const long bins,
                             const long p, const long size, long *first, long *last) {
  const long start = whole(round(low * scale)), end = whole(round(high * scale));
#ifdef POSITION
  const long length = max(end - start, 1L);
#else
  const long length = max(end - start + 1, 1L);
#endif
  const T bin = QUOTIENT((T)length, (T)bins);
  *first = clamp(whole(floor((T)p * bin)) + start, 0L, size);
  *last = clamp(whole(ceil((T)(p + 1) * bin)) + start, 0L, size);
}

// The window [first_y, last_y) x [first_x, last_x) of a bin.
#define FIND_WINDOW(height, width)                                                           \
  long first_y, last_y, first_x, last_x;                                                     \
  find_span(BOX_NUMBER(n, 2), BOX_NUMBER(n, 4), scale, s.bins_y, py, height, &first_y, &last_y); \
  find_span(BOX_NUMBER(n, 1), BOX_NUMBER(n, 3), scale, s.bins_x, px, width, &first_x, &last_x); \
  const bool is_empty = last_y <= first_y || last_x <= first_x;                              \
  const T area = (T)((last_y - first_y) * (last_x - first_x));
#define FOR_WINDOW                                                                           \
  for (long y = first_y; y < last_y; ++y) for (long x = first_x; x < last_x; ++x)

GRID __kernel void roi_pool(CTENSOR(in), CTENSOR(boxes), TENSOR(out),
                            PLACES(TENSOR(places)) const Roi s, const T scale, const ulong units,
                            const ulong per_item, FAULT_ARGUMENT) {
  FOR_BINS
    const long image = image_of(BOX_NUMBER(n, 0), s, FAULT_FORWARD);
    __global const MEM(IN) *plane =
        CPTR(MEM(IN), in) + (max(image, 0L) * s.channels + CHANNEL_IN(first)) * PLANE;
#ifdef POSITION
    // A mean leaves out the last row and column of the image, but its gradient does not, as on the
    // CPU.
    FIND_WINDOW(s.height - 1, s.width - 1)
    T result = 0;
    if (image >= 0 && !is_empty) {
      FOR_WINDOW result += LOAD(IN, plane, y * s.width + x);
      result = QUOTIENT(result, area);
    }
#else
    FIND_WINDOW(s.height, s.width)
    T result = image < 0 || is_empty ? 0 : -FLT_MAX;
    int place = -1;
    if (image >= 0) {
      FOR_WINDOW {
        const T number = LOAD(IN, plane, y * s.width + x);
        if (number > result) {
          result = number;
          place = (int)(y * s.width + x);
        }
      }
    }
    PTR(int, places)[BIN_AT(first)] = place;
#endif
    STORE(IN, PTR(MEM(IN), out), BIN_AT(first), result);
  }
}

#ifdef POSITION
#define ADD_BIN(ADD_TO)                                                                      \
  FIND_WINDOW(s.height, s.width)                                                             \
  if (!is_empty) {                                                                           \
    const T share = QUOTIENT(LOAD(IN, CPTR(MEM(IN), grad), BIN_AT(first)), area);            \
    __global T *plane = PTR(T, out) + (image * s.channels + CHANNEL_IN(first)) * PLANE;      \
    FOR_WINDOW ADD_TO(plane + y * s.width + x, share);                                       \
  }
#else
#define ADD_BIN(ADD_TO)                                                                      \
  const int place = CPTR(int, places)[BIN_AT(first)];                                        \
  if (place >= 0 && place < PLANE) {                                                         \
    const T g = LOAD(IN, CPTR(MEM(IN), grad), BIN_AT(first));                                \
    ADD_TO(PTR(T, out) + (image * s.channels + first) * PLANE + place, g);                   \
  }
#endif

#ifdef ATOMIC
__kernel void roi_pool_input_atomic(CTENSOR(grad), CTENSOR(boxes),
                                    PLACES(CTENSOR(places)) TENSOR(out), const Roi s,
                                    const T scale, const ulong units, const ulong per_item,
                                    FAULT_ARGUMENT) {
  FOR_BINS
    const long image = image_of(BOX_NUMBER(n, 0), s, FAULT_FORWARD);
    if (image < 0) continue;
    ADD_BIN(add_atomically)
  }
}
#else
#define ADD_IN_ORDER(p, x) *(p) += x
GRID __kernel void roi_pool_input(CTENSOR(grad), CTENSOR(boxes),
                                  PLACES(CTENSOR(places)) TENSOR(out), const Roi s, const T scale,
                                  const ulong units, const ulong per_item, FAULT_ARGUMENT,
                                  const long begin, const long end) {
  FOR_PLANES
    for (long n = begin; n < end; ++n) {
      if (image_of(BOX_NUMBER(n, 0), s, FAULT_FORWARD) != image) continue;
      FOR_BINS_OF_BOX { ADD_BIN(ADD_IN_ORDER) }
    }
  }
}
#endif

// Direct convolution in up to three spatial dimensions (size 1 where there are fewer), on
// contiguous tensors. Both families use it if no faster kernel takes the type or geometry, and
// tests use it as reference.
//
// Defines: as for element.clh, and WG_SIZE, the work-group size of conv_weight_grad, a power of
// two.
//
// Arguments: in_* belong to the input, out_* to the output; *_channels count the channels of one
// group.
//   input  [images][groups * in_channels][in_d][in_h][in_w]
//   weight [groups * out_channels][in_channels][kernel_d][kernel_h][kernel_w]
//   output [images][groups * out_channels][out_d][out_h][out_w]
//
// conv_forward      output from input, weight, bias. Global size (at least out_d * out_h * out_w,
//                   images * groups * out_channels)
// conv_data_grad    input (or the output of a transposed convolution) from output, weight, and a
//                   bias of groups * in_channels. Global size (at least in_d * in_h * in_w,
//                   images * groups * in_channels)
// conv_weight_grad  weight from input and output. Work-group (WG_SIZE, 1), global size (WG_SIZE,
//                   elements of weight)
// The local size of the first two is free. bias is not read where has_bias is 0.
#include "element.clh"

// ConvShape of conv.h.
typedef struct {
  int images, groups, in_channels, out_channels;
  int in_d, in_h, in_w, out_d, out_h, out_w;
  int kernel_d, kernel_h, kernel_w, stride_d, stride_h, stride_w;
  int pad_d, pad_h, pad_w, dilation_d, dilation_h, dilation_w;
} Shape;

// The position that a work-item computes; `name` is the prefix of the array's channels and sizes.
#define FIND_RESULT(name)                                              \
  const size_t out_plane = (size_t)s.out_d * s.out_h * s.out_w;        \
  const size_t in_plane = (size_t)s.in_d * s.in_h * s.in_w;            \
  const int taps = s.kernel_d * s.kernel_h * s.kernel_w;               \
  const size_t position = get_global_id(0);                            \
  if (position >= name##_plane) return;                                \
  const size_t plane = get_global_id(1);                               \
  const size_t image = plane / (s.groups * s.name##_channels);         \
  const int channel = plane % (s.groups * s.name##_channels);          \
  const int x = position % s.name##_w;                                 \
  const int y = position / s.name##_w % s.name##_h;                    \
  const int z = position / ((size_t)s.name##_w * s.name##_h);

__kernel void conv_forward(TENSOR(output), CTENSOR(input), CTENSOR(weight), CTENSOR(bias),
                           const int has_bias, const Shape s) {
  FIND_RESULT(out)
  const size_t first_in = (image * s.groups + channel / s.out_channels) * s.in_channels;

  __global const STORE *restrict source = CPTR(STORE, input) + first_in * in_plane;
  __global const STORE *restrict kernel_row =
      CPTR(STORE, weight) + (size_t)channel * s.in_channels * taps;
  COMPUTE sum = has_bias ? LOAD(CPTR(STORE, bias), channel) : 0;
  for (int c = 0; c < s.in_channels; ++c, source += in_plane) {
    for (int kd = 0; kd < s.kernel_d; ++kd) {
      const int from_z = z * s.stride_d - s.pad_d + kd * s.dilation_d;
      for (int kh = 0; kh < s.kernel_h; ++kh) {
        const int from_y = y * s.stride_h - s.pad_h + kh * s.dilation_h;
        for (int kw = 0; kw < s.kernel_w; ++kw, ++kernel_row) {
          const int from_x = x * s.stride_w - s.pad_w + kw * s.dilation_w;
          if (from_z >= 0 && from_z < s.in_d && from_y >= 0 && from_y < s.in_h && from_x >= 0 &&
              from_x < s.in_w)
            sum += LOAD(source, ((size_t)from_z * s.in_h + from_y) * s.in_w + from_x) *
                   LOAD(kernel_row, 0);
        }
      }
    }
  }
  STORE_TO(PTR(STORE, output), plane * out_plane + position, sum);
}

__kernel void conv_data_grad(TENSOR(input), CTENSOR(output), CTENSOR(weight), CTENSOR(bias),
                             const int has_bias, const Shape s) {
  FIND_RESULT(in)
  const int group = channel / s.in_channels;

  __global const STORE *restrict source =
      CPTR(STORE, output) + (image * s.groups + group) * s.out_channels * out_plane;
  __global const STORE *restrict kernel_start =
      CPTR(STORE, weight) +
      ((size_t)group * s.out_channels * s.in_channels + channel % s.in_channels) * taps;
  COMPUTE sum = has_bias ? LOAD(CPTR(STORE, bias), channel) : 0;
  for (int kd = 0; kd < s.kernel_d; ++kd) {
    const int at_z = z + s.pad_d - kd * s.dilation_d;
    if (at_z < 0 || at_z % s.stride_d != 0 || at_z / s.stride_d >= s.out_d) continue;
    for (int kh = 0; kh < s.kernel_h; ++kh) {
      const int at_y = y + s.pad_h - kh * s.dilation_h;
      if (at_y < 0 || at_y % s.stride_h != 0 || at_y / s.stride_h >= s.out_h) continue;
      for (int kw = 0; kw < s.kernel_w; ++kw) {
        const int at_x = x + s.pad_w - kw * s.dilation_w;
        if (at_x < 0 || at_x % s.stride_w != 0 || at_x / s.stride_w >= s.out_w) continue;
        const size_t from =
            ((size_t)(at_z / s.stride_d) * s.out_h + at_y / s.stride_h) * s.out_w +
            at_x / s.stride_w;
        const int tap = (kd * s.kernel_h + kh) * s.kernel_w + kw;
        for (int o = 0; o < s.out_channels; ++o)
          sum += LOAD(source, o * out_plane + from) *
                 LOAD(kernel_start, (size_t)o * s.in_channels * taps + tap);
      }
    }
  }
  STORE_TO(PTR(STORE, input), plane * in_plane + position, sum);
}

// The work-items share the output positions of all images, and then add their sums in a tree.
__kernel __attribute__((reqd_work_group_size(WG_SIZE, 1, 1))) void conv_weight_grad(
    TENSOR(weight), CTENSOR(input), CTENSOR(output), const Shape s) {
  __local COMPUTE sums[WG_SIZE];
  const size_t out_plane = (size_t)s.out_d * s.out_h * s.out_w;
  const size_t in_plane = (size_t)s.in_d * s.in_h * s.in_w;
  const int item = get_local_id(0);
  const size_t element = get_global_id(1);
  const int kw = element % s.kernel_w;
  const int kh = element / s.kernel_w % s.kernel_h;
  const int kd = element / ((size_t)s.kernel_w * s.kernel_h) % s.kernel_d;
  const size_t pair = element / ((size_t)s.kernel_w * s.kernel_h * s.kernel_d);
  const int channel = pair / s.in_channels;
  const int in_channel = channel / s.out_channels * s.in_channels + pair % s.in_channels;

  COMPUTE sum = 0;
  for (int image = 0; image < s.images; ++image) {
    __global const STORE *restrict source =
        CPTR(STORE, input) + ((size_t)image * s.groups * s.in_channels + in_channel) * in_plane;
    __global const STORE *restrict grad =
        CPTR(STORE, output) + ((size_t)image * s.groups * s.out_channels + channel) * out_plane;
    for (size_t position = item; position < out_plane; position += WG_SIZE) {
      const int from_x = (int)(position % s.out_w) * s.stride_w - s.pad_w + kw * s.dilation_w;
      const int from_y =
          (int)(position / s.out_w % s.out_h) * s.stride_h - s.pad_h + kh * s.dilation_h;
      const int from_z =
          (int)(position / ((size_t)s.out_w * s.out_h)) * s.stride_d - s.pad_d + kd * s.dilation_d;
      if (from_z >= 0 && from_z < s.in_d && from_y >= 0 && from_y < s.in_h && from_x >= 0 &&
          from_x < s.in_w)
        sum += LOAD(grad, position) *
               LOAD(source, ((size_t)from_z * s.in_h + from_y) * s.in_w + from_x);
    }
  }
  sums[item] = sum;
  for (int half_size = WG_SIZE / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_size) sums[item] += sums[item + half_size];
  }
  if (item == 0) STORE_TO(PTR(STORE, weight), element, sums[0]);
}

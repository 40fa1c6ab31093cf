// Prepares the operands of conv_padded.cl: copies inputs with zeros around them, and packs weights
// in the order in which tiles read them. conv_broadcast.cl reads the padded copies, too.
//
// Defines: VW, lanes of a vector, 4, 8 or 16; MR, output channels of a tile, a power of two,
// for pack_weights.
//
// Padded layout, a scratch buffer of floats:
//     front zeros |
//     [channels][phases z, y, x][images / images_per_line][slices][rows][images_per_line][pitch] |
//     back zeros
// Row r, column c of phase (py, px) holds element (r * stride_y + py, c * stride_x + px) of the
// image, or zero outside of it; slices likewise. For example a row of 7 pixels a .. g, stride 2:
//     phase 0: a c e g 0 ..     phase 1: b d f 0 0 ..
// The zeros after a row also serve as the zeros before the next row. A line holds the same row of
// `images_per_line` images.
//
// The host (conv_layout.cpp) computes the sizes in each of the three dimensions. Here in x, with
// `size` the input's width, `out_size` the output's width, and j the index in the kernel:
//     shift(j) = j * dilation - pad             for each kernel index j
//     phase(j) = shift(j) mod stride            at least 0
//     step(j)  = floor(shift(j) / stride)       can be negative
//     phases_x = 1 + max phase(j)
//     kept     = ceil(size / stride)
//     pitch    = max(out_size, kept + max(0, -min step(j), max step(j) + out_size - kept))
// In y and z the same formula gives rows and slices. Then, with c the input channel in its group,
// and shift and phase of tap (c, jz, jy, jx):
//     lines    = images / images_per_line * slices * rows
//     phase    = lines * images_per_line * pitch
//     channel  = phases_z * phases_y * phases_x * phase, rounded up to a multiple of VW
//     shift    = (step(jz) * rows + step(jy)) * images_per_line * pitch + step(jx)
//     front    = max(0, -min shift)
//     tap_offset[tap] = front + c * channel + shift + phase *
//                ((phase(jz) * phases_y + phase(jy)) * phases_x + phase(jx)),
//                tap = ((c * kernel_z + jz) * kernel_y + jy) * kernel_x + jx
//     back     = max(0, max shift) + VW * NV (a tile may read so far after the last pixel)
//     scratch  = front + channels * channel + back floats; 2^31 or more: use conv_plain.cl
//
//     pixels   = phase without the lines after the output's last line
//
// pad_phases        grid (channels, ceil(lines / lines_per_task))
// pack_weights      grid (ceil(channels / MR), groups); channels: output channels of a group.
//     packed[group][tile][tap][MR] = weight[group * group_stride + channel * channel_stride +
//     weight_offset[tap]]; forward: channels * taps, taps, tap. Size: groups * tiles * taps * MR.
//     Taps come in runs of `run`, which divides `taps`: the weights of a run are adjacent.
//     `weights`: the number of all weights.
#define ROW_SPACE __global
#include "conv_vector.clh"

static inline void zero(__global float *p, const size_t count) {
  for (size_t i = 0; i < count; ++i) p[i] = 0.0f;
}

typedef struct {
  long channel, front, back;
  int images, images_per_line, channels;
  int depth, height, width;
  int stride_z, stride_y, stride_x;
  int phases_z, phases_y, phases_x;
  int slices, rows, pitch;
  int lines_per_task;
} Phases;

TASK __kernel void pad_phases(TENSOR(padded), CTENSOR(x), const Phases p) {
  const int channel_index = get_global_id(0);
  const int lines = p.images / p.images_per_line * p.slices * p.rows;
  const int first = get_global_id(1) * p.lines_per_task;
  const int last = min(lines, first + p.lines_per_task);
  const int phases = p.phases_z * p.phases_y * p.phases_x;
  const size_t plane = (size_t)p.depth * p.height * p.width;
  __global const float *restrict source = CPTR(float, x) + channel_index * plane;
  __global float *start = PTR(float, padded) + p.front + channel_index * p.channel;
  if (channel_index == 0 && first == 0) {
    zero(PTR(float, padded), p.front);
    zero(PTR(float, padded) + p.front + p.channels * p.channel, p.back);
  }
  if (last == lines) {
    const size_t used = (size_t)phases * lines * p.images_per_line * p.pitch;
    zero(start + used, p.channel - used);
  }
  for (int phase = 0; phase < phases; ++phase) {
    const int phase_z = phase / (p.phases_y * p.phases_x);
    const int phase_y = phase / p.phases_x - phase_z * p.phases_y;
    const int phase_x = phase % p.phases_x;
    const int kept = max(0, DIVIDE_UP(p.width - phase_x, p.stride_x));
    __global float *restrict row =
        start + ((size_t)phase * lines + first) * p.images_per_line * p.pitch;
    for (int line = first; line < last; ++line) {
      const int slice = line / p.rows;
      const int outer = slice / p.slices;
      const int z = (slice - outer * p.slices) * p.stride_z + phase_z;
      const int y = (line - slice * p.rows) * p.stride_y + phase_y;
      const int filled = z < p.depth && y < p.height ? kept : 0;
      __global const float *restrict from =
          source + (size_t)outer * p.images_per_line * p.channels * plane +
          ((size_t)z * p.height + y) * p.width + phase_x;
      for (int image = 0; image < p.images_per_line;
           ++image, row += p.pitch, from += p.channels * plane) {
        copy_row(row, from, filled, p.stride_x);
        for (int i = filled; i < p.pitch; ++i) row[i] = 0.0f;
      }
    }
  }
}

#ifdef MR
INTERLEAVE(interleave, MR)

// Stores VW taps of MR channels, [tap][channel].
static inline void store_interleaved(__global float *restrict to,
                                     __global const float *restrict from, const long stride) {
  VEC rows[MR];
#pragma unroll
  for (int i = 0; i < MR; ++i) rows[i] = LOAD_FLOATS(from + i * stride);
  interleave(rows);
#pragma unroll
  for (int i = 0; i < MR; ++i) STORE_FLOATS(rows[i], to + i * VW);
}

TASK __kernel void pack_weights(TENSOR(packed), CTENSOR(weight), CTENSOR(weight_offset),
                                const int channels, const int taps, const int run,
                                const long channel_stride, const long group_stride,
                                const long weights) {
  const size_t tile = get_global_id(0);
  const size_t group = get_global_id(1);
  const int first = tile * MR;
  __global const int *restrict offset = CPTR(int, weight_offset);
  const long begin = group * group_stride + first * channel_stride;
  __global const float *restrict source = CPTR(float, weight) + begin;
  __global float *restrict to =
      PTR(float, packed) + (group * get_global_size(0) + tile) * taps * MR;
  // A vector may write beyond its run; the next run overwrites those taps.
  const int vectors = run >= VW / 2 && first + MR <= channels;
  for (int tap = 0; tap < taps; tap += run) {
    for (int t = tap; t < tap + run;) {
      if (vectors && t + VW <= taps &&
          begin + offset[t] + (MR - 1) * channel_stride + VW <= weights) {
        store_interleaved(to + (size_t)t * MR, source + offset[t], channel_stride);
        t += VW;
        continue;
      }
      for (int i = 0; i < MR; ++i)
        to[(size_t)t * MR + i] =
            first + i < channels ? source[i * channel_stride + offset[t]] : 0.0f;
      ++t;
    }
  }
}
#endif

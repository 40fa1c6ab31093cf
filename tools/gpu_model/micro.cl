// Small kernels whose counts can be computed by hand. tests/python/tools/test_gpu_model.py does so.

kernel void copy(global const float *in, global float *out) {
  out[get_global_id(0)] = in[get_global_id(0)];
}

kernel void copy_wide(global const float4 *in, global float4 *out) {
  out[get_global_id(0)] = in[get_global_id(0)];
}

// Uses the elements of a vector one by one.
kernel void copy_elements(global const float4 *in, global float *out, local float4 *tile) {
  const int i = get_local_id(0);
  tile[i] = in[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  const float4 four = tile[i];
  out[get_global_id(0)] = four.x * four.y + four.z * four.w;
}

kernel void copy_shifted(global const float *in, global float *out) {
  out[get_global_id(0)] = in[get_global_id(0) + 1];
}

kernel void copy_strided(global const float *in, global float *out, const int stride) {
  out[get_global_id(0)] = in[get_global_id(0) * stride];
}

kernel void broadcast(global const float *in, global float *out) {
  out[get_global_id(0)] = in[get_group_id(0)];
}

// Matrices with a width of TILE times the groups; groups of TILE x ROWS.
#define TILE 32
#define ROWS 8

kernel void copy_matrix(global const float *in, global float *out) {
  const size_t width = get_num_groups(0) * TILE;
  const size_t x = get_group_id(0) * TILE + get_local_id(0);
  const size_t y = get_group_id(1) * TILE + get_local_id(1);
  for (int j = 0; j < TILE; j += ROWS) out[(y + j) * width + x] = in[(y + j) * width + x];
}

kernel void transpose_naive(global const float *in, global float *out) {
  const size_t width = get_num_groups(0) * TILE;
  const size_t x = get_group_id(0) * TILE + get_local_id(0);
  const size_t y = get_group_id(1) * TILE + get_local_id(1);
  for (int j = 0; j < TILE; j += ROWS) out[x * width + y + j] = in[(y + j) * width + x];
}

#define TRANSPOSE(name, row)                                                                    \
  kernel void name(global const float *in, global float *out) {                                 \
    local float tile[TILE][row];                                                                \
    const size_t width = get_num_groups(0) * TILE, i = get_local_id(0), k = get_local_id(1);    \
    size_t x = get_group_id(0) * TILE + i, y = get_group_id(1) * TILE + k;                      \
    for (int j = 0; j < TILE; j += ROWS) tile[k + j][i] = in[(y + j) * width + x];              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                               \
    x = get_group_id(1) * TILE + i;                                                             \
    y = get_group_id(0) * TILE + k;                                                             \
    for (int j = 0; j < TILE; j += ROWS) out[(y + j) * width + x] = tile[i][k + j];             \
  }
TRANSPOSE(transpose_tile, TILE)
TRANSPOSE(transpose_padded, TILE + 1)

// Sums a float of each of the group's work-items, a power of two. The first four are those of
// M. Harris, "Optimizing Parallel Reduction in CUDA": interleaved and divergent, interleaved with
// bank conflicts, sequential, and with a first addition while loading.
#define REDUCTION(name, load, loop)                                                             \
  kernel void name(global const float *in, global float *out, local float *sums) {              \
    const uint i = get_local_id(0), n = get_local_size(0), g = get_group_id(0);                 \
    sums[i] = load;                                                                             \
    barrier(CLK_LOCAL_MEM_FENCE);                                                               \
    loop                                                                                        \
    if (i == 0) out[g] = sums[0];                                                               \
  }
REDUCTION(reduce_divergent, in[g * n + i], for (uint s = 1; s < n; s *= 2) {
  if (i % (2 * s) == 0) sums[i] += sums[i + s];
  barrier(CLK_LOCAL_MEM_FENCE);
})
REDUCTION(reduce_strided, in[g * n + i], for (uint s = 1; s < n; s *= 2) {
  if (2 * s * i < n) sums[2 * s * i] += sums[2 * s * i + s];
  barrier(CLK_LOCAL_MEM_FENCE);
})
REDUCTION(reduce_sequential, in[g * n + i], for (uint s = n / 2; s > 0; s /= 2) {
  if (i < s) sums[i] += sums[i + s];
  barrier(CLK_LOCAL_MEM_FENCE);
})
REDUCTION(reduce_pairs, in[g * 2 * n + i] + in[g * 2 * n + i + n],
          for (uint s = n / 2; s > 0; s /= 2) {
  if (i < s) sums[i] += sums[i + s];
  barrier(CLK_LOCAL_MEM_FENCE);
})

// Squares of a width of SIDE times the groups, by tiles; groups of SIDE x SIDE.
#define SIDE 16

kernel void product(global const float *a, global const float *b, global float *c) {
  local float tile_a[SIDE][SIDE], tile_b[SIDE][SIDE];
  const int x = get_local_id(0), y = get_local_id(1), n = get_num_groups(0) * SIDE;
  const int column = get_group_id(0) * SIDE + x, row = get_group_id(1) * SIDE + y;
  float sum = 0;
  for (int k = 0; k < n; k += SIDE) {
    tile_a[y][x] = a[row * n + k + x];
    tile_b[y][x] = b[(k + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < SIDE; ++i) sum = fma(tile_a[y][i], tile_b[i][x], sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}

// Lanes that leave the loop at different times: lane i runs it i + 1 times.
kernel void uneven_loops(global const float *in, global float *out) {
  const int i = get_local_id(0);
  float sum = 0;
  for (int k = 0; k <= i; ++k) sum += in[k * 64];
  out[get_global_id(0)] = sum;
}

// Each even lane takes one way and each odd lane another; all meet again to store.
kernel void two_ways(global const float *even, global const float *odd, global float *out) {
  const size_t i = get_global_id(0);
  float value;
  if (i % 2 == 0) {
    value = native_exp(even[i]);
  } else {
    value = odd[i] * 3 + 1;
    for (int k = 0; k < 3; ++k) value = native_sin(value);
  }
  out[i] = value;
}

// Lane i runs the inner loop i % 2 + 1 times, and the outer loop twice: the lanes meet after each
// inner loop.
kernel void nested_loops(global const float *in, global float *out) {
  const int i = get_local_id(0);
  float sum = 0;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j <= i % 2; ++j) sum += in[(k * 2 + j) * 64 + i];
    sum = native_exp(sum);
  }
  out[get_global_id(0)] = sum;
}

// A function that is called from two places, by a part of the lanes from each.
static float __attribute__((noinline)) scaled(global const float *in, const float by) {
  const float value = *in * by;
  return value < 0 ? native_exp(value) : value;
}

kernel void calls(global const float *in, global float *out) {
  const size_t i = get_global_id(0);
  out[i] = i % 32 < 8 ? scaled(in + i, 2) : scaled(in + 2 * i, 3) + 1;
}

kernel void copy_asynchronous(global const float *in, global float *out, local float *tile) {
  const size_t n = get_local_size(0);
  event_t event = async_work_group_copy(tile, in + get_group_id(0) * n, n, 0);
  wait_group_events(1, &event);
  out[get_global_id(0)] = tile[get_local_id(0)];
}

kernel void count(global const int *in, global int *counts) {
  local int bins[32];
  const int i = get_local_id(0);
  if (i < 32) bins[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_inc(&bins[in[get_global_id(0)]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < 32) atomic_add(&counts[i], bins[i]);
}

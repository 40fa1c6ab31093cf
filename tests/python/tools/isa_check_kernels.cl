// Kernels of test_isa_check.py, some of them wrong when a define or an argument says so.
#ifndef BARRIER
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#endif

__kernel void sums(__global float *out, __global const float *in) {
  __local float partial[64];
  const int item = get_local_id(0);
  partial[item] = in[get_global_id(0)];
  BARRIER;
  for (int half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) partial[item] += partial[item + half_size];
    BARRIER;
  }
  if (item == 0) out[get_group_id(0)] = partial[0];
}

__kernel void partial_barrier(__global int *out, const int count) {
  __local int place;
  const int item = get_local_id(0);
  if (item >= count) return;
  if (item == 0) place = 3;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[item] = place;
}

// The first work-item also writes an element of another one.
__kernel void neighbours(__global int *out, const int other) {
  const int item = get_global_id(0);
  out[item] = item;
  if (item == 0 && other >= 0) out[other] = 100;
}

__kernel void copies_of_one(__global int *out, __global const int *in) {
  out[get_global_id(0)] = in[0];
}

__kernel void counts(__global int *out, __global const int *in) {
  atomic_inc(out + in[get_global_id(0)]);
}

__kernel void reads_at(__global int *out, __global const int *in, const long offset) {
  out[get_global_id(0)] = in[get_global_id(0) + offset];
}

__kernel void reads_local(__global int *out, const int offset) {
  __local int part[16];
  const int item = get_local_id(0);
  part[item] = item;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[item] = part[item + offset];
}

__kernel void reads_four(__global float4 *out, __global const float *in, const int offset) {
  *out = *(__global const float4 *)(in + offset);
}

// Items from `count` on write nothing.
__kernel void undefined_local(__global int *out, const int count) {
  __local int part[32];
  const int item = get_local_id(0);
  if (item < count) part[item] = item;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[item] = part[31 - item];
}

__kernel void undefined_private(__global int *out, const int count) {
  int part[32];
  const int item = get_local_id(0);
  for (int i = 0; i < count; ++i) part[i * 7 % 32] = i;
  out[item] = part[item] + 1;
}

__kernel void undefined_branch(__global int *out, const int count) {
  __local int part[32];
  const int item = get_local_id(0);
  if (item < count) part[item] = item;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (part[31 - item] > 3) out[item] = 1;
}

#ifndef ROW
#define ROW lane / 4
#endif
#define ADDRESS(p) ((uint)(ulong)(p))
// 16 x 16 times 8 x 16, by `count` work-items.
__kernel void fragment(__global float *out, __global const uint *a, __global const uint *b,
                       const int count) {
  __local uint4 a_tile[32], b_tile[16];
  const int lane = get_local_id(0);
  for (int i = lane; i < 128; i += 32) ((__local uint *)a_tile)[i] = a[i];
  for (int i = lane; i < 64; i += 32) ((__local uint *)b_tile)[i] = b[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane >= count) return;
  uint left[4], right[2];
  float c[4] = {0, 0, 0, 0};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(left[0]), "=r"(left[1]), "=r"(left[2]), "=r"(left[3])
               : "r"(ADDRESS(a_tile + lane % 16 * 2 + lane / 16)));
  for (int i = 0; i < 2; ++i)
    right[i] = ((__local uint *)b_tile)[(ROW) % 8 * 8 + lane % 4 + i * 4];
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]),
                 "r"(right[1]));
  for (int i = 0; i < 4; ++i) out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}

#ifndef WAIT
#define WAIT 0
#endif
#define STRING_(x) #x
#define STRING(x) STRING_(x)
// Two groups of copies are in flight; WAIT of them are not waited for.
__kernel void copies(__global float *out, __global const float *in) {
  __local float4 tiles[2][16];
  const int item = get_local_id(0), first = get_group_id(0) * 128;
  for (int step = 0; step < 2; ++step) {
    if (item < 16) {
      const ulong from = (ulong)(in + first + (step * 16 + item) * 4);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ADDRESS(&tiles[step][item])),
                   "l"(from)
                   : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_group " STRING(WAIT) ";" ::: "memory");
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = item; i < 128; i += 32) out[first + i] = ((__local float *)tiles)[i];
}

__kernel void strided(__global int *out, __global const int *in, const int stride) {
  __local int part[1024];
  const int item = get_local_id(0);
  part[item * stride] = in[item * stride];
  barrier(CLK_LOCAL_MEM_FENCE);
  out[item] = part[item * stride];
}

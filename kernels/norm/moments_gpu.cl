// Moments (moments.clh) in the GPU family. A work-item adds its elements by Welford's method (Note
// on a method for calculating corrected sums of squares and products. Technometrics 4, 1962);
// Chan's formula joins the work-items.
//   moments_group (inner == 1): a work-group per row and part. Grid: outer * GROUP, parts.
//   moments_item: a work-item per output and part. Grid: outputs rounded up to GROUP, parts.
#include "moments.clh"

#define AT(i) CAT(convert_, T)(LOAD(IN, CPTR(MEM(IN), in), i))
#define TAKE(i)                      \
  {                                  \
    const T d = AT(i) - mean;        \
    count += 1;                      \
    mean += d / count;               \
    m2 += d * (AT(i) - mean);        \
  }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void moments_group(
    CTENSOR(in), TENSOR(work), const ulong outer, const ulong size, const ulong inner,
    const ulong parts) {
  __local T counts[GROUP], means[GROUP], m2s[GROUP];
  const ulong row = group_id(0), part = group_id(1);
  const uint item = get_local_id(0);
  PART_RANGE
  T count = 0, mean = 0, m2 = 0;
  for (ulong i = from + item; i < to; i += GROUP) TAKE(row * size + i)
  counts[item] = count;
  means[item] = mean;
  m2s[item] = m2;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint step = GROUP / 2; step > 0; step /= 2) {
    if (item < step && counts[item + step] > 0) {
      JOIN_MOMENTS(T, count, mean, m2, counts[item + step], means[item + step], m2s[item + step])
      counts[item] = count;
      means[item] = mean;
      m2s[item] = m2;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0) {
    PTR(T, work)[part * outer + row] = mean;
    PTR(T, work)[(parts + part) * outer + row] = m2;
  }
}

__kernel void moments_item(CTENSOR(in), TENSOR(work), const ulong outer, const ulong size,
                           const ulong inner, const ulong parts) {
  const ulong output = get_global_id(0), part = get_global_id(1), outputs = outer * inner;
  if (output >= outputs) return;
  PART_RANGE
  const ulong start = output / inner * size * inner + output % inner;
  T count = 0, mean = 0, m2 = 0;
  for (ulong i = from; i < to; ++i) TAKE(start + i * inner)
  PTR(T, work)[part * outputs + output] = mean;
  PTR(T, work)[(parts + part) * outputs + output] = m2;
}

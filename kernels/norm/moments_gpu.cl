// Moments (moments.clh) in the GPU family. A work-item computes the moments of four elements, and
// joins them to the earlier ones by Chan's formula. It adds the last elements by Welford's method.
//   moments_group (inner == 1): 2^row_shift adjacent work-items take a row and part. Grid: outer <<
//     row_shift, rounded up to GROUP; parts.
//   moments_item: a work-item per output and part. Grid: outputs rounded up to GROUP, parts.
#include "moments.clh"
#include "row_items.clh"

#define AT(i) CAT(convert_, T)(LOAD(IN, CPTR(MEM(IN), in), i))
// Uses differences to the first element, which neither overflow nor vanish if elements are similar.
// Differences to the mean would be large for the first four elements, whose `count * share` is 0.
#define TAKE_FOUR(i, step)                                                            \
  {                                                                                   \
    const T a = AT(i), b = AT((i) + (step)), c = AT((i) + 2 * (step)),                \
            d = AT((i) + 3 * (step));                                                 \
    const T of_four =                                                                 \
        a + ((T)0.25f * (b - a) + (T)0.25f * (c - a) + (T)0.25f * (d - a));           \
    const T all = count + 4, delta = of_four - mean, share = 4 / all;                 \
    m2 += (a - of_four) * (a - of_four) + (b - of_four) * (b - of_four) +             \
          (c - of_four) * (c - of_four) + (d - of_four) * (d - of_four);              \
    m2 += delta * (delta * (count * share));                                          \
    mean += delta * share;                                                            \
    count = all;                                                                      \
  }

// The elements begin + n * stride, for n = first, first + step, ... less than `to`.
#define TAKE_ALL(begin, first, stride, step)                                          \
  T count = 0, mean = 0, m2 = 0;                                                      \
  {                                                                                   \
    ulong n = first;                                                                  \
    for (; n + 3 * (step) < to; n += 4 * (step))                                      \
      TAKE_FOUR((begin) + n * (stride), (step) * (stride))                            \
    for (; n < to; n += (step))                                                       \
      ADD_ELEMENT(count, mean, m2, AT((begin) + n * (stride)))                        \
  }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void moments_group(
    CTENSOR(in), TENSOR(work), const ulong outer, const ulong size, const ulong inner,
    const ulong parts, const uint row_shift) {
  __local T counts[GROUP], means[GROUP], m2s[GROUP];
  ROW_OF_ITEM(outer, row_shift)
  const ulong part = group_id(1);
  PART_RANGE
  TAKE_ALL(row * size, from + in_row, 1, row_items)
  counts[item] = count;
  means[item] = mean;
  m2s[item] = m2;
  JOIN_ROW(if (counts[other] > 0) {
    JOIN_MOMENTS(T, count, mean, m2, counts[other], means[other], m2s[other])
    counts[item] = count;
    means[item] = mean;
    m2s[item] = m2;
  })
  if (in_row == 0 && is_row) {
    PTR(T, work)[part * outer + row] = mean;
    PTR(T, work)[(parts + part) * outer + row] = m2;
  }
}

__kernel void moments_item(CTENSOR(in), TENSOR(work), const ulong outer, const ulong size,
                           const ulong inner, const ulong parts) {
  const ulong output = get_global_id(0), part = get_global_id(1), outputs = outer * inner;
  if (output >= outputs) return;
  PART_RANGE
  TAKE_ALL(output / inner * size * inner + output % inner, from, inner, 1)
  PTR(T, work)[part * outputs + output] = mean;
  PTR(T, work)[(parts + part) * outputs + output] = m2;
}

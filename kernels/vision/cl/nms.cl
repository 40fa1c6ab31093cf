// Non-maximum suppression of boxes in the order of their scores, with the CPU's formula. Boxes are
// taken in blocks of BLOCK, one launch after another. Each work-group decides by itself which boxes
// of the block stay (their overlaps are bits), because groups cannot wait for each other. Then its
// work-items remove the later boxes that overlap one of them: no more than BLOCK bits for each box
// are ever stored.
//   boxes    [count][4] of COMPUTE: x1, y1, x2, y2
//   removed  [count] bytes, zero before the first block; those of the block are final
//   kept     [count] bytes, the results; group 0 writes those of the block
//   classes  [count] int64, ascending, with CLASSES: only boxes of one class are compared
//   limit    the largest COMPUTE that is not above the threshold
// Grid: the later boxes, `per_item` for each work-item, at least one group. The CPU family has
// groups of one.
#include "common.clh"
#include "types.clh"
#include "math.clh"
#pragma OPENCL FP_CONTRACT OFF

#ifdef TASKS
#define GROUP 1
#define GROUP_KERNEL TASK __kernel
#else
#define GROUP_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#endif

#ifdef CLASSES
#define CLASS_ARGUMENT CTENSOR(classes),
#define SAME_CLASS(i, j) (CPTR(long, classes)[i] == CPTR(long, classes)[j])
#else
#define CLASS_ARGUMENT
#define SAME_CLASS(i, j) true
#endif

typedef struct {
  T x1, y1, x2, y2, area;
} Box;

static inline Box load_box(__global const T *p) {
  Box box = {p[0], p[1], p[2], p[3], (p[2] - p[0]) * (p[3] - p[1])};
  return box;
}

// The order of operands matters: of NaN and a number, the CPU takes the first.
static inline bool overlap(const Box a, const Box b, const T limit) {
  const T x1 = a.x1 < b.x1 ? b.x1 : a.x1, y1 = a.y1 < b.y1 ? b.y1 : a.y1;
  const T x2 = b.x2 < a.x2 ? b.x2 : a.x2, y2 = b.y2 < a.y2 ? b.y2 : a.y2;
  const T width = 0 < x2 - x1 ? x2 - x1 : 0, height = 0 < y2 - y1 ? y2 - y1 : 0;
  const T common = width * height;
  return QUOTIENT(common, (a.area + b.area - common)) > limit;
}

GROUP_KERNEL void nms_block(CTENSOR(boxes), CLASS_ARGUMENT TENSOR(removed), TENSOR(kept),
                            const ulong count, const ulong first, const ulong per_item,
                            const T limit) {
  __local Box block[BLOCK];
  __local ulong hits[BLOCK];  // for each box, the later boxes of the block that it overlaps
  const uint item = get_local_id(0), size = (uint)min((ulong)BLOCK, count - first);
  __global const T *box = CPTR(T, boxes);
  __global uchar *is_removed = PTR(uchar, removed);

  for (uint i = item; i < size; i += GROUP) block[i] = load_box(box + (first + i) * 4);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = item; i < size; i += GROUP) {
    ulong bits = 0;
    if (!is_removed[first + i]) {
      for (uint j = i + 1; j < size; ++j) {
        if (!SAME_CLASS(first + i, first + j)) break;
        if (overlap(block[i], block[j], limit)) bits |= (ulong)1 << j;
      }
    }
    hits[i] = bits;
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  ulong gone = 0, stays = 0;
  for (uint i = 0; i < size; ++i) {
    const ulong bit = (ulong)1 << i;
    if ((gone & bit) || is_removed[first + i]) continue;
    stays |= bit;
    gone |= hits[i];
  }
  if (group_id(0) == 0) {
    for (uint i = item; i < size; i += GROUP) {
      PTR(uchar, kept)[first + i] = (uchar)((stays >> i) & 1);
    }
  }

  // Only boxes up to the end of the last box's class can be overlapped.
  const ulong last = first + size - 1;
  for (uint i = 0; i < size && !SAME_CLASS(first + i, last); ++i) stays &= ~((ulong)1 << i);
  const ulong begin = last + 1 + (ulong)get_global_id(0) * per_item;
  for (ulong j = begin, end = min(begin + per_item, count); j < end; ++j) {
    if (!SAME_CLASS(last, j)) break;
    if (is_removed[j]) continue;
    const Box later = load_box(box + j * 4);
    for (uint i = 0; i < size; ++i) {
      if (((stays >> i) & 1) && overlap(block[i], later, limit)) {
        is_removed[j] = 1;
        break;
      }
    }
  }
}

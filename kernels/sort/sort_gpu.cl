// Stable radix sort of rows of `size` elements on GPUs, the least significant digit first. A
// work-group takes a tile: TILE adjacent elements of a row. A pass sorts by 8 bits, in three steps:
//
//   sort_count     counts[row][digit][tile], the elements of each digit in each tile
//   cumsum         adds up the counts of a digit over the tiles (kernels/reduce/scan.cpp)
//   sort_scatter   sorts the tile by the digit in local memory. Each digit is then one run of
//                  elements, whose place in the row follows from the sums. So adjacent work-items
//                  write adjacent elements
//
// Source: N. Satish, M. Harris, M. Garland, Designing Efficient Sorting Algorithms for Manycore
// GPUs, IPDPS 2009. The packed counters of a tile: D. Merrill, A. Grimshaw, High Performance and
// Scalable Radix Sorting, Parallel Processing Letters 21 (2), 2011.
//
// Elements are stored unchanged; keys (sort_key.clh) are computed when a digit is needed. sort_tile
// sorts rows that fit in a tile, by all bits, in one launch. A tile may have several rows: it is
// sorted by the keys, and then by the index of the row.
//
//   GROUP   work-items of a group, a power of two up to 256
// Grid: a group for each tile. `tiles`: of a row, each of sort_scatter's TILE elements.
#include "sort_key.clh"
#include "group.clh"

#define PER 8  // elements of a work-item
#define TILE (GROUP * PER)
#define DIGITS 256
#define NIBBLES 16
#define WORDS 8  // words with the counts of a work-item: NIBBLES / 2, at most PER
#define UNROLLED(k, n) _Pragma("unroll") for (uint k = 0; k < n; ++k)
#define FOR(k) UNROLLED(k, PER)
#define KERNEL __attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void

// The index of element i in a local array. Adjacent work-items read elements that are PER apart; a
// gap after each 32 elements spreads these over the banks of local memory.
#define AT(i) ((i) + (i) / 32)
#define LOCAL_TILE (TILE + TILE / 32 + 1)

#define DIGIT(bits) ((uint)(key_of(bits) >> shift) & (DIGITS - 1))
#define NO_ELEMENT UINT_MAX  // marks places after the last element of a row

// The 4 bits that a tile is sorted by, from bit `shift` on. Above the bits of the key are those of
// the row's index in the tile. Places without an element come last.
static inline uint nibble_of(const BITS bits, const uint position, const uint shift,
                             const uint size) {
  if (position == NO_ELEMENT) return NIBBLES - 1;
  if (shift < KEY_BITS) return (uint)(key_of(bits) >> shift) & (NIBBLES - 1);
  return position / size >> (shift - KEY_BITS) & (NIBBLES - 1);
}

// Sorts the tile by 4 bits. A work-item takes PER adjacent elements, and counts how many have each
// value, in 4 bits of a register per value. Then a word of local memory has two counts of a
// work-item: of value v, and of v + 8 in the upper half. The words are ordered by v, then by
// work-item. Their exclusive sums are the positions of the elements (the upper halves also add the
// sum of all lower halves). The words use the memory of `position`, whose numbers are in registers
// then.
ALWAYS_INLINE void sort_by_nibble(__local BITS *bits, __local uint *position,
                                  __local uint *partial, const uint shift, const uint size) {
  const uint item = get_local_id(0);
  BITS own_bits[PER];
  uint own_position[PER], value[PER], place[PER];
  ulong seen = 0;
  FOR(k) {
    own_bits[k] = bits[AT(item * PER + k)];
    own_position[k] = position[AT(item * PER + k)];
    value[k] = nibble_of(own_bits[k], own_position[k], shift, size);
    place[k] = (uint)(seen >> 4 * value[k]) & 15;
    seen += (ulong)1 << 4 * value[k];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __local uint *count = position;
  const uint lower = (uint)seen, upper = (uint)(seen >> 32);
  UNROLLED(v, WORDS)
    count[AT(v * GROUP + item)] = (lower >> 4 * v & 15) | (upper >> 4 * v & 15) << 16;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint total = 0;
  UNROLLED(v, WORDS) total += count[AT(item * WORDS + v)];
  uint sum = total;
  GROUP_SCAN(sum, ADD)
  sum += (partial[GROUP - 1] << 16) - total;
  UNROLLED(v, WORDS) {
    const uint here = count[AT(item * WORDS + v)];
    count[AT(item * WORDS + v)] = sum;
    sum += here;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  FOR(k) {
    const uint word = count[AT(value[k] % WORDS * GROUP + item)];
    place[k] += word >> 16 * (value[k] / WORDS) & 0xFFFF;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  FOR(k) {
    bits[AT(place[k])] = own_bits[k];
    position[AT(place[k])] = own_position[k];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

#define TILE_OF_ROW(elements)                                                         \
  const uint item = get_local_id(0);                                                  \
  const ulong row = group_id(0) / tiles, tile = group_id(0) % tiles;                  \
  const ulong from = tile * (elements), first = row * size + from;                          \
  const uint in_tile = (uint)min((ulong)(elements), size - from);                     \
  __global uint *count = PTR(uint, counts) + row * DIGITS * tiles;

KERNEL sort_count(CTENSOR(in), TENSOR(counts), const ulong size, const ulong tiles,
                  const uint elements, const uint shift) {
  __local uint here[DIGITS];
  TILE_OF_ROW(elements)
  for (uint d = item; d < DIGITS; d += GROUP) here[d] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = item; i < in_tile; i += GROUP)
    atomic_inc(&here[DIGIT(CPTR(BITS, in)[first + i])]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint d = item; d < DIGITS; d += GROUP) count[d * tiles + tile] = here[d];
}

// In the first pass (`begins`), an element's position is where it lies in the row, and `order` is
// not read. The last pass (`ends`) writes the positions as 64-bit indices.
KERNEL sort_scatter(CTENSOR(in), CTENSOR(order), TENSOR(counts), TENSOR(out), TENSOR(order_out),
                    const ulong size, const ulong tiles, const uint shift, const int begins,
                    const int ends) {
  __local BITS bits[LOCAL_TILE];
  __local uint position[LOCAL_TILE], partial[GROUP], start[DIGITS];
  TILE_OF_ROW(TILE)
  FOR(k) {
    const uint i = k * GROUP + item;
    BITS x = 0;
    uint at = NO_ELEMENT;
    if (i < in_tile) {
      x = CPTR(BITS, in)[first + i];
      at = begins ? (uint)from + i : CPTR(uint, order)[first + i];
    }
    bits[AT(i)] = x;
    position[AT(i)] = at;
  }
  // The positions in the row at which this tile's elements of each digit begin.
#define OF_DIGIT(d) count[(d) * tiles + tiles - 1]
  const uint first_digit = item * (DIGITS / GROUP);
  uint total = 0;
  for (uint d = 0; d < DIGITS / GROUP; ++d) total += OF_DIGIT(first_digit + d);
  uint before = total;
  GROUP_SCAN(before, ADD)
  before -= total;
  for (uint d = first_digit; d < first_digit + DIGITS / GROUP; ++d) {
    start[d] = before + (tile > 0 ? count[d * tiles + tile - 1] : 0);
    before += OF_DIGIT(d);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  sort_by_nibble(bits, position, partial, shift, 1);
  sort_by_nibble(bits, position, partial, shift + 4, 1);
  FOR(k) {  // the first element of a run makes `start` relative to the tile
    const uint i = k * GROUP + item;
    if (i < in_tile) {
      const uint digit = DIGIT(bits[AT(i)]);
      if (i == 0 || DIGIT(bits[AT(i - 1)]) != digit) start[digit] -= i;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  FOR(k) {
    const uint i = k * GROUP + item;
    if (i < in_tile) {
      const BITS x = bits[AT(i)];
      const ulong to = row * size + (uint)(start[DIGIT(x)] + i);
      PTR(BITS, out)[to] = x;
      if (ends) PTR(long, order_out)[to] = position[AT(i)];
      else PTR(uint, order_out)[to] = position[AT(i)];
    }
  }
}

// `sorted_bits`: the number of bits of a key and of a row's index in the tile.
KERNEL sort_tile(CTENSOR(in), TENSOR(values), TENSOR(indices), const ulong rows, const uint size,
                 const uint rows_of_tile, const uint sorted_bits) {
  __local BITS bits[LOCAL_TILE];
  __local uint position[LOCAL_TILE], partial[GROUP];
  const uint item = get_local_id(0);
  const ulong row = group_id(0) * rows_of_tile, first = row * size;
  const uint in_tile = (uint)min((ulong)rows_of_tile, rows - row) * size;
  FOR(k) {
    const uint i = k * GROUP + item;
    bits[AT(i)] = i < in_tile ? CPTR(BITS, in)[first + i] : 0;
    position[AT(i)] = i < in_tile ? i : NO_ELEMENT;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint shift = 0; shift < sorted_bits; shift += 4)
    sort_by_nibble(bits, position, partial, shift, size);
  FOR(k) {
    const uint i = k * GROUP + item;
    if (i < in_tile) {
      PTR(BITS, values)[first + i] = bits[AT(i)];
      PTR(long, indices)[first + i] = position[AT(i)] % size;
    }
  }
}

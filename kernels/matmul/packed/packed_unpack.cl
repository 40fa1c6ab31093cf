// Unpacks weights of 4 bits [n][k] to the type STORE, for products that use each weight in many
// rows. A unit is a row; an element is a word of eight weights, for both families (grid.clh).
// Defines: FIRST_UPPER and ZEROS of packed_weights.clh; VW is 8.
#include "element.clh"
#include "grid.clh"

#define NUMBERS CAT(COMPUTE, 8)
#define FIRST (4 * FIRST_UPPER)
#define SECOND (4 - FIRST)
#define POSITIONS  /* of the weights in their word */                                          \
  (uint8)(FIRST, SECOND, 8 + FIRST, 8 + SECOND, 16 + FIRST, 16 + SECOND, 24 + FIRST, 24 + SECOND)
UNALIGNED(uchar4)

GRID __kernel void unpack_weights(TENSOR(out), CTENSOR(weights), CTENSOR(scales), CTENSOR(zeros),
                                  const ulong n, const ulong words, const ulong words_of_group,
                                  const ulong per_item) {
  FOR_UNITS(row, n, per_item) FOR_INNER(word, words) {
    const size_t at = row * words + word, group = word / words_of_group * n + row;
    const uint bits = as_uint(LOAD_UNALIGNED(uchar4, 4, CPTR(uchar, weights) + 4 * at));
    const NUMBERS number = CAT3(convert_, COMPUTE, 8)(((uint8)(bits) >> POSITIONS) & 15u);
#if ZEROS == 1
    __global const STORE *scale_and_zero = CPTR(STORE, scales) + 2 * group;
    const NUMBERS value =
        (number - (NUMBERS)(8)) * LOAD(scale_and_zero, 0) + (NUMBERS)(LOAD(scale_and_zero, 1));
#else
    const NUMBERS value =
        (number - (NUMBERS)(CPTR(char, zeros)[group])) * LOAD(CPTR(STORE, scales), group);
#endif
    STORE_VEC(value, PTR(STORE, out) + 8 * at);
  }
}

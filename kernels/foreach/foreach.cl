// One of PyTorch's _foreach_ operators: for each tensor of the lists a, b, c, out = EXPR, as in the
// table of element-wise operators.
//   INPUTS       number of input lists, 1 to 3; OUTPUT: the list that is written
//   EXPR may use a number, named s0 (b with VALUE_IS_B). It is the argument `number`, or with
//   NUMBERS the tensor's own number in the table, or with ELEMENT a number of that type in device
//   memory
#include "foreach.clh"

#ifdef ELEMENT
#define ELEMENT_PARAM , CTENSOR(element)
#define VALUE_HERE ((T)LOAD(ELEMENT, CPTR(MEM(ELEMENT), element), 0))
#else
#define ELEMENT_PARAM
#ifdef NUMBERS
#define VALUE_HERE here.number
#else
#define VALUE_HERE number
#endif
#endif

#if INPUTS > 1
#define READ_B(READ) READ(1, b)
#else
#define READ_B(READ)
#endif
#if INPUTS > 2
#define READ_C(READ) READ(2, c)
#else
#define READ_C(READ)
#endif
#if OUTPUT == 0
#define WRITE_OUT(WRITE, x) WRITE(0, x)
#elif OUTPUT == 1
#define WRITE_OUT(WRITE, x) WRITE(1, x)
#elif OUTPUT == 2
#define WRITE_OUT(WRITE, x) WRITE(2, x)
#else
#define WRITE_OUT(WRITE, x) WRITE(3, x)
#endif

#define APPLY(READ, WRITE)      \
  READ(0, a)                    \
  READ_B(READ)                  \
  READ_C(READ)                  \
  const V result = EXPR;        \
  WRITE_OUT(WRITE, result)

CHUNKED __kernel void KERNEL(TABLE_PARAMS, const T number ELEMENT_PARAM) {
  OPEN_TABLE
  FOR_CHUNKS(k) {
    FIND_CHUNK(k)
    POINTER(0)
#if LISTS > 1
    POINTER(1)
#endif
#if LISTS > 2
    POINTER(2)
#endif
#if LISTS > 3
    POINTER(3)
#endif
#ifdef VALUE_IS_B
    const V b = (V)(VALUE_HERE);
#ifdef ELEMENT
    const T s0 = number;
#else
    const T s0 = 1;
#endif
#else
    const T s0 = VALUE_HERE;
#endif
    FOR_ELEMENTS(APPLY)
  }
}

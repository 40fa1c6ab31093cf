"""Instructions for which numpy has no operator. The arguments are arrays, or scalars of numpy, of
one type; the results have the type that the instruction says."""

import numpy as np

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def unsigned(a):
    return a.view(UNSIGNED[a.dtype.itemsize])


def wider(a):
    kinds = SIGNED if a.dtype.kind == "i" else UNSIGNED
    return a.astype(kinds[a.dtype.itemsize * 2])


def mul_hi(a, b):
    if a.dtype.itemsize < 8:
        return (wider(a) * wider(b) >> a.dtype.itemsize * 8).astype(a.dtype)
    low = np.uint64(0xFFFFFFFF)
    x, y = unsigned(a), unsigned(b)
    x0, x1, y0, y1 = x & low, x >> np.uint64(32), y & low, y >> np.uint64(32)
    middle = x1 * y0 + (x0 * y0 >> np.uint64(32))
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> np.uint64(32)) + (other >> np.uint64(32))
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.view(a.dtype)


def divide(a, b):
    """Rounds towards 0. Division by 0, which PTX leaves undefined, sets all bits as on NVIDIA."""
    if a.dtype.kind == "u":
        return np.where(b == 0, ~a, a // np.where(b == 0, b.dtype.type(1), b))
    x, y = unsigned(np.abs(a)), unsigned(np.abs(b))
    quotient = np.where(y == 0, ~x, x // np.where(y == 0, y.dtype.type(1), y)).view(a.dtype)
    return np.where((a < 0) == (b < 0), quotient, -quotient)


def remainder(a, b):
    return a - divide(a, b) * b


def shift_left(a, by):
    width = a.dtype.itemsize * 8
    clamped = np.minimum(by, np.uint32(width - 1)).astype(a.dtype)
    return np.where(by >= width, a.dtype.type(0), a << clamped)


def shift_right(a, by):
    width = a.dtype.itemsize * 8
    clamped = np.minimum(by, np.uint32(width - 1)).astype(a.dtype)
    shifted = a >> clamped
    return shifted if a.dtype.kind == "i" else np.where(by >= width, a.dtype.type(0), shifted)


def bits_of(a, start, length):
    """bfe"""
    width = a.dtype.itemsize * 8
    kind = UNSIGNED[a.dtype.itemsize]
    start, length = start & np.uint32(255), length & np.uint32(255)
    if a.dtype.kind == "u":
        keep = shift_left(kind(1), length) - kind(1)
        return shift_right(a, start) & keep
    left = np.maximum(width - start.astype(np.int64) - length, 0).astype(np.uint32)
    kept = shift_left(unsigned(a), left).view(a.dtype)
    return np.where(length == 0, a.dtype.type(0), shift_right(kept, left + start))


def insert_bits(a, b, start, length):
    """bfi: the low bits of a into b."""
    kind = UNSIGNED[a.dtype.itemsize]
    keep = shift_left(shift_left(kind(1), length & np.uint32(255)) - kind(1), start)
    return b & ~keep | shift_left(a, start) & keep


def count_bits(a):
    return np.bitwise_count(a).astype(np.uint32)


def leading_zeros(a):
    x, width = unsigned(a), a.dtype.itemsize * 8
    for by in (1, 2, 4, 8, 16, 32)[: width.bit_length() - 1]:
        x = x | x >> x.dtype.type(by)
    return np.uint32(width) - count_bits(x)


def reverse_bits(a):
    swapped = a.byteswap()
    for by, mask in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        low = a.dtype.type(int.from_bytes(bytes([mask]) * a.dtype.itemsize, "little"))
        by = a.dtype.type(by)
        swapped = (swapped & low) << by | swapped >> by & low
    return swapped


def find_leading(a):
    """bfind: the position of the highest bit that differs from the sign; all bits if none does."""
    x = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    return np.uint32(a.dtype.itemsize * 8 - 1) - leading_zeros(x)


def permute(a, b, selector):
    """prmt: four bytes of the eight of b:a."""
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    result = np.uint64(0)
    for place in range(4):
        pick = (selector >> np.uint32(4 * place)).astype(np.uint64)
        byte = both >> (pick & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = (byte >> np.uint64(7)) * np.uint64(255)
        byte = np.where(pick & np.uint64(8), sign, byte)
        result = result | byte << np.uint64(8 * place)
    return result.astype(np.uint32)


def funnel(low, high, by, left, wraps):
    """shf"""
    by = by & np.uint32(31) if wraps else np.minimum(by, np.uint32(32))
    both = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    shift = by.astype(np.uint64)
    return (both << shift >> np.uint64(32) if left else both >> shift).astype(np.uint32)


def dot4(a, b, c, kind_a, kind_b):
    """dp4a"""
    total = c.astype(np.int64)
    for place in range(4):
        byte = [
            (x >> np.uint32(8 * place))
            .astype(np.uint8)
            .view(np.int8 if kind == "s32" else np.uint8)
            for x, kind in ((a, kind_a), (b, kind_b))
        ]
        total = total + byte[0].astype(np.int64) * byte[1]
    return total.astype(np.uint32)


def fma32(a, b, c):
    return (a.astype(np.float64) * b + c).astype(np.float32)


def fma16(a, b, c):
    return (a.astype(np.float64) * b + c).astype(np.float16)


def fma64(a, b, c):
    """The product's and the sum's rounding errors are added last (Dekker, Knuth)."""
    product = a * b
    split = np.float64(134217729)
    a1 = a * split - (a * split - a)
    b1 = b * split - (b * split - b)
    a2, b2 = a - a1, b - b1
    product_error = a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)
    total = product + c
    part = total - product
    sum_error = (product - (total - part)) + (c - part)
    error = product_error + sum_error
    return np.where(np.isfinite(error), total + error, total)


def in_float64(function, a):
    return function(a.astype(np.float64)).astype(a.dtype)


def to_integer(a, kind, rounding):
    """Numbers out of range become the nearest number of the type; NaN becomes 0."""
    a = rounding(a)
    limits = np.iinfo(kind)
    # float64 cannot represent the largest 64-bit integer, but the next one.
    above = a >= np.float64(2.0 ** (limits.bits - (kind().dtype.kind == "i")))
    inside = np.where(np.isnan(a) | above | (a <= limits.min), a.dtype.type(0), a)
    low = np.where(a <= limits.min, kind(limits.min), inside.astype(kind))
    return np.where(above, kind(limits.max), low)


def saturated(a, kind):
    """An integer of another type, or the nearest one."""
    limits = np.iinfo(kind)
    low = max(limits.min, np.iinfo(a.dtype).min)
    high = min(limits.max, np.iinfo(a.dtype).max)
    return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(kind)


def toward(a, kind, mode):
    """A float of a smaller type, rounded down (rm), up (rp) or to 0 (rz)."""
    near = a.astype(kind)
    back = near.astype(a.dtype)
    lower = np.nextafter(near, kind(-np.inf))
    upper = np.nextafter(near, kind(np.inf))
    down = np.where(back > a, lower, near)
    up = np.where(back < a, upper, near)
    chosen = {"rm": down, "rp": up, "rz": np.where(a > 0, down, up)}[mode]
    return np.where(np.isnan(a), near, chosen)


def in_halves(function, *arguments):
    """An instruction of f16x2: both halves of a word."""
    words = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*arguments)]
    halves = [word.view(np.float16).reshape(*word.shape, 2) for word in words]
    result = np.ascontiguousarray(function(*halves).astype(np.float16))
    return result.view(np.uint32).reshape(words[0].shape)


def pair_of_halves(high, low, convert):
    """cvt.rn.f16x2.f32, cvt.rn.bf16x2.f32"""
    return convert(low).astype(np.uint32) | convert(high).astype(np.uint32) << np.uint32(16)


def half_bits(a):
    return a.astype(np.float16).view(np.uint16)


def bfloat_bits(a):
    word = a.astype(np.float32).view(np.uint32)
    rounded = word + np.uint32(0x7FFF) + (word >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(a), np.uint32(0x7FFF), rounded >> np.uint32(16)).astype(np.uint16)


def bfloat(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)

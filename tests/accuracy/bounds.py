"""The errors of float32 functions that CUDA publishes and that OpenCL C allows, in units of the
last place.

CUDA C++ Programming Guide, section "Mathematical Functions", table of single precision (of CUDA
12.8 or later, which has quad precision, too): distances from the correctly rounded result, so those
from the exact one may be half a unit more. lgamma's holds outside -10.001 ... -2.264, those of
Bessel functions for |x| < 8.
OpenCL C 3.0 specification, section "Relative Error as ULPs", single precision, full profile.
An operator without a row is composed of others.
"""

# Operator: (CUDA, OpenCL C), None where there is no bound.
BOUNDS = {
    "add": (0.5, 0.5),
    "mul": (0.5, 0.5),
    "div.Tensor": (0.5, 2.5),
    "reciprocal": (0.5, 2.5),
    "sqrt": (0.5, 3),
    "rsqrt": (2, 2),
    "exp": (2, 3),
    "exp2": (2, 3),
    "expm1": (1, 3),
    "log": (1, 3),
    "log2": (1, 3),
    "log10": (2, 3),
    "log1p": (1, 2),
    "sin": (2, 4),
    "cos": (2, 4),
    "tan": (4, 5),
    "asin": (2, 4),
    "acos": (2, 4),
    "atan": (2, 5),
    "atan2": (3, 6),
    "hypot": (3, 4),
    "sinh": (3, 4),
    "cosh": (2, 4),
    "tanh": (2, 5),
    "asinh": (3, 4),
    "acosh": (4, 4),
    "atanh": (3, 5),
    "pow.Tensor_Tensor": (4, 16),
    "erf": (2, 16),
    "erfc": (4, 16),
    "erfinv": (2, None),
    "special_erfcx": (4, None),
    "special_ndtri": (5, None),
    "lgamma": (6, None),
    "fmod.Tensor": (0, 0),
    "i0": (6, None),
    "special_i1": (6, None),
    "special_bessel_j0": (9, None),
    "special_bessel_j1": (9, None),
    "special_bessel_y0": (9, None),
    "special_bessel_y1": (9, None),
    "nextafter": (0, 0),
    "ldexp": (0.5, 0.5),
    "ceil": (0, 0),
    "floor": (0, 0),
    "trunc": (0, 0),
    "round": (0, 0),
    "copysign.Tensor": (0, 0),
}

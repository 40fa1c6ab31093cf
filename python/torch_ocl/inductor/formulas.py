"""Operations whose text depends only on their arguments; overrides.py has the others."""

# The text of operations. Their arguments are converted to the result's type first.
FORMULAS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "mul_rn": "PRODUCT({0}, {1})",
    "div_rn": "{0} / {1}",
    "neg": "-{0}",
    "fma": "fma({0}, {1}, {2})",
    "square": "{0} * {0}",
    "reciprocal": "1 / {0}",
    "sigmoid": "1 / (1 + exp(-{0}))",
    "rsqrt": "1 / sqrt({0})",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "trunc": "trunc({0})",
    "round": "rint({0})",
    "copysign": "copysign({0}, {1})",
    "hypot": "hypot({0}, {1})",
    "atan2": "atan2({0}, {1})",
    "lgamma": "LGAMMA({0})",
    "ndtr": "erfc({0} * -0.70710678f) / 2",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "and_": "{0} & {1}",
    "or_": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "lshift": "{0} << {1}",
    "rshift": "{0} >> {1}",
}
_FUNCTIONS = """
    exp exp2 expm1 sqrt acos acosh asin asinh atan atanh cosh sinh tanh erfc log log2 log10 log1p
"""
for _name in _FUNCTIONS.split():
    FORMULAS[_name] = _name + "({0})"

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
LOGICAL = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}

# Macros of kernels/core/cl/math.clh.
MATH = {"erf": "ERF", "sin": "SIN", "cos": "COS", "tan": "TAN"}

SPECIAL = {
    "gamma": {
        "digamma": "digamma",
        "zeta": "zeta",
        "igamma": "lower_gamma",
        "igammac": "upper_gamma",
        "gammainc": "lower_gamma",
        "gammaincc": "upper_gamma",
    },
    "error_functions": {name: name for name in ("erfcx", "erfinv", "ndtri", "log_ndtr")},
    "bessel": {
        **{n: n for n in ("i0", "i0e", "i1", "i1e", "airy_ai")},
        **{n: n for n in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")},
        "spherical_bessel_j0": "spherical_bessel_j0",
        "modified_bessel_i0": "i0",
        "modified_bessel_i1": "i1",
        "modified_bessel_k0": "modified_bessel_k0",
        "modified_bessel_k1": "modified_bessel_k1",
        "scaled_modified_bessel_k0": "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1": "scaled_modified_bessel_k1",
    },
    "polynomial": {
        **{f"chebyshev_polynomial_{k}": f"chebyshev_{k}" for k in "tuvw"},
        **{f"shifted_chebyshev_polynomial_{k}": f"shifted_chebyshev_{k}" for k in "tuvw"},
        "hermite_polynomial_h": "hermite_h",
        "hermite_polynomial_he": "hermite_he",
        "laguerre_polynomial_l": "laguerre_l",
        "legendre_polynomial_p": "legendre_p",
    },
}

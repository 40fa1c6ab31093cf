"""Differences from the CPU by decision: (operator, case, message, reason), regular expressions that
are searched in the name, in "dtype edge: case", and in the difference."""

import re

from edge_refusals import REFUSALS
from edge_zeros import LAPACK, SIGNS_OF_ZERO

SUMS = (
    r"mm|mv$|^dot$|^vdot$|^inner$|matmul|conv|linear|linalg|sum|mean|norm|var|std|cov|corrcoef|"
    r"trace|einsum|tensordot|bilinear|trapezoid|attention|pool|interpolate|fft|stft|dist|loss|"
    r"grid_sample|softmax|logsumexp|logcumsumexp|embedding_bag|cumsum|cumprod|prod|kron|chain|cross|det|inverse|pinverse|"
    r"^module\."
)

DECISIONS = [
    (
        SUMS,
        r" special: .*(extremes|mixed)",
        r"close",
        "sums and products that leave the type on the way: infinity or NaN is a matter of order",
    ),
    (
        r"conv",
        r" special: .*(inf|nan)",
        r"close",
        "3x3 convolutions of four results at a time: an infinity or NaN spoils all four",
    ),
    (
        LAPACK,
        r" (views|batch|sums|special): ",
        r"close",
        "factors of matrices with equal rows or columns are not unique",
    ),
    (
        "",
        r" inplace: .*overlapping",
        r"close|equal|became",
        "elements that share memory: the result is a matter of the order of writes",
    ),
    (
        r"^(diagonal|slice|select|as_strided)_scatter$",
        r" views: .*overlapping",
        r"close|equal",
        "results that keep overlapping strides: the result is a matter of the order of writes",
    ),
    (
        r"polygamma",
        r" special: ",
        r"close",
        "at the poles the CPU's sine of pi * x is not 0; of orders above 1 its zeta(inf) is NaN",
    ),
    (
        r"gelu|GELU",
        r" special: .*(inf|mixed|extremes)",
        r"close",
        "at infinity the CPU's vectors give NaN, its remainder loop infinity",
    ),
    (
        r"^(pow|__rpow__|float_power)$",
        r"complex.* numbers: .*= (2147483648|9223372036854775808)",
        r"close",
        "huge exponents of complex numbers: the angle's last bits decide the quadrant",
    ),
    (
        r"avg_pool2d",
        r" out: .*overlaps arg 0",
        r"close|equal",
        "out= overlaps the argument: a matter of the order of writes",
    ),
    (
        r"batch_norm",
        r"float16 (formats|views|batch|numbers): ",
        r"close",
        "the CPU rounds scale and shift to 16 bits: its error is up to five times ours",
    ),
    (
        r"conv_transpose",
        r"float16 batch: ",
        r"Output size is too small",
        "the CPU's library has empty results in 16 bits; in float32 it refuses",
    ),
    (
        r"conv",
        r" promotion: ",
        r"input and bias must have the same dtype",
        "a bias of another type: some of the CPU's kernels refuse it, others read it",
    ),
    (
        r"batch_norm|layer_norm",
        r"float16",
        r"^result [12]: dtype float32 instead",
        "the statistics of 16-bit tensors are float32, as on CUDA and in PyTorch's decomposition",
    ),
    (
        r"scaled_dot_product_attention",
        r" formats: ",
        r"^strides",
        "fused attention: in the layout of the query, as PyTorch's meta function says",
    ),
    (
        r"multilabel_margin_loss|Multi(Label)?MarginLoss",
        r" empty: ",
        r"close",
        "the CPU's loss of no rows is whatever the memory held",
    ),
    (
        r"^to$",
        r" numbers: .*for a tensor",
        r"^result on cpu",
        "a number in the place of the tensor whose device is meant",
    ),
    (
        r"max_pool1d|MaxPool1d",
        r" views: .*neg view",
        r"close",
        "the CPU's max_pool1d forgets that its argument is negated lazily",
    ),
    (
        r"^(mode|masked\.median|special\.(chebyshev|laguerre|legendre|hermite|shifted))",
        r" (special|views): ",
        r"close",
        "of NaN: an order that NaN breaks, or memory that the CPU did not write",
    ),
    (
        r"^special\.(shifted_)?chebyshev",
        r" numbers: .*= 1000000.0 for a tensor",
        r"close",
        "polynomials of degree a million: the CPU's recurrence has lost all digits of float32",
    ),
    (
        r"ctc_loss|CTCLoss",
        r" batch: ",
        r"close",
        "labels out of range, which the CPU reads from elsewhere",
    ),
    (
        r"grid_sampler",
        r" numbers: ",
        r"close",
        "interpolations that are none of the three",
    ),
    (
        r"^(digamma|polygamma|igamma)",
        r" special: .*denormals",
        r"close",
        "devices may take denormals for 0",
    ),
    (
        r"bilinear2d_aa",
        r" numbers: ",
        r"close",
        "of results one pixel wide, the CPU's vectors repeat the first row",
    ),
    (
        r"^masked_scatter$",
        r" inplace: .*(is self|overlaps self)",
        r"close|equal",
        "a source that is written meanwhile: the CPU reads what it has already written",
    ),
    (
        r"scaled_dot_product_attention",
        r" views: .*overlapping",
        r"close",
        "the CPU's fused attention misreads a mask whose elements overlap; its float64 does not",
    ),
    (
        r"batch_norm",
        r" special: .*inf",
        r"close",
        "an infinite weight: the CPU has infinity - infinity from weight * mean",
    ),
    (
        r"conv(_transpose)?3d",
        r" formats: ",
        r"^strides",
        "single small volumes: the CPU takes a kernel with contiguous results for them",
    ),
    (
        r"^(i0|special\.(i1|modified_bessel|bessel|airy))",
        r" special: .*(inf|mixed)",
        r"close",
        "at infinity the CPU's approximations divide infinity by infinity: ours have the limits",
    ),
    (
        r"mm|mv|bmm|matmul|ldl_solve",
        r" (inplace|out): .*(is (self|arg)|overlaps (self|arg))",
        r"close|equal",
        "a product over its own factor: the CPU reads what it has already written",
    ),
    (
        r"native_group_norm",
        r" views: ",
        r"close",
        "group_norm's private function takes its input for contiguous on the CPU",
    ),
    (
        r"^cdist$",
        r" special: .*(nan|mixed|inf|extremes)",
        r"close",
        "with p = inf the CPU's cdist drops NaN, which its pdist keeps",
    ),
    (
        r"^(fmod|remainder|__rmod__)",
        r" special: .*(extremes|mixed|denormals)",
        r"close",
        "of huge quotients the CPU's vectors give NaN or 0., its remainder loop what C says",
    ),
    (
        r"polygamma",
        r" numbers: .*= (255|256|300|2147483648)",
        r"close",
        "the CPU sums float32's zeta function in float64, whose powers do not overflow",
    ),
    (
        r"^(__r(mul|div|pow)__|mul|div|pow|float_power|square|prod|cumprod|addcmul|addcdiv|lerp|logaddexp|log1p|sigmoid|"
        r"tanh|rsub|masked\.(cum)?prod|linalg\.vander|gradient|cross|linalg\.cross|kron|outer|ger|true_divide|"
        r"addr|ldexp)",
        r"complex.* special: .*(inf|nan|extremes|mixed|denormals)",
        r"close|equal",
        "complex products that leave the type: the CPU's vectors, its remainder loop and its "
        "numbers make different infinities and NaN of them",
    ),
    (
        SUMS,
        r"complex.* special: .*(inf|nan)",
        r"close",
        "complex products with infinity or NaN: which parts become NaN is a matter of order",
    ),
    (
        r"^(triu|tril)",
        r" out: .*overlaps arg",
        r"close|equal",
        "a triangle over a part of its argument: the CPU reads what it has already written",
    ),
    (
        r"^(amax|amin|mean|nanmean|sum|nansum|max|min|prod|norm|all|any)",
        r" out: .*is arg",
        r"close|equal",
        "a reduction into its own argument: the CPU clears it first",
    ),
    (
        r"^(std|var|ormqr|nn\.functional\.avg_pool)",
        r" out: .*is arg 0",
        r"close|equal",
        "out= is the argument, which the CPU resizes or writes before it is read",
    ),
    (
        r"interpolate|upsample|Upsample",
        r" special: ",
        r"close|^(result \d: )?-?0\.0 became",
        "the CPU multiplies infinities by weights of zero, and cubic -0. by weights of both signs",
    ),
    (
        r"^special\.bessel_[jy][01]$",
        r" promotion: .*float64",
        r"close",
        "the CPU's Bessel functions of float64 have 7 digits near 5; ours agree with SciPy's",
    ),
    (
        r"^special\.shifted_chebyshev",
        r" promotion: ",
        r"close",
        "degrees up to 255: the recurrence loses four digits of float32, ours as the CPU's",
    ),
    (
        r"^special\.zeta$",
        r" (special|promotion|numbers): ",
        r"close",
        "the CPU sums float32's zeta in float64, whose powers do not overflow; for huge exponents "
        "its sum is NaN, not 0",
    ),
    (
        r"^prod$",
        r"complex.* sums: ",
        r"close",
        "a product whose parts leave the type: parts of infinity and zero make NaN",
    ),
    (
        r"^istft$",
        r" promotion: .*float16",
        r"close",
        "a window of 16 bits: the CPU rounds each step of the sum of its squares",
    ),
    (
        r"^hist(c|ogram|ogramdd)$",
        r" special: .*(extremes|mixed)",
        r"close|equal",
        "ranges wider than the type, which overflow on the CPU",
    ),
    (
        r"^nonzero_static$",
        "",
        r"^strides",
        "in the layout that PyTorch's meta function says, as on CUDA",
    ),
    (
        r"fractional_max_pool",
        r"float16 sums: ",
        r"equal",
        "the CPU computes the places of windows in 16 bits; ours are in float32, as on CUDA",
    ),
    (
        r"gelu",
        r" out: .*(reversed memory|stepped|expanded)",
        r"close",
        "the CPU's library writes an out with other strides as if it were contiguous",
    ),
    *SIGNS_OF_ZERO,
    *REFUSALS,
]

# Cases in which the CPU writes outside of an `out` that has other strides or another type, or reads
# outside of the pivots by which it exchanges rows.
CORRUPTING = re.compile(
    r"^lu_unpack batch:|"
    r"^(triu|tril|lu_unpack|linalg\.lu|narrow_copy) out: .*(reversed memory|stepped|expanded)|"
    r"avg_pool3d out: .*(reversed memory|stepped|expanded|int8|int16|int32|float16)"
)


def corrupts_the_cpu(name, edge, case):
    return CORRUPTING.search(f"{name} {edge}: {case}") is not None


COMPILED = [(*(re.compile(p) for p in patterns), why) for *patterns, why in DECISIONS]


def reason(name, edge, case, dtype, message):
    """The reason why this may differ, or None."""
    for operator, cases, difference, why in COMPILED:
        if (
            operator.search(name)
            and cases.search(f"{dtype} {edge}: {case}")
            and difference.search(message)
        ):
            return why
    return None

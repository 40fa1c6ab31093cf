"""Signs of zero that differ from the CPU's by decision, as rows of edge_decisions.py."""

LAPACK = r"^(lu|qr|geqrf|svd|pinverse|linalg\.|ormqr|triangular_solve|lobpcg|pca_lowrank)"

SIGNS_OF_ZERO = [
    (
        r"^(linalg\.)?qr$",
        r" sums: ",
        r"^(result \d: )?-?0\.0 became",
        "sums of products that cancel: the sign of zero is a matter of order",
    ),
    (
        r"^(topk|kthvalue|index_reduce|nanmedian|median)",
        r" special: ",
        r"^(result \d: )?-?0\.0 became",
        "-0. and 0. are equal: which of them is chosen is not said",
    ),
    (
        r"^neg$",
        r"complex",
        r"^(result \d: )?-?0\.0 became",
        "the CPU takes complex numbers from zero, which gives 0. for 0.",
    ),
    (
        r"gelu|GELU",
        r"float32 special: .*(zeros|mixed)",
        r"^(result \d: )?-?0\.0 became",
        "of -0. the CPU's library makes 0. on processors without AVX-512; the formula gives -0.",
    ),
    (
        r"^(cross|linalg\.cross|logaddexp2|bmm.*|__rmatmul__|grid_sampler.*|"
        r"nn\.functional\.(embedding_bag|grid_sample|affine_grid|scaled_dot.*))$",
        r" special: .*(denormals|mixed)",
        r"^(result \d: )?-?0\.0 became",
        "zeros that are left of numbers below the type: steps are not rounded one by one",
    ),
    (
        r"avg_pool|AvgPool",
        r"^float16 numbers: ",
        r"^-?0\.0 became",
        "a divisor beyond float16, which the CPU takes for infinity",
    ),
    (
        LAPACK,
        r" promotion: .*complex",
        r"^(result \d: )?-?0\.0 became",
        "complex products whose parts cancel",
    ),
    (
        r"^(sort|msort|amax|amin|masked\.ama?[xi]n?|softshrink|nn\.functional\.softshrink|module\.nn\.(Softshrink|"
        r"InstanceNorm))",
        r" (special|numbers): ",
        r"^-?0\.0 became|^result \d: -?0\.0 became",
        "-0. and 0. are equal; the CPU's vectors and its remainder loop differ, too",
    ),
    (
        r"(mm|mv|dot|inner|matmul|linear|einsum|chain_matmul|multi_dot)$",
        r" special: .*denormals",
        r"^(result \d: )?-?0\.0 became",
        "sums of products that leave the type below: the sign of zero is a matter of order",
    ),
    (
        r"^(stft|istft|fft\.)",
        "",
        r"^(result \d: )?-?0\.0 became",
        "signs of zero of Fourier transforms: they depend on the library's order of sums",
    ),
    (
        LAPACK,
        r" (special: .*(zeros|denormals|nan|extremes)|scalar: |views: .*conj view)",
        r"^(result \d: )?-?0\.0 became",
        "signs of zero of factors: they depend on LAPACK's blocks",
    ),
    (
        r"^acos",
        r"complex128",
        r"^(result \d: )?-?0\.0 became",
        "the CPU's acos of complex128 is pi/2 - asin, with other signs of zero than complex64's",
    ),
    (
        r"^(maximum|minimum|max\.binary|min\.binary|clamp|fmax|fmin)",
        r" (special|scalar|numbers|inplace|promotion): ",
        r"^(result \d: )?-?0\.0 became",
        "of two zeros the CPU's vectors take the second, its remainder loop the first",
    ),
    (
        r"^(__rmul__|mul|div|prod|cumprod|addcmul|addcdiv|masked\.(cum)?prod|linalg\.vander|vander|cross|"
        r"linalg\.cross|nn\.functional\.(silu|rms_norm)|(linalg\.)?cholesky|sinc|pow|__rpow__|float_power|"
        r"true_divide)",
        r"complex",
        r"^(result \d: )?-?0\.0 became",
        "signs of zero of complex products: the CPU's vectors add in another order",
    ),
]

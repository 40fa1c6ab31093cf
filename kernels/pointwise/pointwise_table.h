// The element-wise operators: one row each.
// - Operators, comma-separated; a name without overload: all overloads that CPU and CUDA share.
// - Stub: the DispatchStub.
// - Traits (pointwise.h): types that the operator takes, and how numbers and results are rounded.
// - Expression in OpenCL C. Inputs: a, b, c; the stub's further arguments: s0, s1, ... Inputs are
//   converted to the operator's common type first, the result to the output's type. Helpers:
//   math.clh.
// - A second expression for complex numbers, with the helpers of complex.clh. Without it, complex
//   tensors go to the fallback.
//
// An OCL_SPECIAL row names a header of kernels/pointwise/functions before the expression. Its
// functions take single numbers, so its kernels use no vectors.

// ---- arithmetic
OCL_POINTWISE("add", add_stub, kNumbersFit, "a + s0 * b", "a + c_mul(s0, b)")
OCL_POINTWISE("sub", sub_stub, kNumbersFit, "a - s0 * b", "a - c_mul(s0, b)")
OCL_POINTWISE("mul", mul_stub, kExactOperands, "a * b", "c_mul(a, b)")
OCL_POINTWISE("div.Tensor", div_true_stub, kFloating | kExactOperands, "DIV(a, b)", "c_div(a, b)")
OCL_POINTWISE("floor_divide", div_floor_stub, kNotBool | kDivides | kExactOperands,
              "DIV_FLOOR(a, b)")
OCL_POINTWISE("div.Tensor_mode", div_trunc_stub, kDivides | kExactOperands, "DIV_TRUNC(a, b)")
OCL_POINTWISE("remainder.Tensor", remainder_stub, kNotBool | kDivides, "REMAINDER(a, b)")
OCL_POINTWISE("fmod.Tensor", fmod_stub, kNotBool | kDivides, "FMOD(a, b)")
OCL_POINTWISE("pow.Tensor_Tensor", pow_tensor_tensor_stub, kNotBool, "POW(a, b)", "c_pow(a, b)")
OCL_POINTWISE("pow.Tensor_Scalar", pow_tensor_scalar_stub, kNumbersFit, "POWER_OF(a, s0)",
              "c_power_of(a, s0)")
OCL_POINTWISE("addcmul", addcmul_stub, kAnyType, "a + s0 * b * c", "a + c_mul(c_mul(s0, b), c)")
OCL_POINTWISE("addcdiv", addcdiv_stub, kAnyType, "a + DIV(s0 * b, c)", "a + c_div(c_mul(s0, b), c)")
OCL_POINTWISE("lerp.Scalar", lerp_kernel_scalar_weight, kFloating,
              "fabs(C(s0)) < L(0.5) ? a + s0 * (b - a) : b - (b - a) * (C(1) - s0)",
              "c_lerp(a, b, s0)")
OCL_POINTWISE("lerp.Tensor", lerp_kernel_tensor_weight, kFloating,
              "fabs(c) < L(0.5) ? a + c * (b - a) : b - (b - a) * (C(1) - c)", "c_lerp(a, b, c)")
OCL_POINTWISE("maximum", maximum_stub, kAnyType, "MAX(a, b)")
OCL_POINTWISE("minimum", minimum_stub, kAnyType, "MIN(a, b)")
OCL_POINTWISE("fmax", fmax_stub, kAnyType, "FMAX(a, b)")
OCL_POINTWISE("fmin", fmin_stub, kAnyType, "FMIN(a, b)")
OCL_POINTWISE("atan2", atan2_stub, kFloating, "atan2(a, b)")
OCL_POINTWISE("hypot", hypot_stub, kFloating, "hypot(a, b)")
OCL_POINTWISE("copysign.Tensor", copysign_stub, kFloating, "copysign(a, b)")
OCL_POINTWISE("xlogy", xlogy_stub, kFloating, "IS_NAN(b) ? b : a == C(0) ? C(0) : a * log(b)")
OCL_POINTWISE("special_xlog1py", xlog1py_stub, kFloating,
              "IS_NAN(b) ? b : a == C(0) ? C(0) : a * log1p(b)")
OCL_POINTWISE("logaddexp", logaddexp_stub, kFloating,
              "a == b ? a + L(0.693147180559945309) "
              ": MAX(a, b) + log1p(exp(-fabs(a - b)))",
              "c_logaddexp(a, b)")
OCL_POINTWISE("logaddexp2", logaddexp2_stub, kFloating,
              "a == b ? a + C(1) "
              ": MAX(a, b) + log1p(exp2(-fabs(a - b))) * L(1.44269504088896341)")
OCL_POINTWISE("addr", addr_stub, kNumbersFit, "s0 == 0 ? s1 * b * c : s0 * a + s1 * b * c",
              "IS_ZERO(s0) ? c_mul(c_mul(s1, b), c) : c_mul(s0, a) + c_mul(c_mul(s1, b), c)")
OCL_POINTWISE("heaviside", heaviside_stub, kAnyType, "a == C(0) ? b : a > C(0) ? C(1) : C(0)")

// ---- bits and comparisons
OCL_POINTWISE("bitwise_and", bitwise_and_stub, kIntegral, "a & b")
OCL_POINTWISE("bitwise_or", bitwise_or_stub, kIntegral, "a | b")
OCL_POINTWISE("bitwise_xor", bitwise_xor_stub, kIntegral, "a ^ b")
OCL_POINTWISE("logical_and", logical_and_stub, kTruth, "FLAG((a != C(0)) & (b != C(0)))",
              "FLAG(!IS_ZERO(a) && !IS_ZERO(b))")
OCL_POINTWISE("logical_or", logical_or_stub, kTruth, "FLAG((a != C(0)) | (b != C(0)))",
              "FLAG(!IS_ZERO(a) || !IS_ZERO(b))")
OCL_POINTWISE("logical_xor", logical_xor_stub, kTruth, "FLAG((a != C(0)) ^ (b != C(0)))",
              "FLAG(IS_ZERO(a) != IS_ZERO(b))")
OCL_POINTWISE("logical_not", logical_not_stub, kTruth, "FLAG(a == C(0))", "FLAG(IS_ZERO(a))")
OCL_POINTWISE("lt", lt_stub, kTruth, "FLAG(a < b)")
OCL_POINTWISE("le", le_stub, kTruth, "FLAG(a <= b)")
OCL_POINTWISE("gt", gt_stub, kTruth, "FLAG(a > b)")
OCL_POINTWISE("ge", ge_stub, kTruth, "FLAG(a >= b)")
OCL_POINTWISE("eq", eq_stub, kTruth, "FLAG(a == b)", "FLAG(EQUAL(a, b))")
OCL_POINTWISE("ne", ne_stub, kTruth, "FLAG(a != b)", "FLAG(!EQUAL(a, b))")
OCL_POINTWISE("isposinf", isposinf_stub, kTruth, "FLAG(a == C(INFINITY))")
OCL_POINTWISE("isneginf", isneginf_stub, kTruth, "FLAG(a == C(-INFINITY))")
OCL_POINTWISE("clamp.Tensor", clamp_stub, kAnyType, "IS_NAN(a) ? a : MIN(MAX(a, b), c)")
OCL_POINTWISE("clamp.default", clamp_scalar_stub, kNumbersFit,
              "IS_NAN(a) ? a : MIN(C(s1), MAX(C(s0), a))")
OCL_POINTWISE("clamp_min", clamp_min_scalar_stub, kNumbersFit, "IS_NAN(a) ? a : MAX(C(s0), a)")
OCL_POINTWISE("clamp_max", clamp_max_scalar_stub, kNumbersFit, "IS_NAN(a) ? a : MIN(C(s0), a)")

OCL_POINTWISE("bitwise_left_shift,__lshift__,__ilshift__", lshift_stub, kIntegral,
              "SHIFTS_OUT(b) ? C(0) : a << b")
OCL_POINTWISE("bitwise_right_shift,__rshift__,__irshift__", rshift_stub, kIntegral,
              "SHIFT_RIGHT(a, b)")
OCL_SPECIAL("gcd", gcd_stub, kIntegral, "number", "gcd(a, b)")
OCL_SPECIAL("lcm", lcm_stub, kIntegral, "number", "lcm(a, b)")

// ---- unary
OCL_POINTWISE("abs", abs_stub, kAnyType, "ABS(a)", "COMPLEX(c_abs(a), 0)")
OCL_POINTWISE("neg", neg_stub, kAnyType, "-a", "-a")
OCL_POINTWISE("sign", sign_stub, kAnyType, "SIGN(a)")
OCL_POINTWISE("sgn", sgn_stub, kAnyType, "SIGN(a)", "c_sgn(a)")
OCL_POINTWISE("bitwise_not", bitwise_not_stub, kIntegral, "BITWISE_NOT(a)")
OCL_POINTWISE("reciprocal", reciprocal_stub, kFloating, "C(1) / a", "c_reciprocal(a)")
OCL_POINTWISE("sqrt", sqrt_stub, kFloating, "sqrt(a)", "c_sqrt(a)")
OCL_POINTWISE("rsqrt", rsqrt_stub, kFloating, "C(1) / sqrt(a)", "c_reciprocal(c_sqrt(a))")
OCL_POINTWISE("exp", exp_stub, kFloating, "exp(a)", "c_exp(a)")
OCL_POINTWISE("exp2", exp2_stub, kFloating, "exp2(a)", "c_exp(a * L(0.693147180559945309))")
OCL_POINTWISE("expm1", expm1_stub, kFloating, "expm1(a)", "c_expm1(a)")
OCL_POINTWISE("log", log_stub, kFloating, "log(a)", "c_log(a)")
OCL_POINTWISE("log2", log2_stub, kFloating, "log2(a)", "c_log(a) * L(1.44269504088896341)")
OCL_POINTWISE("log10", log10_stub, kFloating, "log10(a)", "c_log(a) * L(0.434294481903251828)")
OCL_POINTWISE("log1p", log1p_stub, kFloating, "log1p(a)", "c_log1p(a)")
OCL_POINTWISE("sin", sin_stub, kFloating, "SIN(a)", "c_sin(a)")
OCL_POINTWISE("cos", cos_stub, kFloating, "COS(a)", "c_cos(a)")
OCL_POINTWISE("tan", tan_stub, kFloating, "TAN(a)", "c_tan(a)")
OCL_POINTWISE("asin", asin_stub, kFloating, "asin(a)", "c_asin(a)")
OCL_POINTWISE("acos", acos_stub, kFloating, "acos(a)", "c_acos(a)")
OCL_POINTWISE("atan", atan_stub, kFloating, "atan(a)", "c_atan(a)")
OCL_POINTWISE("sinh", sinh_stub, kFloating, "sinh(a)", "c_sinh(a)")
OCL_POINTWISE("cosh", cosh_stub, kFloating, "cosh(a)", "c_cosh(a)")
OCL_POINTWISE("tanh", tanh_stub, kFloating, "tanh(a)", "c_tanh(a)")
OCL_POINTWISE("asinh", asinh_stub, kFloating, "asinh(a)", "c_asinh(a)")
OCL_POINTWISE("acosh", acosh_stub, kFloating, "acosh(a)", "c_acosh(a)")
OCL_POINTWISE("atanh", atanh_stub, kFloating, "atanh(a)", "c_atanh(a)")
OCL_POINTWISE("erf", erf_stub, kFloating, "ERF(a)")
OCL_POINTWISE("erfc", erfc_stub, kFloating, "erfc(a)")
OCL_POINTWISE("ceil", ceil_stub, kFloating, "ceil(a)")
OCL_POINTWISE("floor", floor_stub, kFloating, "floor(a)")
OCL_POINTWISE("trunc", trunc_stub, kFloating, "trunc(a)")
OCL_POINTWISE("round", round_stub, kFloating, "rint(a)")
OCL_POINTWISE("frac", frac_stub, kFloating, "a - trunc(a)")
OCL_POINTWISE("signbit", signbit_stub, kTruth, "FLAG(SIGNBIT(a))")
OCL_POINTWISE("angle", angle_stub, kAnyType,
              "IS_NAN(a) ? a : a < C(0) ? L(3.14159265358979324) : C(0)", "COMPLEX(c_angle(a), 0)")
OCL_POINTWISE("conj_physical", conj_physical_stub, kAnyType, "a", "CONJ(a)")
OCL_POINTWISE("sinc", sinc_stub, kFloating, "sinc(a)", "c_sinc(a)")
OCL_POINTWISE("logit", logit_stub, kFloating | kNumbersFit, "logit(a, C(s0))")

// ---- activations and losses
OCL_POINTWISE("sigmoid", sigmoid_stub, kFloating, "C(1) / (C(1) + exp(-a))", "c_sigmoid(a)")
OCL_POINTWISE("sigmoid_backward", sigmoid_backward_stub, kAnyType, "a * (C(1) - b) * b",
              "c_mul(a, CONJ(c_mul(COMPLEX(1, 0) - b, b)))")
OCL_POINTWISE("tanh_backward", tanh_backward_stub, kAnyType, "a * (C(1) - b * b)",
              "c_mul(a, CONJ(COMPLEX(1, 0) - c_mul(b, b)))")
OCL_POINTWISE("threshold,threshold_backward", threshold_stub, kNotBool | kNumbersFit,
              "a <= C(s0) ? C(s1) : b")
OCL_POINTWISE("leaky_relu", leaky_relu_stub, kFloating, "a > C(0) ? a : a * s0")
OCL_POINTWISE("leaky_relu_backward", leaky_relu_backward_stub, kFloating, "a > C(0) ? b : b * s0")
OCL_POINTWISE("elu", elu_stub, kFloating, "a < C(0) ? expm1(a * s2) * (s0 * s1) : a * s1")
OCL_POINTWISE("silu", silu_stub, kFloating, "a / (C(1) + exp(-a))", "c_mul(a, c_sigmoid(a))")
OCL_POINTWISE("silu_backward", silu_backward_stub, kFloating, "silu_backward(a, b)",
              "c_silu_backward(a, b)")
OCL_POINTWISE(
    "elu_backward", elu_backward_stub, kFloating,
    "b > C(0) ? a * s1 : s3 != 0 ? a * s2 * (b + s0 * s1) : a * s2 * s0 * s1 * exp(b * s2)")
OCL_POINTWISE("mish", mish_stub, kFloating, "a * tanh_softplus(a)")
OCL_POINTWISE("mish_backward", mish_backward_stub, kFloating, "mish_backward(a, b)")
OCL_POINTWISE("glu", glu_stub, kFloating, "a * sigmoid(b)")
OCL_POINTWISE("glu_jvp", glu_jvp_stub, kFloating, "c * sigmoid(b) + a * (d - sigmoid(b) * d)")
OCL_POINTWISE("_prelu_kernel", prelu_stub, kFloating, "a > C(0) ? a : a * b")
OCL_POINTWISE("softplus", softplus_stub, kFloating,
              "a * s0 > C(s1) ? a : log1p(exp(a * s0)) / C(s0)")
OCL_POINTWISE("softplus_backward", softplus_backward_stub, kFloating,
              "b * s0 > C(s1) ? a : a * exp(b * s0) / (exp(b * s0) + C(1))")
OCL_POINTWISE("logit_backward", logit_backward_stub, kFloating, "logit_backward(a, b, C(s0))")
OCL_POINTWISE("hardsigmoid", hardsigmoid_stub, kFloating, "MIN(MAX(a + C(3), C(0)), C(6)) / C(6)")
OCL_POINTWISE("hardsigmoid_backward", hardsigmoid_backward_stub, kFloating,
              "((b > C(-3)) & (b < C(3))) ? a / C(6) : C(0)")
OCL_POINTWISE("hardswish", hardswish_stub, kFloating, "a * MIN(MAX(a + C(3), C(0)), C(6)) / C(6)")
OCL_POINTWISE("hardswish_backward", hardswish_backward_stub, kFloating,
              "b <= C(-3) ? C(0) : b >= C(3) ? a : a * (b / C(3) + L(0.5))")
OCL_POINTWISE("hardshrink", hardshrink_stub, kFloating | kNumbersFit,
              "((a >= C(-s0)) & (a <= C(s0))) ? C(0) : a")
OCL_POINTWISE("softshrink", softshrink_stub, kNumbersFit,
              "a > C(s0) ? a - s0 : a < C(-s0) ? a + s0 : IS_NAN(a) ? a : C(0)")
OCL_POINTWISE("hardshrink_backward,softshrink_backward", shrink_backward_stub,
              kFloating | kNumbersFit, "((b < C(-s0)) | (b > C(s0))) ? a : C(0)")
OCL_POINTWISE("hardtanh_backward", hardtanh_backward_stub, kAnyType,
              "((b > C(s0)) & (b < C(s1))) ? a : C(0)")
OCL_POINTWISE("mse_loss", mse_stub, kFloating, "SQUARE(a - b)")
OCL_POINTWISE("mse_loss_backward", mse_backward_stub, kAnyType, "s0 * (a - b) * c")
OCL_POINTWISE("smooth_l1_loss", smooth_l1_stub, kFloating,
              "fabs(a - b) < C(s0) "
              "? L(0.5) * SQUARE(a - b) / C(s0) : fabs(a - b) - L(0.5) * s0")
OCL_POINTWISE("smooth_l1_loss_backward", smooth_l1_backward_stub, kAnyType,
              "a - b <= C(-s1) ? -s0 * c : a - b >= C(s1) ? s0 * c "
              ": DIV(s0 * (a - b) * c, C(s1))")
OCL_POINTWISE("huber_loss", huber_stub, kFloating,
              "fabs(a - b) <= C(s0) "
              "? L(0.5) * SQUARE(a - b) : s0 * (fabs(a - b) - L(0.5) * s0)")
OCL_POINTWISE("huber_loss_backward", huber_backward_stub, kAnyType,
              "a - b <= C(-s1) ? -s0 * s1 * c "
              ": a - b >= C(s1) ? s0 * s1 * c : s0 * (a - b) * c")

// ---- special functions
OCL_POINTWISE("lgamma", lgamma_stub, kFloating, "LGAMMA(a)")
OCL_POINTWISE("special_entr", special_entr_stub, kFloating,
              "IS_NAN(a) ? a : a > C(0) ? -a * log(a) : a == C(0) ? C(0) : C(-INFINITY)")
OCL_SPECIAL("digamma", digamma_stub, kFloating, "gamma", "digamma(a)")
OCL_SPECIAL("polygamma", polygamma_stub, kFloating, "gamma", "polygamma((int)s0, a)")
OCL_SPECIAL("special_zeta", zeta_stub, kFloating, "gamma", "zeta(a, b)")
OCL_SPECIAL("igamma", igamma_stub, kFloating, "gamma", "igamma(a, b)")
OCL_SPECIAL("igammac", igammac_stub, kFloating, "gamma", "igammac(a, b)")
OCL_SPECIAL("erfinv", erfinv_stub, kFloating, "error_functions", "erfinv(a)")
OCL_SPECIAL("special_erfcx", special_erfcx_stub, kFloating, "error_functions", "erfcx(a)")
OCL_SPECIAL("special_ndtri", special_ndtri_stub, kFloating, "error_functions", "ndtri(a)")
OCL_SPECIAL("special_log_ndtr", special_log_ndtr_stub, kFloating, "error_functions", "log_ndtr(a)")
OCL_SPECIAL("i0", i0_stub, kFloating, "bessel", "i0(a)")
OCL_SPECIAL("special_i0e", special_i0e_stub, kFloating, "bessel", "i0e(a)")
OCL_SPECIAL("special_i1", special_i1_stub, kFloating, "bessel", "i1(a)")
OCL_SPECIAL("special_i1e", special_i1e_stub, kFloating, "bessel", "i1e(a)")
OCL_SPECIAL("special_bessel_j0", special_bessel_j0_stub, kFloating, "bessel", "bessel_j0(a)")
OCL_SPECIAL("special_bessel_j1", special_bessel_j1_stub, kFloating, "bessel", "bessel_j1(a)")
OCL_SPECIAL("special_bessel_y0", special_bessel_y0_stub, kFloating, "bessel", "bessel_y0(a)")
OCL_SPECIAL("special_bessel_y1", special_bessel_y1_stub, kFloating, "bessel", "bessel_y1(a)")
// A composite operator, which only needs this kernel. s0: the window's length, s1: beta.
OCL_SPECIAL("", kaiser_window_stub, kFloating, "bessel", "kaiser_window(a, C(s0), C(s1))")
OCL_SPECIAL("special_modified_bessel_i0", special_modified_bessel_i0_stub, kFloating, "bessel",
            "i0(a)")
OCL_SPECIAL("special_modified_bessel_i1", special_modified_bessel_i1_stub, kFloating, "bessel",
            "i1(a)")
OCL_SPECIAL("special_modified_bessel_k0", special_modified_bessel_k0_stub, kFloating, "bessel",
            "modified_bessel_k(a, 0)")
OCL_SPECIAL("special_modified_bessel_k1", special_modified_bessel_k1_stub, kFloating, "bessel",
            "modified_bessel_k(a, 1)")
OCL_SPECIAL("special_scaled_modified_bessel_k0", special_scaled_modified_bessel_k0_stub, kFloating,
            "bessel", "scaled_modified_bessel_k(a, 0)")
OCL_SPECIAL("special_scaled_modified_bessel_k1", special_scaled_modified_bessel_k1_stub, kFloating,
            "bessel", "scaled_modified_bessel_k(a, 1)")
OCL_SPECIAL("special_spherical_bessel_j0", special_spherical_bessel_j0_stub, kFloating, "bessel",
            "spherical_bessel_j0(a)")
OCL_SPECIAL("special_airy_ai", special_airy_ai_stub, kFloating, "bessel", "airy_ai(a)")
OCL_SPECIAL("special_chebyshev_polynomial_t", chebyshev_polynomial_t_stub, kFloating, "polynomial",
            "chebyshev_t(a, b)")
OCL_SPECIAL("special_chebyshev_polynomial_u", chebyshev_polynomial_u_stub, kFloating, "polynomial",
            "chebyshev_u(a, b)")
OCL_SPECIAL("special_chebyshev_polynomial_v", chebyshev_polynomial_v_stub, kFloating, "polynomial",
            "chebyshev_v(a, b)")
OCL_SPECIAL("special_chebyshev_polynomial_w", chebyshev_polynomial_w_stub, kFloating, "polynomial",
            "chebyshev_w(a, b)")
OCL_SPECIAL("special_shifted_chebyshev_polynomial_t", shifted_chebyshev_polynomial_t_stub,
            kFloating, "polynomial", "chebyshev_t(2 * a - 1, b)")
OCL_SPECIAL("special_shifted_chebyshev_polynomial_u", shifted_chebyshev_polynomial_u_stub,
            kFloating, "polynomial", "chebyshev_u(2 * a - 1, b)")
OCL_SPECIAL("special_shifted_chebyshev_polynomial_v", shifted_chebyshev_polynomial_v_stub,
            kFloating, "polynomial", "chebyshev_v(2 * a - 1, b)")
OCL_SPECIAL("special_shifted_chebyshev_polynomial_w", shifted_chebyshev_polynomial_w_stub,
            kFloating, "polynomial", "chebyshev_w(2 * a - 1, b)")
OCL_SPECIAL("special_hermite_polynomial_h", hermite_polynomial_h_stub, kFloating, "polynomial",
            "hermite_h(a, b)")
OCL_SPECIAL("special_hermite_polynomial_he", hermite_polynomial_he_stub, kFloating, "polynomial",
            "hermite_he(a, b)")
OCL_SPECIAL("special_laguerre_polynomial_l", laguerre_polynomial_l_stub, kFloating, "polynomial",
            "laguerre_l(a, b)")
OCL_SPECIAL("special_legendre_polynomial_p", legendre_polynomial_p_stub, kFloating, "polynomial",
            "legendre_p(a, b)")

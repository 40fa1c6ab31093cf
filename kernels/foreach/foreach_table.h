// The _foreach_ operators of several arguments that have kernels over lists of tensors: operator,
// overload, arguments, and the DispatchStub whose row of pointwise_table.h has the expression.
// Arguments: L a list of tensors, N a number, S a number for each tensor, T a tensor of one
// element. With one list, the number or element is `b` in the expression. With more lists it is s0,
// and also in powers by numbers, whose expression is in foreach_ops.cpp. A row also makes the
// in-place form.
//
// Operators of one list have no rows here: the generator takes those of pointwise_table.h.

OCL_FOREACH(add, Scalar, LN, add_stub)
OCL_FOREACH(add, List, LLN, add_stub)
OCL_FOREACH(add, ScalarList, LS, add_stub)
OCL_FOREACH(add, Tensor, LTN, add_stub)
OCL_FOREACH(sub, Scalar, LN, sub_stub)
OCL_FOREACH(sub, List, LLN, sub_stub)
OCL_FOREACH(sub, ScalarList, LS, sub_stub)
OCL_FOREACH(mul, Scalar, LN, mul_stub)
OCL_FOREACH(mul, List, LL, mul_stub)
OCL_FOREACH(mul, ScalarList, LS, mul_stub)
OCL_FOREACH(mul, Tensor, LT, mul_stub)
OCL_FOREACH(div, Scalar, LN, div_true_stub)
OCL_FOREACH(div, List, LL, div_true_stub)
OCL_FOREACH(div, ScalarList, LS, div_true_stub)
OCL_FOREACH(div, Tensor, LT, div_true_stub)
OCL_FOREACH(clamp_max, Scalar, LN, minimum_stub)
OCL_FOREACH(clamp_max, List, LL, minimum_stub)
OCL_FOREACH(clamp_max, ScalarList, LS, minimum_stub)
OCL_FOREACH(clamp_min, Scalar, LN, maximum_stub)
OCL_FOREACH(clamp_min, List, LL, maximum_stub)
OCL_FOREACH(clamp_min, ScalarList, LS, maximum_stub)
OCL_FOREACH(maximum, Scalar, LN, maximum_stub)
OCL_FOREACH(maximum, List, LL, maximum_stub)
OCL_FOREACH(maximum, ScalarList, LS, maximum_stub)
OCL_FOREACH(minimum, Scalar, LN, minimum_stub)
OCL_FOREACH(minimum, List, LL, minimum_stub)
OCL_FOREACH(minimum, ScalarList, LS, minimum_stub)
OCL_FOREACH(pow, Scalar, LN, pow_by_number)
OCL_FOREACH(pow, List, LL, pow_tensor_tensor_stub)
OCL_FOREACH(pow, ScalarList, LS, pow_by_number)
OCL_FOREACH(addcmul, Scalar, LLLN, addcmul_stub)
OCL_FOREACH(addcmul, ScalarList, LLLS, addcmul_stub)
OCL_FOREACH(addcdiv, Scalar, LLLN, addcdiv_stub)
OCL_FOREACH(addcdiv, ScalarList, LLLS, addcdiv_stub)
OCL_FOREACH(lerp, List, LLL, lerp_kernel_tensor_weight)
OCL_FOREACH(lerp, Scalar, LLN, lerp_kernel_scalar_weight)
OCL_FOREACH(lerp, ScalarList, LLS, lerp_kernel_scalar_weight)

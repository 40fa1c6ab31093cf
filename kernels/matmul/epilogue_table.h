// The activations of epilogues: one row each. A row has a constant, a name, whether the activation
// is costly, and its expression in OpenCL C, in which X is the text of the argument; functions are
// in shared_activations.clh. Costly activations take many instructions and need floating-point
// numbers.
OCL_ACTIVATION(kNone, "none", false, X)
OCL_ACTIVATION(kRelu, "relu", false, "(" X " < C(0) ? C(0) : " X ")")  // keeps NaN
OCL_ACTIVATION(kGelu, "gelu", true, "gelu(" X ")")
OCL_ACTIVATION(kGeluTanh, "gelu_tanh", true, "gelu_tanh(" X ")")
OCL_ACTIVATION(kSilu, "silu", true, X " / (C(1) + exp(-" X "))")
OCL_ACTIVATION(kSigmoid, "sigmoid", true, "sigmoid(" X ")")
OCL_ACTIVATION(kTanh, "tanh", true, "tanh(" X ")")

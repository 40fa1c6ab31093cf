"""flex_attention and its gradients as kernels with the generated functions of the scores inside."""

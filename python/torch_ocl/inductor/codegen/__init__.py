"""OpenCL C for the kernels that Inductor plans."""

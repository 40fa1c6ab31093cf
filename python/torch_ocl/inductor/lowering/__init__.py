"""Inductor's tables of decompositions and lowerings, changed for graphs with ocl tensors."""

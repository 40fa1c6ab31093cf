"""The programs around the calls of kernels, in Python and C++."""

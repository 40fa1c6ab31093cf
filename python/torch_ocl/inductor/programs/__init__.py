"""The generated programs that call the kernels, in Python and C++."""

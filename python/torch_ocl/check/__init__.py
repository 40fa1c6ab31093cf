"""Checks that this machine's OpenCL device computes what the CPU does: python -m torch_ocl.check.

__main__    the command and its table
report      what is printed, and the file for others
sections    runs sections in processes of their own, and finds settings that help
families    the families of kernels; their cases are in numeric, networks, data, vision and layouts
machine     copies, streams, memory, a training run, speeds
inputs      what cases are made of, and the comparison with the CPU
"""

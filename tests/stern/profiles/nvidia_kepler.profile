# NVIDIA Tesla K80, one of its two GPUs: clinfo in https://github.com/leela-zero/leela-zero/issues/1933
# and https://github.com/glinscott/leela-chess/issues/284 (platform, device, extensions, work-groups).
PLATFORM_NAME = NVIDIA CUDA
PLATFORM_VENDOR = NVIDIA Corporation
PLATFORM_VERSION = OpenCL 1.2 CUDA 9.0.282
PLATFORM_PROFILE = FULL_PROFILE
DEVICE_NAME = Tesla K80
DEVICE_VENDOR = NVIDIA Corporation
DEVICE_VENDOR_ID = 0x10de
DEVICE_VERSION = OpenCL 1.2 CUDA
DRIVER_VERSION = 384.111
DEVICE_OPENCL_C_VERSION = OpenCL C 1.2
DEVICE_PROFILE = FULL_PROFILE
# Of the platform; the driver lists the same for the device. No 64-bit atomics: drivers list them
# since 2019 (https://github.com/filecoin-project/rust-fil-proofs/issues/1355).
DEVICE_EXTENSIONS = cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_fp64 cl_khr_byte_addressable_store cl_khr_icd cl_khr_gl_sharing cl_nv_compiler_options cl_nv_device_attribute_query cl_nv_pragma_unroll cl_nv_copy_opts cl_nv_create_buffer
DEVICE_MAX_COMPUTE_UNITS = 13
DEVICE_MAX_CLOCK_FREQUENCY = 823
DEVICE_MAX_WORK_ITEM_SIZES = 1024 1024 64
DEVICE_MAX_WORK_GROUP_SIZE = 1024
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 32
# Memory and cache: https://github.com/ekondis/mixbench/issues/25 (CUDA's numbers for the same GPU).
DEVICE_GLOBAL_MEM_SIZE = 12799574016
DEVICE_GLOBAL_MEM_CACHE_SIZE = 1572864
free_memory = 12733579264
# A quarter, as this driver says of a Tesla P100: https://github.com/leela-zero/leela-zero/issues/1554
DEVICE_MAX_MEM_ALLOC_SIZE = 3199893504
# The driver's numbers for other cards, which do not depend on the card:
# https://github.com/mbevand/silentarmy/issues/72 (local memory, arguments),
# https://github.com/leela-zero/leela-zero/issues/1554 (the rest).
DEVICE_LOCAL_MEM_SIZE = 49152
DEVICE_MAX_PARAMETER_SIZE = 4352
DEVICE_MEM_BASE_ADDR_ALIGN = 4096
DEVICE_MIN_DATA_TYPE_ALIGN_SIZE = 128
DEVICE_GLOBAL_MEM_CACHELINE_SIZE = 128
DEVICE_HOST_UNIFIED_MEMORY = 0
DEVICE_ADDRESS_BITS = 64
# https://github.com/clEsperanto/pyclesperanto_prototype/issues/26
DEVICE_DOUBLE_FP_CONFIG = 63
# Deduced: hardware of compute capability 2.0 and later has all of these.
DEVICE_SINGLE_FP_CONFIG = 191
# https://github.com/hashcat/hashcat/issues/2813
DEVICE_PREFERRED_VECTOR_WIDTH_CHAR = 1
DEVICE_PREFERRED_VECTOR_WIDTH_SHORT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_INT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_LONG = 1
DEVICE_PREFERRED_VECTOR_WIDTH_HALF = 0
DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE = 1
DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 1
# https://github.com/SC-SGS/PLSSVM/pull/64, https://github.com/m4rs-mt/ILGPU/pull/619
grid_x = 2147483647
grid_y = 65535
grid_z = 65535
# Beyond it items run twice or never, without an error: https://github.com/cogciprocate/ocl/issues/226,
# https://github.com/fixstars/clpy/issues/7
global_limit_x = 2147483648
# https://github.com/arrayfire/arrayfire/issues/2650
lazy_allocation = 1

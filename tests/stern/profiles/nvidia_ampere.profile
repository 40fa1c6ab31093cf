# NVIDIA GeForce RTX 3060 Laptop: https://github.com/darktable-org/darktable/issues/15234 (device, memory);
# what does not depend on the card: clinfo of an RTX 3080 Laptop in https://github.com/Syncleus/aparapi/issues/168
PLATFORM_NAME = NVIDIA CUDA
PLATFORM_VENDOR = NVIDIA Corporation
# Deduced: drivers of the 525 series come with CUDA 12.0.
PLATFORM_VERSION = OpenCL 3.0 CUDA 12.0.147
PLATFORM_PROFILE = FULL_PROFILE
DEVICE_NAME = NVIDIA GeForce RTX 3060 Laptop GPU
DEVICE_VENDOR = NVIDIA Corporation
DEVICE_VENDOR_ID = 0x10de
DEVICE_VERSION = OpenCL 3.0 CUDA
DRIVER_VERSION = 525.125.06
DEVICE_OPENCL_C_VERSION = OpenCL C 1.2
DEVICE_PROFILE = FULL_PROFILE
# https://github.com/darktable-org/darktable/issues/12687 and
# https://github.com/filecoin-project/rust-fil-proofs/issues/1355
DEVICE_EXTENSIONS = cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_fp64 cl_khr_byte_addressable_store cl_khr_icd cl_khr_gl_sharing cl_nv_compiler_options cl_nv_device_attribute_query cl_nv_pragma_unroll cl_nv_copy_opts cl_nv_create_buffer cl_khr_int64_base_atomics cl_khr_int64_extended_atomics cl_khr_device_uuid cl_khr_pci_bus_info
# 5938 MB
DEVICE_GLOBAL_MEM_SIZE = 6226444288
# A quarter: https://github.com/darktable-org/darktable/issues/18588 (a GTX 1070: 8192 and 2048 MB)
DEVICE_MAX_MEM_ALLOC_SIZE = 1556611072
# Deduced: 3840 cores, 128 in a unit.
DEVICE_MAX_COMPUTE_UNITS = 30
# https://github.com/darktable-org/darktable/issues/18588
DEVICE_MAX_WORK_GROUP_SIZE = 1024
DEVICE_MAX_WORK_ITEM_SIZES = 1024 1024 64
# https://github.com/hashcat/hashcat/issues/3916 (an RTX 4090)
DEVICE_LOCAL_MEM_SIZE = 49152
DEVICE_MAX_PARAMETER_SIZE = 4352
# https://github.com/Syncleus/aparapi/issues/168
DEVICE_MEM_BASE_ADDR_ALIGN = 4096
DEVICE_MIN_DATA_TYPE_ALIGN_SIZE = 128
DEVICE_GLOBAL_MEM_CACHE_SIZE = 1376256
DEVICE_GLOBAL_MEM_CACHELINE_SIZE = 128
# https://github.com/leela-zero/leela-zero/issues/1554 (a Tesla P100)
DEVICE_HOST_UNIFIED_MEMORY = 0
# Deduced: a 64-bit driver.
DEVICE_ADDRESS_BITS = 64
# https://github.com/clEsperanto/pyclesperanto_prototype/issues/26
DEVICE_DOUBLE_FP_CONFIG = 63
# Deduced: hardware of compute capability 2.0 and later has all of these.
DEVICE_SINGLE_FP_CONFIG = 191
# https://github.com/hashcat/hashcat/issues/2813
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 32
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
# https://github.com/cogciprocate/ocl/issues/226, https://github.com/fixstars/clpy/issues/7
global_limit_x = 2147483648
# https://github.com/arrayfire/arrayfire/issues/2650
lazy_allocation = 1

# AMD Radeon RX 580 under Mesa's rusticl. Limits: si_init_compute_caps() in src/gallium/drivers/radeonsi/si_get.c,
# https://gitlab.freedesktop.org/mesa/mesa. Other answers: clinfo of rusticl with an RX 6700 XT in
# https://github.com/xmrig/xmrig/issues/3335 and https://github.com/xmrig/xmrig/issues/3768
PLATFORM_NAME = rusticl
PLATFORM_VENDOR = Mesa/X.org
PLATFORM_VERSION = OpenCL 3.0 
PLATFORM_PROFILE = FULL_PROFILE
# Deduced from the name of the RX 6700 XT, "AMD Radeon RX 6700 XT (navi22, LLVM 15.0.7, DRM 3.54, ...)".
DEVICE_NAME = AMD Radeon RX 580 Series (polaris10, LLVM 15.0.7, DRM 3.54, 6.5.0)
DEVICE_VENDOR = AMD
DEVICE_VENDOR_ID = 0x1002
DEVICE_VERSION = OpenCL 3.0 
DRIVER_VERSION = 23.1.7-1
DEVICE_OPENCL_C_VERSION = OpenCL C 1.2 
DEVICE_PROFILE = FULL_PROFILE
# Deduced: the atomics that OpenCL 1.2 makes mandatory. The reports show neither fp64 nor 64-bit atomics.
DEVICE_EXTENSIONS = cl_khr_byte_addressable_store cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_il_program cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_icd
# The card's: https://github.com/ROCm/clr/pull/97
DEVICE_MAX_COMPUTE_UNITS = 36
DEVICE_MAX_WORK_ITEM_SIZES = 1024 1024 1024
DEVICE_MAX_WORK_GROUP_SIZE = 1024
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 64
DEVICE_GLOBAL_MEM_SIZE = 8589934592
# A quarter, and below 2 GiB in the reports.
DEVICE_MAX_MEM_ALLOC_SIZE = 2147483647
DEVICE_LOCAL_MEM_SIZE = 65536
DEVICE_MAX_PARAMETER_SIZE = 67108864
# Deduced: the smallest that OpenCL allows (a long16); the excerpts do not have it.
DEVICE_MEM_BASE_ADDR_ALIGN = 1024
DEVICE_HOST_UNIFIED_MEMORY = 0
DEVICE_ADDRESS_BITS = 64
# Infinities, NaN and round to nearest, no correctly rounded division.
DEVICE_SINGLE_FP_CONFIG = 6
DEVICE_DOUBLE_FP_CONFIG = 0
grid_x = 4294967295
grid_y = 65535
grid_z = 65535
# Deduced: Mesa's resources are backed by memory when the kernel driver first needs them.
lazy_allocation = 1

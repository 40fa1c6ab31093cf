# AMD Radeon RX 560 under Mesa's Clover, whose OpenCL is older than torch-ocl needs: clinfo in
# https://github.com/ROCm/legacy-rocm-build/issues/361
PLATFORM_NAME = Clover
PLATFORM_VENDOR = Mesa
PLATFORM_VERSION = OpenCL 1.1 Mesa 18.2.0-devel
PLATFORM_PROFILE = FULL_PROFILE
PLATFORM_EXTENSIONS = cl_khr_icd
DEVICE_NAME = Radeon RX 560 Series (POLARIS11, DRM 3.26.0, 4.16.15-amd, LLVM 6.0.1)
DEVICE_VENDOR = AMD
DEVICE_VENDOR_ID = 0x1002
DEVICE_VERSION = OpenCL 1.1 Mesa 18.2.0-devel
DRIVER_VERSION = 18.2.0-devel
DEVICE_OPENCL_C_VERSION = OpenCL C 1.1
DEVICE_PROFILE = FULL_PROFILE
# Deduced: the extensions that OpenCL 1.1 made a part of the standard.
DEVICE_EXTENSIONS = cl_khr_byte_addressable_store cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics
DEVICE_MAX_COMPUTE_UNITS = 16
DEVICE_MAX_CLOCK_FREQUENCY = 1300
DEVICE_MAX_WORK_ITEM_SIZES = 256 256 256
DEVICE_MAX_WORK_GROUP_SIZE = 256
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 64
DEVICE_PREFERRED_VECTOR_WIDTH_CHAR = 16
DEVICE_PREFERRED_VECTOR_WIDTH_SHORT = 8
DEVICE_PREFERRED_VECTOR_WIDTH_INT = 4
# Deduced: a card of 4 GiB, and the smallest sizes that OpenCL 1.1 allows.
DEVICE_GLOBAL_MEM_SIZE = 4294967296
DEVICE_MAX_MEM_ALLOC_SIZE = 1073741824
DEVICE_LOCAL_MEM_SIZE = 32768
DEVICE_MAX_PARAMETER_SIZE = 1024
DEVICE_MEM_BASE_ADDR_ALIGN = 1024
DEVICE_HOST_UNIFIED_MEMORY = 0
# Deduced: what OpenCL 1.1 demands, infinities and rounding to nearest.
DEVICE_SINGLE_FP_CONFIG = 6

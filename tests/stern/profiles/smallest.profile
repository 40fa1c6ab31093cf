# No device: about the smallest limits that OpenCL 1.2 and embedded GPUs have. The sizes of local
# memory and groups follow the specification's minima for the EMBEDDED profile, raised
# to what the smallest GPUs on the market report.
PLATFORM_NAME = Smallest
PLATFORM_VENDOR = Nobody
PLATFORM_VERSION = OpenCL 1.2
PLATFORM_PROFILE = EMBEDDED_PROFILE
DEVICE_NAME = Smallest GPU
DEVICE_VENDOR = Nobody
DEVICE_VERSION = OpenCL 1.2
DRIVER_VERSION = 1.0
DEVICE_OPENCL_C_VERSION = OpenCL C 1.2
DEVICE_PROFILE = EMBEDDED_PROFILE
DEVICE_EXTENSIONS = cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_byte_addressable_store cles_khr_int64
DEVICE_MAX_COMPUTE_UNITS = 1
DEVICE_MAX_WORK_GROUP_SIZE = 64
DEVICE_MAX_WORK_ITEM_SIZES = 64 64 64
DEVICE_LOCAL_MEM_SIZE = 16384
DEVICE_GLOBAL_MEM_SIZE = 536870912
DEVICE_MAX_MEM_ALLOC_SIZE = 134217728
DEVICE_MAX_PARAMETER_SIZE = 1024
DEVICE_MEM_BASE_ADDR_ALIGN = 4096
DEVICE_HOST_UNIFIED_MEMORY = 0
DEVICE_IMAGE_SUPPORT = 0
DEVICE_SINGLE_FP_CONFIG = 0x4
DEVICE_DOUBLE_FP_CONFIG = 0
DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 1
DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 1
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 8
grid_x = 65535
grid_y = 65535
grid_z = 65535
global_limit_x = 2147483647
free_memory = 402653184
lazy_allocation = 1
register_words = 8192

# Apple M1, 16 GB: https://github.com/hashcat/hashcat/issues/2728 (memory) and clinfo in
# https://github.com/hashcat/hashcat/issues/2976 (platform, device)
PLATFORM_NAME = Apple
PLATFORM_VENDOR = Apple
PLATFORM_VERSION = OpenCL 1.2 (May  8 2021 03:14:28)
PLATFORM_PROFILE = FULL_PROFILE
PLATFORM_EXTENSIONS = cl_APPLE_SetMemObjectDestructor cl_APPLE_ContextLoggingFunctions cl_APPLE_clut cl_APPLE_query_kernel_names cl_APPLE_gl_sharing cl_khr_gl_event
DEVICE_NAME = Apple M1
DEVICE_VENDOR = Apple
DEVICE_VENDOR_ID = 0x1027f00
DEVICE_VERSION = OpenCL 1.2 
DRIVER_VERSION = 1.2 1.0
DEVICE_OPENCL_C_VERSION = OpenCL C 1.2 
DEVICE_PROFILE = FULL_PROFILE
# Deduced: the atomics that OpenCL 1.2 makes mandatory; no fp64 (https://github.com/ProjectPhysX/OpenCL-Benchmark/issues/18).
DEVICE_EXTENSIONS = cl_APPLE_SetMemObjectDestructor cl_APPLE_ContextLoggingFunctions cl_APPLE_clut cl_APPLE_query_kernel_names cl_APPLE_gl_sharing cl_khr_gl_event cl_khr_byte_addressable_store cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics
DEVICE_MAX_COMPUTE_UNITS = 8
DEVICE_MAX_CLOCK_FREQUENCY = 1000
# Of an M3 Pro: https://github.com/GPGPUCourse/GPGPUTasks2025/pull/166
DEVICE_MAX_WORK_GROUP_SIZE = 256
DEVICE_MAX_WORK_ITEM_SIZES = 256 256 256
# Deduced: the width of a SIMD group.
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 32
# 10922 MB and 1024 MB
DEVICE_GLOBAL_MEM_SIZE = 11452547072
DEVICE_MAX_MEM_ALLOC_SIZE = 1073741824
free_memory = 11385438208
# Of an M4: https://github.com/ProjectPhysX/OpenCL-Benchmark/issues/18
DEVICE_LOCAL_MEM_SIZE = 32768
DEVICE_GLOBAL_MEM_CACHE_SIZE = 0
DEVICE_MAX_CONSTANT_BUFFER_SIZE = 1073741824
# Apple's driver for a GPU of AMD: https://github.com/JuliaGPU/OpenCL.jl/issues/206
DEVICE_MEM_BASE_ADDR_ALIGN = 32768
DEVICE_MAX_PARAMETER_SIZE = 1024
# Deduced: one chip with one memory.
DEVICE_HOST_UNIFIED_MEMORY = 1
DEVICE_ADDRESS_BITS = 64
DEVICE_DOUBLE_FP_CONFIG = 0
# Deduced: Metal's compiler divides without correct rounding and flushes denormals.
DEVICE_SINGLE_FP_CONFIG = 62
DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE = 0
DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 1
# Deduced: pages of the system.
lazy_allocation = 1

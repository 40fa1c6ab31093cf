# AMD Radeon RX 580 under ROCm: clinfo in https://github.com/ROCm/clr/pull/97 and, for memory and limits, in
# https://github.com/pobthebuilder/rocm-flatpak/issues/1
PLATFORM_NAME = AMD Accelerated Parallel Processing
PLATFORM_VENDOR = Advanced Micro Devices, Inc.
PLATFORM_VERSION = OpenCL 2.1 AMD-APP (3581.0)
PLATFORM_PROFILE = FULL_PROFILE
DEVICE_NAME = gfx803
# The card of the first line.
DEVICE_BOARD_NAME_AMD = AMD Radeon RX 580
DEVICE_VENDOR = Advanced Micro Devices, Inc.
DEVICE_VENDOR_ID = 0x1002
DEVICE_VERSION = OpenCL 1.2 
DRIVER_VERSION = 3581.0 (HSA1.1,LC)
DEVICE_OPENCL_C_VERSION = OpenCL C 2.0 
DEVICE_PROFILE = FULL_PROFILE
# Deduced: what ROCm's driver lists for all cards of that time. The half-precision of this card
# computes in registers of 32 bits, and is listed.
DEVICE_EXTENSIONS = cl_khr_fp64 cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_int64_base_atomics cl_khr_int64_extended_atomics cl_khr_3d_image_writes cl_khr_byte_addressable_store cl_khr_fp16 cl_khr_gl_sharing cl_amd_device_attribute_query cl_amd_media_ops cl_amd_media_ops2 cl_khr_image2d_from_buffer cl_khr_subgroups cl_khr_depth_images cl_amd_copy_buffer_p2p cl_amd_assembly_program
DEVICE_MAX_COMPUTE_UNITS = 36
DEVICE_MAX_CLOCK_FREQUENCY = 1411
DEVICE_MAX_WORK_ITEM_SIZES = 1024 1024 1024
DEVICE_MAX_WORK_GROUP_SIZE = 256
# The wavefront: https://github.com/ROCm/ROCm-OpenCL-Runtime/issues/127
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 64
# 8 GiB: https://github.com/vosen/ZLUDA/issues/114
DEVICE_GLOBAL_MEM_SIZE = 8589934592
# The largest constant buffer, which this driver makes as large as the largest allocation: 85 %.
DEVICE_MAX_MEM_ALLOC_SIZE = 7301444400
# 7.936 GiB: https://github.com/RainbowMiner/RainbowMiner/issues/1841
free_memory = 8520708096
DEVICE_LOCAL_MEM_SIZE = 65536
DEVICE_MAX_PARAMETER_SIZE = 1024
# https://github.com/ROCm/ROCm-OpenCL-Runtime/issues/81 (ROCm with another card)
DEVICE_MEM_BASE_ADDR_ALIGN = 1024
DEVICE_MIN_DATA_TYPE_ALIGN_SIZE = 128
DEVICE_HOST_UNIFIED_MEMORY = 0
DEVICE_ADDRESS_BITS = 64
# https://github.com/void-linux/void-packages/pull/21153
DEVICE_GLOBAL_MEM_CACHE_SIZE = 16384
DEVICE_GLOBAL_MEM_CACHELINE_SIZE = 64
# No denormals: https://github.com/RainbowMiner/RainbowMiner/issues/1841 (an RX 480)
DEVICE_SINGLE_FP_CONFIG = 190
DEVICE_DOUBLE_FP_CONFIG = 63
# https://github.com/ROCm/clr/pull/97; half: https://github.com/ROCm/ROCR-Runtime/issues/163
DEVICE_PREFERRED_VECTOR_WIDTH_CHAR = 4
DEVICE_PREFERRED_VECTOR_WIDTH_SHORT = 2
DEVICE_PREFERRED_VECTOR_WIDTH_INT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_LONG = 1
DEVICE_PREFERRED_VECTOR_WIDTH_HALF = 1
DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE = 1
DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 1
# 2^32 work-items fail with CL_INVALID_GLOBAL_WORK_SIZE:
# https://github.com/ROCm/legacy-rocm-build/issues/5524
global_limit_x = 4294967295
# Deduced: memory of an OpenCL buffer is bound at its first use on a device.
lazy_allocation = 1

# AMD Radeon RX 7900 XTX under ROCm: clinfo in https://github.com/RainbowMiner/RainbowMiner/issues/2758 and
# https://github.com/JuliaGPU/AMDGPU.jl/issues/371
PLATFORM_NAME = AMD Accelerated Parallel Processing
PLATFORM_VENDOR = Advanced Micro Devices, Inc.
PLATFORM_VERSION = OpenCL 2.1 AMD-APP (3602.0)
PLATFORM_PROFILE = FULL_PROFILE
DEVICE_NAME = gfx1100
# The card of the first line.
DEVICE_BOARD_NAME_AMD = AMD Radeon RX 7900 XTX
DEVICE_VENDOR = Advanced Micro Devices, Inc.
DEVICE_VENDOR_ID = 0x1002
DEVICE_VERSION = OpenCL 2.0 
DRIVER_VERSION = 3602.0 (HSA1.1,LC)
DEVICE_OPENCL_C_VERSION = OpenCL C 2.0 
DEVICE_PROFILE = FULL_PROFILE
# Deduced: what ROCm's driver lists for all cards.
DEVICE_EXTENSIONS = cl_khr_fp64 cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_int64_base_atomics cl_khr_int64_extended_atomics cl_khr_3d_image_writes cl_khr_byte_addressable_store cl_khr_fp16 cl_khr_gl_sharing cl_amd_device_attribute_query cl_amd_media_ops cl_amd_media_ops2 cl_khr_image2d_from_buffer cl_khr_subgroups cl_khr_depth_images cl_amd_copy_buffer_p2p cl_amd_assembly_program
DEVICE_MAX_COMPUTE_UNITS = 48
DEVICE_MAX_CLOCK_FREQUENCY = 2526
DEVICE_MAX_WORK_ITEM_SIZES = 1024 1024 1024
DEVICE_MAX_WORK_GROUP_SIZE = 256
# The wavefront: https://github.com/ollama/ollama/issues/3158
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 32
# Deduced: the largest allocation of this driver is 85 % of it; 24560 MiB in
# https://github.com/ilya-zlobintsev/LACT/pull/533
DEVICE_GLOBAL_MEM_SIZE = 25753026560
DEVICE_MAX_MEM_ALLOC_SIZE = 21890072576
DEVICE_LOCAL_MEM_SIZE = 65536
DEVICE_MAX_PARAMETER_SIZE = 1024
# The same driver with an RX 6600 XT: https://github.com/todxx/teamredminer/issues/416
DEVICE_MEM_BASE_ADDR_ALIGN = 1024
DEVICE_MIN_DATA_TYPE_ALIGN_SIZE = 128
DEVICE_HOST_UNIFIED_MEMORY = 0
DEVICE_ADDRESS_BITS = 64
# Deduced: the hardware has all of these; most as https://github.com/PhoenixMinerDevTeam/PhoenixMiner/issues/51
DEVICE_SINGLE_FP_CONFIG = 191
DEVICE_DOUBLE_FP_CONFIG = 63
DEVICE_PREFERRED_VECTOR_WIDTH_CHAR = 4
DEVICE_PREFERRED_VECTOR_WIDTH_SHORT = 2
DEVICE_PREFERRED_VECTOR_WIDTH_INT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_LONG = 1
DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE = 1
DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 1
# Of later releases: https://github.com/YellowRoseCx/koboldcpp-rocm/issues/136
grid_y = 65535
grid_z = 65535
# 2^32 work-items fail with CL_INVALID_GLOBAL_WORK_SIZE (reproduced with RDNA 3):
# https://github.com/ROCm/legacy-rocm-build/issues/5524
global_limit_x = 4294967295
# Deduced: memory of an OpenCL buffer is bound at its first use on a device.
lazy_allocation = 1

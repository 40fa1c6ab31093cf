# Intel Arc A770: clinfo in https://github.com/intel/compute-runtime/issues/618; limits of the Arc A750 (the same
# chip): clinfo in https://github.com/openvinotoolkit/openvino/issues/20012
PLATFORM_NAME = Intel(R) OpenCL HD Graphics
PLATFORM_VENDOR = Intel(R) Corporation
PLATFORM_VERSION = OpenCL 3.0
PLATFORM_PROFILE = FULL_PROFILE
DEVICE_NAME = Intel(R) Arc(TM) A770 Graphics
DEVICE_VENDOR = Intel(R) Corporation
DEVICE_VENDOR_ID = 0x8086
DEVICE_VERSION = OpenCL 3.0 NEO 
DRIVER_VERSION = 22.49.25018.24
DEVICE_OPENCL_C_VERSION = OpenCL C 1.2 
DEVICE_PROFILE = FULL_PROFILE
# From https://github.com/openvinotoolkit/openvino_notebooks/issues/2763. No fp64: openvino#20012.
DEVICE_EXTENSIONS = cl_khr_byte_addressable_store cl_khr_device_uuid cl_khr_fp16 cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_icd cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_intel_command_queue_families cl_intel_subgroups cl_intel_required_subgroup_size cl_intel_subgroups_short cl_khr_spir cl_intel_accelerator cl_intel_driver_diagnostics cl_khr_priority_hints cl_khr_throttle_hints cl_khr_create_command_queue cl_intel_subgroups_char cl_intel_subgroups_long cl_khr_il_program cl_intel_mem_force_host_memory cl_khr_subgroup_extended_types cl_khr_subgroup_non_uniform_vote cl_khr_subgroup_ballot cl_khr_subgroup_shuffle cl_khr_extended_bit_ops cl_khr_suggested_local_work_size cl_intel_unified_shared_memory
# Deduced: 32 Xe cores of 16 units.
DEVICE_MAX_COMPUTE_UNITS = 512
# Deduced: 128 sub-groups of at least 8 items in openvino#20012.
DEVICE_MAX_WORK_GROUP_SIZE = 1024
DEVICE_MAX_WORK_ITEM_SIZES = 1024 1024 1024
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 64
DEVICE_PREFERRED_VECTOR_WIDTH_CHAR = 16
DEVICE_PREFERRED_VECTOR_WIDTH_SHORT = 8
DEVICE_PREFERRED_VECTOR_WIDTH_INT = 4
DEVICE_PREFERRED_VECTOR_WIDTH_LONG = 1
DEVICE_PREFERRED_VECTOR_WIDTH_HALF = 8
DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE = 0
DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 1
DEVICE_HALF_FP_CONFIG = 63
# Without correctly rounded division, as a later driver says of Iris Xe:
# https://github.com/arunsivaramanneo/GPU-Viewer/issues/87
DEVICE_SINGLE_FP_CONFIG = 63
DEVICE_DOUBLE_FP_CONFIG = 0
DEVICE_ADDRESS_BITS = 64
# Deduced: 16 GiB of memory less the part that the driver keeps; 4 GiB are no more than
# 25 % of it (https://github.com/intel/compute-runtime/issues/627).
DEVICE_GLOBAL_MEM_SIZE = 16225243136
DEVICE_MAX_MEM_ALLOC_SIZE = 4294959104
DEVICE_HOST_UNIFIED_MEMORY = 0
DEVICE_MIN_DATA_TYPE_ALIGN_SIZE = 128
DEVICE_MEM_BASE_ADDR_ALIGN = 1024
DEVICE_GLOBAL_MEM_CACHE_SIZE = 16777216
DEVICE_GLOBAL_MEM_CACHELINE_SIZE = 64
# Deduced: as Gen9.
DEVICE_LOCAL_MEM_SIZE = 65536
# The compiler's limit: https://github.com/JuliaGPU/oneAPI.jl/issues/497
DEVICE_MAX_PARAMETER_SIZE = 2048
# Deduced: discrete memory is resident only while a queue uses it.
lazy_allocation = 1

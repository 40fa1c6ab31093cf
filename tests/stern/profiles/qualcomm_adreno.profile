# Qualcomm Adreno 643: https://github.com/ggml-org/whisper.cpp/issues/3935 (device, memory, work-groups); number
# formats: clinfo in https://github.com/CodeLinaro/llama.cpp/pull/17
PLATFORM_NAME = QUALCOMM Snapdragon(TM)
PLATFORM_VENDOR = QUALCOMM
PLATFORM_VERSION = OpenCL 3.0 QUALCOMM build: 0838.2
PLATFORM_PROFILE = FULL_PROFILE
DEVICE_NAME = QUALCOMM Adreno(TM) 643
DEVICE_VENDOR = QUALCOMM
# https://github.com/Oblomov/clinfo/issues/92 (an Adreno 750)
DEVICE_VENDOR_ID = 0x5143
DEVICE_VERSION = OpenCL 3.0 Adreno(TM) 643
DRIVER_VERSION = OpenCL 3.0 QUALCOMM build: 0838.2 Compiler E031.50.15.00
DEVICE_OPENCL_C_VERSION = OpenCL C 3.0 Adreno(TM) 643
DEVICE_PROFILE = FULL_PROFILE
# Half-precision is in whisper.cpp#3935, the rest is deduced: the atomics that OpenCL 1.2 makes mandatory.
DEVICE_EXTENSIONS = cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_byte_addressable_store cl_khr_fp16 cl_khr_icd
# Of an Adreno 750: https://github.com/galloty/genefer22/issues/12
DEVICE_MAX_COMPUTE_UNITS = 6
DEVICE_MAX_WORK_GROUP_SIZE = 1024
# Deduced: no less than a group in each dimension.
DEVICE_MAX_WORK_ITEM_SIZES = 1024 1024 1024
# Deduced: a wave.
KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 64
# 3642 MB and 910 MB
DEVICE_GLOBAL_MEM_SIZE = 3818913792
DEVICE_MAX_MEM_ALLOC_SIZE = 954204160
# "mem base addr align: 128" are bytes there.
DEVICE_MEM_BASE_ADDR_ALIGN = 1024
# Deduced: a phone's.
DEVICE_HOST_UNIFIED_MEMORY = 1
DEVICE_ADDRESS_BITS = 64
# https://github.com/BOINC/boinc/issues/3613
DEVICE_LOCAL_MEM_SIZE = 32768
DEVICE_MAX_CONSTANT_ARGS = 8
DEVICE_MAX_CONSTANT_BUFFER_SIZE = 65536
DEVICE_MAX_PARAMETER_SIZE = 1024
# https://github.com/ggml-org/whisper.cpp/issues/3708
DEVICE_GLOBAL_MEM_CACHE_SIZE = 1048576
DEVICE_GLOBAL_MEM_CACHELINE_SIZE = 64
# Infinities and NaN, round to nearest and to infinity: neither denormals nor fma nor correctly rounded division.
DEVICE_HALF_FP_CONFIG = 22
DEVICE_SINGLE_FP_CONFIG = 22
DEVICE_DOUBLE_FP_CONFIG = 0
DEVICE_PREFERRED_VECTOR_WIDTH_SHORT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_INT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_LONG = 1
DEVICE_PREFERRED_VECTOR_WIDTH_HALF = 1
DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 1
DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE = 0
DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 1
# Kernels of full groups run out of registers: https://github.com/galloty/genefer22/issues/12
# Deduced: a group of 1024 has 64 KiB of registers in all.
register_words = 16384
# Deduced: pages of the system.
lazy_allocation = 1

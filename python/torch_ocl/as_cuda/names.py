"""The public names of torch.cuda and its modules, and what each of them becomes.

Names of torch.cuda that torch.ocl has, too, become torch.ocl's, unless a table here says
otherwise. RENAMED: torch.ocl's with another name. OWN: the function of answers.py. KEPT:
PyTorch's own, which works unchanged. REFUSED: an error with the reason. Names of modules are
written with the module ("nvtx.mark"), but those that torch.cuda imports from memory, random,
streams and graphs without it. docs/as_cuda.md has the lists.
"""

RENAMED = {"CUDAGraph": "Graph"}

OWN = """
    amp.amp_definitely_not_available device_count get_arch_list get_device_capability
    get_device_properties get_gencode_flags graph is_available caching_allocator_enable
    caching_allocator_disabled nvtx.mark nvtx.range_end nvtx.range_pop nvtx.range_push
    nvtx.range_start profiler.start profiler.stop"""

KEPT = {
    "AcceleratorError OutOfMemoryError": "the errors that ocl raises",
    "CudaError DeferredCudaCallError cudaStatus": "errors that are never raised",
    """amp comm gds graphs green_contexts jiterator memory nccl nvtx profiler random sparse streams
    tunable""": "modules",
    "amp.GradScaler amp.autocast amp.custom_bwd amp.custom_fwd": 'call torch.amp with "cuda"',
    """comm.broadcast comm.broadcast_coalesced comm.gather comm.reduce_add
    comm.reduce_add_coalesced comm.scatter""": "functions on tensors",
    """BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
    DoubleStorage FloatStorage HalfStorage IntStorage LongStorage
    ShortStorage""": "make storages on the device",
    """DEVICE_REQUIREMENT PYTORCH_RELEASES_CODE_CC green_contexts.SUPPORTED has_half has_magma
    nccl.SUM profiler.DEFAULT_FLAGS""": "constants",
    "nccl.is_available": "returns False",
    "nvtx.range profiler.profile": "call nvtx.range_push and profiler.start",
    """sparse.BFloat16Tensor sparse.ByteTensor sparse.CharTensor sparse.DoubleTensor
    sparse.FloatTensor sparse.HalfTensor sparse.IntTensor sparse.LongTensor
    sparse.ShortTensor""": "names of types, whose constructors raise TypeError",
}

_RUNTIME = "which has no CUDA run-time library to call"
_COMPILER = (
    "which has no compiler for CUDA C++: write the kernel in OpenCL C, for "
    "torch.ocl.compile_kernel (docs/interop.md)"
)

REFUSED = {
    """CUDAPluggableAllocator caching_allocator_alloc caching_allocator_delete
    change_current_allocator""": (
        "whose memory has no CUDA pointers: make tensors, and use torch.ocl.MemPool for pools"
    ),
    "check_error cudart profiler.check_error profiler.cudart": (
        f"{_RUNTIME}: use torch.cuda.synchronize, mem_get_info and torch.profiler"
    ),
    "current_blas_handle current_solver_handle": (
        "which has no cuBLAS or cuSOLVER: use torch.mm and torch.linalg"
    ),
    """clock_rate device_memory_used list_gpu_processes memory_usage power_draw temperature
    utilization""": (
        "for which OpenCL does not report this: ask the tool of the device's vendor (nvidia-smi, "
        "rocm-smi, xpu-smi, intel_gpu_top)"
    ),
    "ExternalStream get_stream_from_external": (
        "whose streams are OpenCL's queues: use torch.ocl.get_stream_from_external"
    ),
    "GreenContext": (
        "whose compute units PyTorch cannot divide: use torch.cuda.Stream with a priority"
    ),
    """nccl.all_gather nccl.all_reduce nccl.broadcast nccl.init_rank nccl.reduce
    nccl.reduce_scatter nccl.unique_id nccl.version""": (
        "which NCCL does not serve: use torch.distributed, where nccl is occl, or torch.cuda.comm"
    ),
    "gds.GdsFile gds.gds_deregister_buffer gds.gds_register_buffer": (
        "which GPUDirect Storage does not serve: use torch.load, with mmap=True for large files"
    ),
    """tunable.enable tunable.get_filename tunable.get_max_tuning_duration
    tunable.get_max_tuning_iterations tunable.get_results tunable.get_rotating_buffer_size
    tunable.get_validators tunable.is_enabled tunable.mgpu_tune_gemm_in_file tunable.read_file
    tunable.record_untuned_enable tunable.record_untuned_is_enabled tunable.set_filename
    tunable.set_max_tuning_duration tunable.set_max_tuning_iterations
    tunable.set_numerical_check_tolerances tunable.set_rotating_buffer_size
    tunable.tune_gemm_in_file tunable.tuning_enable tunable.tuning_is_enabled""": (
        "whose matrix products python -m torch_ocl.tune tunes"
    ),
}

# Names with an underscore that programs and PyTorch's tools call.
PRIVATE_OCL = {
    "memory._record_memory_history": "record_memory_history",
    "memory._dump_snapshot": "dump_memory_snapshot",
    "memory._snapshot": "memory._snapshot",
}
PRIVATE_OWN = """
    _exchange_device _get_device_index _get_generator _is_in_bad_fork _lazy_call _lazy_init
    _maybe_exchange_device memory._set_allocator_settings"""
PRIVATE_REFUSED = {
    """_compile_kernel jiterator._create_jit_fn
    jiterator._create_multi_output_jit_fn""": _COMPILER,
    "_sleep": f"{_RUNTIME}: use time.sleep",
}

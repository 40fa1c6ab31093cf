"""Faults of Python and of C++ sources; the latter cost a build each."""

from fault import MATH, NN, NUMBERS, RUNTIME, of

PYTHON = [
    *of(
        "python/torch_ocl/inductor/lowering/decompositions.py",
        "compile/test_compile.py compile/test_compile_refusals.py compile/test_compile_branches.py",
        ("torch.where(index < 0, index - size, index)", "index"),
    ),
    *of(
        "python/torch_ocl/inductor/lowering/dropout.py",
        "compile/test_compile_random.py",
        ("place = len(get_proxy_mode().tracer.graph.nodes)", "place = 0"),
        ("(x.numel() + _BLOCK - 1) // _BLOCK * _COUNTERS", "x.numel() // _BLOCK * _COUNTERS"),
    ),
    *of(
        "python/torch_ocl/inductor/lowering/constant_indices.py",
        "compile/test_compile_numbers.py compile/test_compile_branches.py",
        ("if value.is_constant() or value.dtype == torch.int64:", "if True:"),
    ),
    *of(
        "python/torch_ocl/ocl/graphs.py",
        f"{RUNTIME}test_graphs.py {RUNTIME}test_graph_capture.py",
        ("self.graph.reset()  # captures only a part of the work", "self.graph.capture_end()"),
    ),
]

HOST = [
    *of(
        "generator/generator.cpp",
        f"{NUMBERS}test_random.py {NUMBERS}test_randomness.py",
        ("  state_.offset += counters;\n", ""),
        ("  copy->state_ = state_;\n", ""),
    ),
    *of(
        "generator/captured_draws.cpp",
        RUNTIME + "test_graphs.py",
        ("draws.start.offset + offset}", "draws.start.offset}"),
    ),
    *of(
        "kernels/tensor/copy.cpp",
        "interop/test_copies.py interop/test_views.py",
        (
            "const PointwiseOp& op = from == ScalarType::Bool ? kCopyBools : kCopy;",
            "const PointwiseOp& op = kCopy;",
        ),
        (" && !c10::isReducedFloatingType(from);", ";"),
        ("if (!hold_pinned(stream, host)) return false;", ""),
    ),
    *of(
        "kernels/foreach/foreach_ops.cpp",
        MATH + "test_foreach.py",
        ("tensor.unsafeGetTensorImpl()->bump_version();", ""),
    ),
    *of(
        "backend/memory/allocator.cpp",
        f"{RUNTIME}test_memory.py {RUNTIME}test_streams.py",
        ("  found.record_stream(block, stream.id());\n", ""),
        ("    cache.free(block);\n", ""),
    ),
    *of(
        "backend/queue/event.cpp",
        f"{RUNTIME}test_streams.py {RUNTIME}test_timing.py {RUNTIME}test_fault_threads.py",
        (
            "if (capture_ == 0) return stream.wait_for(event_, *stream_, work_, report_);",
            "if (capture_ == 0) return;",
        ),
        ("if (recorded()) stream_->faults().raise_reported(report_);", ""),
    ),
    *of(
        "backend/queue/capture.cpp",
        f"{RUNTIME}test_graphs.py {RUNTIME}test_graph_capture.py",
        ("recording_.faults.push_back({kernel, index});", ""),
        ("recording_.kept.push_back(std::move(object));", ""),
    ),
    *of(
        "kernels/softmax/softmax.cpp",
        NN + "test_softmax.py",
        (
            'if (log) defines.set("LOG", 1);',
            'if (log && in != ScalarType::Half) defines.set("LOG", 1);',
        ),
        ("if (grad.defined()) expect_type(in, grad.scalar_type(), variant.name);", ""),
    ),
    *of(
        "kernels/pointwise/pointwise_table.h",
        f"{MATH}test_pointwise.py {MATH}test_functions.py {NUMBERS}",
        ("IS_NAN(b) ? b : a == C(0) ? C(0) : a * log(b)", "a == C(0) ? C(0) : a * log(b)"),
        ('"IS_NAN(a) ? a : MIN(C(s1), MAX(C(s0), a))"', '"MIN(C(s1), MAX(C(s0), a))"'),
    ),
    *of(
        "distributed/collectives.cpp",
        "distributed/test_distributed.py",
        ("    Tensors copies(size_, inputs[0]);", "    Tensors copies(size_, inputs[0].zero_());"),
        ("  check_parts(input, input_sizes);\n", ""),
    ),
]

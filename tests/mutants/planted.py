"""Faults to plant in the sources, one at a time: each must make a test fail."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Fault:
    """`before` occurs once in `file`; with `after` in its place, one of `tests` should fail.

    Tests are paths in tests/python. `family` is the kernel family that runs them.
    """

    file: str
    before: str
    after: str
    tests: str
    family: str = "cpu"

    @property
    def name(self):
        return f"{self.file}: {' '.join(self.before.split())}"[:110]

    @property
    def is_kernel(self):
        return self.file.endswith((".cl", ".clh"))

    @property
    def is_built(self):
        return self.file.endswith((".cpp", ".h"))


def of(file, tests, *changes, family="cpu"):
    return [Fault(file, before, after, tests, family) for before, after in changes]


NN, MATH, PRODUCTS, RUNTIME = "eager/nn/", "eager/math/", "eager/products/", "runtime/"
NUMBERS = "eager/numbers/"

REDUCTIONS = [
    *of(
        "kernels/reduce/reduce_cpu.cl",
        MATH + "test_reduce.py",
        ("acc[1] = lanes < C(i - (size - WIDTH)) ? acc[1] : next;", "acc[1] = next;"),
        ("acc[0] = lanes < C(size - i) ? next : acc[0];", "acc[0] = next;"),
        ("const int tail = (int)(width - vectors * WIDTH);", "const int tail = 0;"),
    ),
    *of(
        "kernels/reduce/reduce_gpu.cl",
        MATH + "test_reduce.py",
        ("end - n > (UNROLL - 1) * (step)", "end - n >= (UNROLL - 1) * (step)"),
        (
            "const INDEX to = min(from + share, (INDEX)s.elements); ",
            "const INDEX to = from + share;",
        ),
        family="gpu",
    ),
    *of(
        "kernels/reduce/arg_reduce_cpu.cl",
        f"{MATH}test_reduce.py {MATH}test_order_statistics.py",
        ("(BETTER(a, best) | IS_NAN(a)) & ((best) == (best))", "BETTER(a, best)"),
        ("if (precedes(tail, best)) best = tail;", ""),
    ),
    *of(
        "kernels/reduce/scan.cl",
        MATH + "test_scan.py",
        (
            "for (ulong before = row * parts; before < u; ++before)",
            "for (ulong before = u; before < u; ++before)",
        ),
    ),
    *of(
        "kernels/reduce/scan_rows_gpu.cl",
        MATH + "test_scan.py",
        (
            "if (item > 0) before = join(before, partial[item - 1]);",
            "before = join(before, partial[item]);",
        ),
        family="gpu",
    ),
    *of(
        "kernels/core/cl/group.clh",
        f"{MATH}test_scan.py {MATH}test_reduce.py",
        ("if (item >= step) value = JOIN", "if (item > step) value = JOIN"),
        family="gpu",
    ),
    *of(
        "kernels/core/cl/row_items.clh",
        f"{NN}test_softmax.py {NN}test_norm.py {MATH}test_reduce.py",
        ("const ulong row = is_row ? row_found : (rows) - 1;", "const ulong row = row_found;"),
        ("value = partial[item - in_row];", "value = partial[item];"),
        (
            "for (uint step = row_items / 2; step > 0; step /= 2) {",
            "for (uint step = row_items / 2; step > 1; step /= 2) {",
        ),
        family="gpu",
    ),
]

NORMALISATIONS = [
    *of(
        "kernels/softmax/softmax_gpu.cl",
        NN + "test_softmax.py",
        ("peak = GREATER(x, peak);\n  }", "peak = x;\n  }"),
        ("#define TERM(g, y) (g)", "#define TERM(g, y) ((g) * (y))"),
        family="gpu",
    ),
    *of(
        "kernels/norm/moments_finish.cl",
        f"{NN}test_norm.py {MATH}test_reduce.py",
        ("MOVE(running_var, m2 / (count - 1));", "MOVE(running_var, m2 / count);"),
        (
            "finite = all_finite(x, p * share, min((p + 1) * share, size), inner SCRATCH);",
            "finite = true;",
        ),
        ("ldexp(sqrt(variance), exponent)", "sqrt(variance)"),
    ),
    *of(
        "kernels/norm/layer_norm_cpu.cl",
        NN + "test_norm.py",
        ("slope = dot1 * scale * scale / (T)size;", "slope = dot1 * scale / (T)size;"),
        ("dot_sums[i] += v * centred * scale;", "dot_sums[i] += v * centred;"),
    ),
    *of(
        "kernels/norm/layer_norm_gpu.cl",
        NN + "test_norm.py",
        (
            "for (uint n = item; n < GROUP; n += row_items) total += partial[n];",
            "total += partial[item];",
        ),
        ("if (item < row_items && NUMBER_AT(k) < size) {", "if (item < row_items) {"),
        family="gpu",
    ),
]

INDICES = [
    *of(
        "kernels/index/index.clh",
        f"{MATH}test_index.py {MATH}test_index_errors.py",
        ("wrapped >= g.bound[k]", "wrapped > g.bound[k]"),
        ("WRAP && n < 0 ? n + g.bound[k] : n", "n"),
        ("const ATOMIC_WORD next = (seen & ~mask) |", "const ATOMIC_WORD next = seen |"),
        ("exists = 0;", ""),
    ),
    *of(
        "kernels/index/embedding_bag.cl",
        NN + "test_embedding_bag.py",
        ("if (row == padding) continue;", ""),
        ("if (position < 0 || x > value) {", "if (x > value) {"),
        ("if (count > 0) value /= (T)count;", "value /= (T)count;"),
    ),
    *of(
        "kernels/index/segment_reduce.cl",
        f"{MATH}test_select.py {NUMBERS}test_edge_types.py {NUMBERS}test_empty_inputs.py",
        ("if (isnan(a) || a == 0) {", "if (isnan(a)) {"),
        ("length > 0 ? sum / (T)length : (T)NAN", "sum / (T)max(length, 1L)"),
    ),
    *of(
        "kernels/sort/sort_key.clh",
        f"{MATH}test_sort.py {MATH}test_order_statistics.py",
        ("else if (magnitude == 0) key = SIGN;", ""),
        ("if (magnitude > INFINITY_BITS) key = (BITS)~(BITS)0;\n  else ", ""),
    ),
    *of(
        "kernels/sort/topk.cl",
        f"{MATH}test_sort.py {MATH}test_order_statistics.py",
        ("const ulong end = min(i + BLOCK, to);", "const ulong end = i + BLOCK;"),
        ("chunk * share + min(chunk, rest)", "chunk * share"),
    ),
]

LAYERS = [
    *of(
        "kernels/loss/nll_loss.cl",
        f"{NN}test_loss.py {NN}test_loss_rows.py",
        (
            "if (label == ignore || label < 0 || label >= classes) {",
            "if (label == ignore || label < 0 || label > classes) {",
        ),
        ("lost = isfinite(next) ? (next - sum) - term : (T)0;", "lost = (next - sum) - term;"),
        ("-WEIGHT(label) * g / divisor", "-g / divisor"),
    ),
    *of(
        "kernels/pool/max_pool.cl",
        NN + "test_pool.py",
        ("if ((ulong)index[i + c] >= (ulong)(p.in_h * p.in_w)) continue;", ""),
    ),
    *of(
        "kernels/pool/avg_pool.clh",
        NN + "test_pool.py",
        ("end = min(start + kernel_size, inputs + pad);", "end = start + kernel_size;"),
    ),
    *of(
        "kernels/pool/pool3d.cl",
        NN + "test_pool3d.py",
        ("IS_NAN(a) ? !IS_NAN(most) || at > best", "IS_NAN(a) ? at > best"),
        ("start + ROUND_UP(-start, w.step)", "0"),
        (
            "#define LAST(i, d) min(p.out[d] - 1, ((i) + p.pad[d]) / p.stride[d])",
            "#define LAST(i, d) (((i) + p.pad[d]) / p.stride[d])",
        ),
    ),
    *of(
        "kernels/resample/grid_sample.cl",
        NN + "test_grid_sample.py",
        ("if (x <= 0 || x >= last) *slope = 0;", "if (x < 0 || x > last) *slope = 0;"),
        (
            "taps->place[d][0] = place_of(rint(x), size);",
            "taps->place[d][0] = place_of(floor(x + L(0.5)), size);",
        ),
    ),
    *of(
        "kernels/resample/col2im.cl",
        f"{NN}test_loss_rows.py interop/test_views.py {NUMBERS}test_operand_types.py",
        ("|| start % w->stride[dim] != 0", ""),
    ),
    *of(
        "kernels/rnn/rnn_gru.cl",
        PRODUCTS + "test_rnn.py",
        (
            "WRITE_PART(grad_hidden, 3, 2, grad_new * reset);",
            "WRITE_PART(grad_hidden, 3, 2, grad_new);",
        ),
    ),
    *of(
        "kernels/vision/cl/nms.cl",
        NN + "test_vision_nms.py",
        ("if ((gone & bit) || is_removed[first + i]) continue;", "if (gone & bit) continue;"),
        (") > limit;", ") >= limit;"),
    ),
    *of(
        "kernels/random/random.cl",
        f"{NUMBERS}test_random.py {NUMBERS}test_randomness.py {NUMBERS}test_random_variates.py",
        ("EMIT(3, r.w3)", "EMIT(3, r.w2)"),
        ("x * CONVERT(T, kept) * s0", "x * CONVERT(T, kept)"),
        ("counters = DIVIDE_UP(count, 16 * DRAWS) * 16;", "counters = count / (16 * DRAWS) * 16;"),
    ),
]

OPTIMIZERS = [
    *of(
        "kernels/optimizer/amp_unscale.cl",
        NN + "test_grad_scaler.py",
        ("isfinite(gradient) ? strange : C(1)", "isnan(gradient) ? C(1) : strange"),
    ),
    *of(
        "kernels/optimizer/amp_update_scale.cl",
        NN + "test_grad_scaler.py",
        ("if (isfinite(*s * growth)) *s *= growth;", "*s *= growth;"),
    ),
    *of(
        "kernels/optimizer/optimizer_adam.cl",
        NN + "test_optim.py",
        ("maximum = MAX(maximum, squares);", "maximum = squares;"),
    ),
    *of(
        "kernels/optimizer/optimizer_sgd.cl",
        NN + "test_optim.py",
        ("((T)1 - dampening) * grad", "grad"),
        ("#define STEP_ALONG grad + momentum * buffer", "#define STEP_ALONG buffer"),
    ),
    *of(
        "kernels/optimizer/optimizer.clh",
        f"{NN}test_optim.py {NN}test_grad_scaler.py",
        ("  if (CPTR(float, inf)[0] != 0) return;", ""),
    ),
]

PRODUCTS_OF_MATRICES = [
    *of(
        "kernels/matmul/gemm_cpu.cl",
        PRODUCTS + "test_matmul.py",
        ("const bool continues = !is_first;", "const bool continues = false;"),
        ("lane[l] += beta * LOAD(c, l * c_step);", "lane[l] += beta * LOAD(c, l);"),
        ("LOAD(a_tile, min(i, rows - 1) * A_ROW)", "LOAD(a_tile, 0)"),
        ("    if (is_last) CAT(vstore, VW)(ACTIVATE(", "    CAT(vstore, VW)(ACTIVATE("),
    ),
    *of(
        "kernels/matmul/gemv_cpu.cl",
        PRODUCTS + "test_matmul.py",
        ("for (; p < sizes.k; ++p) total +=", "for (; p + 1 < sizes.k; ++p) total +="),
        ("tail_sums[l - tail] += factor * LOAD(column, l);", ""),
    ),
    *of(
        "kernels/attention/sdpa_gpu.cl",
        PRODUCTS + "test_attention.py",
        ("total[i] = empty ? 0 : 1 / sum;", "total[i] = 1 / sum;"),
        (
            "slopes[i][j] = weight * (slopes[i][j] - delta_of_row);",
            "slopes[i][j] = weight * slopes[i][j];",
        ),
        ("tile[i][j] *= KEEP_FACTOR(first + ROW_OF(i), k0 + COLUMN_OF(j));", ""),
        family="gpu",
    ),
    *of(
        "kernels/conv/conv_plain.cl",
        f"{PRODUCTS}test_conv.py {PRODUCTS}test_conv_gpu.py",
        ("at_x % s.stride_w != 0 || ", ""),
        ("    barrier(CLK_LOCAL_MEM_FENCE);\n", ""),
        (
            "(int)(position % s.out_w) * s.stride_w - s.pad_w + kw * s.dilation_w",
            "(int)(position % s.out_w) * s.stride_w - s.pad_w + kw",
        ),
    ),
    *of(
        "kernels/sparse/sparse_mm.cl",
        MATH + "test_sparse.py",
        ("if ((ulong)dense_row >= (ulong)depth) {", "if ((ulong)dense_row > (ulong)depth) {"),
    ),
]

LINEAR_ALGEBRA = [
    *of(
        "kernels/linalg/lu.cl",
        f"{MATH}test_linalg.py {MATH}test_linalg_deficient.py {MATH}test_linalg_batches.py",
        ("if (IS_ZERO(diagonal) && *failed == 0) *failed = first + (int)j + 1;", ""),
        ("|| (i == j && isnan(size))", ""),
    ),
    *of(
        "kernels/linalg/cholesky.cl",
        f"{MATH}test_linalg.py {MATH}test_linalg_deficient.py {MATH}test_linalg_batches.py",
        ("MUL(block[j][i], CONJ(block[j][k]))", "MUL(block[j][i], block[j][k])"),
        ("if (!(pivot > 0)) {", "if (pivot <= 0) {"),
    ),
    *of(
        "kernels/linalg/triangular.cl",
        f"{MATH}test_linalg.py {MATH}test_linalg_batches.py",
        ("#ifndef UNIT", "#if 1"),
    ),
    *of(
        "kernels/fft/fft_real.cl",
        MATH + "test_fft.py",
        ("if (k == 0) a.y = b.y = 0;", ""),
        ("x[i] = i <= h ? sum : (PAIR)(sum.x, -sum.y);", "x[i] = sum;"),
    ),
]

TENSORS = [
    *of(
        "kernels/tensor/transpose.cl",
        "interop/test_copies.py interop/test_views.py eager/numbers/test_edge_shapes.py",
        ("const ulong at = min(r, rows - 16);", "const ulong at = r;"),
        ("if (rows < LEAST_ROWS || columns < COLUMNS) {", "if (rows < LEAST_ROWS) {"),
    ),
    *of(
        "kernels/tensor/transpose.cl",
        "interop/test_copies.py interop/test_views.py eager/numbers/test_edge_shapes.py",
        ("if (row + j < s.rows && column + x < s.columns)", "if (row + j < s.rows)"),
        ("  barrier(CLK_LOCAL_MEM_FENCE);\n", ""),
        family="gpu",
    ),
    *of(
        "kernels/tensor/cat.cl",
        MATH + "test_composed.py " + MATH + "test_index.py interop/test_views.py",
        ("min(last, p.start[t] + p.size[t])", "min(last, p.start[t] + p.size[t] - 1)"),
    ),
]

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

# Compiled sources: each costs a build.
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

FAULTS = [
    *REDUCTIONS,
    *NORMALISATIONS,
    *INDICES,
    *LAYERS,
    *OPTIMIZERS,
    *PRODUCTS_OF_MATRICES,
    *LINEAR_ALGEBRA,
    *TENSORS,
    *PYTHON,
    *HOST,
]

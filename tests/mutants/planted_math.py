"""Faults of the kernels of reductions, indices, linear algebra and copies."""

from fault import MATH, NN, NUMBERS, of

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

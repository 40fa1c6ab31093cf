"""Faults of the kernels of layers, losses, optimizers, products and attention."""

from fault import MATH, NN, NUMBERS, PRODUCTS, of

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

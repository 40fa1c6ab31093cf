"""Operators that other operators call, called directly with sizes that do not fit each other."""

import pickle
import re
import subprocess
import sys

import fuzz
import mutate
import mutations
import pytest
import relations
import torch
from calls_by_hand import calls_by_hand
from support import DTYPES

ops, image = torch.ops.aten, torch.ops.torch_ocl
ALL = [True] * 3


def long(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="ocl")


def t(*shape):
    return torch.ones(shape, device="ocl")


LSTM = ops._thnn_fused_lstm_cell_backward_impl
GRU = ops._thnn_fused_gru_cell_backward
LAYER, GROUP = ops.native_layer_norm_backward, ops.native_group_norm_backward
BATCH = ops.native_batch_norm_backward
SEGMENT = ops._segment_reduce_backward
CONVOLVE, CONVOLVE_BACK = (
    ops.convolution_overrideable,
    ops.convolution_backward_overrideable,
)
ATTEND_BACK = ops._scaled_dot_product_fused_attention_overrideable_backward
STEPS = ([1], [0], [1], False, [0], 1)


def attend_back(grad, out, sums, value=None):
    rest = (long(0), long(0), 5, 6, 0.0, False, long(), long())
    value = t(1, 2, 6, 4) if value is None else value
    mask = [True, True, True, False]
    none = torch.empty(0, device="ocl")
    return ATTEND_BACK(grad, t(1, 2, 5, 8), t(1, 2, 6, 8), value, none, mask, out, sums, *rest)


CALLS = {
    "lstm: workspace": lambda: LSTM(t(2, 3), t(2, 3), t(2, 3), t(2, 3), t(2, 3), True),
    "lstm: no workspace": lambda: LSTM(t(2, 3), t(2, 3), t(2, 3), t(2, 3), None, True),
    "lstm: grad_hy": lambda: LSTM(t(1, 3), t(2, 3), t(2, 3), t(2, 3), t(2, 12), True),
    "lstm: cy": lambda: LSTM(t(2, 3), t(2, 3), t(2, 3), t(0, 3), t(2, 12), True),
    "gru: workspace": lambda: GRU(t(4, 3), t(2, 15), True),
    "gru: grad_hy": lambda: GRU(t(4, 9), t(4, 15), True),
    "reflection_pad1d": lambda: ops.reflection_pad1d_backward(t(2, 9), t(1, 3), [3, 2]),
    "replication_pad1d": lambda: ops.replication_pad1d_backward(t(1, 8), t(5, 3), [3, 2]),
    "reflection_pad3d": lambda: ops.reflection_pad3d_backward(
        t(1, 4, 4, 4), t(5, 2, 2, 2), [1] * 6
    ),
    "log_softmax": lambda: ops._log_softmax_backward_data(t(2, 3), t(0, 3), 1, torch.float32),
    "softmax": lambda: ops._softmax_backward_data(t(2, 3), t(2, 4), 1, torch.float32),
    "rms_norm: rstd": lambda: ops._fused_rms_norm_backward(
        t(2, 3), t(2, 3), [3], t(1, 1), None, [True, True]
    ),
    "group_norm: no channels": lambda: GROUP(
        t(2, 6, 3), t(2, 6, 3), t(2, 3), t(2, 3), None, 2, 0, 3, 3, ALL
    ),
    "group_norm: size": lambda: GROUP(
        t(2, 6, 3), t(2, 6, 3), t(2, 3), t(2, 3), None, 2, 6, 2**62, 3, ALL
    ),
    "group_norm: no groups": lambda: GROUP(
        t(2, 6, 3), t(2, 6, 3), t(2, 3), t(2, 3), None, 2, 6, 3, 0, ALL
    ),
    "group_norm: mean": lambda: GROUP(
        t(2, 6, 3), t(2, 6, 3), t(1, 3), t(2, 3), None, 2, 6, 3, 3, ALL
    ),
    "group_norm: grad": lambda: GROUP(
        t(2, 6, 1), t(2, 6, 3), t(2, 3), t(2, 3), None, 2, 6, 3, 3, ALL
    ),
    "layer_norm: mean": lambda: LAYER(t(2, 3), t(2, 3), [3], t(1, 1), t(2, 1), None, None, ALL),
    "layer_norm: rstd": lambda: LAYER(t(2, 3), t(2, 3), [3], t(2, 1), t(1, 1), None, None, ALL),
    "layer_norm: grad": lambda: LAYER(t(1, 3), t(2, 3), [3], t(2, 1), t(2, 1), None, None, ALL),
    "batch_norm: grad": lambda: BATCH(
        t(1, 3, 4), t(2, 3, 4), t(3), t(3), t(3), t(3), t(3), True, 1e-5, ALL
    ),
    "batch_norm: mean": lambda: BATCH(
        t(2, 3, 4), t(2, 3, 4), t(3), t(3), t(3), t(1), t(3), True, 1e-5, ALL
    ),
    "batch_norm: running": lambda: BATCH(
        t(2, 3, 4), t(2, 3, 4), t(3), t(1), t(3), t(3), t(3), False, 1e-5, ALL
    ),
    "batch_norm: reduce": lambda: ops.batch_norm_backward_reduce(
        t(2, 3, 4), t(2, 3, 4), t(1), t(3), t(3), *ALL
    ),
    "adaptive_avg_pool2d": lambda: ops._adaptive_avg_pool2d_backward(t(1, 2, 3, 3), t(4, 2, 5, 5)),
    "adaptive_avg_pool3d": lambda: ops._adaptive_avg_pool3d_backward(
        t(1, 2, 3, 3, 3), t(4, 2, 5, 5, 5)
    ),
    "adaptive_max_pool2d": lambda: ops.adaptive_max_pool2d_backward(
        t(4, 2, 3, 3), t(4, 2, 5, 5), long(1, 2, 3, 3)
    ),
    "fractional_max_pool2d": lambda: ops.fractional_max_pool2d_backward(
        t(1, 2, 3, 3), t(1, 2, 7, 7), [2, 2], [3, 3], long(1, 1, 3, 3)
    ),
    "fractional_max_pool3d": lambda: ops.fractional_max_pool3d_backward(
        t(294), t(1, 2, 7, 7, 7), [2] * 3, [3] * 3, long(1, 2, 3, 3, 3)
    ),
    "fractional_max_pool3d: input": lambda: ops.fractional_max_pool3d_backward(
        t(3, 3), t(7, 7), [2] * 3, [3] * 3, long(3, 3)
    ),
    "unfold: step": lambda: ops.unfold_backward(t(3, 2), [4], 0, 2, 0),
    "unfold: grad": lambda: ops.unfold_backward(t(2, 2), [9], 0, 2, 1),
    "cdist: grad": lambda: ops._cdist_backward(t(1, 4), t(3, 2), t(4, 2), 2.0, t(3, 4)),
    "cdist: distances": lambda: ops._cdist_backward(t(3, 4), t(3, 2), t(4, 2), 2.0, t(1, 4)),
    "pdist": lambda: ops._pdist_backward(t(1), t(5, 3), 2.0, t(10)),
    "pdist: dimensions": lambda: ops._pdist_forward(t(2, 30, 4), 2.0),
    "segment_reduce": lambda: SEGMENT(t(1), t(1), t(6), "max", offsets=long(4)),
    "segment_reduce: rows": lambda: torch.segment_reduce(t(6, 4), "max", offsets=long(1, 3)),
    "convolution: bias": lambda: CONVOLVE(t(1, 2, 9), t(4, 2, 3), t(1), *STEPS),
    "convolution: grad": lambda: CONVOLVE_BACK(t(1, 4, 2), t(1, 2, 9), t(4, 2, 3), *STEPS, ALL),
    "convolution: groups": lambda: CONVOLVE(t(1, 2, 9), t(4, 2, 3), None, *STEPS[:-1], 0),
    "convolution: stride": lambda: CONVOLVE(t(1, 2, 9), t(4, 2, 3), None, [0], *STEPS[1:]),
    "convolution: no stride": lambda: CONVOLVE(t(1, 2, 9), t(4, 2, 3), None, [], *STEPS[1:]),
    "convolution: dimensions": lambda: CONVOLVE(t(*[2] * 7), t(*[2] * 7), None, *STEPS),
    "attention: grad": lambda: attend_back(t(1, 2, 1, 4), t(1, 2, 5, 4), t(1, 2, 5)),
    "attention: out": lambda: attend_back(t(1, 1, 5, 4), t(1, 1, 5, 4), t(1, 2, 5)),
    "attention: sums": lambda: attend_back(t(1, 2, 5, 4), t(1, 2, 5, 4), t(1, 2, 1)),
    "attention: type": lambda: attend_back(
        t(1, 2, 5, 4), t(1, 2, 5, 4), t(1, 2, 5), t(1, 2, 6, 4).half()
    ),
    "grid_sample": lambda: ops.grid_sampler_2d_backward(
        t(1, 1, 2, 2), t(2, 1, 4, 4), t(2, 2, 2, 2), 0, 0, False, [True, True]
    ),
    "ctc_loss: alpha": lambda: ops._ctc_loss_backward(
        t(2), t(7, 2, 4), long(2, 3), [7, 7], [3, 3], t(2), t(2, 7, 1), 0, False
    ),
    "ctc_loss: lengths": lambda: ops._ctc_loss_backward(
        t(2), t(7, 2, 4), long(2, 3), [70, 7], [3, 3], t(2), t(2, 7, 7), 0, False
    ),
    "nll_loss2d": lambda: ops.nll_loss2d_backward(
        t(0), t(1, 3, 2, 2), long(1, 2, 2), None, 1, -100, t()
    ),
    "coo_to_csr: size": lambda: ops._convert_indices_from_coo_to_csr(long(3), -1),
    "cummax: values": lambda: ops._cummax_helper(t(3, 4), t(0), long(3, 4), 1),
    "cummax: indices": lambda: ops._cummax_helper(t(3, 4), t(3, 4), long(3, 3), 1),
    "cummin: types": lambda: ops._cummin_helper(t(3, 4), t(3, 4).half(), long(3, 4).int(), 1),
    "logcumsumexp: type": lambda: ops._logcumsumexp(t(3, 4), 1, out=t(3, 4).half()),
    "fractional pooling: sizes": lambda: ops.fractional_max_pool2d_backward(
        t(1, 1, 2, 2), t(1, 1, 6, 6), [2, 2], [], long(1, 1, 2, 2)
    ),
    "fractional pooling: volumes": lambda: ops.fractional_max_pool3d_backward(
        t(1, 1, 2, 2, 2), t(1, 1, 6, 6, 6), [2, 2, 2], [], long(1, 1, 2, 2, 2)
    ),
    "coo_to_csr: type": lambda: ops._convert_indices_from_coo_to_csr(t(3), 2),
    "csr_to_coo: type": lambda: ops._convert_indices_from_csr_to_coo(t(3), long(3)),
    "sparse_mm: type of columns": lambda: (
        torch.sparse_csr_tensor(
            long(3).char(), long(2).char(), t(2), (2, 2), check_invariants=False
        )
        @ t(2, 2)
    ),
    "csr_to_coo: offsets": lambda: ops._convert_indices_from_csr_to_coo(long(0), long(3)),
    "fft: no numbers": lambda: ops._fft_c2r(t(2, 1).to(torch.complex64), [1], 0, 0),
    "qkv: no heads": lambda: ops._transform_bias_rescale_qkv(t(2, 3, 12), t(12), 0),
    "channel_shuffle: no groups": lambda: ops.native_channel_shuffle(t(1, 4, 2, 2), 0),
    "reflection_pad1d: padding": lambda: ops.reflection_pad1d_backward(t(2, 3), t(2, 3), [9, -9]),
    "reflection_pad2d: one number": lambda: ops.reflection_pad2d_backward(
        t(1, 2, 2), t(1, 2, 2), [0]
    ),
    "embedding": lambda: ops.embedding_dense_backward(t(1, 3), long(5), 4, -1, False),
    "adam: found_inf": lambda: ops._fused_sgd_(
        [t(2)],
        [t(2)],
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=0.1,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
        found_inf=t(0),
    ),
    "resize: size": lambda: image._resize_backward(t(3, 5, 6), [0, 9], "bilinear", True),
    "resize: one number": lambda: image._resize_backward(t(3, 5, 6), [9], "bilinear", True),
    "resize: dimensions": lambda: image._resize_backward(t(6), [4, 9], "bilinear", True),
    "affine: size": lambda: image._affine_backward(
        t(3, 5, 6), [1.0, 0.5, 0, 0, 1, 0], [0, 0], "bilinear"
    ),
    "affine: dimensions": lambda: image._affine_backward(
        t(6), [1.0, 0, 0, 0, 1, 0], [5, 6], "nearest"
    ),
    "normalize: dimensions": lambda: image._normalize_backward(t(6), t(6), [1.0]),
    "adjust: image": lambda: image._adjust_backward(t(3, 5, 6), t(3, 1, 1), 3, 0.1),
    "dropout: state": lambda: torch.ops.ocl.philox_dropout(t(3), 0.5, long(0)),
    "dropout: type of the state": lambda: torch.ops.ocl.philox_dropout(t(3), 0.5, t(2)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_sizes_that_do_not_fit_are_an_error(call):
    with pytest.raises((RuntimeError, ValueError)) as error:
        call()
        torch.ocl.synchronize()
    assert not re.search("INTERNAL|CL_", str(error.value))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_row_indices_of_all_widths(dtype):
    rows, columns = torch.tensor([0, 0, 2, 3], dtype=dtype), torch.tensor([1, 2, 0, 1])
    offsets = ops._convert_indices_from_coo_to_csr(rows, 4)
    assert torch.equal(ops._convert_indices_from_coo_to_csr(rows.to("ocl"), 4).cpu(), offsets)
    given = offsets.to(dtype), columns
    expected = ops._convert_indices_from_csr_to_coo(*given)
    actual = ops._convert_indices_from_csr_to_coo(*(x.to("ocl") for x in given))
    assert torch.equal(actual.cpu(), expected)


def test_an_error_names_both_sizes():
    with pytest.raises(RuntimeError, match=r"grad_output has sizes \[2, 3\].* output: \[0, 3\]"):
        CALLS["log_softmax"]()


@pytest.mark.parametrize("op", relations.table())
def test_relations_are_of_arguments(op):
    packet = getattr(ops, op)
    names = {a.name for a in getattr(packet, packet.overloads()[0])._schema.arguments}
    for relation in relations.relations_of(op, names):
        first, _, rest = relation.partition(" ")
        assert first in names
        assert {word for word in re.findall(r"(\w+)\.size", rest)} <= names


@pytest.mark.fallback_allowed
def test_mutated_calls_find_nothing(tmp_path, capfd):
    """A sample of `fuzz.py --mutate`, in a process of its own."""
    chosen = [call for call in calls_by_hand() if "gru" in call[0]]
    (tmp_path / "calls").write_bytes(pickle.dumps(chosen))
    arguments = fuzz.parse(["--mutate", "--calls", str(tmp_path / "calls")])
    assert mutate.MutationCampaign(arguments).run() == 0
    assert re.search(r"\d+ calls, \d+ calls that raise, 2 operators", capfd.readouterr().out)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float8_e4m3fn], ids=str)
def test_tensors_of_every_type_are_mutated(dtype):
    call = ("aten::add.Tensor", (torch.ones(2, 3).to(dtype),), {})
    found = list(mutations.mutated(call))
    assert found[-1][0] == "argument 0: None" and len(found) > 20


def test_an_ended_process_is_a_finding():
    campaign = mutate.MutationCampaign(fuzz.parse(["--mutate"]))
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            'print(\'{"begin": 7, "case": "op, what"}\'); import os; os.abort()',
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert campaign.follow(process, 7, 2) == 8
    assert campaign.report() == 1 and campaign.findings == {("crash", "op"): 1}


@pytest.mark.parametrize("step", [2**31, 2**32 + 1, 2**63 - 1])
def test_windows_with_huge_steps(device, step):
    x = torch.arange(10.0, device=device, requires_grad=True)
    windows = x.unfold(0, 2, step)
    assert windows.shape == (1, 2) and (windows + 1).tolist() == [[1, 2]]
    windows.sum().backward()
    assert x.grad.tolist() == [1, 1, *[0] * 8]
    direct = ops.unfold_backward(torch.ones_like(windows), [10], 0, 2, step)
    assert direct.tolist() == x.grad.tolist()

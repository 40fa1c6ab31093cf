"""Layers of transformers' models that the integration computes by kernels of their own."""

import pytest
import torch
from support import HALVES, assert_same, output_of
from traces import profiled
from transformers import LlamaConfig
from transformers.models.gemma import modeling_gemma
from transformers.models.llama import modeling_llama

from torch_ocl.integrations import transformers_layers as layers

DTYPES = [torch.float32, *HALVES]
NEAR = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def norm(dtype, fused, device, size=48):
    class Norm(modeling_llama.LlamaRMSNorm):
        pass

    if fused:
        layers.fuse(Norm)
    torch.manual_seed(1)
    made = Norm(size)
    torch.nn.init.uniform_(made.weight, 0.5, 1.5)
    return made.to(device, dtype)


def results(function, *tensors):
    leaves = [t.detach().requires_grad_() for t in tensors]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.manual_seed(2)
    grads = [torch.randn(y.shape).to(y) for y in outputs]
    return [*outputs, *torch.autograd.grad(outputs, leaves, grads)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_norm(device, dtype, tmp_path):
    x = torch.randn(2, 5, 48).to(device, dtype)
    ours, theirs = norm(dtype, True, device), norm(dtype, False, device)
    for a, e in zip(results(ours, x), results(theirs, x), strict=True):
        assert_same(a.detach(), e.detach().cpu(), exact=False, rtol=NEAR[dtype], atol=NEAR[dtype])
    with torch.no_grad():
        kernels = profiled(lambda: ours(x), tmp_path).names()
    assert len(kernels) == (1 if dtype == torch.float32 else 2)


def test_norm_of_other_types(device):
    """Where weight and activations differ, or autocast is on, the original's type comes out."""
    x = torch.randn(2, 48, device=device)
    for module_type, x_type in [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)]:
        ours, theirs = (norm(module_type, fused, device) for fused in (True, False))
        assert torch.equal(ours(x.to(x_type)), theirs(x.to(x_type)))
    ours, theirs = (norm(torch.bfloat16, fused, device) for fused in (True, False))
    with torch.autocast("ocl", torch.bfloat16):
        assert ours(x.bfloat16()).dtype == theirs(x.bfloat16()).dtype == torch.bfloat16


def test_only_the_known_code_is_replaced():
    original = modeling_gemma.GemmaRMSNorm.forward
    layers.fuse(modeling_gemma.GemmaRMSNorm)
    assert modeling_gemma.GemmaRMSNorm.forward is original


def mlp(dtype, fused, device, activation="silu"):
    class MLP(modeling_llama.LlamaMLP):
        pass

    if fused:
        layers.fuse(MLP)
    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=64, intermediate_size=24, hidden_act=activation)
    return MLP(config).to(device, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_swiglu(device, dtype, activation, tmp_path):
    x = torch.randn(2, 5, 64).to(device, dtype)
    ours, theirs = (mlp(dtype, fused, device, activation) for fused in (True, False))
    for a, e in zip(results(ours, x), results(theirs, x), strict=True):
        assert torch.equal(a, e)
    with torch.no_grad():
        assert ("swiglu" in str(profiled(lambda: ours(x), tmp_path).names())) == (
            activation == "silu"
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("strided", [False, True])
def test_rotary(device, dtype, strided, tmp_path):
    """Products and sums are rounded as by the original, so that results are equal."""
    shape = (2, 5, 3, 16) if strided else (2, 3, 5, 16)
    q, k = (torch.randn(shape).to(device, dtype) for _ in range(2))
    if strided:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    cos, sin = (torch.randn(1, 5, 16).to(device, dtype) for _ in range(2))
    original = modeling_llama.apply_rotary_pos_emb
    ours = layers._fuse_rotary(original)
    actual = results(lambda q, k: ours(q, k, cos, sin), q, k)
    expected = results(lambda q, k: original(q, k, cos, sin), q, k)
    for a, e in zip(actual[:2], expected[:2], strict=True):
        assert torch.equal(a, e) and a.stride() == e.stride()
    for a, e in zip(actual[2:], expected[2:], strict=True):
        assert_same(a, e.cpu(), exact=False, rtol=NEAR[dtype], atol=NEAR[dtype])
    with torch.no_grad():
        kernels = profiled(lambda: ours(q, k, cos, sin), tmp_path).names()
    assert kernels == ["rotary", "rotary"]


def test_rotary_that_is_broadcast_or_partial(device):
    ours = layers._fuse_rotary(modeling_llama.apply_rotary_pos_emb)
    q, cos = torch.randn(2, 3, 1, 16, device=device), torch.randn(2, 5, 16, device=device)
    assert ours(q, q, cos, cos)[0].shape == (2, 3, 5, 16)
    with pytest.raises(RuntimeError, match="must match"):
        ours(q, q, cos[..., :8], cos[..., :8])


def test_checks_of_rotary(device):
    x = torch.randn(1, 2, 3, 8, device=device)
    with pytest.raises(RuntimeError, match="the last one even"):
        torch.ops.ocl.rotary(x[..., :7], x[..., :7], x[..., :7])
    with pytest.raises(RuntimeError):
        torch.ops.ocl.rotary(x, x.half(), x)
    assert torch.ops.ocl.rotary(x[:0], x[:0], x[:0]).shape == (0, 2, 3, 8)


def test_models(device):
    """Logits and gradients of a model, which is imported after enable() or before it."""
    for first in (
        "import torch_ocl.integrations",
        "import transformers.models.llama.modeling_llama",
    ):
        code = f"""
            {first}
            import torch_ocl.integrations
            torch_ocl.integrations.enable("transformers")
            import torch
            from transformers import LlamaConfig, LlamaForCausalLM
            torch.manual_seed(0)
            model = LlamaForCausalLM(LlamaConfig(
                vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, eos_token_id=None))
            NAMES = ["ocl::rotary", "ocl::swiglu", "aten::_fused_rms_norm", "aten::rsqrt"]
            import copy
            there = copy.deepcopy(model).to("ocl")
            ids = torch.randint(61, (2, 7))
            expected, actual = model(ids, labels=ids), there(ids.to("ocl"), labels=ids.to("ocl"))
            torch.testing.assert_close(actual.logits.cpu(), expected.logits, rtol=1e-4, atol=1e-4)
            expected.loss.backward(), actual.loss.backward()
            for a, e in zip(there.parameters(), model.parameters()):
                torch.testing.assert_close(a.grad.cpu(), e.grad, rtol=1e-3, atol=1e-5)
            with torch.profiler.profile() as profile:
                there(ids.to("ocl"))
            names = [event.key for event in profile.key_averages()]
            print(*(name in names for name in NAMES))
        """
        assert output_of(code).split() == ["True", "True", "True", "False"]

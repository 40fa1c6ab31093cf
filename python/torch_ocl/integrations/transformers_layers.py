"""Layers of transformers' models that are several operators there, and one or two kernels on ocl.

A layer is replaced only if its code is the code below, and only outside of compiled functions,
whose operators the compiler joins. Numbers are rounded where the original rounds them; only the
sum of squares of a norm may be added up in another order.
"""

import ast
import functools
import inspect
import sys
import textwrap

import torch

from . import replace


class _Originals:
    """The code that is replaced, as transformers has it. It is compared, and never runs."""

    def rms_norm(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)

    def swiglu(self, x):
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return down_proj

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        cos = cos.unsqueeze(unsqueeze_dim)
        sin = sin.unsqueeze(unsqueeze_dim)
        q_embed = (q * cos) + (rotate_half(q) * sin)  # noqa: F821
        k_embed = (k * cos) + (rotate_half(k) * sin)  # noqa: F821
        return q_embed, k_embed

    def rotate_half(x):
        x1 = x[..., : x.shape[-1] // 2]
        x2 = x[..., x.shape[-1] // 2 :]
        return torch.cat((-x2, x1), dim=-1)


@functools.cache
def _code(function):
    """The names of the parameters and the statements, without annotations and docstring."""
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return [a.arg for a in node.args.args], [ast.dump(statement) for statement in body]


def _same_code(function, original):
    code = _code(function)
    return code is not None and code == _code(original)


def _computes_itself(*tensors):
    """Whether all are plain tensors of one type on ocl, in eager mode."""
    first = tensors[0]
    return (
        not torch.compiler.is_compiling()
        and first.device.type == "ocl"
        and first.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors)
        and all(t.dtype == first.dtype and t.device == first.device for t in tensors)
        and not torch._C._are_functorch_transforms_active()
    )


def _norm(original):
    def forward(self, hidden_states):
        if not _computes_itself(hidden_states, self.weight):
            return original(self, hidden_states)
        size, eps = self.weight.shape, self.variance_epsilon
        # Not F.rms_norm, which autocast changes. 16-bit numbers are rounded before the weight.
        if hidden_states.dtype == torch.float32:
            return torch._fused_rms_norm(hidden_states, size, self.weight, eps)[0]
        return self.weight * torch._fused_rms_norm(hidden_states, size, None, eps)[0]

    return forward


class _Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return torch.ops.ocl.swiglu(gate, up)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        of_gate = torch.ops.aten.silu_backward(grad * up, gate)
        return of_gate, grad * torch.nn.functional.silu(gate)


def _swiglu(original):
    def forward(self, x):
        if not _computes_itself(x) or type(self.act_fn).__name__ not in ("SiLU", "SiLUActivation"):
            return original(self, x)
        gate, up = self.gate_proj(x), self.up_proj(x)
        if _computes_itself(gate, up) and gate.shape == up.shape:
            return self.down_proj(_Swiglu.apply(gate, up))
        return self.down_proj(self.act_fn(gate) * up)

    return forward


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return torch.ops.ocl.rotary(x, cos, sin)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        return torch.ops.ocl.rotary(grad, cos, -sin.roll(sin.shape[-1] // 2, -1)), None, None


def _fuse_rotary(function):
    @functools.wraps(function)
    def apply_rotary_pos_emb(q, k, cos, sin, *args, **kwargs):
        if (
            args
            or kwargs
            or not _computes_itself(q, k, cos, sin)
            or cos.requires_grad
            or cos.dim() != 3
            or any(x.dim() != 4 or x.shape[2:] != cos.shape[1:] for x in (q, k))
        ):
            return function(q, k, cos, sin, *args, **kwargs)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return _Rotary.apply(q, cos, sin), _Rotary.apply(k, cos, sin)

    return apply_rotary_pos_emb


FORWARD = [(_Originals.rms_norm, _norm), (_Originals.swiglu, _swiglu)]


@functools.cache
def fuse(kind):
    """Replaces the method forward() of a class of layers, if it is one of _Originals."""
    for original, make in FORWARD:
        if _same_code(kind.forward, original):
            kind.forward = functools.wraps(kind.forward)(make(kind.forward))
            return


@functools.cache
def _fuse_functions(name):
    module = sys.modules.get(name)
    known = _Originals.apply_rotary_pos_emb, _Originals.rotate_half
    if all(_same_code(getattr(module, each.__name__, None), each) for each in known):
        module.apply_rotary_pos_emb = _fuse_rotary(module.apply_rotary_pos_emb)


def fuse_layers(module) -> None:
    """transformers.modeling_utils: a model that was made calls post_init()."""

    def make(original):
        def post_init(self):
            original(self)
            for kind in {type(layer) for layer in self.modules()}:
                if kind.__module__.startswith("transformers."):
                    fuse(kind)
                    _fuse_functions(kind.__module__)

        return post_init

    replace(module.PreTrainedModel, "post_init", make)

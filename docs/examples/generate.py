"""Goes on with a text on device "ocl", with a bar that shows the progress.

    python docs/examples/generate.py build/model "torch-ocl is" --tokens 200 --temperature 0.8

The model is a folder that finetune.py has written, or a name on the Hugging Face hub. One without a
tokenizer has bytes as tokens. --int4 keeps the weights of linear layers in 4 bits each: with an
eighth of the memory of float32, less precisely.
"""

import argparse
import pathlib

import torch
from torch import nn
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.streamers import BaseStreamer
from transformers.pytorch_utils import Conv1D

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Int4Linear(nn.Module):
    """A linear layer whose weights are 4-bit numbers times a scale for each 32 of them."""

    def __init__(self, weight, bias):
        super().__init__()
        groups = weight.detach().float().unflatten(1, (-1, 32))
        scale = groups.abs().amax(2).clamp_min(1e-12) / 7
        numbers = (groups / scale[..., None]).round().to(torch.int8).flatten(1) + 8
        pairs = (numbers[:, ::2] << 4 | numbers[:, 1::2]).to(torch.uint8)
        self.register_buffer("numbers", torch._convert_weight_to_int4pack(pairs, 2))
        scales_and_zeros = torch.stack([scale, torch.zeros_like(scale)], 2).transpose(0, 1)
        self.register_buffer("scales", scales_and_zeros.contiguous().to(weight.dtype))
        self.bias = bias

    def forward(self, x):
        y = torch._weight_int4pack_mm(x.flatten(0, -2), self.numbers, 32, self.scales)
        y = y.unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias


def pack_weights(model):
    """Replaces the linear layers but the last one, which often shares the embedding's weights."""
    for module in list(model.base_model.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Linear | Conv1D):
                weight = layer.weight.T if isinstance(layer, Conv1D) else layer.weight
                if weight.shape[0] % 8 == 0 and weight.shape[1] % 32 == 0:
                    setattr(module, name, Int4Linear(weight, layer.bias))


class Progress(BaseStreamer):
    """Moves a bar by one for each token; the first call brings the tokens of the prompt."""

    def __init__(self, count):
        self.bar = tqdm(total=count, desc="generate", unit="token")
        self.prompt_is_next = True

    def put(self, value):
        if not self.prompt_is_next:
            self.bar.update(value.numel())
        self.prompt_is_next = False

    def end(self):
        self.bar.close()


def load_tokenizer(name):
    """None for a folder that has no tokenizer."""
    folder = pathlib.Path(name)
    if folder.is_dir() and not any(folder.glob("tokenizer*")):
        return None
    return AutoTokenizer.from_pretrained(name)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="folder or name")
    parser.add_argument("prompt")
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--int4", action="store_true", help="weights of 4 bits")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0, help="0: the likeliest token")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)

    torch.manual_seed(args.seed)
    tokenizer = load_tokenizer(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=DTYPES[args.dtype])
    model.to(args.device).eval()
    if args.int4:
        pack_weights(model)
    ids = tokenizer(args.prompt).input_ids if tokenizer else list(args.prompt.encode())
    sampling = {"do_sample": False}
    if args.temperature > 0:
        sampling = {"do_sample": True, "temperature": args.temperature, "top_p": 0.95}
    prompt = torch.tensor([ids], device=args.device)
    result = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=args.tokens,
        streamer=Progress(args.tokens),
        **sampling,
    )[0].tolist()
    text = tokenizer.decode(result) if tokenizer else bytes(result).decode(errors="replace")
    print(text)
    return text


if __name__ == "__main__":
    main()

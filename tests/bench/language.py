"""Speed of a language model: on an OpenCL device, on PyTorch's CPU path, and in llama.cpp.

    python tests/bench/language.py [--types float32,bfloat16,int8,int4] [--rounds 3] [--tokens 32]
                                   [--prompt 512] [--size large|small] [--llama-cpp FOLDER]

A Llama of transformers with random weights and grouped queries goes on with a random prompt by
generate(): on the device with a dynamic cache, and compiled with mode="reduce-overhead" and a
static one; on the CPU with a dynamic cache, which is its faster way. int8 and int4 are the packed
weights of kernels/matmul/packed, with activations in bfloat16; int4 has groups of 32. The ways
alternate. Prints a row for each type:
    tokens/s of decoding, and of the prompt, for each way; GB/s of weights that decoding reads

With --llama-cpp, whose folder has gguf-py and build/bin, the same shape runs there at F32, BF16,
Q8_0 and Q4_0. Needs transformers.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import CompileConfig

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

aten = torch.ops.aten
THREADS = torch.get_num_threads()
SIZES = {
    "large": {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 16},
    "small": {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2},
}
SHAPE = {
    "vocab_size": 32000,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "max_position_embeddings": 2048,
}
GGUF_TYPES = {"float32": "F32", "bfloat16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
WAYS = {"ocl": "ocl", "ocl compiled": "ocl", "CPU": "cpu"}


class Int8Linear(nn.Module):
    def __init__(self, weight):
        super().__init__()
        scale = weight.abs().amax(1) / 127
        self.register_buffer("numbers", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale.to(torch.bfloat16))

    def forward(self, x):
        y = torch._weight_int8pack_mm(x.flatten(0, -2), self.numbers, self.scale)
        return y.unflatten(0, x.shape[:-1])


class Int4Linear(nn.Module):
    """Each group of 32 weights has a scale; the zeros are 0."""

    def __init__(self, weight, device):
        super().__init__()
        groups = weight.unflatten(1, (-1, 32))
        scale = groups.abs().amax(2) / 7
        numbers = ((groups / scale[..., None]).round().clamp(-8, 7) + 8).flatten(1).int()
        if device == "cpu":
            packed = torch._convert_weight_to_int4pack_for_cpu(numbers, 1)
        else:
            pairs = (numbers[:, ::2] << 4 | numbers[:, 1::2]).to(torch.uint8)
            packed = torch._convert_weight_to_int4pack(pairs.to(device), 8)
        self.register_buffer("numbers", packed)
        both = torch.stack([scale, torch.zeros_like(scale)], 2).transpose(0, 1)
        self.register_buffer("scales", both.contiguous().to(torch.bfloat16))
        self.multiply = (
            aten._weight_int4pack_mm_for_cpu if device == "cpu" else aten._weight_int4pack_mm
        )

    def forward(self, x):
        y = self.multiply(x.flatten(0, -2), self.numbers, 32, self.scales)
        return y.unflatten(0, x.shape[:-1])


def make_model(kind, device, size):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(eos_token_id=None, **SHAPE, **SIZES[size])).eval()
    packed = {"int8": Int8Linear, "int4": lambda weight: Int4Linear(weight, device)}.get(kind)
    if packed:
        for module in list(model.modules()):
            for name, layer in list(module.named_children()):
                if type(layer) is nn.Linear:
                    setattr(module, name, packed(layer.weight.detach()))
    model.to(device).to(torch.float32 if kind == "float32" else torch.bfloat16)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    return model


def weight_bytes(model):
    """Bytes of the matrices that a token reads."""
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.nbytes for t in tensors) - model.model.embed_tokens.weight.nbytes


def options_of(way):
    if way != "ocl compiled":
        return {}
    config = CompileConfig(mode="reduce-overhead", fullgraph=True, dynamic=False)
    config._compile_all_devices = True  # transformers compiles for CUDA and XPU by itself
    return {"cache_implementation": "static", "compile_config": config}


def seconds(model, prompt, count, options):
    """The time to generate `count` tokens."""
    begin = time.perf_counter()
    with torch.no_grad():
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            **options,
        )
    torch.ocl.synchronize()
    return time.perf_counter() - begin


def measure(kind, args):
    """-> {way: (tokens/s of decoding, tokens/s of the prompt)}, bytes of weights"""
    models = {device: make_model(kind, device, args.size) for device in ("ocl", "cpu")}
    prompt = torch.randint(0, SHAPE["vocab_size"], (1, args.prompt))
    times = {way: [] for way in WAYS}
    for number in range(args.rounds + 1):
        for way, device in WAYS.items():
            run = models[device], prompt.to(device)
            first = seconds(*run, 1, options_of(way))
            whole = seconds(*run, 1 + args.tokens, options_of(way))
            if number > 0:  # the first round compiles
                times[way].append(((whole - first) / args.tokens, first / args.prompt))
    rates = {
        way: tuple(1 / statistics.median(column) for column in zip(*rounds, strict=True))
        for way, rounds in times.items()
    }
    return rates, weight_bytes(models["ocl"])


class LlamaCpp:
    """The same shape in llama.cpp, with two files: of float32, and of the type."""

    def __init__(self, folder, size):
        self.bin, self.files = Path(folder) / "build" / "bin", Path(tempfile.mkdtemp())
        sys.path.insert(0, str(Path(folder) / "gguf-py"))
        self.write(self.files / "F32.gguf", SIZES[size])

    def write(self, path, sizes):
        import gguf

        width, inner, layers = sizes.values()
        heads, words = SHAPE["num_attention_heads"], SHAPE["vocab_size"]
        key_heads = SHAPE["num_key_value_heads"]
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_context_length(SHAPE["max_position_embeddings"])
        writer.add_embedding_length(width)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(inner)
        writer.add_head_count(heads)
        writer.add_head_count_kv(key_heads)
        writer.add_rope_dimension_count(width // heads)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        writer.add_tokenizer_model("llama")
        marks = [b"<unk>", b"<s>", b"</s>"]
        tokens = [*marks, *(f"<0x{i:02X}>".encode() for i in range(256))]
        tokens += [f"t{i}".encode() for i in range(words - len(tokens))]
        writer.add_token_list(tokens)
        writer.add_token_scores([0.0] * words)
        writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (words - 259))

        def add(name, *shape):
            tensor = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02
            writer.add_tensor(f"{name}.weight", tensor.numpy())

        add("token_embd", words, width)
        add("output_norm", width)
        add("output", words, width)
        for i in range(layers):
            add(f"blk.{i}.attn_norm", width)
            add(f"blk.{i}.ffn_norm", width)
            add(f"blk.{i}.attn_q", width, width)
            add(f"blk.{i}.attn_k", width * key_heads // heads, width)
            add(f"blk.{i}.attn_v", width * key_heads // heads, width)
            add(f"blk.{i}.attn_output", width, width)
            add(f"blk.{i}.ffn_gate", inner, width)
            add(f"blk.{i}.ffn_up", inner, width)
            add(f"blk.{i}.ffn_down", width, inner)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def measure(self, kind, args):
        """-> (tokens/s of decoding, tokens/s of the prompt)"""
        whole, file = self.files / "F32.gguf", self.files / f"{GGUF_TYPES[kind]}.gguf"
        if not file.exists():
            quantize = [self.bin / "llama-quantize", "--pure", whole, file, GGUF_TYPES[kind]]
            subprocess.run(quantize, check=True, capture_output=True)
        command = [self.bin / "llama-bench", "-m", file, "-o", "json", "-t", str(THREADS)]
        command += ["-p", str(args.prompt), "-n", str(args.tokens), "-r", str(args.rounds)]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        rates = {row["n_gen"] > 0: row["avg_ts"] for row in json.loads(result.stdout)}
        return rates[True], rates[False]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default=",".join(GGUF_TYPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--size", choices=SIZES, default="large")
    parser.add_argument("--llama-cpp", metavar="FOLDER")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    llama_cpp = LlamaCpp(args.llama_cpp, args.size) if args.llama_cpp else None
    names = [*WAYS, *(["llama.cpp"] if llama_cpp else [])]
    print(f"| {torch.ocl.get_device_name()} | {' | '.join(names)} | weights, GB/s compiled |")
    print(f"| --- {'| ---: ' * (len(names) + 1)}|")
    for kind in args.types.split(","):
        rates, size = measure(kind, args)
        if llama_cpp:
            rates["llama.cpp"] = llama_cpp.measure(kind, args)
        cells = [f"{decode:.1f}; {prompt:.0f}" for decode, prompt in rates.values()]
        read = rates["ocl compiled"][0] * size / 1e9
        print(f"| {kind} | {' | '.join(cells)} | {read:.1f} |", flush=True)


if __name__ == "__main__":
    main()

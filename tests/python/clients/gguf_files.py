"""GGUF files for tests: blocks of random weights, and a Llama that consists of them."""

import torch

# The positions of float16 scales in the blocks of each layout.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(name, size, shape, numbers):
    """Blocks of `size` bytes [*shape, size]: random bits, all of which are weights, and scales."""
    blocks = torch.randint(0, 256, (*shape, size), generator=numbers).byte()
    for place in SCALES[name]:
        scale = torch.randn((*shape, 1), generator=numbers).half() / 256
        blocks[..., place : place + 2] = scale.view(torch.uint8)
    return blocks


def write_gguf(path, name, width=128, inner=256, layers=2, words=96):
    """A Llama whose matrices have the layout; "F16": numbers. Needs the package gguf."""
    import gguf

    kind = getattr(gguf.GGMLQuantizationType, name)
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    numbers = torch.Generator().manual_seed(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // 2)
    writer.add_vocab_size(words)

    def add(name_of_weight, *shape):
        if len(shape) == 1:
            values = torch.randn(shape, generator=numbers) * 0.1 + 1
            return writer.add_tensor(name_of_weight, values.numpy())
        if name == "F16":
            values = torch.randn(shape, generator=numbers).half() * 0.1
            return writer.add_tensor(name_of_weight, values.numpy())
        blocks = random_blocks(name, size, (shape[0], shape[1] // weights), numbers)
        writer.add_tensor(name_of_weight, blocks.flatten(1).numpy(), raw_dtype=kind)

    add("token_embd.weight", words, width)
    add("output_norm.weight", width)
    add("output.weight", words, width)
    shapes = {"attn_q": (width, width), "attn_k": (width // 2, width)}
    shapes |= {"attn_v": (width // 2, width), "attn_output": (width, width)}
    shapes |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
    shapes |= {"attn_norm": (width,), "ffn_norm": (width,)}
    for layer in range(layers):
        for part, shape in shapes.items():
            add(f"blk.{layer}.{part}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

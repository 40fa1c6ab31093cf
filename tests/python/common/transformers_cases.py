"""Small models of the package transformers with random weights, and what they are given."""

from typing import NamedTuple

import torch
import transformers

VOCABULARY = 61

# No token ends a text early, so that all runs have the same length.
TOKENS = {"vocab_size": VOCABULARY, "eos_token_id": None, "pad_token_id": 0, "bos_token_id": 1}
LLAMA = {
    **TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
EXPERTS = {"num_experts_per_tok": 2, "output_router_logits": True, "router_aux_loss_coef": 0.1}
BERT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
T5 = {
    **TOKENS,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
    "decoder_start_token_id": 0,
}
WHISPER = {
    **TOKENS,
    "num_mel_bins": 8,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_source_positions": 20,
    "max_target_positions": 40,
    "decoder_start_token_id": 2,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
CLIP_TEXT = {
    **TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "eos_token_id": VOCABULARY - 1,
}
CLIP_IMAGES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


def tokens(*shape, seed=0):
    numbers = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, shape, generator=numbers)


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def text():
    """Two texts, one of which begins with padding. The loss ignores the padding."""
    ids, mask = tokens(2, 9), torch.ones(2, 9, dtype=torch.int64)
    mask[1, :3] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def two_texts():
    return {**text(), "labels": tokens(2, 6, seed=1)}


def speech():
    return {"input_features": noise(2, 8, 40), "labels": tokens(2, 6, seed=1)}


def images():
    return {"pixel_values": noise(2, 3, 32, 32), "labels": torch.tensor([1, 3])}


def captions():
    ids = tokens(2, 9).clamp_max(VOCABULARY - 2)
    ids[0, 8] = ids[1, 5] = VOCABULARY - 1  # the end of a text
    return {"input_ids": ids, "pixel_values": noise(2, 3, 32, 32), "return_loss": True}


class Case(NamedTuple):
    model: type
    config: type
    options: dict
    inputs: callable
    # A factor for the weights: unscaled, they would make all tokens nearly equally likely.
    scale: float = 4

    def make(self, **options):
        torch.manual_seed(0)
        config = self.config(**self.options, **options)
        model = self.model(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(self.scale)
        return model


CASES = {
    "gpt2": Case(
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config,
        {
            **TOKENS,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 64,
            **dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.0),
        },
        text,
    ),
    "llama": Case(transformers.LlamaForCausalLM, transformers.LlamaConfig, LLAMA, text),
    "qwen3": Case(
        transformers.Qwen3ForCausalLM, transformers.Qwen3Config, {**LLAMA, "head_dim": 16}, text
    ),
    "mixtral": Case(
        transformers.MixtralForCausalLM,
        transformers.MixtralConfig,
        {**LLAMA, **EXPERTS, "num_local_experts": 4},
        text,
    ),
    "qwen3_moe": Case(
        transformers.Qwen3MoeForCausalLM,
        transformers.Qwen3MoeConfig,
        {**LLAMA, **EXPERTS, "num_experts": 4, "moe_intermediate_size": 16},
        text,
    ),
    "bert": Case(
        transformers.BertForMaskedLM,
        transformers.BertConfig,
        {**BERT, "vocab_size": VOCABULARY},
        text,
    ),
    "t5": Case(transformers.T5ForConditionalGeneration, transformers.T5Config, T5, two_texts, 1),
    "whisper": Case(
        transformers.WhisperForConditionalGeneration,
        transformers.WhisperConfig,
        WHISPER,
        speech,
    ),
    "vit": Case(
        transformers.ViTForImageClassification,
        transformers.ViTConfig,
        {**BERT, "image_size": 32, "patch_size": 8, "num_labels": 5},
        images,
    ),
    "convnext": Case(
        transformers.ConvNextForImageClassification,
        transformers.ConvNextConfig,
        {
            "hidden_sizes": [16, 24, 32, 40],
            "depths": [1, 1, 2, 1],
            "image_size": 32,
            "num_labels": 5,
        },
        images,
    ),
    "clip": Case(
        transformers.CLIPModel,
        transformers.CLIPConfig,
        {"text_config": CLIP_TEXT, "vision_config": CLIP_IMAGES, "projection_dim": 16},
        captions,
        1,
    ),
}
WRITERS = ["gpt2", "llama", "qwen3", "mixtral", "qwen3_moe", "t5", "whisper"]

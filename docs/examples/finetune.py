"""Trains a language model on a text file on device "ocl", and saves it for generate.py.

    python docs/examples/finetune.py README.md --steps 200 --output build/model

Without --model it is a small GPT-2 with random weights, whose tokens are bytes. With --model NAME
(a folder, or a name on the Hugging Face hub) it is that model, with its tokenizer.
"""

import argparse
import pathlib

import torch
from tqdm import tqdm
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    get_cosine_schedule_with_warmup,
)

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)


def small_model():
    config = GPT2Config(
        vocab_size=256, n_positions=256, n_embd=128, n_layer=4, n_head=4, bos_token_id=10,
        eos_token_id=None,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def read(path, tokenizer):
    """The text as a row of tokens."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return torch.tensor(tokenizer(text).input_ids if tokenizer else list(text.encode()))


def batches(tokens, size, length):
    """Random pieces of the text, without end."""
    while True:
        starts = torch.randint(len(tokens) - length, (size,)).tolist()
        yield torch.stack([tokens[start : start + length] for start in starts])


def train(model, tokens, args):
    """Trains the model on its device, and returns the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), args.rate, weight_decay=0.1)
    schedule = get_cosine_schedule_with_warmup(optimizer, args.steps // 10, args.steps)
    losses = []
    model.train()
    pieces = batches(tokens, args.batch, args.length)
    progress = tqdm(range(args.steps), desc="train", unit="step")
    for _ in progress:
        ids = next(pieces).to(model.device)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("text", help="file in UTF-8")
    parser.add_argument("--model", help="folder or name of a model to begin with")
    parser.add_argument("--output", type=pathlib.Path, default="build/model")
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128, help="tokens of a piece of text")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--bfloat16", action="store_true", help="autocast the forward pass")
    parser.add_argument("--lora", type=int, metavar="RANK", help="train matrices of this rank only")
    args = parser.parse_args(arguments)

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(args.model) if args.model else None
    model = AutoModelForCausalLM.from_pretrained(args.model) if args.model else small_model()
    if args.lora:
        from peft import LoraConfig, get_peft_model

        layers = {"target_modules": "all-linear", "lora_alpha": 2 * args.lora}
        model = get_peft_model(model, LoraConfig(r=args.lora, task_type="CAUSAL_LM", **layers))
        model.print_trainable_parameters()
    model.to(args.device)
    losses = train(model, read(args.text, tokenizer), args)
    if args.lora:
        model = model.merge_and_unload()  # a model like the one before
    model.save_pretrained(args.output)
    if tokenizer:
        tokenizer.save_pretrained(args.output)
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; saved to {args.output}")
    return losses


if __name__ == "__main__":
    main()

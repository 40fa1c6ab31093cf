"""Serves a language model on device "ocl" by the OpenAI-compatible endpoints of transformers.

    pip install "transformers[serving]" accelerate
    python docs/examples/serve.py Qwen/Qwen3-0.6B --dtype bfloat16
    curl http://localhost:8000/v1/completions -H "Content-Type: application/json" \
        -d '{"model": "Qwen/Qwen3-0.6B", "prompt": "OpenCL is", "max_tokens": 32}'

Requests that come while others run join them (continuous batching). The keys and values of all
requests are in one tensor, so it is no larger than the device's largest buffer. --blocks limits it
further.
"""

import argparse

from transformers.cli.serve import Serve

import torch_ocl.integrations


def main(arguments=None, **options):
    """`options`: further arguments of transformers' Serve, which is returned."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="folder, or a name on the Hugging Face hub")
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--dtype", default="auto", help="float32, float16, bfloat16")
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--blocks", type=int, help="of keys and values; else what fits")
    parser.add_argument("--batch-tokens", type=int, default=512, help="most tokens of one step")
    args = parser.parse_args(arguments)
    torch_ocl.integrations.enable("transformers")  # the size of the keys and values
    return Serve(
        force_model=args.model,
        device=args.device,
        dtype=args.dtype,
        host=args.host,
        port=args.port,
        continuous_batching=True,
        cb_num_blocks=args.blocks,
        cb_max_batch_tokens=args.batch_tokens,
        **options,
    )


if __name__ == "__main__":
    main()

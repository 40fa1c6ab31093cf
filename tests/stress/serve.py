"""A language model's server with the requests of many clients.

usage: serve.py [--clients N] [--minutes M] [--tokens N] [--hidden N] [--layers N] [--seed S]

docs/examples/serve.py serves a Llama with random weights in a process of its own. Each client sends
one request after the other: a random prompt, of which a text of --tokens tokens is asked. Prints
the throughput, percentiles of the latency, and a line through samples of the server's resident
memory, whose second half must not rise by more than slopes.py allows. Needs
transformers[serving] and accelerate.
"""

import argparse
import json
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from slopes import BOUNDS, slope

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "serve.py"
SECONDS_BETWEEN_SAMPLES = 5
DEADLINE = 600  # seconds, for the first answer and for each request
LONGEST_PROMPT = 200  # bytes, which are the model's tokens


def save_model(folder, hidden, layers, seed):
    """A Llama with random weights, and a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=256, hidden_size=hidden, intermediate_size=3 * hidden,
        num_hidden_layers=layers, num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 64, max_position_embeddings=1024, bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return model.num_parameters()


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


class Server:
    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.log = pathlib.Path(folder, "log")
        command = [sys.executable, str(EXAMPLE), folder, "--dtype", "float32"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + DEADLINE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise SystemExit(f"the server does not answer:\n{self.log.read_text()}")
            time.sleep(0.2)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def answers(self):
        try:
            urllib.request.urlopen(f"http://localhost:{self.port}/v1/models", timeout=10).close()
        except OSError:
            return False
        return True

    def complete(self, prompt, tokens):
        """-> tokens of the text"""
        asked = {"model": self.folder, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        request = urllib.request.Request(
            f"http://localhost:{self.port}/v1/completions",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return json.load(answer)["usage"]["completion_tokens"]

    def resident(self):
        """MiB"""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().split()
        return int(status[status.index("VmRSS:") + 1]) / 1024


def serve_clients(server, clients, seconds, tokens, seed):
    """-> the seconds that each request took, and [(time, resident MiB)]"""
    end, latencies, samples, failures = time.monotonic() + seconds, [], [], []

    def client(number):
        draw = random.Random(f"{seed} {number}")
        while time.monotonic() < end and not failures:
            length = draw.randrange(1, LONGEST_PROMPT)
            prompt = "".join(draw.choices("abcdefgh ", k=length))
            begin = time.monotonic()
            try:
                count = server.complete(prompt, tokens)
                if count != tokens:
                    failures.append(f"{count} tokens instead of {tokens}")
            except Exception as error:
                failures.append(repr(error))
            latencies.append(time.monotonic() - begin)

    threads = [threading.Thread(target=client, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end and not failures and server.process.poll() is None:
        samples.append((time.monotonic(), server.resident()))
        time.sleep(SECONDS_BETWEEN_SAMPLES)
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"a request failed: {failures[0]}\n{server.log.read_text()[-4000:]}")
    return latencies, samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parameters = save_model(folder, args.hidden, args.layers, args.seed)
        server = Server(folder)
        try:
            serve_clients(server, args.clients, 20, args.tokens, -1)  # compiles the kernels
            begin = time.monotonic()
            seconds = args.minutes * 60
            found, samples = serve_clients(server, args.clients, seconds, args.tokens, args.seed)
            took = time.monotonic() - begin
        finally:
            server.end()
    print(f"{parameters / 1e6:.0f} million parameters, {args.clients} clients, {took:.0f} s")
    print(f"{len(found)} requests, {len(found) * args.tokens / took:.1f} tokens/s")
    parts = statistics.quantiles(found, n=100)
    print(f"latency of {args.tokens} tokens: median {parts[49]:.2f} s, "
          f"90 % {parts[89]:.2f} s, 99 % {parts[98]:.2f} s")  # fmt: skip
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        raise SystemExit("too short for a line: --minutes 0.5 or more")
    growth = slope(half) * (half[-1][0] - half[0][0])
    print(f"resident: {samples[0][1]:.0f} to {samples[-1][1]:.0f} MiB, second half {growth:+.1f}")
    if growth > BOUNDS["resident (MiB)"]:
        raise SystemExit("the server's memory grew")


if __name__ == "__main__":
    main()

"""The programs of docs/examples run, and do what their pages say."""

import importlib.util
import json
import subprocess
import sys

import pytest
import torch
from support import DEADLINE, ROOT, needs_a_compiler

EXAMPLES = ROOT / "docs" / "examples"


def run(capsys, name, *arguments):
    """-> what its main() returns, what it printed, its progress bars"""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    result = example.main([str(argument) for argument in arguments])
    return result, *capsys.readouterr()


def test_finetuning_and_generation(device, tmp_path, capsys, monkeypatch):
    """A model learns a text of one sentence by heart, and goes on with it; both show progress."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text, model = tmp_path / "text", tmp_path / "model"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 20)
    settings = ["--steps", 80, "--batch", 4, "--length", 64, "--rate", 4e-3, "--device", device]
    losses, printed, bar = run(capsys, "finetune", text, "--output", model, *settings)
    assert losses[0] > 5 and losses[-1] < 0.3 and f"-> {losses[-1]:.3f}" in printed
    assert "80/80" in bar and "loss=" in bar

    prompt, options = "the quick brown fox jumps over", ["--device", device]
    written, printed, bar = run(capsys, "generate", model, prompt, "--tokens", 16, *options)
    assert written.startswith(prompt) and "the lazy dog" in written and written in printed
    assert "16/16" in bar and "token/s" in bar
    options += ["--tokens", 8, "--temperature", 3, "--dtype", "bfloat16"]
    sampled = [run(capsys, "generate", model, "the", *options)[0] for _ in range(2)]
    assert sampled[0] == sampled[1] and len(sampled[0]) > 3
    options = ["--tokens", 16, "--int4", "--device", device]
    assert "the lazy dog" in run(capsys, "generate", model, prompt, *options)[0]


def test_lora(device, tmp_path, capsys, monkeypatch):
    pytest.importorskip("peft", reason="peft is not installed: make test-clients")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 20)
    settings = ["--steps", 20, "--batch", 2, "--length", 64, "--rate", 1e-2, "--device", device]
    losses, printed, _ = run(
        capsys, "finetune", text, "--output", tmp_path, "--lora", 8, "--bfloat16", *settings
    )
    assert losses[-1] < losses[0] - 0.5 and "trainable params" in printed
    written, _, _ = run(capsys, "generate", tmp_path, "the", "--tokens", 4, "--device", device)
    assert written.startswith("the")


def test_own_kernel(device, capsys, fresh_compiler):
    losses, printed, _ = run(capsys, "own_kernel", "--device", device)
    assert losses[0] > 0.3 and losses[-1] < 0.01 and f"-> {losses[-1]:.4f}" in printed


def test_images(device, capsys):
    right, printed, bar = run(capsys, "images", "--device", device)
    assert right > 0.65 and f"{right:.1%}" in printed and "30/30" in bar


def test_distributed():
    """Two processes find the weights that one would find."""
    program = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    command = [*program, "--standalone", EXAMPLES / "distributed.py"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("2 processes, ")
    assert float(result.stdout.split()[-1]) < 1e-6


def test_profiling(device, tmp_path, capsys):
    trace = tmp_path / "trace.json"
    table, _, _ = run(capsys, "profiling", "--trace", trace, "--device", device)
    assert "gemm" in table and "forward" in table and "Self OCL" in table
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"backward", "gemm"} <= {event.get("name") for event in events}


def test_diffusion(device, capsys):
    pytest.importorskip("diffusers", reason="diffusers is not installed: make test-clients")
    image, printed, bar = run(capsys, "diffusion", "--steps", 3, "--device", device)
    on_cpu, _, _ = run(capsys, "diffusion", "--steps", 3, "--device", "cpu")
    torch.testing.assert_close(image.cpu(), on_cpu, rtol=1e-3, atol=1e-3)
    assert "3/3" in bar and "(1, 3, 32, 32)" in printed


@pytest.mark.slow
@needs_a_compiler
def test_package_in_cpp(device, tmp_path, capsys, fresh_compiler):
    expected, _, _ = run(capsys, "package", "--output", tmp_path, "--device", device)
    command = [tmp_path / "package", tmp_path / "model.pt2", "8", "16"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") >= 8
    first = [float(number) for number in result.stdout.split("\n")[0].split()]
    torch.testing.assert_close(torch.tensor(first), expected[0].cpu(), rtol=1e-3, atol=1e-3)

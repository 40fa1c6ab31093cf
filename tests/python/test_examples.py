"""The programs of docs/examples run, and do what their pages say."""

import importlib.util
import pathlib

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"


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

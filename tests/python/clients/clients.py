"""Helpers for the tests of other libraries: scripts, and processes that run them."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest
from support import DEADLINE, child_environment, output_of

ENABLE = "import torch, torch_ocl.integrations\ntorch_ocl.integrations.enable()\n"
# In one write, since processes share the output.
REPORT = """
import sys
def report(*values):
    sys.stdout.write(" ".join(map(str, ("RESULT", *values))) + "\\n")
    sys.stdout.flush()
"""
MODEL = """
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
def make(**options):
    return GPT2LMHeadModel(GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=64, n_positions=32, bos_token_id=0,
        eos_token_id=None, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **options)).eval()
def text(model, **options):
    ids = torch.arange(5, device=model.device)[None]
    options |= {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    return model.generate(ids, **options)[0].tolist()
"""


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    reason = f"{', '.join(missing)} not installed: make test-clients"
    return pytest.mark.skipif(bool(missing), reason=reason)


def enabled(code):
    """What the code prints after enable()."""
    return output_of(ENABLE + textwrap.dedent(code))


def run_script(tmp_path, code, *arguments, processes=1, options=(), **variables):
    """`python -m torch_ocl.run OPTIONS script.py`, under torchrun for several processes."""
    script = tmp_path / "script.py"
    script.write_text(REPORT + code)
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += ["-m", "torch_ocl.run", *options, str(script), *arguments]
    return subprocess.run(
        command,
        env=child_environment(**variables),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def results_of(run):
    assert run.returncode == 0, run.stderr
    return [line for line in run.stdout.splitlines() if line.startswith("RESULT")]

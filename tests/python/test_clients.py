"""The recipes of docs/clients.md: what other libraries do after torch_ocl.integrations.enable().

Each test is a process, because enable() changes the libraries. `make test-clients` installs them.
"""

import importlib.util
import pathlib
import subprocess
import sys
import textwrap

import pytest
from support import DEADLINE, child_environment, output_of, run_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRESS = ROOT / "tests" / "stress"
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
TRAINER = (
    "import sys, tempfile, torch\n"
    + MODEL
    + """
from transformers import Trainer, TrainingArguments
rows = [{"input_ids": torch.arange(8) * k % 64, "labels": torch.arange(8) * k % 64}
        for k in range(8)]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=2, per_device_train_batch_size=2, report_to=[],
    disable_tqdm=True, save_strategy="no", **eval(sys.argv[1]))
trainer = Trainer(model=make(), args=arguments, train_dataset=rows)
trainer.train()
weight = trainer.model.transformer.wte.weight
report(weight.device.type, weight.dtype, arguments.world_size,
      type(trainer.model_wrapped).__name__, weight.double().cpu().sum().item())
"""
)


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    reason = f"{', '.join(missing)} not installed: make test-clients"
    return pytest.mark.skipif(bool(missing), reason=reason)


def enabled(code):
    """What the code prints after enable()."""
    return output_of(ENABLE + textwrap.dedent(code))


def run_script(tmp_path, code, *arguments, processes=1, **variables):
    """`python -m torch_ocl.run script.py`, under torchrun for several processes."""
    script = tmp_path / "script.py"
    script.write_text(REPORT + code)
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += ["-m", "torch_ocl.run", str(script), *arguments]
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


def test_nothing_changes_before_enable():
    code = """
        import torch
        try:
            torch.from_dlpack(torch.ones(2, device="ocl"))
        except ValueError as error:
            print(error)
        import torch_ocl.integrations
        print(torch_ocl.integrations.enabled())
    """
    assert output_of(code).splitlines() == ["Unknown device type ocl for Dlpack", "False"]


def test_enable_refuses_unknown_libraries():
    result = run_python("import torch_ocl.integrations as i; i.enable('tensorflow')")
    assert "ValueError: enable() knows accelerate, transformers" in result.stderr


def test_an_unknown_release_of_a_library_is_an_error():
    """An attribute that is to be replaced may be gone in the next release."""
    code = """
        import types
        from torch_ocl.integrations import replace
        replace(types.ModuleType("accelerate.state"), "gone", lambda original: original)
    """
    result = run_python(code)
    assert "does not know this release of accelerate: accelerate.state.gone" in result.stderr


def test_run_gives_the_script_its_arguments_and_folder(tmp_path):
    (tmp_path / "neighbour.py").write_text("import os\nvalue = os.environ['OCL_INTEGRATIONS']\n")
    code = "import sys, neighbour\nreport(__name__, sys.argv[1:], neighbour.value)\n"
    lines = results_of(run_script(tmp_path, code, "--lr", "3"))
    assert lines == ["RESULT __main__ ['--lr', '3'] 1"]


def test_dlpack():
    code = """
        x = torch.zeros(3, device="ocl")
        torch.from_dlpack(x).add_(1)
        print(x.tolist(), torch.from_dlpack(torch.ones(2)).tolist())
    """
    assert enabled(code) == "[1.0, 1.0, 1.0] [1.0, 1.0]"


def test_flex_attention():
    code = """
        import torch.nn.functional as F
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        q = torch.randn(1, 2, 16, 16)
        expected = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        x = q.to("ocl").requires_grad_()
        mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 16, 16, device="ocl")
        result = flex_attention(x, x, x, block_mask=mask)
        result.sum().backward()
        print((result.cpu() - expected).abs().max().item() < 1e-5, x.grad.isfinite().all().item())
    """
    assert enabled(code) == "True True"


@needs("safetensors")
def test_safetensors(tmp_path):
    code = f"""
        from safetensors import safe_open
        from safetensors.torch import load_file, save_file
        path = {str(tmp_path / "x.safetensors")!r}
        save_file({{"a": torch.arange(3.0, device="ocl")}}, path)
        with safe_open(path, "pt", device="ocl") as file:
            print(file.get_tensor("a").device, end=" ")
        print(load_file(path, device="ocl:0")["a"].device, load_file(path)["a"].device)
    """
    assert enabled(code) == "ocl:0 ocl:0 cpu"


@needs("transformers")
def test_offloaded_caches():
    code = """
        model = make()
        expected = text(model)
        model.to("ocl")
        print([text(model, cache_implementation=cache) == expected
               for cache in ("offloaded", "offloaded_static")])
    """
    assert output_of(ENABLE + MODEL + textwrap.dedent(code)) == "[True, True]"


@needs("transformers")
def test_pipelines_choose_the_device():
    code = """
        from transformers import PreTrainedTokenizerFast, pipeline
        from tokenizers import Tokenizer, models
        words = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        words = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="a")
        for device in (None, 0, "cpu"):
            used = pipeline("text-generation", model=make(), tokenizer=words, device=device)
            print(used.device, used.model.device, end="; ")
    """
    expected = "ocl:0 ocl:0; ocl:0 ocl:0; cpu cpu;"
    assert output_of(ENABLE + MODEL + textwrap.dedent(code)) == expected


@needs("transformers", "accelerate")
def test_device_maps(tmp_path):
    code = f"""
        model, folder = make(), {str(tmp_path)!r}
        model.save_pretrained(folder)
        expected = text(model)
        for options in (
            {{"device_map": "auto"}}, {{"device_map": "ocl"}},
            {{"device_map": "auto", "max_memory": {{"ocl:0": 30000, "cpu": 10**9}}}},
        ):
            loaded = GPT2LMHeadModel.from_pretrained(folder, **options)
            places = getattr(loaded, "hf_device_map", {{}}).values()
            places = sorted({{str(place) for place in places}})
            print(loaded.device, places, text(loaded) == expected)
    """
    lines = output_of(ENABLE + MODEL + textwrap.dedent(code)).splitlines()
    assert lines == ["ocl:0 [] True", "ocl:0 [] True", "ocl:0 ['0', 'cpu'] True"]


@needs("accelerate")
def test_accelerate_in_float16():
    code = """
        from accelerate import Accelerator
        accelerator = Accelerator(mixed_precision="fp16")
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        model, optimizer = accelerator.prepare(model, optimizer)
        with accelerator.autocast():
            inside = model.weight @ model.weight.t()
        loss = model(torch.ones(4, 8, device=accelerator.device)).mean() / 100
        accelerator.backward(loss)  # small: scaled gradients stay below the largest float16
        optimizer.step()
        print(accelerator.device, accelerator.mixed_precision, inside.dtype,
              accelerator.scaler.get_scale(), Accelerator().mixed_precision)
    """
    assert enabled(code) == "ocl:0 fp16 torch.float16 65536.0 fp16"


@needs("transformers", "accelerate")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_trainer(tmp_path, precision):
    (line,) = results_of(run_script(tmp_path, TRAINER, f"{{'{precision}': True}}"))
    assert line.startswith("RESULT ocl torch.float32 1 GPT2LMHeadModel")


@pytest.mark.slow
@needs("transformers", "accelerate")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_trainer_in_two_processes(tmp_path, precision):
    """They train one model: wrapped in DistributedDataParallel, with the same weights."""
    lines = results_of(run_script(tmp_path, TRAINER, f"{{'{precision}': True}}", processes=2))
    assert len(lines) == 2 and lines[0] == lines[1]
    assert lines[0].startswith("RESULT ocl torch.float32 2 DistributedDataParallel")


SHARDED = """
import sys, torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
accelerator = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2),
                          mixed_precision=sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
model, optimizer = accelerator.prepare(model, optimizer)
x = torch.ones(4, 8, device=accelerator.device) + accelerator.process_index
losses = []
for _ in range(3):
    loss = model(x).float().square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(accelerator.reduce(loss.detach(), "mean").item())
weight = model[0].weight
report(accelerator.device.type, accelerator.num_processes, type(weight).__name__,
      tuple(weight.to_local().shape), losses[2] < losses[0])
"""


@pytest.mark.slow
@needs("accelerate")
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerate_shards_a_model(tmp_path, precision):
    lines = results_of(run_script(tmp_path, SHARDED, precision, processes=2))
    assert lines == ["RESULT ocl 2 DTensor (8, 8) True"] * 2


@needs("accelerate")
def test_processes_that_would_train_alone_are_an_error():
    result = run_python(
        "import torch, accelerate", ACCELERATE_TORCH_DEVICE="ocl", LOCAL_RANK="0", WORLD_SIZE="2"
    )
    assert "each process would train alone: call torch_ocl.integrations.enable()" in result.stderr


@needs("accelerate")
def test_accelerate_on_the_cpu_is_told_at_the_exit():
    code = "import torch, accelerate\nprint(accelerate.Accelerator({}).device)"
    chosen = run_python(code.format("cpu=True"))
    unasked = run_python(code.format(""))
    told = 'accelerate ran on the CPU, although there is a device "ocl:0"'
    assert told in unasked.stderr and told not in chosen.stderr


@needs("accelerate")
def test_enable_after_the_choice_is_an_error():
    code = "import torch, accelerate, torch_ocl.integrations as i\naccelerate.Accelerator()\n"
    assert "accelerate has already chosen cpu" in run_python(code + "i.enable()").stderr


LIGHTNING = """
import torch, lightning.pytorch as pl
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        result = self.layer(batch[0])
        self.seen = batch[0].device.type, result.dtype
        return result.square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
model = Model()
trainer = pl.Trainer(max_steps=2, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, **OPTIONS)
data = torch.utils.data.TensorDataset(torch.ones(8, 8))
trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=2))
report(*model.seen, trainer.world_size, type(trainer.strategy).__name__)
"""


@needs("lightning")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("{}", "torch.float32 1 SingleDeviceStrategy"),
        ("{'accelerator': 'ocl', 'precision': '16-mixed'}", "torch.float16 1 SingleDeviceStrategy"),
        ("{'accelerator': 'ocl', 'devices': [0, 0]}", "torch.float32 2 DDPStrategy"),
    ],
    ids=["auto", "float16", "two_processes"],
)
def test_lightning(tmp_path, options, expected):
    lines = results_of(run_script(tmp_path, LIGHTNING.replace("OPTIONS", options)))
    assert set(lines) == {f"RESULT ocl {expected}"}


@needs("lightning")
def test_fabric():
    code = """
        from lightning.fabric import Fabric
        fabric = Fabric(accelerator="ocl", precision="bf16-mixed")
        model = fabric.setup(torch.nn.Linear(8, 1))
        result = model(torch.ones(2, 8, device=fabric.device))
        print(fabric.device, model.weight.device, fabric._precision.device)
    """
    assert enabled(code) == "ocl:0 ocl:0 ocl"


@needs("stable_baselines3", "gymnasium")
def test_stable_baselines3():
    code = """
        from stable_baselines3 import PPO
        agent = PPO("MlpPolicy", "CartPole-v1", device="ocl", n_steps=32, batch_size=32, n_epochs=1)
        agent.learn(32)
        print(agent.device.type, next(agent.policy.parameters()).device)
    """
    assert output_of(code) == "ocl ocl:0"


@needs("transformers", "accelerate", "fastapi", "uvicorn", "openai")
def test_a_server_of_language_models(tmp_path):
    """Texts of requests at the same time are those of single ones on the CPU."""
    serve = ROOT / "docs" / "examples" / "serve.py"
    code = f"""
        import importlib.util, json, sys, threading, time, urllib.request
        from transformers import AutoTokenizer, LlamaForCausalLM
        sys.path.insert(0, {str(STRESS)!r})
        from serve import save_model
        save_model({str(tmp_path)!r}, hidden=128, layers=2, seed=0)
        words = AutoTokenizer.from_pretrained({str(tmp_path)!r})
        model = LlamaForCausalLM.from_pretrained({str(tmp_path)!r})

        spec = importlib.util.spec_from_file_location("serve", {str(serve)!r})
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        arguments = [{str(tmp_path)!r}, "--dtype", "float32", "--port", "0"]
        server = module.main(arguments, non_blocking=True)
        while not server.server.started:
            assert server._thread.is_alive()
            time.sleep(0.05)
        port = server.server.servers[0].sockets[0].getsockname()[1]

        def ask(prompt):
            request = dict(model={str(tmp_path)!r}, prompt=prompt, max_tokens=12, temperature=0)
            answer = urllib.request.urlopen(urllib.request.Request(
                f"http://localhost:{{port}}/v1/completions", json.dumps(request).encode(),
                {{"Content-Type": "application/json"}}))
            texts[prompt] = json.load(answer)["choices"][0]["text"]

        prompts, texts = ["a", "some text", "OpenCL is", "another, longer text"], {{}}
        threads = [threading.Thread(target=ask, args=[x], daemon=True) for x in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.kill_server()

        def alone(prompt):
            ids = words(prompt, return_tensors="pt").input_ids
            found = model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0)
            return words.decode(found[0, ids.shape[1]:])

        print([texts[prompt] == alone(prompt) for prompt in prompts])
    """
    expected = "[True, True, True, True]"
    assert output_of(textwrap.dedent(code), OCL_MEMORY_MB="300").splitlines()[-1] == expected


@needs("transformers", "peft")
def test_peft(tmp_path):
    code = f"""
        from peft import LoraConfig, PeftModel, get_peft_model
        model = get_peft_model(make().to("ocl"), LoraConfig(target_modules=["c_attn"], r=2))
        ids = torch.arange(8, device="ocl")[None]
        model(input_ids=ids, labels=ids).loss.backward()
        model.save_pretrained({str(tmp_path)!r})
        loaded = PeftModel.from_pretrained(make().to("ocl"), {str(tmp_path)!r})
        print({{str(parameter.device) for parameter in loaded.parameters()}})
    """
    assert output_of("import torch\n" + MODEL + textwrap.dedent(code)) == "{'ocl:0'}"

"""Libraries that train, after torch_ocl.integrations.enable(): the recipes of docs/clients.md."""

import textwrap

import pytest
from clients import MODEL, enabled, needs, results_of, run_script
from support import output_of, run_python

TRAINER = (
    "import sys, tempfile, torch\n"
    + MODEL
    + """
from transformers import Trainer, TrainingArguments
rows = [{"input_ids": torch.arange(8) * k % 64, "labels": torch.arange(8) * k % 64}
        for k in range(1, 9)]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=2, per_device_train_batch_size=2, report_to=[],
    disable_tqdm=True, save_strategy="no", **eval(sys.argv[1]))
trainer = Trainer(model=make(), args=arguments, train_dataset=rows)
trainer.train()
weight = trainer.model.transformer.wte.weight
torch.manual_seed(0)
report(weight.device.type, weight.dtype, arguments.world_size,
      type(trainer.model_wrapped).__name__,
      not torch.equal(weight.cpu(), make().transformer.wte.weight), weight.double().sum().item())
"""
)


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
    assert line.startswith("RESULT ocl torch.float32 1 GPT2LMHeadModel True")


@pytest.mark.slow
@needs("transformers", "accelerate")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_trainer_in_two_processes(tmp_path, precision):
    """They train one model: wrapped in DistributedDataParallel, with the same weights."""
    lines = results_of(run_script(tmp_path, TRAINER, f"{{'{precision}': True}}", processes=2))
    assert len(lines) == 2 and lines[0] == lines[1]
    assert lines[0].startswith("RESULT ocl torch.float32 2 DistributedDataParallel True")


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
@pytest.mark.parametrize("options, chosen", [("cpu=True", "cpu"), ("", "ocl:0")])
def test_accelerate_is_told_to_use_the_cpu(options, chosen):
    code = f"import accelerate\nprint(accelerate.Accelerator({options}).device)"
    assert enabled(code) == chosen


@needs("accelerate", "transformers")
def test_trainer_is_told_to_use_the_cpu():
    code = """
from transformers import TrainingArguments
for options in ({"use_cpu": True}, {}, {"use_cpu": True}):
    arguments = TrainingArguments("unused", report_to=[], **options)
    print(arguments.device, arguments.n_gpu)
"""
    assert enabled(code).splitlines() == ["cpu 0", "ocl:0 0", "cpu 0"]


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

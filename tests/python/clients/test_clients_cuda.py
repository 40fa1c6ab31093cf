"""Programs that know only CUDA under `python -m torch_ocl.run --cuda` (docs/as_cuda.md).

Each is called as its own documentation does on a GPU, with a small random model.
"""

import textwrap

import pytest
from clients import MODEL, needs, results_of, run_script

pytestmark = pytest.mark.slow


def run(tmp_path, code, *arguments, **options):
    """The program's report."""
    code = f"import os, torch\nos.chdir({str(tmp_path)!r})\n" + textwrap.dedent(code)
    done = run_script(tmp_path, code, *arguments, options=("--cuda",), **options)
    return [line.removeprefix("RESULT ") for line in results_of(done)]


@needs("accelerate")
def test_accelerate(tmp_path):
    code = """
        from accelerate import Accelerator
        accelerator = Accelerator(mixed_precision="fp16")
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        model, optimizer = accelerator.prepare(model, optimizer)
        loss = model(torch.ones(4, 8, device=accelerator.device)).float().mean() / 100
        accelerator.backward(loss)
        optimizer.step()
        accelerator.save_state("state")
        accelerator.load_state("state")
        report(accelerator.device, accelerator.scaler.get_scale(), model.weight.is_cuda)
    """
    assert run(tmp_path, code) == ["cuda 65536.0 True"]


@needs("transformers", "accelerate")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_trainer_of_transformers(tmp_path, precision):
    code = (
        MODEL
        + f"""
import tempfile
from transformers import Trainer, TrainingArguments, pipeline
rows = [{{"input_ids": torch.arange(8) * k % 64, "labels": torch.arange(8) * k % 64}}
        for k in range(1, 9)]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=2, per_device_train_batch_size=2, report_to=[],
    disable_tqdm=True, {precision}=True, dataloader_pin_memory=True)
trainer = Trainer(model=make(), args=arguments, train_dataset=rows)
trainer.train()
report(arguments.device, trainer.model.device, text(trainer.model)[:5])
"""
    )
    assert run(tmp_path, code) == ["cuda:0 cuda:0 [0, 1, 2, 3, 4]"]


@needs("transformers", "accelerate")
@pytest.mark.parametrize("where", ["cuda", "auto", "cuda:0"])
def test_device_map(tmp_path, where):
    code = (
        MODEL
        + f"""
saved = make()
saved.save_pretrained("model")
model = GPT2LMHeadModel.from_pretrained("model", device_map={where!r}).eval()
report(model.device, text(model) == text(saved))
"""
    )
    assert run(tmp_path, code) == ["cuda:0 True"]


@needs("lightning")
def test_lightning(tmp_path):
    code = """
        import lightning
        class Net(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)
            def training_step(self, batch, index):
                return self.layer(batch[0]).pow(2).mean()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)
        data = torch.utils.data.TensorDataset(torch.randn(8, 4))
        trainer = lightning.Trainer(
            accelerator="gpu", devices=1, max_epochs=1, precision="16-mixed", logger=False,
            enable_progress_bar=False, enable_model_summary=False)
        net = Net()
        trainer.fit(net, torch.utils.data.DataLoader(data, 4))
        report(trainer.strategy.root_device, type(trainer.accelerator).__name__)
    """
    assert run(tmp_path, code) == ["cuda:0 CUDAAccelerator"]


@needs("diffusers")
def test_diffusers(tmp_path):
    code = """
        from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
        torch.manual_seed(0)
        net = UNet2DModel(
            sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=4,
            block_out_channels=(8, 8), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"))
        pipe = DDPMPipeline(net, DDPMScheduler(10)).to("cuda")
        pipe.set_progress_bar_config(disable=True)
        seed = torch.Generator("cuda").manual_seed(0)
        image = pipe(num_inference_steps=2, generator=seed, output_type="np").images
        report(pipe.device, image.shape)
    """
    assert run(tmp_path, code) == ["cuda:0 (1, 8, 8, 3)"]


@needs("stable_baselines3")
@pytest.mark.parametrize("kind", ["PPO", "DQN"])
def test_stable_baselines3(tmp_path, kind):
    code = f"""
        from stable_baselines3 import {kind}
        options = {{"n_steps": 32}} if {kind!r} == "PPO" else {{"learning_starts": 8}}
        model = {kind}("MlpPolicy", "CartPole-v1", device="auto", batch_size=16, **options)
        model.learn(40)
        model.save("model")
        again = {kind}.load("model", device="cuda")
        report(model.device, again.device)
    """
    assert run(tmp_path, code) == ["cuda cuda"]


@needs("kornia")
def test_kornia(tmp_path):
    code = """
        import kornia
        torch.manual_seed(0)
        x = torch.rand(2, 3, 16, 16)
        from kornia.augmentation import AugmentationSequential, RandomHorizontalFlip
        chain = AugmentationSequential(RandomHorizontalFlip(p=1.0))
        y = chain.cuda()(x.cuda())
        blurred = kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
        error = kornia.filters.gaussian_blur2d(x.cuda(), (3, 3), (1.0, 1.0)).cpu() - blurred
        report(y.device, error.abs().max().item() < 1e-5)
    """
    assert run(tmp_path, code) == ["cuda:0 True"]


@needs("torch_geometric")
def test_torch_geometric(tmp_path):
    code = """
        from torch_geometric.data import Data
        from torch_geometric.nn import GCNConv
        torch.manual_seed(0)
        edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        data = Data(x=torch.rand(3, 4), edge_index=edges)
        layer = GCNConv(4, 2)
        expected = layer(data.x, data.edge_index)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        data, layer = data.to(device), layer.to(device)
        y = layer(data.x, data.edge_index)
        y.sum().backward()
        report(y.device, data.is_cuda, torch.allclose(y.cpu(), expected, atol=1e-6))
    """
    assert run(tmp_path, code) == ["cuda:0 True True"]

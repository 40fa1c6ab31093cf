"""Libraries that choose a device themselves, after torch_ocl.integrations.enable().

Each test is a process that uses the library as its documentation does, with a small random model.
"""

import textwrap

import pytest
from clients import MODEL, enabled, needs, run_script
from support import output_of

UNUSED = "this process made no tensor on ocl"


def test_a_process_without_a_tensor_on_ocl_warns_at_its_end(tmp_path):
    unused = run_script(tmp_path, "import torch\ntorch.ones(3)\n")
    used = run_script(tmp_path, "import torch\ntorch.ones(3, device='ocl')\n")
    assert (unused.returncode, used.returncode) == (0, 0)
    assert UNUSED in unused.stderr and UNUSED not in used.stderr


def test_each_process_that_a_script_starts_warns_for_itself(tmp_path):
    code = (
        "import subprocess, sys, torch\n"
        "torch.ones(3, device='ocl')\n"
        "subprocess.run([sys.executable, '-c', 'import torch; torch.ones(3)'], check=True)\n"
    )
    assert run_script(tmp_path, code).stderr.count(UNUSED) == 1


def test_workers_of_a_data_loader_do_not_warn(tmp_path):
    code = """
import torch
if __name__ == "__main__":
    options = {"num_workers": 1, "multiprocessing_context": "spawn"}
    rows = torch.utils.data.DataLoader(torch.arange(4), **options)
    report(sum(row.to("ocl").sum() for row in rows).item())
"""
    done = run_script(tmp_path, code)
    assert "RESULT 6" in done.stdout and UNUSED not in done.stderr


def test_mixed_precision_of_cuda_is_that_of_ocl():
    """Otherwise both do nothing where there is no CUDA, and float16 gradients become zeros."""
    code = """
        import warnings
        warnings.simplefilter("error")
        scaler = torch.amp.GradScaler("cuda", init_scale=8)
        layer = torch.nn.Linear(4, 4, device="ocl")
        with torch.autocast("cuda", dtype=torch.float16):
            y = layer(torch.ones(2, 4, device="ocl"))
        scaled = scaler.scale(y.sum())
        print(y.dtype, (scaled / y.sum()).item(), torch.is_autocast_enabled("ocl"))
    """
    assert enabled(code) == "torch.float16 8.0 False"


def test_the_old_names_of_mixed_precision_are_read_too():
    code = """
        import warnings
        warnings.simplefilter("ignore", FutureWarning)
        with torch.cuda.amp.autocast():
            y = torch.ones(2, 2, device="ocl") @ torch.ones(2, 2, device="ocl")
        print(y.dtype, torch.cuda.amp.GradScaler(init_scale=4).scale(y.sum()).item())
    """
    assert enabled(code) == "torch.float16 32.0"


@needs("sentence_transformers")
def test_sentence_transformers():
    code = """
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.models import BoW, Dense
        def make(**options):
            torch.manual_seed(0)
            return SentenceTransformer(modules=[BoW(vocab=["a", "b"]), Dense(2, 3)], **options)
        own, cpu = make(), make(device="cpu")
        apart = own.encode(["a b", "b"]) - cpu.encode(["a b", "b"])
        print(own.device, cpu.device, abs(apart).max() < 1e-6)
    """
    assert enabled(code) == "ocl:0 cpu True"


@needs("ignite")
def test_ignite():
    code = """
        import ignite.distributed as idist
        from ignite.engine import create_supervised_trainer
        model = idist.auto_model(torch.nn.Linear(4, 1))
        trainer = create_supervised_trainer(
            model, torch.optim.SGD(model.parameters(), 0.1), torch.nn.functional.mse_loss,
            device=idist.device(), amp_mode="amp", scaler=True)
        rows = [(torch.ones(2, 4), torch.zeros(2, 1))] * 2
        print(idist.device(), model.weight.device, trainer.run(rows).output >= 0)
    """
    assert enabled(code) == "ocl:0 ocl:0 True"


@needs("gluonts", "lightning", "pandas")
def test_gluonts(tmp_path):
    code = f"""
        import os
        os.chdir({str(tmp_path)!r})
        import numpy, pandas
        from gluonts.dataset.common import ListDataset
        from gluonts.torch.model.simple_feedforward import SimpleFeedForwardEstimator
        rows = [{{"start": pandas.Period("2020", "D"), "target": numpy.arange(40.0)}}]
        data = ListDataset(rows, freq="D")
        trainer = {{"max_epochs": 1, "enable_progress_bar": False, "logger": False}}
        predictor = SimpleFeedForwardEstimator(
            2, context_length=4, num_batches_per_epoch=1, trainer_kwargs=trainer).train(data)
        print(predictor.device, next(predictor.predict(data)).mean.shape)
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 (2,)"


@needs("lm_eval", "transformers", "accelerate")
def test_lm_eval(tmp_path):
    """It reads "ocl" as the CPU; no device is its accelerator."""
    code = (
        MODEL
        + f"""
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = Tokenizer(models.WordLevel({{w: i for i, w in enumerate("ab?")}}, unk_token="?"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=words, eos_token="?").save_pretrained({str(tmp_path)!r})
make().save_pretrained({str(tmp_path)!r})
for options in ({{"device": "ocl:0"}}, {{}}, {{"device": "cpu"}}):
    lm = HFLM({str(tmp_path)!r}, batch_size=1, **options)
    request = Instance("loglikelihood", {{}}, ("a b", " b a"), 0)
    (score, _), = lm.loglikelihood([request], disable_tqdm=True)
    print(lm.device, lm.model.device, round(score, 4))
"""
    )
    lines = [line.split() for line in enabled(code).splitlines()[-3:]]
    assert [line[0] for line in lines] == ["ocl:0", "ocl:0", "cpu"]
    assert [line[1] for line in lines] == ["ocl:0", "ocl:0", "cpu"]
    assert len({line[2] for line in lines}) == 1


@needs("mace")
def test_mace():
    """It reads "ocl" as the CPU."""
    code = """
        from mace.tools import torch_tools, init_device
        print(init_device("ocl"), torch_tools.init_device("ocl:0"), init_device("cpu"))
    """
    assert enabled(code).splitlines()[-1] == "ocl ocl:0 cpu"


@needs("keras")
def test_keras():
    code = """
        import os
        os.environ["KERAS_BACKEND"] = "torch"
        import keras, numpy
        model = keras.Sequential([keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        x, y = numpy.ones((4, 2), "float32"), numpy.zeros((4, 1), "float32")
        model.fit(x, y, epochs=1, verbose=0)
        with keras.device("gpu:0"):
            there = keras.ops.ones(2).device
        print(model.weights[0].value.device, model.predict(x, verbose=0).shape, there)
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 (4, 1) ocl:0"


@needs("bitsandbytes")
def test_bitsandbytes():
    """Without enable(): as on the CPU, and no operator runs there.

    Numbers in the middle of two of 8 bits may become either of them.
    """
    code = """
        import torch
        import bitsandbytes as bnb
        from bitsandbytes.functional import dequantize_4bit, quantize_4bit
        numbers, near = torch.Generator().manual_seed(0), []
        def difference(compute, *shapes):
            inputs = [torch.randn(shape, generator=numbers) for shape in shapes]
            expected, actual = compute(*inputs), compute(*(x.to("ocl") for x in inputs))
            same = (actual.cpu() - expected).abs() < 1e-6
            near.append(same.float().mean().item() > 0.9)
        for kind in ("nf4", "fp4"):
            difference(lambda w: dequantize_4bit(*quantize_4bit(w, quant_type=kind)), (96, 128))
            difference(lambda w, x: bnb.matmul_4bit(x, *quantize_4bit(w, quant_type=kind)),
                       (96, 128), (4, 96))
        def train(optimizer, options, weight, *grads):
            weight = torch.nn.Parameter(weight.clone())
            optimizer = optimizer([weight], lr=1e-2, min_8bit_size=0, **options)
            for weight.grad in grads:
                optimizer.step()
            return weight.detach()
        for name, options in (("AdamW8bit", {}), ("Lion8bit", {}), ("SGD8bit", {"momentum": 0.9})):
            optimizer = getattr(bnb.optim, name)
            difference(lambda *x: train(optimizer, options, *x), *[(128, 96)] * 4)
        print(near, torch.ocl.fallback_stats())
    """
    assert output_of(textwrap.dedent(code)).splitlines()[-1] == f"{[True] * 7} {{}}"


@needs("mmengine")
def test_mmengine(tmp_path):
    code = f"""
        from mmengine.model import BaseModel
        from mmengine.runner import Runner
        class Model(BaseModel):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)
            def forward(self, x, mode="loss"):
                self.type = (y := self.layer(x)).dtype
                return {{"loss": y.float().square().mean()}}
        rows = {{"dataset": [{{"x": torch.ones(4)}}] * 4, "batch_size": 2,
                 "collate_fn": {{"type": "default_collate"}},
                 "sampler": {{"type": "DefaultSampler", "shuffle": False}}}}
        wrapper = {{"type": "AmpOptimWrapper", "dtype": "float16",
                    "optimizer": {{"type": "SGD", "lr": 0.1}}}}
        runner = Runner(Model(), {str(tmp_path)!r}, train_dataloader=rows, optim_wrapper=wrapper,
                        train_cfg={{"by_epoch": True, "max_epochs": 1}})
        model = runner.train()
        scaler = runner.optim_wrapper.loss_scaler
        print(model.layer.weight.device, model.type, scaler.is_enabled())
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 torch.float16 True"


@needs("speechbrain", "torchaudio")
def test_speechbrain():
    code = """
        import speechbrain
        class Brain(speechbrain.Brain):
            def compute_forward(self, batch, stage):
                return self.modules.layer(batch.to(self.device))
            def compute_objectives(self, predictions, batch, stage):
                return predictions.float().square().mean()
        options = {"device": "ocl", "precision": "fp16"}
        brain = Brain({"layer": torch.nn.Linear(4, 1)}, lambda p: torch.optim.SGD(p, 0.1),
                      run_opts=options)
        brain.fit(range(1), [torch.ones(2, 4)] * 2, progressbar=False)
        print(brain.modules.layer.weight.device, brain.scaler.get_scale() > 1)
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 True"


@needs("fastai", "torchvision")
def test_fastai(tmp_path):
    code = f"""
        from fastai.learner import Learner
        from fastai.data.core import DataLoaders
        from fastai.data.load import DataLoader
        from fastai.callback.fp16 import MixedPrecision
        rows = [(torch.ones(4), torch.zeros(1))] * 4
        loaders = DataLoaders(DataLoader(rows, bs=2), DataLoader(rows, bs=2))
        learner = Learner(loaders.cuda(), torch.nn.Linear(4, 1), torch.nn.functional.mse_loss,
                          path={str(tmp_path)!r}).to_fp16()
        with learner.no_bar(), learner.no_logging():
            learner.fit(1)
        print(learner.model.weight.device, loaders.device)
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 ocl:0"


@needs("ultralytics", "torchvision")
@pytest.mark.slow
def test_ultralytics(tmp_path):
    """Its own device, and float16 with a scaler."""
    code = f"""
        import os, pathlib, numpy
        os.environ["YOLO_CONFIG_DIR"] = {str(tmp_path)!r}
        os.chdir({str(tmp_path)!r})
        from PIL import Image
        from ultralytics import YOLO
        for name in ("images", "labels"):
            pathlib.Path("data", name).mkdir(parents=True)
        for i in range(4):
            pixels = numpy.random.default_rng(i).integers(0, 255, (64, 64, 3), "uint8")
            Image.fromarray(pixels).save(f"data/images/{{i}}.png")
            pathlib.Path(f"data/labels/{{i}}.txt").write_text("0 0.5 0.5 0.4 0.4\\n")
        folder = f"path: {{os.getcwd()}}/data"
        pathlib.Path("data.yaml").write_text(
            folder + "\\ntrain: images\\nval: images\\nnames:\\n  0: thing\\n")
        model = YOLO("yolo11n.yaml")
        model.train(data="data.yaml", epochs=1, imgsz=64, batch=2, workers=0, plots=False)
        scaler = model.trainer.scaler
        print(model.trainer.device, scaler.is_enabled(), scaler._device)
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 True ocl"


@needs("easyocr", "torchvision")
def test_easyocr():
    code = """
        import easyocr
        options = {"detector": False, "recognizer": False}
        print(easyocr.Reader(["en"], **options).device,
              easyocr.Reader(["en"], gpu=False, **options).device)
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 cpu"

"""Ways in which models are loaded and their weights kept: offloading, GGUF, quantized weights.

The packages are optional: a test says which one it needs.
"""

import pytest
import torch
from gguf_files import write_gguf

transformers = pytest.importorskip("transformers")

LAYERS, WIDTH, INNER, WORDS = 2, 128, 256, 96
TEXT = {"max_new_tokens": 6, "do_sample": False}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a small Llama, the model on the CPU, a prompt and the text that follows it."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=WORDS,
        tie_word_embeddings=False,
        eos_token_id=None,
    )
    folder = tmp_path_factory.mktemp("model")
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    prompt = torch.arange(1, 40)[None]
    return folder, model, prompt, model.generate(prompt, **TEXT)


def load(folder, **options):
    return transformers.LlamaForCausalLM.from_pretrained(folder, **options).eval()


def assert_same_text(model, device, saved, **options):
    _, _, prompt, text = saved
    result = model.generate(prompt.to(device), **TEXT, **options)
    assert result.device == torch.device(device) and torch.equal(result.cpu(), text)


def places(model):
    return {parameter.device.type for parameter in model.parameters()}


def test_device_map(device, saved):
    pytest.importorskip("accelerate")
    model = load(saved[0], device_map=device)
    assert places(model) == {"ocl"}
    assert_same_text(model, device, saved)


def test_a_part_stays_on_the_host(device, saved):
    pytest.importorskip("accelerate")
    model = load(saved[0], device_map="auto", max_memory={0: 700_000, "cpu": 10**9})
    assert places(model) == {"ocl", "meta"}
    assert_same_text(model, device, saved)


@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_layers_are_brought_as_they_run(device, saved, tmp_path, where):
    accelerate = pytest.importorskip("accelerate")
    options = {"execution_device": torch.device(device)}
    if where == "cpu":
        model = accelerate.cpu_offload(load(saved[0]), **options)
    else:
        model = accelerate.disk_offload(load(saved[0]), tmp_path, **options)
    assert places(model) == {"meta"}
    assert_same_text(model, device, saved)


def test_offloaded_layers_are_prefetched(device, saved):
    """Group offloading of diffusers copies the next layer on a stream while this one computes."""
    hooks = pytest.importorskip("diffusers.hooks")
    model = load(saved[0]).to(device)
    hooks.apply_group_offloading(
        model.model,
        onload_device=torch.device(device),
        offload_type="block_level",
        num_blocks_per_group=1,
        use_stream=True,
        record_stream=True,
    )
    assert places(model.model.layers) == {"cpu"}
    assert_same_text(model, device, saved)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.no_grad(), torch.profiler.profile(activities=activities) as profile:
        model(saved[2].to(device))
        torch.ocl.synchronize()
    copies, kernels = set(), set()
    for event in profile.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.PrivateUse1:
            streams = copies if event.name() == "Memcpy HtoD" else kernels
            streams.add(event.device_resource_id())
    assert len(copies - kernels) == 1 and kernels, (copies, kernels)


def test_cache_of_8_bits(device, saved):
    pytest.importorskip("hqq")
    config = {"backend": "hqq", "nbits": 8, "axis_key": 1, "axis_value": 1, "residual_length": 16}
    options = {"cache_implementation": "quantized", "cache_config": config}
    model = load(saved[0]).to(device)
    expected = saved[1].generate(saved[2], **TEXT, **options)
    actual = model.generate(saved[2].to(device), **TEXT, **options)
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "F16"])
def test_gguf(device, tmp_path, kind):
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    write_gguf(tmp_path / "model.gguf", kind)
    options = {"gguf_file": "model.gguf", "dtype": torch.float32}
    expected, model = load(tmp_path, **options), load(tmp_path, **options, device_map=device)
    assert places(model) == {"ocl"}
    pairs = zip(model.parameters(), expected.parameters(), strict=True)
    assert all(torch.equal(actual.cpu(), wanted) for actual, wanted in pairs)
    prompt = torch.arange(1, 8)[None]
    text = model.generate(prompt.to(device), **TEXT)
    assert torch.equal(text.cpu(), expected.generate(prompt, **TEXT))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Float8WeightOnlyConfig"])
def test_torchao(device, name, dtype):
    quantization = pytest.importorskip("torchao.quantization")
    torch.manual_seed(0)
    reference = torch.nn.Sequential(
        torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 32, bias=False)
    )
    reference.to(dtype)
    quantization.quantize_(reference, getattr(quantization, name)())
    x = torch.randn(3, 64, dtype=dtype)
    with torch.no_grad():
        expected = reference(x).double()
        model = reference.to(device)
        torch._dynamo.reset()
        for run in (model, torch.compile(model, fullgraph=True)):
            actual = run(x.to(device)).double().cpu()
            near = 1e-5 if dtype == torch.float32 else 2e-2
            assert (actual - expected).abs().max() <= near * expected.abs().max()

"""The recipes of docs/clients.md: what libraries do after torch_ocl.integrations.enable().

Each test is a process, because enable() changes the libraries. `make test-clients` installs them.
test_clients_training.py has the libraries that train.
"""

import textwrap

import pytest
from clients import ENABLE, MODEL, enabled, needs, results_of, run_script
from gguf_files import write_gguf
from support import ROOT, output_of, run_python

STRESS = ROOT / "tests" / "stress"


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
def test_generation_with_a_static_cache_is_compiled():
    code = """
        from torch._dynamo.utils import counters
        from transformers.generation.configuration_utils import CompileConfig
        model = make()
        expected = text(model)
        model.to("ocl")
        config = CompileConfig(mode="default")
        for options in ({"disable_compile": True}, {}):
            found = text(model, cache_implementation="static", compile_config=config, **options)
            print(found == expected, counters["stats"]["unique_graphs"] > 0, end="; ")
    """
    assert output_of(ENABLE + MODEL + textwrap.dedent(code)) == "True False; True True;"


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


@needs("gguf", "transformers", "accelerate")
@pytest.mark.parametrize("name", ["Q4_0", "Q4_K", "Q6_K", "Q8_0"])
def test_gguf_keeps_its_blocks(tmp_path, name):
    """The logits of the unpacked model, with the memory of the file; and unpacked where asked."""
    write_gguf(tmp_path / "model.gguf", name, width=256, inner=512)
    code = f"""
        from transformers import AutoModelForCausalLM, GgufConfig
        folder, options = {str(tmp_path)!r}, {{"gguf_file": "model.gguf", "dtype": torch.float32}}
        load = AutoModelForCausalLM.from_pretrained
        own, cpu = load(folder, **options), load(folder, device_map="cpu", **options)
        unpacked = load(folder, device_map="ocl", quantization_config=GgufConfig(dequantize=True),
                        **options)
        def size(model):
            return sum(p.numel() * p.element_size() for p in model.parameters())
        for rows in (3, 20):
            ids = torch.arange(1, 1 + rows)[None]
            expected = cpu(ids).logits
            for model in (own, unpacked):
                apart = (model(ids.to("ocl")).logits.cpu() - expected).abs().max()
                assert apart <= 1e-5 * expected.abs().max(), apart
        decode = torch.compile(own, fullgraph=True)
        ids = torch.arange(1, 4)[None].to("ocl")
        apart = (decode(ids).logits - own(ids).logits).abs().max() / own(ids).logits.abs().max()
        print(own.device, cpu.device, size(own) < 1.1 * {(tmp_path / "model.gguf").stat().st_size},
              size(unpacked) == size(cpu), bool(apart < 1e-5))
    """
    assert enabled(code).splitlines()[-1] == "ocl:0 cpu True True True"

"""Models of the package transformers do on the device what they do on the CPU: forward, backward, a
step of AdamW, and text generation with its caches, without any fallback."""

import copy

import pytest
import torch
from transformers_cases import CASES, WRITERS

# Tolerances relative to a tensor's largest number; float16 and bfloat16 round in other places than
# on the CPU.
NEAR = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
ATTENTION = ["sdpa", "eager"]
TRAINED = [
    pytest.param(name, attention, id=f"{name}-{attention}")
    for name in CASES
    for attention in (ATTENTION if name != "convnext" else ["none"])
]


def moved(inputs, device):
    return {k: v.to(device) if torch.is_tensor(v) else v for k, v in inputs.items()}


def with_attention(name, attention, **options):
    if attention != "none":
        options["attn_implementation"] = attention
    return CASES[name].make(**options)


def assert_near(actual, expected, near, scale=None, what=""):
    scale = expected.abs().max().item() if scale is None else scale
    error = (actual.detach().cpu().double() - expected.detach().double()).abs().max().item()
    assert error <= near * scale, f"{what}: {error / scale:.1e} of {scale:.3g}"


def assert_same_gradients(model, reference, near):
    """Gradients that are zero except for rounding, such as those of a bias of keys, are compared
    with the scale of the others."""
    wanted = {n: p.grad for n, p in reference.named_parameters() if p.grad is not None}
    largest = max(g.abs().max().item() for g in wanted.values())
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == wanted.keys()
    for name, expected in wanted.items():
        assert found[name].device.type == "ocl"
        scale = max(expected.abs().max().item(), 0.01 * largest)
        assert_near(found[name], expected, near, scale, name)


def outputs_of(result):
    """The tensors among the results, by name."""
    return {k: v for k, v in result.items() if torch.is_tensor(v) and v.is_floating_point()}


def step_of(model, optimizer, inputs):
    loss = model(**inputs).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@pytest.mark.parametrize("name, attention", TRAINED)
def test_training(device, name, attention):
    """All outputs, all gradients, and the losses around steps of AdamW."""
    reference = with_attention(name, attention)
    model = copy.deepcopy(reference).to(device)
    inputs = CASES[name].inputs()
    expected, actual = reference(**inputs), model(**moved(inputs, device))
    wanted, found = outputs_of(expected), outputs_of(actual)
    assert wanted.keys() == found.keys() and "loss" in wanted
    for output, value in wanted.items():
        assert_near(found[output], value, NEAR[torch.float32], what=output)
    expected.loss.backward()
    actual.loss.backward()
    assert_same_gradients(model, reference, 1e-4)
    losses = []
    for trained, where in ((reference, "cpu"), (model, device)):
        optimizer = torch.optim.AdamW(trained.parameters(), 1e-3, eps=1e-3)
        given = moved(inputs, where)
        optimizer.step()
        optimizer.zero_grad()
        losses.append([step_of(trained, optimizer, given) for _ in range(3)])
    assert losses[0][2] < losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for (parameter, p), q in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert_near(p, q, 1e-3, max(q.abs().max().item(), 0.1), parameter)


def trained(name, device):
    """-> on the CPU a model with gradients, its result; on the device the model, its inputs"""
    reference = CASES[name].make()
    model = copy.deepcopy(reference).to(device)
    inputs = CASES[name].inputs()
    expected = reference(**inputs)
    expected.loss.backward()
    return reference, expected, model, moved(inputs, device)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(
    "name, mode",
    [
        ("gpt2", "default"),
        *(
            pytest.param(name, mode, marks=pytest.mark.slow)
            for mode, names in (("default", CASES), ("reduce-overhead", ["llama", "clip"]))
            for name in names
            if name != "gpt2"
        ),
    ],
)
def test_compiled_training(device, name, mode):
    reference, expected, model, inputs = trained(name, device)
    compiled = torch.compile(model, mode=mode)
    for _ in range(1 if mode == "default" else 3):  # the third call is a replay
        model.zero_grad()
        actual = compiled(**inputs)
        actual.loss.backward()
    for output, value in outputs_of(expected).items():
        assert_near(outputs_of(actual)[output], value, 5e-5, what=output)
    assert_same_gradients(model, reference, 2e-4)


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("gpt2", torch.float16),
        ("bert", torch.bfloat16),
        ("llama", torch.bfloat16),
        ("convnext", torch.float16),
    ],
)
@pytest.mark.usefixtures("float64_on_the_cpu")
def test_autocast_training(device, name, dtype):
    """Against float32: autocast lists differ between devices, results should not by much."""
    reference, expected, model, inputs = trained(name, device)
    scaler = torch.amp.GradScaler("ocl", init_scale=64.0, enabled=dtype == torch.float16)
    with torch.autocast("ocl", dtype=dtype):
        actual = model(**inputs)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    scaler.scale(actual.loss).backward()
    scaler.unscale_(optimizer)
    assert actual.loss.item() == pytest.approx(expected.loss.item(), rel=NEAR[dtype])
    assert_same_gradients(model, reference, 4 * NEAR[dtype])


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_gradient_checkpointing(device, name, reentrant):
    """The forward pass runs again in the backward pass, with the same dropout."""
    dropout = {"gpt2": "attn_pdrop", "llama": "attention_dropout", "t5": "dropout_rate"}[name]
    options = {**CASES[name].options, dropout: 0.25}
    case = CASES[name]._replace(options=options)
    # Its checkpoints ask for a gradient of the mask: sdpa would take other kernels for it.
    attention = "eager" if name == "t5" else "sdpa"
    models = [case.make(attn_implementation=attention).to(device).train() for _ in (0, 1)]
    # Transformers before 5.18 has the older name only, which later versions deprecate.
    enable = getattr(models[1], "activation_checkpointing_enable", None)
    (enable or models[1].gradient_checkpointing_enable)({"use_reentrant": reentrant})
    for model in models:
        torch.manual_seed(5)
        model(**moved(case.inputs(), device), use_cache=False).loss.backward()
    for (parameter, p), q in zip(models[1].named_parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=lambda text, of=parameter: f"{of}: {text}")


def start_of(name):
    """The prompts; the second of two begins with padding."""
    return {k: v for k, v in CASES[name].inputs().items() if k != "labels"}


def writers(name, device, attention="sdpa", dtype=torch.float32):
    case = CASES[name]
    case = case._replace(options={k: v for k, v in case.options.items() if "router" not in k})
    reference = case.make(attn_implementation=attention).to(dtype).eval()
    return reference, copy.deepcopy(reference).to(device)


def generate(model, name, device, count=12, **options):
    lengths = {"max_new_tokens": count, "min_new_tokens": count}
    options = {"do_sample": False, "no_repeat_ngram_size": 2, **lengths, **options}
    result = model.generate(**moved(start_of(name), device), **options)
    tokens = result if torch.is_tensor(result) else result.sequences
    assert tokens.device == torch.device(device)
    return tokens.cpu() if torch.is_tensor(result) else result


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("name", WRITERS)
def test_greedy_generation(device, name, attention):
    """Token by token with a cache of keys and values; the scores of each step, too."""
    reference, model = writers(name, device, attention)
    options = {"return_dict_in_generate": True, "output_logits": True}
    expected = generate(reference, name, "cpu", **options)
    actual = generate(model, name, device, **options)
    assert torch.equal(actual.sequences.cpu(), expected.sequences)
    assert len(expected.logits) == 12 and len(set(expected.sequences[0, -12:].tolist())) > 3
    for step, (a, e) in enumerate(zip(actual.logits, expected.logits, strict=True)):
        assert_near(a, e, 1e-4, what=f"step {step}")


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_generation_without_cache(device, name):
    reference, model = writers(name, device)
    expected = generate(reference, name, "cpu")
    assert torch.equal(generate(model, name, device, use_cache=False), expected)


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "mixtral", "whisper"])
def test_static_cache(device, name, attention):
    reference, model = writers(name, device, attention)
    options = {"cache_implementation": "static", "disable_compile": True}
    actual = generate(model, name, device, **options)
    assert torch.equal(actual, generate(reference, name, "cpu"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "t5"])
def test_half_precision_steps(device, name, dtype):
    """The CPU's text, fed token by token with a cache: the same logits within the type's accuracy.

    A text of its own could leave the CPU's at any step where two tokens are nearly as likely.
    """
    reference, model = writers(name, device, dtype=dtype)
    text = generate(reference, name, "cpu").to(device)
    given = start_of(name)
    is_pair = name == "t5"
    begin = 1 if is_pair else given["input_ids"].shape[1]
    mask = given["attention_mask"]
    scores = {}
    for where, run in (("cpu", reference), (device, model)):
        state, scores[where] = None, []
        for step in range(begin, text.shape[1]):
            fed = text[:, :begin] if state is None else text[:, step - 1 : step]
            if is_pair:
                inputs = {**moved(given, where), "decoder_input_ids": fed.to(where)}
            else:
                grown = torch.nn.functional.pad(mask, (0, step - begin), value=1)
                inputs = {"input_ids": fed.to(where), "attention_mask": grown.to(where)}
            with torch.no_grad():
                result = run(**inputs, past_key_values=state, use_cache=True)
            state = result.past_key_values
            assert result.logits.dtype == dtype
            scores[where].append(result.logits[:, -1].float().cpu())
    for step, (a, e) in enumerate(zip(scores[device], scores["cpu"], strict=True)):
        assert_near(a, e, NEAR[dtype], what=f"step {step}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_generation(device, dtype):
    """Texts with and without a cache are the same where the most likely token is so by far."""
    _, model = writers("llama", device, dtype=dtype)
    options = {"return_dict_in_generate": True, "output_logits": True}
    result = generate(model, "llama", device, **options)
    again = generate(model, "llama", device, use_cache=False)
    for row in range(2):
        for step, logits in enumerate(result.logits):
            best = logits[row].float().topk(2).values
            if best[0] - best[1] < 4 * NEAR[dtype] * best[0].abs():
                break
            place = step - len(result.logits)
            assert result.sequences[row, place].item() == again[row, place].item()


def test_padding_on_the_left_changes_nothing(device):
    """A text has the same continuation alone and after padding in a batch."""
    _, model = writers("llama", device)
    together = generate(model, "llama", device, no_repeat_ngram_size=0)
    given = start_of("llama")["input_ids"][1:, 3:].to(device)
    alone = model.generate(given, do_sample=False, max_new_tokens=12)
    assert torch.equal(alone[0, 6:].cpu(), together[1, 9:])


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_beam_search(device, name):
    reference, model = writers(name, device)
    options = {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.8}
    actual = generate(model, name, device, **options)
    assert torch.equal(actual, generate(reference, name, "cpu", **options))
    assert actual.shape[0] == 4


PROCESSORS = {
    "penalties": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    "forbidden": {"bad_words_ids": [[7], [8, 9]], "suppress_tokens": [10, 11]},
    "prompt lookup": {"prompt_lookup_num_tokens": 2},
}


@pytest.mark.parametrize("kind", PROCESSORS)
def test_processors(device, kind):
    reference, model = writers("gpt2", device)
    for run in (reference, model):  # prompts are looked up for a single text
        run.one_text = moved({k: v[:1] for k, v in start_of("gpt2").items()}, run.device)
    options = {"do_sample": False, "max_new_tokens": 12, **PROCESSORS[kind]}
    actual, expected = (run.generate(**run.one_text, **options) for run in (model, reference))
    assert torch.equal(actual.cpu(), expected)


def test_assisted_generation(device):
    """A smaller model proposes tokens; the text is the larger one's own."""
    reference, model = writers("llama", device)
    case = CASES["llama"]
    assistant = case._replace(options={**case.options, "num_hidden_layers": 1}).make()
    given = start_of("llama")["input_ids"][:1]
    options = {"do_sample": False, "max_new_tokens": 12}
    expected = reference.generate(given, **options)
    actual = model.generate(
        given.to(device), assistant_model=assistant.to(device).eval(), **options
    )
    assert torch.equal(actual.cpu(), expected)


SAMPLING = {"do_sample": True, "temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.01}


def test_sampling_repeats(device):
    """A seed gives a text; another seed another; and texts keep to what top_k leaves."""
    _, model = writers("gpt2", device)
    texts = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        texts.append(generate(model, "gpt2", device, **SAMPLING))
    assert torch.equal(texts[0], texts[1]) and not torch.equal(texts[0], texts[2])
    state = torch.ocl.get_rng_state()
    first = generate(model, "gpt2", device, **SAMPLING)
    torch.ocl.set_rng_state(state)
    assert torch.equal(generate(model, "gpt2", device, **SAMPLING), first)
    greedy = generate(model, "gpt2", device)
    assert torch.equal(generate(model, "gpt2", device, do_sample=True, top_k=1), greedy)


def test_sampling_with_a_generator(device):
    """torch.multinomial with a generator of the device, as hand-written loops do."""
    _, model = writers("llama", device)
    texts = []
    for seed in (1, 1, 2):
        numbers = torch.Generator(device).manual_seed(seed)
        fed, state, text = start_of("llama")["input_ids"].to(device), None, []
        with torch.no_grad():
            for _ in range(8):
                result = model(fed, past_key_values=state, use_cache=True)
                state = result.past_key_values
                likely = torch.softmax(result.logits[:, -1] / 0.9, -1)
                fed = torch.multinomial(likely, 1, generator=numbers)
                text.append(fed)
        texts.append(torch.cat(text, 1).cpu())
    assert torch.equal(texts[0], texts[1]) and not torch.equal(texts[0], texts[2])


def test_sampled_tokens_are_as_likely_as_their_scores(device):
    """The first token of many texts at once, against the probabilities on the CPU."""
    reference, model = writers("gpt2", device)
    prompt = start_of("gpt2")["input_ids"][:1]
    torch.manual_seed(0)
    count = 4000
    result = model.generate(
        prompt.to(device).expand(count, -1), do_sample=True, top_k=0, max_new_tokens=1
    )
    drawn = torch.bincount(result[:, -1].cpu(), minlength=61) / count
    with torch.no_grad():
        likely = torch.softmax(reference(prompt).logits[0, -1], -1)
    assert (drawn - likely).abs().max() < 4 * (0.25 / count) ** 0.5


def test_weights_are_tied(device):
    """The first and the last layer share their weight on the device, too, and in a file."""
    _, model = writers("gpt2", device)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert model.lm_head.weight.device == torch.device(device)


def test_save_and_load(device, tmp_path):
    """A file keeps the shared weight once, and loads to the device at once."""
    _, model = writers("gpt2", device)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).to(device).eval()
    assert torch.equal(generate(again, "gpt2", device), generate(model, "gpt2", device))
    assert again.lm_head.weight is again.transformer.wte.weight

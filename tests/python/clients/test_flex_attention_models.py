"""Models of transformers with attn_implementation="flex_attention", which transformers compiles: on
the device they do what they do on the CPU with "eager"."""

import pytest
import torch
from test_transformers import assert_near, assert_same_gradients, generate, moved
from transformers_cases import CASES

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def models(name, device):
    reference = CASES[name].make(attn_implementation="eager")
    model = CASES[name].make(attn_implementation="flex_attention")
    model.load_state_dict(reference.state_dict())
    return reference, model.to(device)


@pytest.mark.parametrize("name", ["llama", "qwen3", "mixtral"])
def test_training(device, name):
    """Rows of padding have no key: they are 0 here, and a mean of all values in "eager"."""
    reference, model = models(name, device)
    inputs = CASES[name].inputs()
    seen = inputs["attention_mask"].bool()
    inputs["labels"][:, 1:].masked_fill_(~seen[:, :-1], -100)  # each row predicts the next token
    expected, actual = reference(**inputs), model(**moved(inputs, device))
    assert_near(actual.logits.cpu()[seen], expected.logits[seen], 2e-5)
    assert_near(actual.loss, expected.loss, 2e-5)
    expected.loss.backward()
    actual.loss.backward()
    assert_same_gradients(model, reference, 1e-4)


def test_texts_packed_in_one_row(device):
    """Each text's positions begin at 0: transformers finds the texts by them."""
    reference, model = models("llama", device)
    lengths = [4, 1, 7, 3]
    ids = CASES["llama"].inputs()["input_ids"].flatten()[: sum(lengths)]
    places = torch.cat([torch.arange(length) for length in lengths])
    packed = {"input_ids": ids[None], "position_ids": places[None], "use_cache": False}
    actual = model(**moved(packed, device)).logits[0]
    for part, text in zip(actual.split(lengths), ids.split(lengths), strict=True):
        assert_near(part, reference(input_ids=text[None]).logits[0], 5e-5)


def test_generation(device):
    reference, model = models("llama", device)
    expected = generate(reference.eval(), "llama", "cpu", count=5)
    assert torch.equal(generate(model.eval(), "llama", device, count=5), expected)

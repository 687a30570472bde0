"""Models of KerasHub, small and with random weights; skipped where it is not installed."""

import keras
import numpy as np
import pytest

import ramet

hub = pytest.importorskip("keras_hub")

PROMPT = {
    "token_ids": np.array([[1, 2, 3, 0, 0, 0]]),
    "padding_mask": np.array([[1, 1, 1, 0, 0, 0]]),
}
SMALL = {"vocabulary_size": 30, "num_layers": 1, "num_heads": 2, "hidden_dim": 8}


def gpt2():
    backbone = hub.models.GPT2Backbone(**SMALL, intermediate_dim=16, max_sequence_length=12)
    return hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)


def opt():
    backbone = hub.models.OPTBackbone(**SMALL, intermediate_dim=16, max_sequence_length=12)
    return hub.models.OPTCausalLM(backbone=backbone, preprocessor=None)


@pytest.mark.parametrize("make", [gpt2, opt])
@pytest.mark.parametrize("sampler", ["greedy", "top_k"])
def test_a_language_model_is_cloned_after_it_has_generated(make, sampler):
    model = make()
    model.compile(sampler=sampler)
    model.generate(PROMPT, stop_token_ids=None)
    twin = ramet.clone(model)
    assert ramet.verify(model, twin).ok
    texts = [each.generate(PROMPT, stop_token_ids=None)["token_ids"] for each in (model, twin)]
    assert np.array_equal(*map(np.asarray, texts))


def test_a_t5_gets_fresh_weights():
    model = hub.models.T5Backbone(**{**SMALL, "num_layers": 2}, intermediate_dim=16)
    twin = ramet.clone(model, weights="fresh", seed=1)
    ones = [np.ones(keras.ops.shape(weight)) for weight in model.weights]
    model.set_weights(ones)
    again = ramet.clone(model, weights="fresh", seed=1)
    for first, second in zip(twin.get_weights(), again.get_weights(), strict=True):
        assert np.array_equal(first, second)


def test_a_t5_trains_like_its_source():
    """Two of its variables have one path, which confuses Keras on PyTorch."""
    model = hub.models.T5Backbone(**{**SMALL, "num_layers": 2}, intermediate_dim=16)
    tokens, mask = PROMPT["token_ids"], PROMPT["padding_mask"]
    data = {f"{part}_token_ids": tokens for part in ("encoder", "decoder")}
    data |= {f"{part}_padding_mask": mask for part in ("encoder", "decoder")}
    targets = {name: np.zeros((1, 6, 8), "float32") for name in model.output}
    model.compile("adam", dict.fromkeys(targets, "mse"))
    model.fit(data, targets, verbose=0)
    twin = ramet.clone(model)
    for each in (model, twin):
        keras.utils.set_random_seed(1)  # dropout draws from PyTorch's own generator
        each.fit(data, targets, verbose=0)
    for first, second in zip(model.get_weights(), twin.get_weights(), strict=True):
        assert np.array_equal(first, second)

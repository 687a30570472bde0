"""`make hunt`: every architecture of keras.applications, with half of its channels."""

import os
from typing import Any

import keras
import numpy as np
import pytest

import ramet
from masking_by_hand import apart, masked, samples, scattered
from ramet.compress import groups, prune, prune_channels

pytestmark = pytest.mark.one_backend

HUNTED = bool(os.environ.get("RAMET_HUNT_PROGRAMS"))

MAKERS = sorted(
    {
        name
        for module in (keras.applications, *vars(keras.applications).values())
        if type(module).__name__ == "module"
        for name, value in vars(module).items()
        if callable(value) and name[0].isupper()
    }
)
"""Names of the functions that create models."""

LARGEST = int(os.environ.get("RAMET_HUNT_PARAMETERS", "400000000"))
"""Models with more parameters are left out."""


_SMALLEST = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
"""The smallest images that an architecture accepts, if that is not 32."""


def made(name: str) -> Any:
    """Return a small version of an architecture; `None` if it is too large."""
    if name == "NASNetMobile" and keras.backend.backend() == "torch":
        pytest.skip("Keras refuses it on PyTorch")
    maker, size = getattr(keras.applications, name), _SMALLEST.get(name, 32)
    options: dict[str, Any] = {"weights": None, "classes": 7, "classifier_activation": None}
    model = maker(**options, input_shape=(size, size, 3))
    return model if model.count_params() <= LARGEST else None


def pruned_in_half(name: str, folder: Any) -> str:
    """Prune one architecture, use the result, and return what was found in one line."""
    model = made(name)
    if model is None:
        return f"{name}: skipped, {LARGEST:,} parameters at most"
    graph = prune(model, ratio=0.5)
    half = graph.build()
    images = np.random.default_rng(0).normal(size=(2, *model.input_shape[1:])).astype("float32")
    path = folder / "half.keras"
    half.save(path)
    assert apart(keras.models.load_model(path), half, images) < 1e-6, name
    half.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = half.fit(images, np.array([1, 2]), verbose=0).history["loss"]
    assert np.isfinite(losses).all(), name
    listing = groups(model)
    free = [group for group in listing.free if group.size > 1]
    removed = {g.name: [*range(1, g.size, 3)] for g in free if g.exact}
    difference = moved = 0.0
    if removed:
        scattered(model, 0.1, kernels=False)
        edited = prune_channels(model, removed)
        proof = ramet.prove(edited)
        assert proof.edits[0].judgement == "kept", str(proof)
        cut = edited.build()
        difference = apart(cut, masked(model, listing, removed), samples(model))
        moved = apart(cut, model, samples(model))
        assert difference < min(1e-5, moved / 10), (name, difference, moved)
    locked = [group for group in listing if group.locked]
    share = half.count_params() / model.count_params()
    return (
        f"{name}: {model.count_params():,} → {half.count_params():,} parameters ({share:.1%}), "
        f"{len(free)} groups, {len(removed)} exact, {len(locked)} locked, "
        f"{difference:.1g} from the mask, {moved:.1g} from the source"
    )


@pytest.mark.skipif(not HUNTED, reason="`make hunt` plays many programs")
@pytest.mark.parametrize("name", MAKERS)
def test_hunt(name: str, tmp_path: Any) -> None:
    """Every architecture is pruned to about a quarter, trains, saves, loads, and is its mask."""
    print(f"\n{pruned_in_half(name, tmp_path)}", flush=True)  # noqa: T201 for the hunter
    keras.utils.clear_session()


def test_there_are_architectures() -> None:
    assert len(MAKERS) >= 39
    assert {"MobileNetV3Small", "ResNet50", "EfficientNetB0", "ConvNeXtTiny", "VGG16"} <= {*MAKERS}
    assert ramet.compress.prune is prune

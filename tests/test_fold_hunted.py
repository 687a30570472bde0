"""`make hunt` folds every architecture of keras.applications and compares what it computes."""

import inspect
import os
import re
from collections import Counter
from time import perf_counter

import keras
import numpy as np
import pytest
from keras import applications

import ramet
from foldmodels import trained

HUNTED = bool(os.environ.get("RAMET_HUNT_PROGRAMS"))
"""Whether `make hunt` plays."""

LARGEST = int(os.environ.get("RAMET_HUNT_PARAMETERS", "100000000"))
"""The most parameters of a model."""

ARCHITECTURES = sorted(
    name
    for name, value in vars(applications).items()
    if inspect.isfunction(value) and name[0].isupper()
)

AT_LEAST = {
    "DenseNet121": (59, 62),
    "EfficientNetB0": (49, 0),
    "InceptionV3": (94, 0),
    "MobileNet": (27, 0),
    "MobileNetV2": (52, 0),
    "NASNetMobile": (192, 0),
    "ResNet50": (53, 0),
    "ResNet50V2": (32, 17),
    "Xception": (40, 0),
}
"""How many batch norms are folded, and how many are not since their inputs are used elsewhere."""


def small(name: str) -> keras.Model:
    """Return an architecture for small images."""
    make = getattr(applications, name)
    for size in (64, 96, 224, 331):
        try:
            return make(weights=None, input_shape=(size, size, 3), classes=10)
        except ValueError as error:
            if "nput size must be at least" not in str(error) and "input_shape" not in str(error):
                pytest.skip(str(error))
    raise AssertionError(name)


@pytest.mark.skipif(not HUNTED, reason="`make hunt` plays many programs")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_hunt(name):
    model = small(name)
    if model.count_params() > LARGEST:
        pytest.skip(f"{model.count_params():,} parameters are too many")
    trained(model)
    images = np.random.default_rng(0).uniform(0, 255, (2, *model.input_shape[1:])).astype("float32")
    times = [perf_counter()]
    graph = ramet.compress.fold(model)
    folded = graph.build()
    times.append(perf_counter())
    ramet.clone(model)
    times.append(perf_counter())
    features = [keras.Model(m.inputs, m.layers[-2].output) for m in (model, folded)]
    before, after = (keras.ops.convert_to_numpy(m(images)) for m in features)
    difference = float(np.abs(before - after).max() / np.abs(before).max())
    listing = ramet.compress.foldable(model)
    kept = listing.kept
    norms = Counter(each.kind for each in listing.folded)
    why = Counter((each.kind, re.sub("'[^']*'", "...", each.reason)) for each in kept)
    took = np.diff(times)
    print(  # noqa: T201  for the hunter
        f"\n{name}: {dict(norms)} gone, {len(kept)} kept, difference {difference:.1e}, "
        f"{took[0]:.2f} s, {took[0] / took[1]:.1f} clones",
        *(f"\n    {count} {kind}: {reason}" for (kind, reason), count in why.most_common()),
        flush=True,
    )
    assert difference < 1e-5
    if name in AT_LEAST:
        left = sum(each.kind == "BatchNormalization" for each in kept)
        assert (norms["BatchNormalization"], left) == AT_LEAST[name]

"""What a case of the zoo is, and how cases are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

ALL = ("jax", "tensorflow", "torch")
BATCH = 4

Draw = Callable[[np.random.Generator], Any]
"""Makes one array, or a structure of arrays, from a generator."""


@dataclass(frozen=True)
class Case:
    """One small model that a copy must reproduce exactly."""

    name: str
    """Unique, `subject-what_it_shows`."""
    build: Callable[[], keras.Model]
    """Makes the model. Two calls under one random seed give equal models."""
    inputs: Draw
    """Input data of batch 4, in the structure of the model's inputs."""
    targets: Draw | None
    """Training targets; None where the tests do not train the model."""
    backends: tuple[str, ...] = ALL
    """The backends on which Keras itself supports the model."""
    saveable: bool = True
    """Whether Keras can save the model and load it again."""
    fresh: bool = True
    """Whether new initial weights can be drawn: every weight has a known initializer."""
    custom_objects: Mapping[str, Any] = field(default_factory=dict)
    """What `keras.saving.load_model` has to be told about."""
    since: tuple[int, int] = (3, 12)
    """The first version of Keras that can build, train and save the model."""

    def data(self) -> tuple[Any, Any]:
        """Draw the inputs and targets, the same ones each time."""
        rng = np.random.default_rng(0)
        return self.inputs(rng), None if self.targets is None else self.targets(rng)


CASES: dict[str, Case] = {}
"""Every case by name, in the order of definition."""


def case(  # noqa: PLR0913  the options of a case are its fields
    name: str,
    *,
    inputs: Any,
    targets: Any = None,
    backends: tuple[str, ...] = ALL,
    saveable: bool = True,
    fresh: bool = True,
    custom_objects: Mapping[str, Any] | None = None,
    since: tuple[int, int] = (3, 12),
) -> Callable[[Callable[[], keras.Model]], Case]:
    """Register the decorated builder as a case.

    Args:
        name: The unique name of the case.
        inputs: A structure whose leaves draw arrays, such as `{"a": floats(3)}`.
        targets: The same for the training targets; None: the model is not trained.
        backends: Where Keras supports the model.
        saveable: Whether saving and loading works in Keras.
        fresh: Whether every weight has a known initializer.
        custom_objects: What loading needs to know.
        since: The first version of Keras that can build, train and save the model.
    """

    def register(build: Callable[[], keras.Model]) -> Case:
        if name in CASES:
            msg = f"two cases are named {name!r}"
            raise ValueError(msg)
        CASES[name] = Case(
            name=name,
            build=build,
            inputs=lambda rng: draw(inputs, rng),
            targets=None if targets is None else lambda rng: draw(targets, rng),
            backends=backends,
            saveable=saveable,
            fresh=fresh,
            custom_objects=custom_objects or {},
            since=since,
        )
        return CASES[name]

    return register


def for_backend(backend: str) -> list[Case]:
    """Return the cases that Keras supports on this backend."""
    version = tuple(int(part) for part in keras.__version__.split(".")[:2])
    return [c for c in CASES.values() if backend in c.backends and c.since <= version]


def sample_for_backend(backend: str) -> list[Case]:
    """Return the cases for what hardly depends on the backend.

    All of them on PyTorch, where models are made and run in the least time, and every
    sixth on the others.
    """
    return for_backend(backend)[:: 1 if backend == "torch" else 6]


def draw(structure: Any, rng: np.random.Generator) -> Any:
    """Fill a structure whose leaves are draws; None stays None."""
    if structure is None:
        return None
    if isinstance(structure, dict):
        return {key: draw(value, rng) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        return type(structure)(draw(value, rng) for value in structure)
    return structure(rng)


def floats(*shape: int, dtype: str = "float32", batch: int = BATCH) -> Draw:
    """Draw normally distributed numbers of shape `(batch, *shape)`."""
    return lambda rng: rng.normal(size=(batch, *shape)).astype(dtype)


def unit(*shape: int) -> Draw:
    """Draw uniform numbers in [0, 1), as images and probabilities are."""
    return lambda rng: rng.uniform(size=(BATCH, *shape)).astype("float32")


def ints(high: int, *shape: int, low: int = 0) -> Draw:
    """Draw whole numbers in [low, high)."""
    return lambda rng: rng.integers(low, high, size=(BATCH, *shape)).astype("int32")


def tokens(high: int, length: int) -> Draw:
    """Draw token rows padded with zeros at the end, one of them without padding."""

    def make(rng: np.random.Generator) -> np.ndarray:
        ids = rng.integers(1, high, size=(BATCH, length)).astype("int32")
        for row, keep in enumerate(rng.permutation(BATCH)):
            ids[row, max(1, length - int(keep)) :] = 0
        return ids

    return make


def one_hot(classes: int) -> Draw:
    """Draw one-hot rows."""
    return lambda rng: np.eye(classes, dtype="float32")[rng.integers(0, classes, size=BATCH)]

"""Models that hold what cannot be copied or read: nested too deeply, or deleted."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet


def model() -> keras.Model:
    x = keras.Input((4,), name="x")
    return keras.Model(x, layers.Dense(2, name="dense")(x), name="model")


class Link:
    """One of a chain of objects."""

    def __init__(self, after: Any) -> None:
        self.after = after


def deep_list() -> Any:
    tree: Any = None
    for _ in range(3000):
        tree = [tree]
    return tree


def long_chain() -> Any:
    link: Any = None
    for _ in range(3000):
        link = Link(link)
    return link


def endless_list() -> Any:
    tree: list[Any] = []
    tree.append(tree)
    return tree


VERBS: dict[str, Callable[[Any], Any]] = {
    "clone": ramet.clone,
    "fresh": lambda m: ramet.clone(m, weights="fresh"),
    "share": lambda m: ramet.clone(m, weights="share"),
    "clones": lambda m: ramet.clones(m, 2),
    "build": lambda m: ramet.trace(m).build(),
    "edited": lambda m: ramet.trace(m).configure("dense", activation="relu").build(),
    "transfers": lambda m: ramet.trace(m).configure("dense", activation="relu").transfer_report(),
    "merge": lambda m: ramet.merge([m, model()], inputs="separate", name="both").build(),
    "diff": lambda m: ramet.diff(m, model()),
    "emit": ramet.emit,
    "masks": ramet.masks,
    "trace": ramet.trace,
    "run": lambda m: ramet.run(m, np.ones((1, 4), "float32"), at="dense"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("held", [deep_list, long_chain, endless_list])
@pytest.mark.parametrize("by", ["layer", "model"])
def test_nested_too_deeply(verb: str, held: Callable[[], Any], by: str) -> None:
    subject = model()
    owner = subject if by == "model" else subject.get_layer("dense")
    object.__setattr__(owner, "odd", held())  # Keras's own follows lists
    try:
        VERBS[verb](subject)
    except ramet.CopyError as error:
        assert "nested too deeply" in str(error)  # noqa: PT017 it may work, too
        assert "flatten what its layers hold" in str(error)  # noqa: PT017 the same
    assert owner.odd is not None


def test_a_copy_of_what_is_nested_too_deeply_is_refused() -> None:
    subject = model()
    object.__setattr__(subject.get_layer("dense"), "odd", deep_list())
    with pytest.raises(ramet.CopyError, match="'model' or something that it holds is nested too"):
        ramet.clone(subject)


@pytest.mark.parametrize("verb", VERBS)
def test_deleted_arrays(verb: str, backend: str) -> None:
    if backend != "jax":
        pytest.skip("arrays are only deleted on JAX")
    subject = model()
    subject.get_layer("dense").kernel.value.delete()
    if verb in ("share", "trace", "masks"):
        VERBS[verb](subject)  # They read no values.
        return
    what = "model 'model' cannot be called" if verb == "run" else "the array of variable 'dense/k"
    with pytest.raises(ramet.RametError, match=what):
        VERBS[verb](subject)

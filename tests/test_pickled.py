"""Graphs, selections, sources and results, pickled and copied."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.one_backend  # They hold no tensors.


def model() -> keras.Model:
    x = keras.Input((4,), name="x")
    y = layers.Dense(4, activation=lambda x: x, name="dense")(x)
    return keras.Model(x, layers.ReLU(name="relu")(y), name="model")


SUBJECTS: dict[str, Callable[[Any], Any]] = {
    "graph": ramet.trace,
    "edited": lambda m: ramet.trace(m).remove("relu"),
    "selection": lambda m: ramet.trace(m).select(name="*e*"),
    "journal": lambda m: ramet.trace(m).freeze().journal,
    "source": lambda m: ramet.emit(m, check=False),
    "diff": lambda m: ramet.diff(m, ramet.trace(m).remove("relu")),
    "masks": ramet.masks,
    "report": lambda m: ramet.verify(m, m, only="structure"),
    "transfers": lambda m: ramet.trace(m).transfer_report(),
    "explanation": lambda m: ramet.rewrite(
        m, lambda x: layers.ReLU()(x), lambda x: x, explain=True
    ),
}


def pickled(thing: Any) -> Any:
    """Return a thing that was pickled and read again."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 just written


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_it_says_the_same(name: str, again: Callable[[Any], Any]) -> None:
    subject = SUBJECTS[name](model())
    twin = again(subject)
    assert type(twin) is type(subject)
    assert str(twin) == str(subject)


def test_a_pickled_selection_can_be_read_but_not_built() -> None:
    selection = pickled(ramet.trace(model()).select(name="*e*"))
    assert [*selection] == ["dense", "relu"]
    with pytest.raises(ramet.GraphError, match="was not traced from a model in this process"):
        selection.configure(units=3)


def test_a_pickled_source_keeps_the_parameters_that_can_be_pickled() -> None:
    source = ramet.emit(model(), check=False)
    assert [*source.parameters] == ["dense_function"]
    assert copy.deepcopy(source).parameters == source.parameters
    assert pickled(source).parameters == {}
    plain = ramet.results.Source.of("x", {"table": [1, 2]}, ["y"])
    twin = pickled(plain)
    assert (twin.parameters, twin.differences) == ({"table": [1, 2]}, ("y",))

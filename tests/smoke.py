"""Every verb on a sample of the zoo: what `make matrix` runs for each version of Keras and Python.

It is not part of the test suite, which proves more about one set of versions.
"""

import re

import keras
import numpy as np
import pytest
from keras import layers

import exact
import ramet
from ramet.files import load, save
from ramet.graph.tree import leaves
from ramet.tracing.trace import has_graph
from zoo import for_backend

BACKEND = keras.backend.backend()

pytestmark = pytest.mark.filterwarnings("ignore")

every_case = pytest.mark.parametrize("case", for_backend(BACKEND)[::4], ids=lambda case: case.name)


def built(case):
    """The model of a case; some versions of Keras need TensorFlow to preprocess data."""
    try:
        return case.build()
    except ImportError as error:
        assert "tensorflow" in str(error)  # noqa: PT017 nothing else may be missing
        return pytest.skip("it needs TensorFlow, which this cell does not have")


@every_case
def test_clone(case):
    model, (x, y) = built(case), case.data()
    before = exact.fingerprint(model)
    twin = ramet.clone(model)
    exact.assert_untouched(before, exact.fingerprint(model))
    exact.assert_same_structure(model, twin)
    exact.assert_same_state(model, twin)
    exact.assert_same_sharing(model, twin)
    exact.assert_disjoint(model, twin)
    report = ramet.verify(model, twin, inputs=x)
    assert report.ok, str(report)
    if y is not None:
        exact.assert_same_training(model, twin, x, y)


@every_case
def test_save_and_load(case, tmp_path):
    if not case.saveable:
        pytest.skip("Keras cannot save it")
    model = built(case)
    for name, each in (("source", model), ("twin", ramet.clone(model))):
        save(each, tmp_path / f"{name}.keras")
    loaded = [
        load(tmp_path / f"{name}.keras", trust=True, custom_objects=case.custom_objects)
        for name in ("source", "twin")
    ]
    assert ramet.verify(*loaded, only=("structure", "sharing", "state"))


@every_case
def test_edit_and_look(case):
    model, (x, _) = built(case), case.data()
    if not has_graph(model):
        pytest.skip("it has no graph")
    graph = ramet.trace(model)
    assert ramet.masks(graph).tensors
    assert not ramet.diff(model, graph)
    try:
        assert "def build_model" in ramet.emit(graph)
    except ramet.errors.SourceError as refusal:
        assert re.search("layer '|model '", str(refusal))  # noqa: PT017 few layers have no source
    for ref in leaves(graph.inputs):
        spec = graph.calls[ref.call].outputs[0]
        if "float" in spec.dtype and not (spec.sparse or spec.ragged):
            graph = graph.insert_after(ref, layers.Identity(dtype=spec.dtype))
    edited = graph.build()
    for ours, theirs in zip(
        exact.outputs_of(model, x, training=False),
        exact.outputs_of(edited, x, training=False),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert bool(ramet.diff(model, edited)) == bool(graph.journal)

"""Edits that should change no number, on every model of the zoo that has a graph."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.comparing.running.outputs import run
from ramet.comparing.running.samples import Sample
from ramet.graph.tree import leaves
from ramet.tracing.trace import has_graph
from zoo import sample_for_backend

BACKEND = keras.backend.backend()

pytestmark = pytest.mark.filterwarnings("ignore")


def with_identities(graph):
    """A layer that does nothing, after every input that holds floats."""
    for ref in leaves(graph.inputs):
        spec = graph.calls[ref.call].outputs[0]
        if "float" in spec.dtype and not (spec.sparse or spec.ragged):
            graph = graph.insert_after(ref, layers.Identity(dtype=spec.dtype))
    return graph


def made_again(graph):
    """Every layer that has a config, made from it."""
    for path in graph.select():
        try:
            graph = graph.configure(path, weights="grow")
        except ramet.OptionError as error:
            assert "has no config" in str(error)  # noqa: PT017 others must not fail
    return graph


EDITS = {
    "identities": with_identities,
    "prefix": lambda graph: graph.prefix("other_"),
    "flatten": lambda graph: graph.flatten(),
    "again": made_again,
}

REFUSED = {
    ("state-lora_einsum_in_attention", "again"): "LoRA inside of it is not in its config",
}
"""What cannot be done, and says so."""


@pytest.mark.parametrize("case", sample_for_backend(BACKEND), ids=lambda case: case.name)
def test_edits_that_change_nothing(case):
    model = case.build()
    if not has_graph(model):
        pytest.skip("it has no graph to edit")
    graph = ramet.trace(model)
    sample = Sample((case.inputs(np.random.default_rng(0)),), {})
    expected = run(model, None, sample, training=False).outputs.values()
    for name, edit in EDITS.items():
        if (case.name, name) in REFUSED:
            with pytest.raises(ramet.RametError, match=r"cannot be re-created"):
                edit(graph).build()
            continue
        found = run(edit(graph).build(), None, sample, training=False).outputs.values()
        for old, new in zip(expected, found, strict=True):
            if old.dtype.kind == "f":
                np.testing.assert_allclose(new, old, atol=1e-5, rtol=0, err_msg=name)
            else:
                assert np.array_equal(old, new), name

"""What people read is short: tables fit 80 columns, and every `repr` is one short line."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest
from keras import layers

import ramet
from ramet.text.console import folded

pytestmark = pytest.mark.one_backend  # The text is the same on all.

WIDTH = 80
LINE = 120


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")


def resnet() -> keras.Model:
    return keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=3)


def efficientnet() -> keras.Model:
    return keras.applications.EfficientNetB0(weights=None, input_shape=(32, 32, 3), classes=3)


def long_names() -> keras.Model:
    tokens = keras.Input((None,), dtype="int32", name="tokens_" + "t" * 90)
    x = layers.Embedding(9, 4, mask_zero=True, name="embedding_" + "e" * 90)(tokens)
    x = layers.LSTM(4, return_sequences=True, name="_".join(["recurrent"] * 9))(x)
    x = layers.GlobalMaxPooling1D(name="pool " * 20)(x)
    x = layers.ReLU(name="relu_" + "r" * 90)(x)
    return keras.Model(tokens, layers.Dense(2, name="dense_" + "d" * 90)(x), name="model" * 20)


def nested() -> keras.Model:
    x = keras.Input((4,))
    model = keras.Model(x, layers.ReLU(name="relu")(layers.Dense(4)(x)), name="innermost")
    for level in range(6):
        x = keras.Input((4,))
        model = keras.Model(x, layers.Dense(4)(model(x)), name=f"a_nested_model_of_level_{level}")
    return model


def texts(model: Any, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """Yield everything that is printed of a model and an edited one, with names."""
    graph = ramet.trace(model)
    edited = graph.select(kind=(layers.ReLU, layers.Activation)).replace(
        lambda old: layers.ELU(name=f"{old.name}_elu")
    )
    yield "graph", str(graph)
    yield "edited graph", str(edited)
    yield "derived", graph.text(derived=True)
    yield "journal", str(edited.journal)
    yield "every place", edited.journal.text(full=True)
    yield "masks", ramet.masks(model).text(every=True)
    yield "transfers", str(edited.transfer_report())
    yield "diff", str(ramet.diff(model, edited))
    yield "report", str(ramet.verify(model, ramet.clone(model, weights="fresh"), only="state"))
    explained = ramet.rewrite(graph, lambda x: layers.Dense(2)(x), lambda x: x, explain=True)
    yield "explanation", str(explained)
    ramet.show(model)
    yield "show", capsys.readouterr().out
    ramet.show(model, edited)
    yield "two models", capsys.readouterr().out


def objects(model: Any) -> Iterator[Any]:
    """Yield everything that has a short `repr`."""
    graph = ramet.trace(model)
    selection = graph.select(kind=(layers.ReLU, layers.Activation))
    edited = selection.replace(lambda old: layers.ELU(name=f"{old.name}_elu"))
    yield from (graph, selection, edited, edited.journal, *edited.journal)
    yield from (*graph.layers.values(), *graph.calls.values())
    flow = ramet.masks(model)
    yield from (flow, *flow.tensors, *flow.findings)
    report = ramet.verify(model, ramet.clone(model, weights="fresh"), only=("state", "outputs"))
    yield from (report, *report.checks, report.first_divergence)
    changes, transfers = ramet.diff(model, edited), edited.transfer_report()
    yield from (changes, *changes.entries, transfers, *transfers.transfers)
    explained = ramet.rewrite(graph, lambda x: layers.Dense(2)(x), lambda x: x, explain=True)
    yield from (explained, *explained.misses)
    yield ramet.emit(model, check=False)


@pytest.mark.parametrize("build", [resnet, efficientnet, long_names, nested])
def test_tables_fit(build: Callable[[], keras.Model], capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in texts(build(), capsys):
        wide = [line for line in text.splitlines() if len(line) > WIDTH]
        assert not wide, f"{name}: {wide[0]}"


@pytest.mark.parametrize("build", [resnet, long_names, nested])
def test_every_repr_is_one_short_line(build: Callable[[], keras.Model]) -> None:
    for thing in objects(build()):
        text = repr(thing)
        assert "\n" not in text
        assert len(text) <= LINE, text


def test_an_edit_of_a_selection_is_one_line_of_the_journal() -> None:
    graph = ramet.trace(resnet())
    edited = graph.select(name="*_relu").replace(lambda old: layers.PReLU(name=old.name))
    assert str(edited.journal) == "1. replace 33 layers '*_relu' (Activation) with PReLU [changed]"
    assert len(edited.journal.text(full=True).splitlines()) == 34
    assert repr(edited.journal) == "<Journal: 1 edit at 33 places>"


GRAPH = """\
graph 'resnet50': 177 layers, 177 calls
  input_layer: float32[None, 32, 32, 3] = InputLayer()
  conv1_pad: float32[None, 38, 38, 3] = ZeroPadding2D(input_layer)
"""


def test_a_graph_that_is_too_wide_is_not_aligned() -> None:
    keras.utils.clear_session()
    text = str(ramet.trace(resnet()))
    assert text.startswith(GRAPH)
    assert (
        "  conv2_block1_add: float32[None, 8, 8, 256] = Add([conv2_block1_0_bn,\n"
        "      conv2_block1_3_bn])\n"
    ) in text


@pytest.mark.parametrize("width", [-500, 0, 20, 80])
@pytest.mark.parametrize("hanging", [0, 4, 100])
def test_text_is_folded_whatever_its_indentation(width: int, hanging: int) -> None:
    lines = folded("    " + "x" * 300 + " a/b/c" * 40, width, hanging=hanging)
    assert "".join(lines).replace(" ", "") == "x" * 300 + "a/b/c" * 40
    assert max(map(len, lines)) <= max(width, hanging + 10)

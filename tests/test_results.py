"""What verbs return: one protocol, and tables that fit a terminal."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers
from rich.cells import cell_len
from rich.console import Console

import ramet
from ramet import results
from ramet.graph import Call, Layer, Ref, Spec
from ramet.results.base import Table
from ramet.text.console import folded

LONG = "encoder_with_a_name_that_goes_on_and_on_until_everybody_has_left_"
WIDE = "層の名前" * 16
NAMES = (LONG, WIDE, "short_")


def network(name: str, *, other: bool = False) -> keras.Model:
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 4, mask_zero=True, name=f"{name}embed")(tokens)
    x = layers.LSTM(4, return_sequences=True, name=f"{name}lstm")(x)
    if other:
        x = layers.Dropout(0.1, name=f"{name}drop")(x)
    x = layers.Conv1D(3, 2, name=f"{name}conv")(x)
    x = layers.GlobalAveragePooling1D(name=f"{name}average")(x)
    return keras.Model(tokens, layers.Dense(2 + other, name=f"{name}head")(x), name="net")


def pattern(x):
    return layers.Dense(7)(layers.GlobalAveragePooling1D()(x))


@pytest.fixture(scope="module", params=NAMES, ids=["long", "wide", "short"])
def told(request):
    """Every kind of result, and the name that its layers begin with."""
    name = request.param
    first, second = network(name), network(name, other=True)
    graph = ramet.trace(first).configure(f"{name}head", units=5, weights="grow")
    graph = graph.replace(f"{name}lstm", layers.GRU(4, return_sequences=True, name=f"{name}gru"))
    return name, {
        "report": ramet.verify(first, second),
        "diff": ramet.diff(first, second),
        "flow": ramet.masks(first),
        "transfers": graph.transfer_report(),
        "explanation": ramet.rewrite(first, pattern, pattern, explain=True),
        "journal": graph.journal,
        "proof": ramet.prove(graph),
    }


NAMED = {
    "report": ("head",),
    "diff": ("drop", "head"),
    "flow": ("embed", "lstm", "conv"),
    "transfers": ("head/kernel", "gru/gru_cell/kernel"),
    "explanation": ("head",),
    "journal": ("head", "lstm", "gru"),
    "proof": ("head", "lstm", "gru"),
}
"""Which layers each result names."""


def is_whole(name: str, lines: list[str]) -> bool:
    """Whether a name is in a text, or would be if its lines were put together again."""
    columns = [[cell.strip() for cell in line.split("│")] for line in lines]
    joined = ["".join(line.strip() for line in lines)]
    joined += ["".join(cells) for cells in zip(*(c for c in columns if len(c) > 1), strict=False)]
    return any(name in text for text in joined)


@pytest.mark.parametrize("which", NAMED)
@pytest.mark.parametrize("width", [80, 60, 200])
def test_tables_fit_and_names_are_whole(told, which, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    name, each = told
    result = each[which]
    lines = str(result).splitlines()
    assert max(map(cell_len, lines)) <= width, str(result)
    data = json.dumps(result.to_dict(), ensure_ascii=False)
    for layer in NAMED[which]:
        shown = which != "report" or layer in "".join(lines)  # a report shows the first few
        assert not shown or is_whole(name + layer, lines), str(result)
        assert name + layer in data


@pytest.mark.parametrize("which", [name for name in NAMED if name != "journal"])
def test_rich_draws_them_at_its_own_width(told, which):
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(told[1][which])
    assert max(map(cell_len, capture.get().splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES, ids=["long", "wide", "short"])
def test_show_fits_and_names_are_whole(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    ramet.show(network(name), network(name, other=True))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    for layer in ("embed", "lstm", "drop", "conv", "average", "head"):
        assert is_whole(name + layer, lines)


def test_a_path_is_folded_between_its_names():
    assert folded(f"kept {'a' * 30}/{'b' * 30}/{'c' * 30}", 70, hanging=2) == [
        "kept",
        f"  {'a' * 30}/{'b' * 30}/",
        f"  {'c' * 30}",
    ]
    assert folded(" ".join(["word"] * 5), 14) == ["word word word", "word word"]


def test_numbers_without_end_fit():
    shape = f"[{', '.join(['123456789012345678901234567890'] * 3)}]"
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(Table("title", ("a", "b", "c"), [(shape, shape, "[bold]x[/bold]")]))
    lines = capture.get().splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "[bold]x[/bold]" in capture.get()


# --- the protocol ---


@pytest.mark.parametrize("which", NAMED)
def test_every_result_follows_the_protocol(told, which):
    result = told[1][which]
    line = repr(result)
    assert line.startswith(f"<{type(result).__name__}")
    assert "\n" not in line
    assert len(line) < 160
    assert result._repr_html_().startswith("<div>")
    assert isinstance(json.dumps(result.to_dict()), str)
    if which != "journal":
        assert result.to_dict()["ok"] is result.ok


def test_a_report_is_as_true_as_its_verdict():
    model = network("")
    assert ramet.verify(model, ramet.clone(model))
    assert not ramet.verify(model, ramet.clone(model, weights="fresh", seed=1))


def test_a_list_of_changes_is_true_if_there_are_any():
    model = network("")
    same, changed = ramet.diff(model, model), ramet.diff(model, network("", other=True))
    assert not same
    assert same.ok
    assert changed
    assert not changed.ok
    assert len(changed) == len([*changed]) == len(changed.entries)


def test_findings_transfers_and_matches_are_lists_too():
    flow = ramet.masks(network(""))
    assert flow
    assert [*flow] == [*flow.findings]
    assert not flow.ok
    clean = ramet.masks(keras.Sequential([keras.Input((2,)), layers.Dense(2)]))
    assert not clean
    assert clean.ok
    graph = ramet.trace(network(""))
    assert graph.transfer_report().ok
    assert not graph.configure("head", units=5, weights="fresh").transfer_report().ok
    assert len(graph.transfer_report()) == len(graph.transfer_report().transfers)
    missed = ramet.rewrite(graph, pattern, pattern, explain=True)
    assert not missed
    assert not missed.ok
    assert missed.misses


def test_a_source_is_a_string_and_a_result():
    source = ramet.emit(network(""))
    assert source
    assert source.ok
    assert isinstance(source, str)
    assert source.to_dict()["code"] == source
    assert repr(source) == f"<Source: {source.count(chr(10))} lines>"
    assert source._repr_html_().startswith("<pre># Model &#x27;net&#x27;")


def test_results_are_imported_without_keras():
    code = "import sys, ramet.results; sys.exit('keras' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 the same interpreter
    assert {*results.__all__} <= {*dir(results)}


# --- short reprs ---


def test_reprs_are_short_whatever_they_hold():
    array = np.zeros((500, 500))
    inner = ramet.trace(network(LONG))
    layer = Layer("enc", "Functional", origin=None, graph=inner, changes={"weights": array})
    call = Call("enc#2", "enc", (Ref("a"), array), {"b": inner}, ())
    spec = Spec((None, 3), "float32", "x", mask=array)
    assert repr(layer) == "<Layer 'enc' (Functional, 7 layers)>"
    assert repr(call) == "<Call 'enc#2' of 'enc' on a>"
    assert repr(spec) == "<Spec 'x': float32[None, 3], masked>"
    edited = ramet.trace(network("")).freeze()
    assert repr(edited) == "<Graph 'net': 6 layers, 6 calls, 1 derived, 1 edit>"
    assert repr(edited.journal) == "<Journal: 1 edit at 5 places>"
    selection = edited.select(name="*e*")
    assert repr(selection).startswith("<Selection of 'net' by name='*e*': ")


def test_pytest_does_not_print_whole_graphs(pytestconfig):
    graph = ramet.trace(network(LONG))
    other = graph.rename({f"{LONG}head": "head"})
    told = pytestconfig.hook.pytest_assertrepr_compare(
        config=pytestconfig, op="==", left=graph, right=other
    )
    assert graph != other
    assert len("".join(line for lines in told for line in lines or ())) < 500
    assert graph == graph.changed(layers=graph.parts("layers"))

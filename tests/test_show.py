"""`show`: the table, the page and the picture, as text; tests/test_page.py has a browser."""

import json
import re
import sys
from xml.etree import ElementTree as ET

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.showing.layout import HEIGHT, WIDTH, lay_out
from ramet.showing.read import read
from ramet.tracing.layer_facts import statistics_of
from shown import HOSTILE, hostile, matcher


def printed(capsys, *models, width="150"):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", width)
        assert ramet.show(*models) is None
    return capsys.readouterr().out


def cells(text):
    """The rows of a printed table, by their first cell."""
    rows = [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if row and row[0]}


def page_data(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def nodes(data, view=None):
    return {
        node["name"]: node
        for node in data["views"][data["root"] if view is None else view]["nodes"]
    }


# --- the table ---


def test_the_table_tells_of_every_call(capsys):
    text = printed(capsys, matcher())
    rows = cells(text)
    assert rows["question"] == ["InputLayer", "int32[None, 6]", "0", "", ""]
    assert rows["embed (shared)"] == ["Embedding", "float32[None, 6, 8]", "160", "question", "yes"]
    assert rows["embed#2 (shared)"][2:] == ["shared", "answer", "yes"]
    encoder = ["Functional (3 layers)", "float32[None, 6, 4]", "228", "embed", "yes"]
    assert rows["encoder (shared)"] == encoder
    assert rows["pool (shared)"][4] == ""
    assert rows["both"] == ["Concatenate", "float32[None, 8]", "0", "pool", ""]
    assert rows["topic"] == ["Dense", "float32[None, 5]", "45", "both", ""]
    assert text.endswith("\n11 calls, 442 parameters, 442 trainable\nreturns score, topic\n")
    assert "lstm" not in rows


def test_frozen_layers_are_not_counted_as_trainable(capsys):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, trainable=False), layers.Dense(1)])
    assert "3 calls, 11 parameters, 3 trainable\n" in printed(capsys, model)


def test_an_edited_graph_shows_what_is_not_settled(capsys):
    graph = ramet.trace(matcher()).configure("topic", units=7)
    graph = graph.insert_after("both", layers.Dense(3, name="more"))
    text = printed(capsys, graph)
    rows = cells(text)
    assert rows["more"] == ["Dense", "?", "?", "both", "?"]
    assert rows["topic"] == ["Dense", "float32[None, 5]?", "?", "more", "?"]
    assert rows["score"][1] == "float32[None, 1]?"
    assert rows["encoder (shared)"][4] == "yes"
    assert "made on build" in text


def test_two_models_side_by_side(capsys):
    model = matcher()
    graph = ramet.trace(model).configure("topic", units=7).remove("score", reconnect="both")
    other = graph.insert_after("both", layers.Dropout(0.1, name="drop")).build()
    rows = cells(printed(capsys, model, other, width="220"))
    assert rows["drop"][-1] == "added"
    assert rows["score"][-1] == "removed"
    assert rows["topic"][-1] == "changed; config: units=5 is now 7"
    assert rows["both"][-1] == ""


def test_names_are_no_markup(capsys):
    assert HOSTILE in printed(capsys, hostile(), width="200")


def test_a_bare_graph_and_its_parts_can_be_shown(capsys):
    head, tail = ramet.trace(matcher()).split("both")
    assert "both" in cells(printed(capsys, head))
    assert "topic" in cells(printed(capsys, tail))


# --- notebooks ---


def test_tables_for_notebooks():
    model = matcher()
    graph = ramet.trace(model)._repr_html_()
    assert "<td" in graph
    assert ">embed#2</td>" in graph
    assert "returns score, topic" in graph
    assert "the same" in ramet.verify(model, ramet.clone(model))._repr_html_()
    assert ">mask from</th>" in ramet.masks(model)._repr_html_()
    selection = ramet.trace(model).select(name="*o*")._repr_html_()
    assert ">encoder/proj</td>" in selection
    assert "layers of &#x27;matcher&#x27; by name=" in selection
    bare = keras.Sequential([keras.Input((2,)), layers.Dense(1)], name="bare")
    assert "mask" not in ramet.trace(bare)._repr_html_()  # empty columns are left out
    assert 'text-align:right">3</td>' in ramet.profile(bare)._repr_html_()
    assert (
        ramet.masks(bare)._repr_html_()
        == "<div><div><b>no masks in &#x27;bare&#x27;</b></div></div>"
    )


def test_tables_for_notebooks_are_escaped():
    for made in (ramet.trace(hostile()), ramet.masks(hostile())):
        assert "<script" not in made._repr_html_()
        assert "<i>" not in made._repr_html_()


# --- the page ---


def test_the_page_loads_nothing(tmp_path):
    ramet.show(matcher(), to=tmp_path / "model.html")
    text = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert not re.search(r"<(script|img|iframe)[^>]+src=|@import|url\(", text)
    assert re.findall(r'<link[^>]+href="([^"]*)"', text) == ["data:,"]
    assert [path.name for path in tmp_path.iterdir()] == ["model.html"]


def test_the_page_knows_layers_masks_and_weights(tmp_path):
    model = matcher()
    ramet.show(model, to=str(tmp_path / "model.html"))
    data = page_data(tmp_path / "model.html")
    top = nodes(data)
    assert top["embed"]["shared"]
    assert not top["both"]["shared"]
    assert (top["encoder"]["masked"], top["pool"]["masked"]) == (True, False)
    assert top["embed"]["layer"] == top["embed#2"]["layer"]
    assert top["encoder"]["inside"] == top["encoder#2"]["inside"]
    inside = nodes(data, top["encoder"]["inside"])
    assert [*inside] == ["tokens", "lstm", "proj"]
    layer = data["layers"][top["topic"]["layer"]]
    kernel = layer["variables"][0]
    values = keras.ops.convert_to_numpy(model.get_layer("topic").kernel)
    assert layer["config"]["units"] == 5
    assert kernel["shape"] == [8, 5]
    for key, value in [("mean", values.mean()), ("std", values.std()), ("low", values.min())]:
        assert kernel[key] == pytest.approx(float(value), abs=1e-6)
    masked = {(e["from"], e["to"]) for e in data["views"][data["root"]]["edges"] if e["masked"]}
    assert len(masked) == 4


def test_hostile_texts_stay_texts(tmp_path):
    ramet.show(hostile(), to=tmp_path / "model.html")
    text = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "<title>&lt;i&gt;hostile&lt;/i&gt;</title>" in text
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert text.count("</script>") == 2
    data = page_data(tmp_path / "model.html")
    assert data["layers"][nodes(data)["noted"]["layer"]]["config"]["note"] == HOSTILE


def test_differences_of_two_models(tmp_path):
    model = matcher()
    other = ramet.clone(model)
    inner = other.get_layer("encoder").get_layer("proj")
    inner.kernel.assign(inner.kernel + 1)
    ramet.show(model, other, to=tmp_path / "model.html")
    data = page_data(tmp_path / "model.html")
    top = nodes(data)
    assert {n["name"] for n in top.values() if n["difference"] != "same"} == {
        "encoder",
        "encoder#2",
    }
    assert top["encoder"]["reasons"] == ["layers inside"]
    proj = nodes(data, top["encoder"]["inside"])["proj"]
    assert (proj["difference"], len(proj["reasons"])) == ("changed", 1)
    assert proj["reasons"][0].startswith("weights: kernel differs in 16 of 16 values, by 1")
    means = [data["layers"][proj[side]]["variables"][0]["mean"] for side in ("before", "layer")]
    assert means[1] - means[0] == pytest.approx(1, abs=1e-5)


def test_models_whose_order_differs_can_be_laid_over_each_other(tmp_path):
    def chain(*names):
        start = x = keras.Input((2,), name="x")
        for name in names:
            x = layers.Dense(2, name=name)(x)
        return keras.Model(start, x)

    ramet.show(chain("a", "b", "c"), chain("c", "b", "a"), to=tmp_path / "model.html")
    data = page_data(tmp_path / "model.html")
    assert sorted(nodes(data)) == ["a", "b", "c", "x"]
    edges = [edge["difference"] for edge in data["views"][data["root"]]["edges"]]
    assert sorted(edges) == ["added"] * 3 + ["removed"] * 3


def test_values_that_are_not_finite_or_no_numbers(tmp_path):
    variable = keras.Variable(np.array([1.0, np.nan, 3.0, np.inf], "float32"), name="v")
    found = statistics_of(variable)
    assert (found.mean, found.std, found.low, found.high, found.not_finite) == (2, 1, 1, 3, 2)
    empty = statistics_of(keras.Variable(np.zeros((0, 3), "float32")))
    assert (empty.mean, empty.not_finite) == (None, 0)
    assert (
        statistics_of(keras.Variable(np.array([True, False]), dtype="bool", trainable=False)).mean
        == 0.5
    )
    half = statistics_of(keras.Variable(np.ones(4), dtype="bfloat16"))
    assert (half.mean, half.dtype) == (1, "bfloat16")
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1, name="d")])
    model.get_layer("d").kernel.assign([[float("nan")], [float("inf")]])
    ramet.show(model, to=tmp_path / "model.html")
    data = page_data(tmp_path / "model.html")
    assert data["layers"][nodes(data)["d"]["layer"]]["variables"][0]["not_finite"] == 2


# --- the picture ---


def test_the_picture_is_well_formed(tmp_path):
    for number, made in enumerate((matcher(), hostile(), ramet.trace(matcher()))):
        path = tmp_path / f"{number}.svg"
        ramet.show(made, to=path)
        root = ET.parse(path).getroot()  # noqa: S314 written by ourselves
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert not [part for part in root.iter() if part.tag.endswith("script")]
    texts = [part.text for part in root.iter() if part.tag.endswith("text")]
    assert {"embed#2", "shared", "mask", "Functional (3 layers)"} <= {*texts}


def test_two_models_in_a_picture(tmp_path):
    other = ramet.trace(matcher()).insert_after("both", layers.Dropout(0.1, name="drop"))
    ramet.show(matcher(), other, to=tmp_path / "model.svg")
    assert "#d9f2dd" in (tmp_path / "model.svg").read_text(encoding="utf-8")


def texts_of(path):
    root = ET.parse(path).getroot()  # noqa: S314 written by ourselves
    return {part.text for part in root.iter() if part.tag.endswith("text")}


def test_costs_in_a_picture(tmp_path):
    path = tmp_path / "model.svg"
    ramet.show(matcher(), to=path, cost="macs")
    assert {"Dense · 40 MACs (1.3 %)", "share of MACs", "up to 0.5 %"} <= texts_of(path)
    assert "Functi… · 1.87 k MACs (59.1 %)" in texts_of(path)
    assert "#ee7d2b" in path.read_text(encoding="utf-8")
    ramet.show(matcher(), to=path, cost="params")
    assert "Embeddi… · 160 params (36.2 %)" in texts_of(path)
    ramet.show(matcher(), to=path, cost="memory")
    assert "Embedding · 288 bytes (" in str(texts_of(path))
    ramet.show(matcher(), to=path, cost=ramet.profile(matcher(), batch=2, time=True))
    assert "share of time" in texts_of(path)
    graph = ramet.trace(matcher()).configure("topic", units=10, weights="fresh")
    ramet.show(graph, to=path, cost="macs")
    assert "Dense · 80 MACs (2.5 %)" in texts_of(path)


def test_costs_that_cannot_be_shown(tmp_path):
    path, model = tmp_path / "model.svg", matcher()
    for options, message in (
        ({"cost": "size", "to": path}, "unknown cost='size'; expected one of 'macs', 'params', "),
        ({"cost": 3, "to": path}, "unknown cost=3"),
        ({"cost": "macs", "other": model, "to": path}, "of one model, and two are compared; show"),
        ({"cost": ramet.profile(hostile()), "to": path}, "which graph 'matcher' does not have; p"),
    ):
        with pytest.raises(ramet.errors.OptionError, match=message):
            ramet.show(model, **options)
    assert not path.exists()


def test_costs_in_a_table(capsys):
    ramet.show(matcher(), cost="macs")
    text = capsys.readouterr().out
    assert "matcher, share of MACs" in text
    assert "1.87 k MACs" in text


def test_nodes_do_not_overlap():
    start = keras.Input((8, 8, 4))
    x = start
    for depth in (1, 2, 4):  # branches of many lengths, like those of Inception
        ends = []
        for branch in range(4):
            y = x
            for _ in range(depth * branch):
                y = layers.Conv2D(4, 1)(y)
            ends.append(layers.ReLU()(y))
        x = layers.Concatenate()(ends)
    layout = lay_out(read(ramet.trace(keras.Model(start, x))))
    for number, (x1, y1) in enumerate(layout.nodes):
        for x2, y2 in layout.nodes[:number]:
            assert abs(x1 - x2) > WIDTH or abs(y1 - y2) > HEIGHT
        for x2, y2 in (point for bend in layout.bends for point in bend):
            assert abs(x1 - x2) > WIDTH / 2 or abs(y1 - y2) > HEIGHT / 2


# --- errors ---


def test_other_suffixes():
    with pytest.raises(
        ramet.OptionError, match=r"suffix .html, .svg, .png or .pdf, got '.gif' in 'a.gif'"
    ):
        ramet.show(matcher(), to="a.gif")
    with pytest.raises(ramet.OptionError, match=r"got none in 'model'"):
        ramet.show(matcher(), to="model")


def test_what_is_no_model_or_has_no_graph():
    class Plain(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(ramet.ModelError, match="has no graph"):
        ramet.show(Plain())
    with pytest.raises(ramet.ModelError, match="has no layers, so it has no graph; add one"):
        ramet.show(keras.Sequential([keras.Input((3,))]))
    with pytest.raises(ramet.ModelError, match="expected a Keras model"):
        ramet.show(matcher(), 3)
    with pytest.raises(ramet.FileError, match="there is no file 'other'"):
        ramet.show(matcher(), "other")


def test_a_model_without_layers(tmp_path, capsys):
    x = keras.Input((3,), name="x")
    model = keras.Model(x, x, name="nothing")
    for suffix in (".html", ".svg"):
        ramet.show(model, to=tmp_path / f"model{suffix}")
    ramet.show(model, model, to=tmp_path / "both.html")
    ramet.show(model)
    assert "1 call, 0 parameters" in capsys.readouterr().out


def test_several_edges_between_two_calls_and_a_layer_on_itself(tmp_path):
    x = keras.Input((3,), name="x")
    again = layers.Dense(3, name="again")
    y = again(again(again(x)))
    model = keras.Model(x, layers.Add(name="sum")([y, y, y]), name="loops")
    ramet.show(model, to=tmp_path / "model.html")
    data = page_data(tmp_path / "model.html")
    assert sorted(nodes(data)) == ["again", "again#2", "again#3", "sum", "x"]
    assert len(data["views"][0]["edges"]) == 4


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_pictures_in_other_formats(tmp_path, monkeypatch, suffix, start):
    target = tmp_path / f"model{suffix}"
    ramet.show(matcher(), to=target)
    assert target.read_bytes().startswith(start)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ramet.ExtraError, match=r"vl-convert-python, .* or write an \.svg file"):
        ramet.show(matcher(), to=target)


def test_no_half_file_is_left(tmp_path, monkeypatch):
    path = tmp_path / "model.svg"
    path.write_text("old")

    def fails(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("pathlib.Path.replace", fails)
    with pytest.raises(ramet.FileError, match=r"'.*' cannot be written: the disk is full"):
        ramet.show(matcher(), to=path)
    assert [one.name for one in tmp_path.iterdir()] == ["model.svg"]
    assert path.read_text() == "old"


def test_the_model_is_not_changed(tmp_path):
    model = matcher()
    before = ramet.clone(model)
    ramet.show(model, to=tmp_path / "model.html")
    assert ramet.verify(before, model).ok

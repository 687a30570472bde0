"""The journal: short where people read it, whole where they ask for it."""

import json

import keras
import pytest
from keras import layers
from rich.cells import cell_len

import ramet


def chain(count: int = 4) -> keras.Model:
    tensor = start = keras.Input((8,), name="x")
    for number in range(count):
        tensor = layers.Dense(8, name=f"dense_{number}")(tensor)
        tensor = layers.ReLU(name=f"relu_{number}")(tensor)
    return keras.Model(start, tensor, name="net")


def block(x):
    return layers.ReLU()(ramet.any_layer(layers.Dense)(x))


def fused(x):
    return layers.Dense(8, activation="relu")(x)


@pytest.mark.parametrize(
    ("edit", "line", "promise"),
    [
        (
            lambda g: g.select(name="relu*").replace(lambda _: layers.PReLU()),
            "replace 4 layers 'relu*' (ReLU) with PReLU",
            "changed",
        ),
        (
            lambda g: g.select(kind="Dense").insert_after(lambda _: layers.Dropout(0.1)),
            "insert Dropout after 4 layers by kind=Dense",
            "inference-equal",
        ),
        (
            lambda g: g.select(kind="ReLU").insert_before(keras.ops.tanh),
            "insert function 'tanh' before 4 layers by kind=ReLU",
            "changed",
        ),
        (
            lambda g: g.select(regex="_[01]$").configure(trainable=False),
            "configure 4 layers by regex='_[01]$' (2 Dense, 2 ReLU): trainable=False",
            "inference-equal",
        ),
        (lambda g: g.select(kind="ReLU").remove(), "remove 4 layers by kind=ReLU", "changed"),
        (lambda g: g.select(name="dense*").freeze(), "freeze 4 layers 'dense*'", "inference-equal"),
        (lambda g: g.unfreeze(), "unfreeze all layers", "inference-equal"),
        (
            lambda g: g.rename({f"relu_{n}": f"r{n}" for n in range(4)} | {"dense_0": "d"}),
            "rename 'relu_0' to 'r0', 'relu_1' to 'r1', 'relu_2' to 'r2' and 2 more",
            "exact",
        ),
        (lambda g: g.prefix("a_"), "prefix 9 layers with 'a_'", "exact"),
        (
            lambda g: ramet.rewrite(g, block, fused),
            "rewrite 4 matches of block with fused",
            "changed",
        ),
    ],
)
def test_an_edit_of_many_places_is_one_line(edit, line, promise):
    graph = ramet.trace(chain())
    edited = edit(graph)
    (entry,) = edited.journal
    assert str(edited.journal).replace("\n  ", "") == f"1. {line} [{promise}]"
    assert entry.count == len(entry.parts) > 1
    unfolded = edited.journal.text(full=True).splitlines()
    assert unfolded[-len(entry.parts) :] == [f"   - {part}" for part in entry.parts]
    assert len({part.text for part in entry.parts}) == entry.count
    edited.build()


def test_an_edit_of_one_place_of_a_selection_names_the_place():
    graph = ramet.trace(chain()).select(name="relu_2").remove()
    assert str(graph.journal) == "1. remove 'relu_2' (ReLU) [changed]"
    assert graph.journal[0].parts == ()


def test_calls_are_counted_where_a_layer_has_several():
    x = keras.Input((4,))
    shared, other = layers.Dense(4, name="dense_a"), layers.Dense(4, name="dense_b")
    graph = ramet.trace(keras.Model(x, other(shared(shared(x)))))
    edited = graph.select(name="dense*").insert_after(lambda _: layers.ReLU())
    assert edited.journal[0].text == "insert ReLU after 3 calls of 2 layers 'dense*' (Dense)"


def test_edits_go_on_after_an_edit_of_many_places():
    graph = ramet.trace(chain()).rename({"dense_0": "first"})
    edited = graph.select(kind="ReLU").remove().freeze("first")
    assert [entry.count for entry in edited.journal] == [1, 4, 1]
    assert len(graph.journal) == 1


def test_an_error_blames_the_place_and_the_number_in_the_journal():
    graph = ramet.trace(chain()).freeze("dense_0")
    edited = graph.select(name="relu*").replace(lambda _: layers.Conv2D(3, 3))
    blamed = (
        r"this comes from edit 2, replace 'relu_0' \(ReLU\) with Conv2D 'conv2d\w*' "
        r"\(one of its 4 places\)"
    )
    with pytest.raises(ramet.RametError, match=blamed):
        edited.build()


def test_the_journal_is_data_and_html():
    graph = ramet.trace(chain()).select(name="relu*").remove().freeze("dense_0")
    told = json.loads(json.dumps(graph.journal.to_dict()))
    parts = [f"remove 'relu_{number}' (ReLU)" for number in range(4)]
    assert told["edits"] == [
        {
            "text": "remove 4 layers 'relu*' (ReLU)",
            "promise": "changed",
            "count": 4,
            "parts": parts,
        },
        {
            "text": "freeze 'dense_0' (Dense)",
            "promise": "inference-equal",
            "count": 1,
            "parts": [],
        },
    ]
    html = graph.journal._repr_html_()
    assert html.count("<details>") == 1
    assert html.count("<li>") == 2 + 4
    assert "&#x27;relu_3&#x27;" in html


def test_notes_stay():
    model = chain()
    model.compile("sgd", "mse")
    graph = ramet.trace(model).select(name="relu*").remove()
    assert graph.journal.notes
    assert str(graph.journal).endswith(f"note: {graph.journal.notes[-1]}")


def test_long_lines_are_folded_and_nothing_is_lost(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = "encoder_" + "x" * 90
    graph = ramet.trace(chain()).rename({"dense_0": long, "relu_0": "層" * 50})
    lines = str(graph.journal).splitlines()
    assert all(cell_len(line) <= 80 for line in lines)
    whole = "".join(line.strip() for line in lines)
    assert long in whole
    assert "層" * 50 in whole

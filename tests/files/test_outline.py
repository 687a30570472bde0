"""Files with classes that nobody has are looked at as far as they say what they hold."""

import keras
import pytest
from keras import layers

from ramet.errors import FileError
from ramet.files.description import outline
from test_cli import run  # noqa: F401 a fixture

pytestmark = pytest.mark.one_backend


@keras.saving.register_keras_serializable("lab")
class Twist(layers.Layer):
    """A layer with a weight and two outputs."""

    def build(self, shape):
        self.angle = self.add_weight(shape=(shape[-1], 3), name="angle")

    def call(self, x):
        return x @ self.angle, x

    def compute_output_spec(self, x):
        return keras.KerasTensor((*x.shape[:-1], 3), x.dtype), keras.KerasTensor(x.shape, x.dtype)


@keras.saving.register_keras_serializable("lab")
class Net(keras.Model):
    """A functional subclass."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outline")
    x = keras.Input((4,), name="x")
    first, second = Twist(name="twist")(layers.Dense(4, name="in")(x))
    y = layers.Concatenate(name="both")([first, second])
    inner_x = keras.Input((7,), name="inner_x")
    inner = Net(inner_x, Twist(name="last")(inner_x)[0], name="inner")
    model = Net(x, layers.Dense(2, name="head")(inner(y)), name="net")
    model.save(folder / "model.keras")
    keras.Sequential([keras.Input((3,)), layers.Dense(2)]).save(folder / "plain.keras")
    return folder


def test_an_outline_has_names_connections_and_weights(models):
    graph, foreign = outline(models / "model.keras")
    assert {layer.kind for layer in graph.layers.values()} >= {"Twist", "Net", "Dense"}
    assert graph.calls["both"].refs[0].call == "twist"
    assert [ref.index for ref in graph.calls["both"].refs] == [0, 1]
    assert graph.calls["twist"].outputs[0].shape == (None, 3)
    assert graph.layers["inner"].graph is not None
    assert any("Twist" in name for name in foreign)


def test_show_says_what_it_knows_and_loads_nothing(run):  # noqa: F811 the fixture
    text = run("show", "model.keras")
    assert "Twist" in text
    assert "this is an outline: " in text
    assert "To load the file, use --trust" in text
    data = run("show", "model.keras", "--json")
    (twist,) = (call for call in data["calls"] if call["name"] == "twist")
    assert twist["parameters"] == 12
    assert data["note"]
    assert "outline" not in run("show", "plain.keras")


def test_pages_of_outlines(run, models):  # noqa: F811 the fixture
    assert "outline" in run("show", "model.keras", "--to", models / "model.html")
    assert "Twist" in (models / "model.html").read_text(encoding="utf-8")
    run("show", "model.keras", "--to", models / "model.svg")


def test_other_commands_still_refuse(run):  # noqa: F811 the fixture
    assert "not part of Keras" in run("diff", "model.keras", "model.keras", code=2)
    assert "not part of Keras" in run("show", "model.keras", "plain.keras", code=2)
    assert "not part of Keras" in run("clone", "model.keras", "new.keras", code=2)


def test_what_has_no_graph_has_no_outline(tmp_path):
    @keras.saving.register_keras_serializable("lab")
    class Plain(keras.Model):
        def __init__(self, **options):
            super().__init__(**options)
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    model = Plain(name="plain")
    model(keras.ops.ones((1, 3)))
    model.save(tmp_path / "plain.keras")
    with pytest.raises(FileError, match="does not say how its layers are connected: a model of"):
        outline(tmp_path / "plain.keras")

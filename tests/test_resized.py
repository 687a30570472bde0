"""Other inputs for models with nested models, whose own inputs have fixed shapes."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.sampled

RANDOM = np.random.default_rng(0)


def data(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype("float32")


def backbone() -> Any:
    image = keras.Input((8, 8, 3), name="image")
    tensor = layers.Conv2D(4, 3, padding="same", name="conv")(image)
    tensor = layers.BatchNormalization(name="norm")(tensor)
    return keras.Model(image, layers.GlobalAveragePooling2D(name="pool")(tensor), name="back")


def preprocessing() -> Any:
    return keras.Sequential([keras.Input((8, 8, 3)), layers.Rescaling(0.5)], name="pre")


def images() -> Any:
    """Preprocessing, a backbone and a head."""
    start = keras.Input((8, 8, 3), name="in")
    return keras.Model(start, layers.Dense(2, name="head")(backbone()(preprocessing()(start))))


def deep() -> Any:
    """The same, in a model of its own."""
    start, inner = keras.Input((8, 8, 3), name="start"), images()
    return keras.Model(start, layers.Dense(2, name="last")(inner(start)), name="deep")


def sequences() -> Any:
    ids, start = (keras.Input((5,), dtype="int32", name=name) for name in ("ids", "start"))
    tensor = layers.Embedding(10, 4, mask_zero=True, name="embed")(ids)
    inner = keras.Model(ids, layers.LSTM(3, name="lstm")(tensor), name="inner")
    return keras.Model(start, layers.Dense(2, name="head")(inner(start)), name="outer")


def called_twice() -> Any:
    """One backbone for two inputs."""
    starts = [keras.Input((8, 8, 3), name=name) for name in ("one", "two")]
    inner = backbone()
    ends = [inner(each) for each in starts]
    return keras.Model(starts, layers.Add(name="sum")(ends), name="both")


def run(model: Any, x: Any) -> Any:
    return keras.ops.convert_to_numpy(model(x))


@pytest.mark.parametrize(
    ("make", "shape", "x"),
    [
        (images, (16, 16, 3), data(2, 16, 16, 3)),
        (images, (None, None, 3), data(2, 9, 7, 3)),
        (deep, (16, 12, 3), data(2, 16, 12, 3)),
        (deep, (None, None, 3), data(2, 9, 7, 3)),
        (sequences, (9,), RANDOM.integers(0, 10, (2, 9)).astype("int32")),
        (sequences, (None,), RANDOM.integers(0, 10, (2, 7)).astype("int32")),
    ],
)
def test_new_shapes_reach_nested_models(
    make: Callable[[], Any], shape: tuple[int | None, ...], x: Any, tmp_path: Any
) -> None:
    model = make()
    graph = ramet.trace(model)
    made = graph.with_inputs(shape=shape).build()
    want = run(graph.flatten().with_inputs(shape=shape).build(), x)
    np.testing.assert_allclose(run(made, x), want, rtol=1e-5, atol=1e-5)
    assert [type(layer) for layer in made.layers] == [type(layer) for layer in model.layers]
    assert [weight.path for weight in made.weights] == [weight.path for weight in model.weights]
    made.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(run(again, x), want, rtol=1e-5, atol=1e-5)
    if None in shape:
        return  # Inputs of any size stay so.
    same = ramet.trace(made).with_inputs(shape=model.input_shape[1:]).build()
    assert same.input_shape == model.input_shape
    for layer in same.layers[1:]:
        if isinstance(layer, keras.Model):
            assert layer.input_shape == model.get_layer(layer.name).input_shape


def test_inputs_of_nested_models_keep_their_names() -> None:
    made = ramet.trace(images()).with_inputs(shape=(16, 16, 3)).build()
    back = made.get_layer("back")
    assert [layer.name for layer in back.layers] == ["image", "conv", "norm", "pool"]
    assert back.input_shape == (None, 16, 16, 3)
    assert made.get_layer("pre").input_shape == (None, 16, 16, 3)


def test_what_is_inserted_may_change_the_shape() -> None:
    model, x = images(), data(2, 8, 8, 3)
    made = ramet.trace(model).insert_after("in", layers.UpSampling2D(name="up")).build()
    flat = ramet.trace(model).flatten().insert_after("in", layers.UpSampling2D(name="up")).build()
    np.testing.assert_allclose(run(made, x), run(flat, x), rtol=1e-5, atol=1e-5)
    assert made.get_layer("back").input_shape == (None, 16, 16, 3)


def test_a_batch_of_another_size_reaches_states_inside() -> None:
    start = keras.Input(batch_shape=(2, 5, 3), name="start")
    lstm = layers.LSTM(3, stateful=True, name="lstm")
    inner = keras.Sequential([keras.Input(batch_shape=(2, 5, 3)), lstm], name="inner")
    model = keras.Model(start, inner(start), name="outer")
    made = ramet.trace(model).with_inputs(batch_size=4).build()
    x = data(4, 5, 3)
    want = np.concatenate([run(ramet.clone(model), x[:2]), run(ramet.clone(model), x[2:])])
    np.testing.assert_allclose(run(made, x), want, rtol=1e-5, atol=1e-5)


def test_another_dtype_is_cast_by_the_nested_model() -> None:
    model = images()
    made = ramet.trace(model).with_inputs(dtype="float16").build()
    x = data(2, 8, 8, 3).astype("float16")
    np.testing.assert_allclose(run(made, x), run(model, x.astype("float32")), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("weights", ["copy", "share", "fresh"])
def test_a_model_that_is_called_twice_has_one_shape(weights: str) -> None:
    graph, x = ramet.trace(called_twice()), data(2, 16, 16, 3)
    both = {name: keras.Input((16, 16, 3)) for name in ("one", "two")}
    made = graph.with_inputs(both).build(weights=weights)
    assert made.get_layer("back").input_shape == (None, 16, 16, 3)
    if weights != "fresh":
        flat = graph.flatten().with_inputs(both).build()
        np.testing.assert_allclose(run(made, [x, x]), run(flat, [x, x]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("remedy", ["unshare", "flatten"])
def test_a_model_that_is_called_on_two_shapes_is_refused(name: str, remedy: str) -> None:
    graph = ramet.trace(called_twice())
    new = {name: keras.Input((16, 16, 3))}
    message = rf"'back' of graph 'both' would get .*{remedy}\('back'\)"
    with pytest.raises(ramet.GraphError, match=message):
        graph.with_inputs(new).build()
    made = getattr(graph, remedy)("back").with_inputs(new).build()
    x = [data(2, *shape[1:]) for shape in (tensor.shape for tensor in made.inputs)]
    assert run(made, x).shape == (2, 4)


def test_weights_that_do_not_fit_are_named_by_path() -> None:
    start = keras.Input((4,), name="start")
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(2, name="dense")], name="inner")
    graph = ramet.trace(keras.Model(start, inner(start), name="outer")).with_inputs(shape=(6,))
    with pytest.raises(ramet.GraphError, match=r"configure\('inner/dense', weights='grow'\)"):
        graph.build()
    made = graph.configure("inner/dense", weights="grow").build()
    assert made.get_layer("inner").input_shape == (None, 6)


def test_a_batch_that_was_not_known_before_is_no_news() -> None:
    start = keras.Input((5, 3), name="start")
    lstm = layers.LSTM(3, stateful=True, name="lstm")
    inner = keras.Sequential([keras.Input(batch_shape=(2, 5, 3)), lstm], name="inner")
    model = keras.Model(start, inner(start), name="outer")
    for graph in (
        ramet.trace(model).insert_after("start", layers.Activation("linear", name="same")),
        ramet.trace(keras.Model(start, layers.ReLU(name="r")(start))).insert_after("r", inner),
    ):
        assert graph.build().get_layer("inner").input_shape == (2, 5, 3)

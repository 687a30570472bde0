"""`Graph.stages`: cut for a pipeline, balanced, and the same as the model when composed."""

import itertools

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.graph import Graph
from ramet.profiling.stages import places


def composed(stages, data):
    """Return what stages compute, one after the other."""
    for stage in stages:
        data = stage(data)
    return data


def arrays(values):
    return [ops.convert_to_numpy(value) for value in keras.tree.flatten(values)]


def same(one, other):
    keras.tree.assert_same_structure(one, other)
    pairs = zip(arrays(one), arrays(other), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def residual():
    """A model whose skip connections cross every cut."""
    x = start = keras.Input((8,), name="x")
    for number in range(4):
        y = layers.Dense(8, activation="relu", name=f"up{number}")(x)
        x = layers.Add(name=f"add{number}")([x, layers.Dense(8, name=f"down{number}")(y)])
    out = layers.Concatenate(name="join")([x, start])
    return keras.Model(start, {"early": y, "last": layers.Dense(3, name="head")(out)}, name="net")


def masked():
    """A model whose masks are needed in later stages than those that make them."""
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 8, mask_zero=True, name="embedding")(tokens)
    y = layers.LSTM(8, return_sequences=True, name="one")(x)
    y = layers.Dropout(0.5, name="drop")(y)
    y = layers.Add(name="sum")([x, layers.GRU(8, return_sequences=True, name="two")(y)])
    y = layers.MultiHeadAttention(2, 4, name="attention")(y, x)
    y = layers.GlobalAveragePooling1D(name="pool")(y)
    return keras.Model(tokens, layers.Dense(2, name="head")(y), name="masked")


def nested():
    """A model with nested models, a shared layer, and two inputs, one of them used late."""
    x = keras.Input((8,), name="inner_x")
    block = keras.Model(x, layers.Dense(8, name="inner")(x), name="block")
    one, two = keras.Input((8,), name="one"), keras.Input((8,), name="two")
    tied = layers.Dense(8, name="tied")
    y = tied(block(tied(block(one))))
    return keras.Model([one, two], layers.Subtract(name="less")([y, two]), name="nested")


def data_of(model):
    rng = np.random.default_rng(0)
    data = [
        rng.integers(0, 9, (3, *x.shape[1:])).astype("int32")
        if x.dtype == "int32"
        else rng.normal(size=(3, *x.shape[1:])).astype("float32")
        for x in model.inputs
    ]
    return data[0] if len(data) == 1 else data


@pytest.mark.parametrize("make", [residual, masked, nested])
@pytest.mark.parametrize("count", [2, 4])
def test_composed_stages_are_the_model(make, count):
    model = make()
    graphs = ramet.trace(model).stages(count, by="params")
    assert [type(graph) for graph in graphs] == [Graph] * count
    stages = [graph.build() for graph in graphs]
    data = data_of(model)
    assert same(composed(stages, data), model(data))


@pytest.mark.sampled
def test_chained_stages_verify():
    model = residual()
    stages = [graph.build() for graph in ramet.trace(model).stages(3)]
    assert ramet.verify(model, ramet.chain(*stages).build(), only="outputs")


@pytest.mark.sampled
def test_stages_are_saved_and_loaded(tmp_path):
    model = masked()
    stages = []
    for number, graph in enumerate(ramet.trace(model).stages(3, by="params")):
        graph.build().save(tmp_path / f"{number}.keras")
        stages.append(keras.saving.load_model(tmp_path / f"{number}.keras"))
    assert same(composed(stages, data_of(model)), model(data_of(model)))


@pytest.mark.sampled
def test_stages_are_balanced():
    x = start = keras.Input((8,))
    for number, units in enumerate((64, 8, 8, 8, 64, 64, 8, 8)):
        x = layers.Dense(units, name=f"d{number}")(x)
    graph = ramet.trace(keras.Model(start, x))
    profile = ramet.profile(graph)
    for by in ("macs", "params", "memory"):
        parts = [ramet.profile(stage) for stage in graph.stages(2, by=by)]
        names = [[call.path for call in part.calls] for part in parts]
        assert [*itertools.chain(*names)] == [call.path for call in profile.calls]
        assert sum(part.macs for part in parts) == profile.macs
    # 'd5' takes two thirds of all.
    names = [[c.path for c in ramet.profile(s).calls] for s in graph.stages(3)]
    assert names == [["d0", "d1", "d2", "d3", "d4"], ["d5"], ["d6", "d7"]]


@pytest.mark.backend_free
def test_places_are_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(1, 9))
        n = int(rng.integers(1, count + 1))
        costs = [int(c) for c in rng.integers(0, 20, count)]
        crossing = [float(c) for c in rng.integers(1, 9, count + 1)]
        chosen = places(costs, crossing, n)

        def largest(cuts, costs=costs, count=count):
            ends = [0, *cuts, count]
            return max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))

        def bytes_of(cuts, crossing=crossing):
            return sum(crossing[cut] for cut in cuts)

        every = [*itertools.combinations(range(1, count), n - 1)]
        least = min(map(largest, every))
        fewest = [
            min(bytes_of(cuts) for cuts in every if largest(cuts) <= limit)
            for limit in (least, int(least * 1.1))
        ]
        assert len(chosen) == n - 1
        assert bytes_of(chosen) == fewest[1]
        assert (
            largest(chosen) == least if fewest[0] == fewest[1] else least * 1.1 >= largest(chosen)
        )


def test_cuts_are_where_few_bytes_cross():
    x = start = keras.Input((4, 4, 8))
    for number in range(2):
        y = layers.Conv2D(8, 3, padding="same", name=f"a{number}")(x)
        y = layers.Conv2D(8, 3, padding="same", name=f"b{number}")(y)
        x = layers.Add(name=f"add{number}")([x, y])
    first, second = ramet.trace(keras.Model(start, x)).stages(2)
    assert first.outputs.call == "add0"
    assert [ref.call for ref in keras.tree.flatten(second.inputs)] == ["add0"]


def test_a_layer_that_two_stages_call_is_noted():
    stages = ramet.trace(nested()).stages(4, by="params")
    notes = [note for stage in stages for note in stage.journal.notes]
    assert any("tied of graph 'nested' is called in several stages" in note for note in notes)
    assert str(stages[0].journal[-1]) == "stage 1 of 4: from 'block' to 'block'"
    built = [stage.build(weights="share") for stage in stages]
    values = {id(v.value) for model in built for v in model.weights if "tied" in v.path}
    assert len(values) == 2


@pytest.mark.sampled
def test_an_edited_graph():
    model = residual()
    graph = ramet.trace(model).insert_after("add1", layers.Dense(8, name="new"))
    graph = graph.replace("up0", lambda _: layers.Dense(16, name="wide"), weights="fresh")
    graph = graph.configure("down0", weights="grow")
    stages = [stage.build() for stage in graph.stages(3)]
    data = data_of(model)
    assert composed(stages, data)["last"].shape == (3, 3)
    assert graph.stages(1)[0].build()(data)["last"].shape == (3, 3)


class Own(layers.Layer):
    """A layer without a rule."""

    def call(self, x):
        return x * 2


def test_errors():
    graph = ramet.trace(residual())
    for n in (0, -1, 1.5, True, "2", None):
        with pytest.raises(ramet.errors.OptionError, match="n must be a positive number of stages"):
            graph.stages(n)
    with pytest.raises(ramet.errors.OptionError, match="unknown by='time'; expected one of 'macs'"):
        graph.stages(2, by="time")
    with pytest.raises(ramet.errors.GraphError, match=r"'net' has 14 calls, .* 99 stages; ask for"):
        graph.stages(99)
    with pytest.raises(
        ramet.errors.GraphError, match=r"not enough for 6 stages; inline its nested"
    ):
        ramet.trace(nested()).stages(6)
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, layers.Dense(2)(Own(name="own")(layers.Dense(4)(x))), name="own")
    with pytest.raises(
        ramet.errors.GraphError, match=r"are not known; pass shapes=\.\.\. for the in"
    ):
        ramet.trace(model).stages(2)
    with pytest.raises(
        ramet.errors.GraphError, match=r"of own of graph 'own' are not known; regis"
    ):
        ramet.trace(model).stages(2, shapes=(3, 4))
    assert len(ramet.trace(model).stages(2, by="params")) == 2


@pytest.mark.sampled
def test_tensors_without_axes_cannot_cross():
    x = keras.Input((4,), name="x")
    y = layers.Dense(4, name="one")(x)
    y = layers.Dense(4, name="two")(ops.multiply(ops.mean(y), y))
    graph = ramet.trace(keras.Model(x, y, name="scaled"))
    with pytest.raises(
        ramet.errors.GraphError, match="because tensors without axes cross the cuts"
    ):
        graph.stages(4, by="params")
    first, second = graph.stages(2, by="params")
    assert len(ramet.profile(first).calls) + len(ramet.profile(second).calls) == 4

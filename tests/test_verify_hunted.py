"""`verify` of models that hold more than graphs and tracked weights, and what it costs."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.comparing import counterparts

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]

ONES = np.ones((2, 4), "float32")


def chain(*parts, name="net") -> keras.Model:
    inputs = keras.Input((4,), name="x")
    x = inputs
    for layer in parts:
        x = layer(x)
    return keras.Model(inputs, x, name=name)


def lines(report, name) -> tuple[str, ...]:
    return report.check(name).differences


def both_ways(first, second, **options):
    """Verify in both orders, which must agree; return the report of the first."""
    there, back = (ramet.verify(*pair, **options) for pair in ((first, second), (second, first)))
    verdicts = [[check.verdict for check in report.checks] for report in (there, back)]
    assert verdicts[0] == verdicts[1], (there, back)
    return there


# --- cost ----------------------------------------------------------------------------


class Counted(layers.Layer):
    calls = 0

    def call(self, x):
        if not isinstance(x, keras.KerasTensor):
            type(self).calls += 1
        return x


def test_models_are_traced_once_and_called_twice(monkeypatch):
    traced = []
    trace = counterparts.trace
    monkeypatch.setattr(counterparts, "trace", lambda model: traced.append(model) or trace(model))
    model = chain(layers.Dense(4, name="d"), Counted(name="counted"))
    twin = ramet.clone(model)
    Counted.calls = 0
    assert ramet.verify(model, twin).ok
    assert traced == [model, twin]
    assert Counted.calls == 4  # for inference and for training


class Parts(layers.Layer):
    def __init__(self, names, **kwargs):
        super().__init__(**kwargs)
        self.parts = [layers.ReLU(name=name) for name in names]

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return x


def test_sublayers_are_paired_by_name_in_any_order(monkeypatch):
    names = [f"r{number}" for number in range(300)]
    model, twin = (chain(Parts(order, name="parts")) for order in (names, names[::-1]))
    asked = 0
    chosen = counterparts._chosen_name

    def counted(layer):
        nonlocal asked
        asked += 1
        return chosen(layer)

    monkeypatch.setattr(counterparts, "_chosen_name", counted)
    found = counterparts.pair(model, twin).layers
    assert {both.old.name for both in found if "parts/" in both.path} == {*names}
    assert all(both.old.name == both.new.name for both in found if "parts/" in both.path)
    assert asked == 2 * len(names)


# --- state that Keras does not track -------------------------------------------------


def stateful() -> keras.Model:
    inputs = keras.Input(batch_shape=(2, 3, 4), name="x")
    gru = layers.GRU(3, stateful=True, kernel_initializer="ones", seed=1, name="gru")
    return keras.Model(inputs, gru(inputs), name="net")


def test_the_states_of_a_stateful_layer_are_state():
    model = stateful()
    twin = ramet.clone(model)
    assert both_ways(model, twin).ok
    twin(np.ones((2, 3, 4), "float32"))
    report = both_ways(model, twin)
    (line,) = lines(report, "state")
    assert line.startswith("variable 'gru/states.0' differs in 6 of 6 values")
    found = report.first_divergence
    assert (found.call, found.cause, found.detail) == ("gru", "state", "states.0 differs")


class Helper:
    """An object that Keras does not look into."""

    def __init__(self):
        self.scale = keras.Variable(np.ones(4), name="scale")
        self.seen = []
        self.seed = keras.random.SeedGenerator(3)
        self.dense = layers.Dense(4, kernel_initializer="ones", name="hidden")
        self.dense.build((None, 4))


class Helped(layers.Layer):
    """A layer that notes its calls in all places that a layer can have."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.helper = Helper()
        self.calls, self.by_rank, self.total = [], {}, np.zeros(1)

    def call(self, x):
        if not isinstance(x, keras.KerasTensor):
            self.calls.append(len(x.shape))
            self.by_rank[len(x.shape)] = self.by_rank.get(len(x.shape), 0) + 1
            self.total += 1
            self.helper.seen.append(1)
            self.helper.last = len(self.helper.seen)
        return self.helper.dense(x) * self.helper.scale


def test_variables_in_objects_are_state():
    model = chain(Helped(name="helped"))
    for what, damage in {
        "helper.scale": lambda helper: helper.scale.assign(np.zeros(4)),
        "helper.dense.bias": lambda helper: helper.dense.bias.assign(np.ones(4)),
        "helper.seed.state": lambda helper: helper.seed.state.assign([5, 5]),
    }.items():
        twin = ramet.clone(model)
        assert both_ways(model, twin).ok
        damage(twin.get_layer("helped").helper)
        report = both_ways(model, twin)
        (line,) = lines(report, "state")
        assert line.startswith(f"variable 'helped/{what}' differs in "), line
        assert report.check("outputs").ok == (what == "helper.seed.state")


def notes(model):
    layer = model.get_layer("helped")
    helper = layer.helper
    kept = list(layer.calls), dict(layer.by_rank), layer.total.tolist(), list(helper.seen)
    return *kept, getattr(helper, "last", None)


def test_what_calls_note_is_taken_back():
    model = chain(Helped(name="helped"))
    twin = ramet.clone(model)
    twin.get_layer("helped").helper.scale.assign(np.zeros(4))  # so that calls are looked into
    before = [notes(each) for each in (model, twin)]
    assert ramet.verify(model, twin).first_divergence is not None
    assert [notes(each) for each in (model, twin)] == before


class Raw(layers.Layer):
    """A layer with a variable of the backend's own, written to in training."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        if keras.backend.backend() == "torch":
            import torch

            self.weight = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("mean", torch.zeros(4))
        elif keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            self.weight, self.mean = tf.Variable(tf.ones(4)), tf.Variable(tf.zeros(4))
        else:
            self.weight, self.mean = ops.ones(4), ops.zeros(4)

    def set(self, name, value):
        held = getattr(self, name)
        if hasattr(held, "assign"):
            held.assign(value)
        elif hasattr(held, "copy_"):
            held.data.copy_(ops.convert_to_tensor(value))
        else:
            setattr(self, name, ops.convert_to_tensor(value))

    def call(self, x, training=None):
        if training and not isinstance(x, keras.KerasTensor):
            self.set("mean", ops.convert_to_numpy(self.mean) + 1.0)
        return x * ops.convert_to_tensor(self.weight) + ops.convert_to_tensor(self.mean)

    def compute_output_shape(self, shape):
        return shape


def test_variables_of_the_backend_are_found_and_not_changed():
    model = chain(Raw(name="raw"))
    for name in ("weight", "mean"):
        twin = ramet.clone(model)
        assert both_ways(model, twin).ok
        twin.get_layer("raw").set(name, np.full(4, 3.0, "float32"))
        report = both_ways(model, twin)
        assert not report.check("outputs").ok
        told = (*lines(report, "structure"), *lines(report, "state"))
        assert len(told) == 1
        assert "'raw" in told[0]
        assert name in told[0]
        assert (report.first_divergence.call, name in report.first_divergence.detail) == (
            "raw",
            True,
        )
    assert not ops.convert_to_numpy(model.get_layer("raw").mean).any()


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="a module of PyTorch")
def test_buffers_of_modules_are_state():
    import torch

    class Normed(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.norm = torch.nn.BatchNorm1d(4)

        def call(self, x):
            return self.norm(x)

        def compute_output_shape(self, shape):
            return shape

    model = chain(Normed(name="normed"))
    twin = ramet.clone(model)
    assert both_ways(model, twin).ok
    twin.get_layer("normed").norm.module.running_mean.fill_(2.0)
    twin.get_layer("normed").norm.module.eval()
    report = both_ways(model, twin)
    (line,) = lines(report, "state")
    assert line.startswith("variable 'normed/norm/module.running_mean' differs in 4 of 4"), line
    assert not any("UEsDB" in line for check in report.checks for line in check.differences)
    twin = ramet.clone(model)
    twin.get_layer("normed").norm.module.momentum = 0.5
    (line,) = lines(ramet.verify(model, twin), "structure")
    assert line == "layer 'normed/norm' has module.momentum 0.1 and 0.5"


# --- what is held as one -------------------------------------------------------------


class Holder(layers.Layer):
    def __init__(self, *, split, **kwargs):
        super().__init__(**kwargs)
        self._two = split
        self.a = layers.Dense(4, kernel_initializer="ones", name="d")
        self.b = layers.Dense(4, kernel_initializer="ones", name="d") if split else self.a
        self.parts = {"p": [layers.ReLU(name="r")]}
        self.parts["q"] = [layers.ReLU(name="r")] if split else [self.parts["p"][0]]

    def build(self, shape):
        self.v = self.add_weight(shape=(4,), initializer="ones", name="v")
        self.w = self.add_weight(shape=(4,), initializer="ones", name="w") if self._two else self.v
        for layer in (self.a, self.b):
            if not layer.built:
                layer.build(shape)

    def call(self, x):
        return self.b(self.a(x)) * self.v + self.w


def test_what_is_held_by_two_attributes_is_shared():
    one, two = (chain(Holder(split=split, name="holder")) for split in (False, True))
    for pair, sides in (((one, two), ("first", "second")), ((two, one), ("second", "first"))):
        found = lines(ramet.verify(*pair), "sharing")
        assert len(found) == 3, found
        start = f"is one in the {sides[0]} model, and 2 in the {sides[1]}"
        assert f"layer 'holder/a' {start}: 'holder/a', 'holder/b'" in found
        assert f"variable 'holder/v' {start}: 'holder/v', 'holder/w'" in found
    assert both_ways(one, ramet.clone(one)).ok
    assert both_ways(two, ramet.clone(two)).ok


# --- losses --------------------------------------------------------------------------


class Penalty(layers.Layer):
    """A layer that adds to the loss, by a factor that is no attribute of its own."""

    factors: dict = {}  # noqa: RUF012  set from outside, as a global would be

    def call(self, x):
        factor = self.factors.get(id(self), 1.0)
        if factor:
            self.add_loss(factor * ops.mean(ops.square(x)))
        return x


def test_losses_that_layers_add_are_compared_in_training():
    model = chain(layers.Dense(4, name="d"), Penalty(name="penalty"))
    twin = ramet.clone(model)
    assert both_ways(model, twin).ok
    Penalty.factors[id(twin.get_layer("penalty"))] = 2.0
    report = both_ways(model, twin)
    (line,) = lines(report, "training")
    assert line.startswith("the loss of layer 'penalty' differs in 1 of 1 values, by ")
    assert report.check("outputs").ok
    assert ramet.verify(model, twin, only="training", atol=1e3).ok
    Penalty.factors[id(twin.get_layer("penalty"))] = 0.0
    text = "layer 'penalty' adds 1 and 0 terms to the loss"
    assert lines(ramet.verify(model, twin), "training") == (text,)
    plain = ramet.trace(model).remove("penalty").build()
    text = "the loss of layer 'penalty' is in the first model only"
    assert lines(ramet.verify(model, plain), "training") == (text,)
    assert model.losses == []
    Penalty.factors.clear()


def test_a_regularizer_of_activity_is_a_loss():
    def regularized(rate):
        made = chain(layers.ActivityRegularization(l2=rate, name="a"))
        made.get_layer("a").activity_regularizer = keras.regularizers.L2(rate)
        return made

    assert both_ways(regularized(0.5), regularized(0.5)).ok
    (line,) = lines(both_ways(regularized(0.5), regularized(0.25)), "training")
    assert line.startswith("the loss of layer 'a' differs")


# --- edited graphs -------------------------------------------------------------------


def two_heads(*, keyed=False) -> keras.Model:
    inputs = keras.Input((4,), name="x")
    trunk = layers.BatchNormalization(name="bn")(layers.Dense(4, name="trunk")(inputs))
    heads = {name: layers.Dense(2, name=name)(trunk) for name in ("p", "q")}
    return keras.Model(inputs, heads if keyed else [*heads.values()], name="net")


@pytest.mark.parametrize("keyed", [False, True])
def test_only_outputs_that_an_edit_reaches_are_excused(keyed):
    model = two_heads(keyed=keyed)
    edited = ramet.trace(model).configure("p", activation="relu")
    report = ramet.verify(model, edited)
    assert report.ok
    assert [line.partition(" differs")[0] for line in report.check("outputs").expected] == [
        "output 'p'"
    ]
    other = ramet.clone(model)
    other.get_layer("q").bias.assign([1.0, 2.0])
    for pair in ((other, edited), (edited, other)):
        report = ramet.verify(*pair)
        (line,) = lines(report, "outputs")
        assert line.startswith("output 'q' differs")
        assert not report.ok
    other = ramet.clone(model)
    other.get_layer("bn").momentum = 0.5
    report = ramet.verify(other, edited)
    assert [line.partition(" differs")[0] for line in lines(report, "training")] == [
        "updated variable 'bn/moving_mean'",
        "updated variable 'bn/moving_variance'",
    ]


def test_other_outputs_are_excused_and_the_rest_is_not():
    model = two_heads(keyed=True)
    graph = ramet.trace(model)
    added = graph.add_output("trunk", name="t")
    for edited in (added, graph.rename({"q": "other"}), graph.flatten()):
        assert ramet.verify(model, edited).ok
        damaged = ramet.clone(model)
        damaged.get_layer("q").bias.assign([1.0, 2.0])
        assert not ramet.verify(damaged, edited).check("outputs").ok


# --- failures ------------------------------------------------------------------------


class Fails(layers.Layer):
    broken = False

    def call(self, x):
        if self.broken:
            message = "boom"
            raise KeyError(message)
        return x


def test_models_that_both_fail_are_not_called_the_same():
    model = chain(layers.Dense(4, name="a"), Fails(name="fails"))
    model.get_layer("fails").broken = True
    told = "both models fail on the given inputs in layer 'fails': KeyError: 'boom'; pass inputs"
    with pytest.raises(ramet.RametError, match=told):
        ramet.verify(model, model, inputs=ONES)
    check = ramet.verify(model, model).check("outputs")
    assert (check.verdict, "in layer 'fails': KeyError: 'boom'" in check.scope) == (
        "not checked",
        True,
    )
    with pytest.raises(ramet.RametError, match="both models fail on the given inputs"):
        ramet.verify(two_heads(), two_heads(), inputs=np.ones((2, 7)))


class Keyed(keras.Model):
    """A model that returns what only its user understands."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.d = layers.Dense(3, kernel_initializer="ones", name="d")

    def call(self, x):
        y = self.d(x)
        return {"a": y, 1: y + 1.0, "none": None, "number": 3, "word": "hi"}


def test_any_structure_may_be_returned():
    first, second = (Keyed(name="keyed") for _ in range(2))
    for model in (first, second):
        model.d.build((None, 4))
    assert both_ways(first, second, inputs=ONES).ok
    second.d.bias.assign(np.ones(3))
    found = lines(both_ways(first, second, inputs=ONES), "outputs")
    assert [line.partition(" differs")[0] for line in found] == ["output '1'", "output 'a'"]


# --- words ---------------------------------------------------------------------------


def sliced(tuple_=tuple) -> keras.Model:
    inputs = keras.Input((4,), name="x")
    y = layers.Dense(3, kernel_initializer="ones", name="d")(inputs)
    return keras.Model(inputs, tuple_([y, y[:, 1:3]]), name="net")


def test_lists_and_tuples_are_told_apart():
    (line,) = [each for each in lines(ramet.verify(sliced(), sliced(list)), "structure")
               if "outputs" in each]  # fmt: skip
    assert line.startswith("the model has outputs ('d', 'get_item")
    assert " and ['d', 'get_item" in line


def test_a_loaded_lambda_is_the_same_function(tmp_path):
    model = chain(layers.Lambda(lambda x, by: x * by, arguments={"by": 3.0}, name="lambda"))
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras", safe_mode=False)
    assert both_ways(model, loaded, only="structure").ok


def trained(optimizer) -> keras.Model:
    model = chain(layers.Dense(3, kernel_initializer="ones", name="d"))
    model.compile(optimizer, "mse")
    model.fit(ONES, np.zeros((2, 3)), verbose=0)
    return model


def test_optimizers_inside_others_are_named_by_what_they_are():
    def scaled(rate=0.1, **options):
        return trained(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(rate), **options))

    assert both_ways(scaled(), scaled()).ok
    (line,) = lines(both_ways(scaled(), scaled(dynamic_growth_steps=7)), "structure")
    assert line == "the model was compiled with optimizer.dynamic_growth_steps 2000 and 7"
    model, plain = trained(keras.optimizers.Adam(0.1)), trained(keras.optimizers.SGD(0.1))
    found = lines(both_ways(model, plain), "state")
    assert "optimizer variable 'momentums of d/kernel' is in the first model only" in found


class Untold(keras.optimizers.SGD):
    """An optimizer that keeps its slots where nobody looks."""

    def build(self, variables):
        super().build(variables)
        slots = [self.add_variable_from_reference(v, "slot") for v in variables]
        self.slots = {"all": slots}


def test_slots_of_an_optimizer_that_is_not_known_are_paired():
    first, second = trained(Untold(0.1)), trained(Untold(0.1))
    assert both_ways(first, second).check("state").ok
    second.optimizer.slots["all"][1].assign(np.ones(3))
    (line,) = lines(both_ways(first, second), "state")
    assert line.startswith("optimizer variable '"), line
    assert "slot" in line


def cut_out() -> keras.Model:
    whole = chain(layers.Dense(4, name="a"), layers.Dense(3, kernel_initializer="ones", name="b"))
    return keras.Model(whole.get_layer("a").output, whole.get_layer("b").output, name="net")


def test_inputs_that_keras_named_where_a_model_was_cut_are_automatic():
    (line,) = lines(both_ways(cut_out(), cut_out()), "structure")
    assert line.startswith("1 automatic name differs: 'keras_tensor")


# --- models that are not built -------------------------------------------------------


def test_models_that_are_built_by_the_call_part_somewhere():
    def unbuilt(value):
        start = keras.initializers.Constant(value)
        parts = [layers.ReLU(name="r"), layers.Dense(3, kernel_initializer=start, name="d")]
        return keras.Sequential(parts, name="s")

    first, second = unbuilt(1.0), unbuilt(2.0)
    assert both_ways(first, unbuilt(1.0), inputs=ONES).ok
    report = both_ways(first, second, inputs=ONES)
    assert report.first_divergence.call == "d"
    assert not first.built
    assert not first.layers[1].built


@pytest.mark.parametrize("at", ["norm", "inner/norm", "inner"])
def test_a_frozen_normalization_trains_otherwise_as_was_asked_for(at):
    start = keras.Input((4,))
    inner = keras.Model(start, layers.BatchNormalization(name="norm")(start), name="inner")
    x = keras.Input((4,))
    before = layers.Dense(3, name="before")(x)
    y = inner(layers.BatchNormalization(name="norm")(layers.Dense(4)(x)))
    model = keras.Model(x, [before, y, layers.Dense(2, name="after")(y)])
    graph = ramet.trace(model)
    for edited in (graph.freeze(at), graph.configure(at, trainable=False)):
        assert ramet.verify(model, edited).ok
    built = graph.freeze(at).build()
    built.get_layer("before").set_weights([np.ones((4, 3)), np.ones(3)])
    for aspect in ("outputs", "training"):
        (line,) = lines(ramet.verify(ramet.clone(built), graph.freeze(at)), aspect)
        assert "output 'before'" in line


def test_what_freeze_asked_for_is_expected():
    model = two_heads()
    report = ramet.verify(model, ramet.trace(model).freeze("trunk"))
    assert report.ok, report
    assert len(report.check("state").expected) == 2
    frozen = ramet.clone(model)
    frozen.get_layer("p").trainable = False
    (*_, line) = lines(ramet.verify(frozen, ramet.trace(model).freeze("trunk")), "state")
    assert line == "variable 'p/bias' has trainable False and True"


def test_lists_of_other_lengths_are_counted():
    first, second = (chain(Parts(names, name="parts")) for names in (["a"], ["a", "b"]))
    assert "layer 'parts' has parts 1 item and 2 items" in lines(
        both_ways(first, second), "structure"
    )


@pytest.mark.parametrize("option", ["rtol", "atol"])
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_tolerances_are_checked(option, value):
    with pytest.raises(ramet.RametError, match=f"{option} must be a number of at least 0, got"):
        ramet.verify(two_heads(), two_heads(), **{option: value})


def test_a_part_returns_what_it_was_asked_for():
    source = two_heads()
    swapped = (
        ramet.trace(source).extract(outputs=["q", "p"]).insert_after("q", layers.ReLU(name="relu"))
    )
    report = ramet.verify(source, swapped)
    assert report.ok, report
    other = ramet.clone(source)
    other.get_layer("p").bias.assign(other.get_layer("p").bias + 1.0)
    assert not ramet.verify(other, ramet.trace(source).extract(outputs=["p", "q"])).ok


def test_what_a_layer_updates_in_fewer_calls_is_explained():
    inputs = keras.Input((4,), name="x")
    norm = layers.BatchNormalization(name="norm")
    model = keras.Model(inputs, [norm(inputs), norm(layers.Dense(4, name="dense")(inputs))])
    report = ramet.verify(model, ramet.trace(model).unshare("norm"))
    assert report.ok, report


def test_calls_that_are_renumbered_are_those_that_edits_reached():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    shared = layers.Dense(4, name="shared")
    first = shared(a)
    model = keras.Model([a, b], [shared(first), shared(b)])
    graph = ramet.trace(model).rewire("shared#1", 0, "shared#3")
    report = ramet.verify(model, graph.insert_after("shared#1", layers.ReLU(name="relu")))
    assert report.ok, report

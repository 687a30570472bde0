"""Everyday models, and what can be changed in one of two: each with what a report has to say."""
# ruff: noqa: E501  one line for each change

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers, ops

SCALE = 2.0
"""A global that a function reads."""


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Options:
    rate: float = 0.5
    names: list = dataclasses.field(default_factory=lambda: ["a"])


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    rate: float = 0.5


class Slotted:
    __slots__ = ("rate", "unset")

    def __init__(self, rate):
        self.rate = rate


class Reduced:
    """Says itself what it is made of."""

    def __init__(self, rate):
        self.rate = rate

    def __reduce__(self):
        return Reduced, (self.rate,)


class Stated:
    """Returns its state as it likes."""

    def __init__(self, rate):
        self.rate, self.cache = rate, object()

    def __getstate__(self):
        return {"rate": self.rate}


class Plain:
    def __init__(self, **held):
        vars(self).update(held)


class NoConfigInitializer(keras.initializers.Initializer):
    def __init__(self, value):
        self._value = value

    def __call__(self, shape, dtype=None, **_):
        return ops.full(shape, self._value, dtype=dtype)


class NoConfigRegularizer(keras.regularizers.Regularizer):
    def __init__(self, rate):
        self._rate = rate

    def __call__(self, x):
        return self._rate * ops.sum(ops.abs(x))


class NoConfigConstraint(keras.constraints.Constraint):
    def __init__(self, most):
        self._most = most

    def __call__(self, w):
        return ops.clip(w, -self._most, self._most)


class NoConfigLoss(keras.losses.Loss):
    def __init__(self, power):
        super().__init__(name="own")
        self._power = power

    def call(self, y_true, y_pred):
        return ops.mean(ops.abs(y_true - y_pred) ** self._power)


class NoConfigSchedule(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate):
        self._rate = rate

    def __call__(self, step):
        return self._rate / (1.0 + ops.cast(step, "float32"))

    def get_config(self):
        return {}


class NoConfigMetric(keras.metrics.Metric):
    def __init__(self, above):
        super().__init__(name="own_metric")
        self._above = above
        self.seen = self.add_variable((), "zeros", name="seen")

    def update_state(self, y_true, y_pred, sample_weight=None):
        del y_true, sample_weight
        self.seen.assign_add(ops.sum(ops.cast(y_pred > self._above, "float32")))

    def result(self):
        return ops.convert_to_tensor(self.seen)


class OwnOptimizer(keras.optimizers.Optimizer):
    """An optimizer with options and slots of its own, in places that Keras does not know."""

    def __init__(self, learning_rate=0.1, *, damping=0.5, name="own"):
        super().__init__(learning_rate=learning_rate, name=name)
        self._damping = damping
        self.traces = {}
        self.table = np.zeros(3)

    def build(self, variables):
        super().build(variables)
        self.traces = {v.path: self.add_variable_from_reference(v, "trace") for v in variables}
        self.hidden = Plain(step=keras.Variable(0.0, trainable=False, name="hidden_step"))

    def update_step(self, gradient, variable, learning_rate):
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * gradient)


class Everything(layers.Layer):
    """A layer that computes something simple, whatever it holds."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._factor = 1.0
        self.helper = Plain(
            rate=0.5,
            scale=keras.Variable(np.ones(4, "float32"), name="scale"),
            dense=built(layers.Dense(4, kernel_initializer="ones", name="untracked")),
            deep=Plain(deeper=[Plain(last=1)]),
        )
        self.function = scaled_by(2.0)
        self.dense_function = reaching(built(layers.Dense(4, name="closed")))
        self.part = functools.partial(multiply, by=3.0)
        self.tags, self.frozen_tags = {"a", "b"}, frozenset({1, 2})
        self.color, self.level = Color.RED, Level.LOW
        self.cut, self.number = slice(0, 3), 1 + 2j
        self.point, self.options, self.frozen = Point(1, [2]), Options(), Frozen()
        self.recent = collections.deque([1, 2, 3], maxlen=3)
        self.counts = collections.Counter("aab")
        self.grouped = collections.defaultdict(list, a=[1])
        self.ordered = collections.OrderedDict(a=1, b=2)
        self.table = {"a": 1, "b": {"c": [1.0, 2.0]}, 3: "x", (1, 2): "tuple"}
        self.numpy_scalar = np.float32(0.5)
        self.array = np.arange(6.0).reshape(2, 3)
        self.objects = np.array([1, "a", None], dtype=object)
        self.date = dt.date(2024, 1, 2)
        self.delta = dt.timedelta(seconds=5)
        self.amount = decimal.Decimal("1.50")
        self.ratio = fractions.Fraction(1, 3)
        self.pattern = re.compile("a+b")
        self.folder = PurePosixPath("data/x")
        self.slotted, self.reduced, self.stated = Slotted(1), Reduced(1), Stated(1)
        self.zero, self.count, self.flag = 0.0, 1, True
        self.text, self.bytes = "abc", b"abc"
        self.kind = int
        self.nested = [[1, [2, {"x": 3}]]]
        self.pair = (1, [2, 3])
        self.span = range(3)
        self.kernel_regularizer = NoConfigRegularizer(0.1)
        self.tensor = ops.ones(3)
        self.method = self.helper.deep.deeper.copy
        self.generator = np.random.default_rng(3)
        self.cached = functools.lru_cache(maxsize=3)(multiply)
        self.empty = None
        self.cycle = Plain(items=[])
        self.cycle.items.append(self.cycle.items)
        self.mean_of = keras.metrics.Mean(name="mean_of")
        self.draw = keras.random.SeedGenerator(5, name="draw")

    def build(self, shape):
        self.w = self.add_weight(
            shape=(4,), initializer="ones", name="w", regularizer=keras.regularizers.L2(0.1),
            constraint=NoConfigConstraint(3.0),
        )  # fmt: skip
        self.penalties = Plain(weight=keras.Variable(0.5, name="penalty", trainable=False))
        super().build(shape)

    def call(self, x):
        self.add_loss(self.penalties.weight * ops.mean(ops.abs(x)))
        return x * self.w * self._factor


def built(layer):
    layer.build((None, 4))
    return layer


def scaled_by(by, *, default=1.0):
    def scaled(x, add=default):
        return x * by * SCALE + add

    return scaled


def reaching(layer):
    return lambda x: layer(x)


def multiply(x, by=1.0):
    return x * by


def everyday() -> keras.Model:
    """A model with a layer of everything, compiled with classes of a user."""
    inputs = keras.Input((4,), name="x")
    x = layers.Dense(
        4,
        name="dense",
        kernel_initializer=NoConfigInitializer(0.5),
        kernel_regularizer=NoConfigRegularizer(0.1),
        activity_regularizer=NoConfigRegularizer(0.2),
        kernel_constraint=NoConfigConstraint(2.0),
    )(inputs)
    x = layers.Lambda(scaled_by(0.5), name="lambda")(x)
    x = layers.BatchNormalization(name="bn")(x)
    x = layers.Dropout(0.5, seed=3, name="drop")(x)
    x = Everything(name="all")(x)
    model = keras.Model(inputs, layers.Dense(2, name="head")(x), name="everyday")
    model.compile(
        OwnOptimizer(NoConfigSchedule(0.1)),
        NoConfigLoss(2.0),
        metrics=[NoConfigMetric(0.5)],
        loss_weights=[1.0],
        run_eagerly=True,  # a variable that Keras does not track is none for a compiled function
    )
    model.fit(np.ones((2, 4)), np.zeros((2, 2)), verbose=0)
    optimizer = model.optimizer
    optimizer._exclude_from_weight_decay = {optimizer._var_key(v) for v in model.weights[:2]}
    model.notes = {"author": "a"}
    return model


Change = Callable[[Any], Any]

PERTURBATIONS: dict[str, tuple[Change, str, str]] = {}
"""Changes by name: what is done, the aspect that must differ, and what one line must say."""


def perturb(name: str, aspect: str, line: str, change: Change) -> None:
    assert name not in PERTURBATIONS, name
    PERTURBATIONS[name] = change, aspect, line


def held(path: str, value: Any) -> Change:
    """Return what sets an attribute of the layer of everything, or deeper inside it."""
    *steps, last = path.split(".")

    def change(model):
        owner = model.get_layer("all")
        for step in steps:
            owner = owner[int(step)] if step.isdigit() else getattr(owner, step)
        object.__setattr__(owner, last, value)

    return change


def of(layer: str, change: Change) -> Change:
    return lambda model: change(model.get_layer(layer))


ATTRIBUTES = {
    "_factor": (0.5, "_factor 1.0 and 0.5"),
    "helper.rate": (0.25, "helper.rate 0.5 and 0.25"),
    "helper.deep.deeper.0.last": (2, "helper.deep.deeper.0.last 1 and 2"),
    "helper.new": (1, "helper.new absent and 1"),
    "function": (scaled_by(3.0), "closure 'by' of function 2.0 and 3.0"),
    "part": (functools.partial(multiply, by=4.0), "part.keywords.by 3.0 and 4.0"),
    "cached": (functools.lru_cache(maxsize=4)(multiply), "cached"),
    "color": (Color.BLUE, "color Color.RED and Color.BLUE"),
    "level": (Level.HIGH, "level"),
    "cut": (slice(0, 4), "cut slice(0, 3, None) and slice(0, 4, None)"),
    "number": (1 + 3j, "number (1+2j) and (1+3j)"),
    "point": (Point(2, [2]), "point.x 1 and 2"),
    "options": (Options(names=["b"]), "options.names ['a'] and ['b']"),
    "frozen": (Frozen(0.25), "frozen.rate 0.5 and 0.25"),
    "numpy_scalar": (np.float32(0.25), "numpy_scalar"),
    "numpy_scalar as float64": (np.float64(0.5), "numpy_scalar"),
    "numpy_scalar as float": (0.5, "numpy_scalar"),
    "array": (np.zeros((2, 3)), "array float64[2, 3] and another float64[2, 3]"),
    "array as float32": (np.arange(6, dtype="float32").reshape(2, 3), "array float64[2, 3] and"),
    "objects": (np.array([1, "b", None], dtype=object), "objects"),
    "date": (dt.date(2025, 1, 2), "date datetime.date(2024, 1, 2) and datetime.date(2025"),
    "delta": (dt.timedelta(seconds=6), "delta datetime.timedelta(seconds=5) and"),
    "amount": (decimal.Decimal("1.5"), "amount Decimal('1.50') and Decimal('1.5')"),
    "ratio": (fractions.Fraction(2, 3), "ratio Fraction(1, 3) and Fraction(2, 3)"),
    "pattern": (re.compile("a+b", re.IGNORECASE), "pattern re.compile('a+b') and"),
    "folder": (PurePosixPath("data/y"), "folder"),
    "slotted": (Slotted(2), "slotted.rate 1 and 2"),
    "reduced": (Reduced(2), "reduced 1 and 2"),
    "stated": (Stated(2), "stated.rate 1 and 2"),
    "zero": (-0.0, "zero 0.0 and -0.0"),
    "zero as int": (0, "zero 0.0 and 0"),
    "count": (1.0, "count 1 and 1.0"),
    "count as bool": (True, "count 1 and True"),
    "flag": (1, "flag True and 1"),
    "text": ("abd", "text 'abc' and 'abd'"),
    "bytes": (b"abd", "bytes b'abc' and b'abd'"),
    "text as bytes": (b"abc", "text 'abc' and b'abc'"),
    "kind": (float, "kind int and float"),
    "span": (range(4), "span range(0, 3) and range(0, 4)"),
    "pair": ((1, [2, 4]), "pair.1 [2, 3] and [2, 4]"),
    "empty": (0, "empty None and 0"),
    "tensor": (ops.zeros(3), "tensor float32[3] and another float32[3]"),
    "generator": (np.random.default_rng(4), "generator"),
    "method": ([1].copy, "method"),
}  # fmt: skip

for _name, (_value, _line) in ATTRIBUTES.items():
    perturb(_name, "structure", f"layer 'all' has .*{re.escape(_line)}",
            held(_name.partition(" as ")[0], _value))  # fmt: skip


INSIDE = {
    "tags": (lambda x: x.tags.add("c"), "tags"),
    "frozen_tags": (lambda x: held_set(x, "frozen_tags", frozenset({1, 3})), "frozen_tags"),
    "frozen_tags as float": (lambda x: held_set(x, "frozen_tags", frozenset({1, 2.0})), "frozen_t"),
    "recent": (lambda x: x.recent.append(4), "recent"),
    "recent length": (lambda x: held_set(x, "recent", collections.deque([1, 2, 3])), "recent"),
    "counts": (lambda x: x.counts.__setitem__("b", 2), "counts.b 1 and 2"),
    "grouped": (lambda x: x.grouped["a"].append(2), "grouped.a [1] and [1, 2]"),
    "grouped default": (lambda x: setattr(x.grouped, "default_factory", set), "grouped"),
    "ordered": (lambda x: x.ordered.move_to_end("a"), "order of ordered ['a', 'b'] and ['b', 'a']"),
    "table": (lambda x: x.table.update({"a": 2}), "table.a 1 and 2"),
    "table deep": (lambda x: x.table["b"].update({"c": [1.0, 3.0]}), "table.b.c [1.0, 2.0] and [1.0, 3"),
    "table key": (lambda x: x.table.update({4: "y"}), "table[4] absent and 'y'"),
    "table order": (lambda x: x.table.update({"a": x.table.pop("a")}), "order of table"),
    "table int key": (lambda x: x.table.update({"3": x.table.pop(3)}), "table[3] 'x' and absent"),
    "nested": (lambda x: x.nested[0][1][1].update({"x": 4}), "nested.0.1.1.x 3 and 4"),
    "array item": (lambda x: x.array.__setitem__((0, 0), -0.0), "array"),
    "partial of another": (
        lambda x: held_set(x, "part", functools.partial(scaled_by(1.0), by=3.0)), "part"),
    "method of another": (
        lambda x: held_set(x, "method", x.nested.copy), "method"),
    "own metric of a layer": (lambda x: setattr(x.mean_of, "dtype_note", 1), "mean_of.dtype_note"),
}  # fmt: skip


def held_set(layer, name, value):
    object.__setattr__(layer, name, value)


for _name, (_change, _line) in INSIDE.items():
    perturb(_name, "structure", f"layer 'all' has .*{re.escape(_line)}", of("all", _change))


def value_of(variable):
    return variable.assign(variable + 1)


STATE = {
    "a variable in a helper": (of("all", lambda x: value_of(x.helper.scale)),
                               "variable 'all/helper.scale' differs in 4 of 4"),
    "an untracked layer": (of("all", lambda x: value_of(x.helper.dense.bias)),
                           "variable 'all/helper.dense.bias' differs in 4 of 4"),
    "a weight behind add_loss": (of("all", lambda x: value_of(x.penalties.weight)),
                                 "variable 'all/penalties.weight' differs in 1 of 1"),
    "a layer in a closure": (
        of("all", lambda x: value_of(x.dense_function.__closure__[0].cell_contents.bias)),
        "variable 'all/closure 'layer' of dense_function.bias' differs"),
    "a seed": (of("drop", lambda x: x.seed_generator.state.assign([1, 1])), "variable 'drop/seed'"),
    "a seed of the user's": (of("all", lambda x: x.draw.state.assign([1, 1])),
                             "variable 'all/seed' differs in 2 of 2"),
    "a metric of a layer": (of("all", lambda x: value_of(x.mean_of.total)),
                            "metric 'mean_of/total' differs"),
    "a metric": (lambda m: [value_of(v) for x in m.metrics for v in x.variables if "seen" in v.path],
                 "metric 'own_metric/seen' differs in 1 of 1"),
    "a slot of an own optimizer": (
        lambda m: value_of(next(iter(m.optimizer.traces.values()))), "optimizer variable '"),
    "a hidden variable of an optimizer": (
        lambda m: value_of(m.optimizer.hidden.step), "optimizer variable 'optimizer.hidden.step'"),
    "iterations": (lambda m: value_of(m.optimizer.iterations), "optimizer variable 'iterations' differs"),
    "a moving mean": (of("bn", lambda x: value_of(x.moving_mean)), "variable 'bn/moving_mean'"),
    "a kernel": (of("dense", lambda x: value_of(x.kernel)), "variable 'dense/kernel' differs"),
    "a negative zero": (of("head", lambda x: x.bias.assign(-x.bias)),
                        "variable 'head/bias' differs"),
    **{
        f"{name} of a variable": (
            of("all", lambda x, name=name, value=value: vars(x.w).update({f"_{name}": value})),
            f"variable 'all/w' has {line}")
        for name, value, line in (
            ("trainable", False, "trainable True and False"),
            ("regularizer", None, "regularizer <L2> and None"),
            ("constraint", NoConfigConstraint(4.0), "constraint._most 3.0 and 4.0"),
            ("aggregation", "sum", "aggregation 'none' and 'sum'"),
            ("synchronization", "on_read", "synchronization 'auto' and 'on_read'"),
            ("autocast", False, "autocast True and False"),
            ("overwrite_with_gradient", True, "overwrite_with_gradient False and True"),
            ("dtype", "float16", "dtype 'float32' and 'float16'"),
        )
    },
    "a regularizer's rate": (of("all", lambda x: setattr(x.w.regularizer, "l2", np.float32(0.2))),
                             "variable 'all/w' has regularizer.l2 "),
}  # fmt: skip

for _name, (_change, _line) in STATE.items():
    perturb(_name, "state", re.escape(_line), _change)


COMPILED = {
    "a loss": (lambda m: setattr(arguments(m)["loss"], "_power", 3.0), "loss._power 2.0 and 3.0"),
    "a reduction": (lambda m: setattr(arguments(m)["loss"], "reduction", "sum"), "loss.reduction"),
    "loss weights": (lambda m: arguments(m).update(loss_weights=[2.0]), "loss_weights [1.0] and"),
    "a metric's option": (
        lambda m: setattr(arguments(m)["metrics"][0], "_above", 0.7), "metrics.0._above 0.5 and"),
    "an option of an optimizer": (
        lambda m: setattr(m.optimizer, "_damping", 0.7), "optimizer._damping 0.5 and 0.7"),
    "a clip norm": (lambda m: setattr(m.optimizer, "clipnorm", 1.0), "optimizer.clipnorm None and"),
    "an array of an optimizer": (
        lambda m: m.optimizer.table.fill(1.0), "optimizer.table float64[3] and another"),
    "a schedule": (
        lambda m: setattr(m.optimizer._learning_rate, "_rate", 0.2),
        "optimizer._learning_rate._rate 0.1 and 0.2"),
    "the class of an optimizer": (
        lambda m: setattr(m, "optimizer", keras.optimizers.SGD(0.1)), "optimizer <OwnOptimizer>"),
}  # fmt: skip


def arguments(model):
    return model._compile_config.config


for _name, (_change, _line) in COMPILED.items():
    perturb(_name, "structure", re.escape(f"the model was compiled with {_line}"), _change)


LAYERS = {
    "an initializer": (of("dense", lambda x: setattr(x.kernel_initializer, "_value", 0.7)),
                       "layer 'dense' has kernel_initializer._value 0.5 and 0.7"),
    "a regularizer": (of("dense", lambda x: setattr(x.kernel_regularizer, "_rate", 0.7)),
                      "layer 'dense' has kernel_regularizer._rate 0.1 and 0.7"),
    "an activity regularizer": (of("dense", lambda x: setattr(x.activity_regularizer, "_rate", 0.7)),
                                "layer 'dense' has activity_regularizer._rate 0.2 and 0.7"),
    "a constraint": (of("dense", lambda x: setattr(x.kernel_constraint, "_most", 0.7)),
                     "layer 'dense' has kernel_constraint._most 2.0 and 0.7"),
    "an activation": (of("dense", lambda x: setattr(x, "activation", keras.activations.relu)),
                      "layer 'dense' has activation linear and relu"),
    "a closure": (of("lambda", lambda x: setattr(x, "function", scaled_by(0.7))),
                  "layer 'lambda' has closure 'by' of function 0.5 and 0.7"),
    "a default": (of("lambda", lambda x: setattr(x, "function", scaled_by(0.5, default=2.0))),
                  "layer 'lambda' has default of 'add' of function 1.0 and 2.0"),
    "a keyword of a Lambda": (of("lambda", lambda x: x.arguments.update({"add": 3.0})),
                              "layer 'lambda' has arguments.add absent and 3.0"),
    "a momentum": (of("bn", lambda x: setattr(x, "momentum", 0.7)), "layer 'bn' has momentum"),
    "a rate": (of("drop", lambda x: setattr(x, "rate", 0.7)), "layer 'drop' has rate 0.5 and 0.7"),
    "a rate as int": (of("bn", lambda x: setattr(x, "axis", -1.0)), "layer 'bn' has axis"),
    "conversion of inputs": (of("head", lambda x: setattr(x, "_convert_input_args", False)),
                             "layer 'head' has _convert_input_args True and False"),
    "an input spec": (of("head", lambda x: setattr(x.input_spec, "min_ndim", 3)),
                      "layer 'head' has _input_spec.min_ndim 2 and 3"),
    "a method of one layer": (of("head", lambda x: vars(x).update(call=multiply)),
                              "layer 'head' has call absent and multiply"),
    "a note of the model": (lambda m: m.notes.update({"author": "b"}), "the model has notes.author 'a'"),
    "an attribute of Keras's own": (of("bn", lambda x: setattr(x, "_mine", 1)),
                                    "layer 'bn' has _mine"),
    "a name": (of("bn", lambda x: vars(x).update(name="norm")), "layer 'bn' has name 'bn' and"),
    "a frozen layer": (of("head", lambda x: setattr(x, "trainable", False)),
                       "layer 'head' has trainable True and False"),
    "a dtype": (of("head", lambda x: setattr(x, "dtype_policy", "mixed_bfloat16")),
                "layer 'head' has dtype 'float32' and 'mixed_bfloat16'"),
    "mask support": (of("all", lambda x: setattr(x, "supports_masking", True)),
                     "layer 'all' has supports_masking False and True"),
    "eager": (lambda m: setattr(m, "run_eagerly", False), "the model was compiled with run_eagerly"),
}  # fmt: skip

for _name, (_change, _line) in LAYERS.items():
    perturb(_name, "structure", re.escape(_line), _change)


def share_helper(model):
    layer = model.get_layer("all")
    object.__setattr__(layer, "options", layer.helper.deep)


perturb("a cycle", "structure", "layer 'all' has cycle.items ",
        of("all", lambda x: x.cycle.items.append(1)))  # fmt: skip
perturb("what an optimizer excludes", "structure",
        "the model was compiled with optimizer._exclude_from_weight_decay ",
        lambda m: m.optimizer._exclude_from_weight_decay.pop())  # fmt: skip
perturb("a layer that is another", "structure", "layer 'all' has helper.dense layer '",
        lambda m: setattr(m.get_layer("all").helper, "dense", m.get_layer("head")))  # fmt: skip
perturb("an object that is another's", "structure", "layer 'all' has options <Options> and <Plain>",
        of("all", lambda x: held_set(x, "options", x.helper.deep)))  # fmt: skip
perturb("an object that is two", "sharing",
        "object 'all/helper.deep.deeper' is one in the first model, and 2 in the second",
        of("all", lambda x: held_set(x, "method", [Plain(last=1)].copy)))  # fmt: skip

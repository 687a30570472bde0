"""Pairs of models from practice, and what a careful reader expects `verify` to say of them."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.filterwarnings("ignore")

ONES = np.ones((2, 4), "float32")


def start(name="x", shape=(4,), **options):
    return keras.Input(shape, name=name, **options)


def dense(units, name, **options):
    """A layer whose weights depend on its name alone."""
    seed = sum(map(ord, name))
    options.setdefault("kernel_initializer", keras.initializers.RandomUniform(seed=seed))
    return layers.Dense(units, name=name, **options)


def chain(*parts, name="net", shape=(4,)) -> keras.Model:
    x = inputs = start(shape=shape)
    for part in parts:
        x = part(x)
    return keras.Model(inputs, x, name=name)


def changed(model, change) -> tuple[keras.Model, keras.Model]:
    twin = ramet.clone(model)
    change(twin)
    return model, twin


def found(report) -> dict[str, tuple[str, ...]]:
    """Return the differences of each aspect that differs."""
    return {check.name: check.differences for check in report.checks if check.differences}


def matches(line: str, expected: str) -> bool:
    """Whether a line is as expected, which ends in ... where only the start is."""
    if expected.endswith("..."):
        return line.startswith(expected[:-3])
    return line == expected


CASES = {}


def case(*, cause="", **expected):
    """Register a pair of models, with the lines of each aspect that differs.

    Args:
        cause: Call, cause and detail of the first divergence.
        expected: The lines, by aspect.
    """

    def register(make):
        CASES[make.__name__] = make, expected, cause
        return make

    return register


@case()
def branches_in_another_order():
    def made(*, turned):
        x = start()
        names = ["b", "a"] if turned else ["a", "b"]
        heads = {name: dense(3, name)(x) for name in names}
        return keras.Model(x, layers.Add(name="add")([heads["a"], heads["b"]]), name="net")

    return made(turned=False), made(turned=True)


@case(
    structure=["layer 'drop' (Dropout) is in the second model only"],
    state=["variable 'drop/seed' is in the second model only"],
    training=["output 'c' differs..."],
    cause="drop structure a Dropout",
)
def a_dropout_in_the_middle():
    def made(*drops):
        return chain(dense(5, "a"), *drops, dense(5, "b"), dense(2, "c"))

    return made(), made(layers.Dropout(0.5, seed=1, name="drop"))


def exchange(model):
    weights = [model.get_layer(name).get_weights() for name in ("a", "b")]
    for name, values in zip(("b", "a"), weights, strict=True):
        model.get_layer(name).set_weights(values)


@case(
    state=["variable 'a/kernel' differs...", "variable 'b/kernel' differs..."],
    outputs=["output 'b' differs..."],
    training=["output 'b' differs..."],
    cause="a weights kernel differs",
)
def weights_exchanged_in_a_chain():
    return changed(chain(dense(4, "a"), dense(4, "b")), exchange)


@case(
    state=["variable 'a/kernel' differs...", "variable 'b/kernel' differs..."],
    outputs=["output 'c' differs..."],
    training=["output 'c' differs..."],
    cause="a weights kernel differs",
)
def weights_exchanged_between_branches():
    x = start()
    y = layers.Concatenate(name="c")([dense(4, "a")(x), dense(4, "b")(x)])
    return changed(keras.Model(x, y, name="net"), exchange)


@case(structure=["the model has outputs ['a', 'b'] and {z: 'a', y: 'b'}"])
def outputs_in_a_dict():
    def made(heads):
        x = start()
        return keras.Model(x, heads(dense(3, "a")(x), dense(3, "b")(x)), name="net")

    return made(lambda a, b: [a, b]), made(lambda a, b: {"z": a, "y": b})


@case(
    structure=["the model has outputs ['l', 'l.1'] and ['l', 'l.2']"],
    outputs=["output 'l.1' differs..."],
    training=["output 'l.1' differs..."],
    cause="l structure the models have other outputs",
)
def another_state_of_a_layer():
    def made(index):
        x = start(shape=(3, 4))
        ones = {"kernel_initializer": "ones", "recurrent_initializer": "ones"}
        y = layers.LSTM(3, return_state=True, seed=1, name="l", **ones)(x)
        return keras.Model(x, [y[0], y[index]], name="net")

    return made(1), made(2)


@case(
    structure=[
        "layer 'add' has class Add of keras.src.layers.merging.add and Add of keras.src.ops.numpy"
    ]
)
def a_layer_and_an_operation_that_do_the_same():
    def made(add):
        x = start()
        return keras.Model(x, add([dense(3, "a")(x), dense(3, "b")(x)]), name="net")

    return made(layers.Add(name="add")), made(lambda pair: pair[0] + pair[1])


@case(
    structure=[
        "layer 'e' has mask_zero True and False",
        "layer 'e' has supports_masking True and False",
        "call 'e' carries a mask in the first model only",
    ],
    state=["variable 'g/cell/seed' differs..."],
    outputs=["output 'g' differs..."],
    training=["output 'g' differs..."],
    cause="g mask the tensor that it reads has a mask in the first model only",
)
def a_mask_and_seeds_that_nobody_chose():
    def made(*, masked):
        tokens = keras.Input((6,), dtype="int32", name="t")
        x = layers.Embedding(9, 3, mask_zero=masked, embeddings_initializer="ones", name="e")(
            tokens
        )
        ones = {"kernel_initializer": "ones", "recurrent_initializer": "ones"}
        return keras.Model(tokens, layers.GRU(3, name="g", **ones)(x), name="net")

    return made(masked=True), made(masked=False)


@case(
    structure=["layer 'n' has input_mean 0.0 and 1.0", "layer 'n' has mean float32[1, 4] and..."],
    outputs=["output 'n' differs..."],
    training=["output 'n' differs..."],
    cause="n structure input_mean 0.0 and 1.0, mean...",
)
def tensors_without_memory_of_their_own():
    def made(mean):
        return chain(layers.Normalization(mean=mean, variance=1.0, name="n"))

    return made(0.0), made(1.0)


class States(keras.Model):
    def __init__(self, which):
        super().__init__(name="states")
        self.lstm = layers.LSTM(
            3, return_state=True, seed=1, name="l",
            kernel_initializer="ones", recurrent_initializer="ones",
        )  # fmt: skip
        self.which = which

    def call(self, x):
        outputs = self.lstm(x)
        return {"all": outputs[0], "one": outputs[self.which] if self.which else None}


def states(which):
    model = States(which)
    model(np.ones((2, 3, 4), "float32"))
    return model


@case(
    structure=["the model has which 1 and 2"],
    outputs=["output 'one' differs..."],
    training=["output 'one' differs..."],
    cause="states structure which 1 and 2",
)
def a_choice_of_the_model_itself():
    return states(1), states(2)


@case(
    structure=["the model has which 1 and 0"],
    outputs=["output 'one' is float32[2, 3] and None"],
    training=["output 'one' is float32[2, 3] and None"],
    cause="states structure which 1 and 0",
)
def an_output_that_is_none():
    return states(1), states(0)


@pytest.mark.parametrize("name", CASES)
def test_the_report_says_what_differs(name):
    keras.utils.clear_session(free_memory=False)  # Names of operations are counted.
    make, expected, cause = CASES[name]
    first, second = make()
    report = ramet.verify(first, second)
    assert report.complete
    told = found(report)
    assert told.keys() == expected.keys(), report
    for aspect, lines in expected.items():
        assert len(told[aspect]) == len(lines), report
        assert all(map(matches, told[aspect], lines)), report
    parted = report.first_divergence
    if cause:
        assert matches(f"{parted.call} {parted.cause} {parted.detail}", cause), parted
    back = ramet.verify(second, first)
    assert [check.verdict for check in back.checks] == [check.verdict for check in report.checks]


# --- verify never passes by not looking ---------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        *(("seed", v, "seed must be an integer of at least 0, got") for v in (-1, 1.5, None, True)),
        *((n, v, f"{n} must be a number of at least 0, got .*; pass one that is not infinite")
          for n in ("rtol", "atol") for v in ("x", None, [1.0], float("inf"), True)),
        ("only", 5, "unknown only=5; expected one of 'structure', "),
        ("only", b"outputs", "unknown only=b'outputs'; expected one of 'structure', "),
        ("inputs", np.zeros((0, 4)), "inputs= has no samples, .*; pass at least one"),
        ("inputs", "abc", "inputs must be an array, .* but holds 'abc'; convert it"),
        ("inputs", [ONES, ONES], "both models fail on the given inputs: .*; pass inputs that fit"),
    ],
)  # fmt: skip
def test_invalid_options_are_errors(option, value, message):
    model = chain(dense(3, "a"))
    with pytest.raises(ramet.OptionError, match=message):
        ramet.verify(model, ramet.clone(model), **{option: value})


def test_what_is_not_compared_is_not_the_same():
    def unbuilt():
        return keras.Sequential([layers.Dense(2, kernel_initializer="ones", name="d")], name="s")

    report = ramet.verify(unbuilt(), unbuilt())
    assert not report.ok
    assert not report
    assert not report.different
    assert "the same in what was checked" in report.title
    message = "models 's' and 's' were not compared in outputs: the first model .*; pass inputs"
    with pytest.raises(ramet.DifferenceError, match=message):
        report.raise_if_different()
    assert ramet.verify(unbuilt(), unbuilt(), inputs=ONES).ok
    assert ramet.verify(unbuilt(), unbuilt(), only=["structure", "state"]).ok


def test_outputs_that_are_nan_throughout_prove_nothing():
    def made(name):
        return chain(layers.Lambda(lambda x: (x * 0.0) / 0.0, name=name))

    check = ramet.verify(made("l"), made("l")).check("outputs")
    assert check.verdict == "not checked"
    assert check.scope == "both models return nothing but NaN on random inputs; pass inputs"

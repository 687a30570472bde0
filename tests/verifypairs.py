"""Random pairs of models, and what `verify` must say of them."""

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

import ramet
from programedits import EDITS, Choices, Edit, NothingThereError
from programplans import Hand, batch, live_layers, make_model
from programs import Run, Tally, draw_net, feed

SEEDED = 1234


def played(seed: int) -> tuple[Run, Any] | None:
    """Return a program of edits that was played, and the model that it builds."""
    choose = Choices(seed)
    net = draw_net(choose, Hand())
    if net is None:
        return None
    try:
        run = Run(net, Tally())
    except Exception:  # noqa: BLE001  Keras infers less than it computes
        return None
    for _ in range(choose.number(0, 3)):
        op = choose.pick(EDITS)
        try:
            args = EDITS[op].draw(choose, run.state)
        except NothingThereError:
            continue
        if args is not None:
            run.make(Edit(op, args))
    try:
        return run, run.graph.build()
    except Exception:  # noqa: BLE001  what cannot be built is judged elsewhere
        return None


def reset_chance() -> None:
    """Start the global generators of random numbers at the same point."""
    random.seed(SEEDED)
    np.random.seed(SEEDED)  # noqa: NPY002  what layers draw from
    keras.utils.set_random_seed(SEEDED)


def run_by_hand(model: Any, given: Any, *, training: bool) -> list[np.ndarray] | None:
    """Call a copy of a model, and return its outputs; `None` if it fails."""
    reset_chance()
    twin = ramet.clone(model)
    data = keras.tree.map_structure(lambda x: keras.ops.convert_to_tensor(np.array(x)), given)
    try:
        returned = twin(data, training=training)
    except Exception:  # noqa: BLE001  data of another model's need not fit
        return None
    return [np.array(keras.ops.convert_to_numpy(x)) for x in keras.tree.flatten(returned)]


def same(olds: list[np.ndarray] | None, news: list[np.ndarray] | None) -> bool:
    """Whether outputs have the same bits, but for those of NaN."""
    if olds is None or news is None or len(olds) != len(news):
        return False
    return all(
        a.shape == b.shape
        and a.dtype == b.dtype
        and np.array_equal(a, b, equal_nan=True)
        and np.array_equal(np.signbit(a), np.signbit(b))
        for a, b in zip(olds, news, strict=True)
    )


def damaged(model: Any, choose: Choices) -> Any:
    """Return a clone of a model, with one thing changed or none."""
    twin = ramet.clone(model)
    layers = [layer for layer in twin._flatten_layers() if layer is not twin]
    layer = choose.pick(layers)
    what = choose.pick(["weight", "attribute", "function", "nothing", "seed"])
    if what == "weight" and layer.weights:
        weight = choose.pick(layer.weights)
        weight.assign(weight + 0.25 if "float" in weight.dtype else weight)
    elif what == "attribute":
        names = [n for n, v in vars(layer).items() if type(v) is float and not n.startswith("__")]
        if names:
            name = choose.pick(names)
            setattr(layer, name, getattr(layer, name) * 0.5)
    elif what == "function" and callable(vars(layer).get("activation")):
        layer.activation = keras.activations.sigmoid
    elif what == "seed" and layer._seed_generators:
        layer._seed_generators[0].state.assign([7, 9])
    return twin


def rebuilt(run: Run) -> Any:
    """Return the model of the same code, made once more, with the same weights."""
    net = copy.deepcopy(run.program.net)
    model = make_model(net)
    model.set_weights(run.source.get_weights())
    for _, layer, live in live_layers(net, model):
        live.trainable = layer.trainable
    return model


def variable_names(model: Any) -> set[str]:
    """Return the last names of all variables of a model: `kernel`, `seed`."""
    names = {re.sub(r"_\d+$", "", v.name) for v in model.variables} | {
        v.name for v in model.variables
    }
    return names | {"seed"}


VAGUE = (
    r"updated state \d", r"output \d+ ", r"another config", r"other arguments", r"distinct ones",
    r"another [a-z]+$", r"one of the models only",
)  # fmt: skip


def check_lines(report: Any, first: Any, second: Any) -> None:
    """Every line names what it is about, and that exists."""
    layers = {layer.name for model in (first, second) for layer in model._flatten_layers()}
    known = variable_names(first) | variable_names(second)
    for check in report.checks:
        for line in (*check.differences, *check.expected):
            assert not any(re.search(vague, line) for vague in VAGUE), line
            assert "'" in line or line.startswith(("the model ", "the first ", "the second ")), line
            if check.name == "state":
                (name,) = re.findall(r"^variable '([^']+)'", line)
                *path, role = name.split("/")
                assert re.sub(r"#\d+$", "", role) in known or role.startswith("variable"), (
                    line,
                    known,
                )
                assert not path or re.sub(r"#\d+$", "", path[0]) in layers, (line, layers)


def check_pair(first: Any, second: Any, given: Any) -> Any:
    """`verify` says what runs by hand say, in both orders; return the report."""
    reports = ramet.verify(first, second, inputs=given), ramet.verify(second, first, inputs=given)
    for report, (a, b) in zip(reports, ((first, second), (second, first)), strict=True):
        check_lines(report, a, b)
    for training in (False, True):
        aspect = "training" if training else "outputs"
        pair = [run_by_hand(model, given, training=training) for model in (first, second)]
        for report in reports:
            lines = report.check(aspect).differences
            told = [line for line in lines if not line.startswith(("updated ", "the loss of "))]
            assert (not told) == same(*pair), (aspect, lines)
    for name in ("structure", "sharing", "state", "outputs", "training"):
        verdicts = {report.check(name).verdict for report in reports}
        assert len(verdicts) == 1, (name, [report.check(name).differences for report in reports])
    divergences = [report.first_divergence for report in reports]
    lines = [*reports[0].check("outputs").differences, *reports[0].check("training").differences]
    is_different = any(re.match("output .* (differs|is [a-z0-9]+\\[)", line) for line in lines)
    assert all(found is not None for found in divergences) or not is_different, (lines, divergences)
    assert lines or not any(divergences), divergences
    return reports[0]


def pairs(seed: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield pairs of models with data: a source and what was edited, damaged or made of it."""
    found = played(seed)
    if found is None:
        return
    run, built = found
    choose = Choices(seed)
    source = run.source
    given = feed(source, run.program.net, batch(run.program.net))
    yield "edited", source, built, given
    yield "damaged", source, damaged(source, choose), given
    yield "clone", source, ramet.clone(source), given
    yield "rebuilt", source, rebuilt(run), given
    yield "flat", source, ramet.trace(source).flatten().build(), given

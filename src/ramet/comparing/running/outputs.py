"""Two models called on the same data: what they return, and what becomes of their variables."""

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.backends.values import copy_value, is_symbolic
from ramet.comparing.counterparts import Pairs
from ramet.comparing.objects.arrays import array_of
from ramet.comparing.objects.held import all_variables
from ramet.comparing.running.samples import Sample
from ramet.comparing.state import SIDES, Variables
from ramet.copying.models import copy_layer
from ramet.graph import Graph
from ramet.graph.paths import call_labels

_LONGEST = 120
"""Longer messages of models that fail are cut."""

Differs = Callable[[np.ndarray, np.ndarray], str]
"""Says how two arrays differ, or nothing if they do not."""

OutputPath = tuple[Any, ...]
"""The keys that lead to an output in the structure that a model returns."""


@dataclass(frozen=True)
class Results:
    """What a model computes from some inputs."""

    outputs: dict[OutputPath, np.ndarray]
    """The outputs, by where they are in the structure that is returned."""
    names: dict[OutputPath, str]
    """What they are called."""
    before: dict[int, np.ndarray]
    """The variables that the call updates, by their ids, as they were."""
    updated: dict[int, np.ndarray]
    """The same after the call."""
    losses: dict[int, list[np.ndarray]]
    """What layers added to the loss in training, by the ids of the layers."""


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One thing that two models compute otherwise."""

    text: str
    """What, in words."""
    output: OutputPath | None = None
    """The output that it is, if it is one."""
    owners: tuple[str, str] | None = None
    """The paths of the layers in both models whose variable or loss it is."""


@contextlib.contextmanager
def untouched(*models: Any) -> Generator[keras.StatelessScope]:
    """Let models be called on fixed random numbers without leaving anything behind."""
    variables = {id(v): v for model in models for v in all_variables(model)}.values()
    held = [(v, v.value) for v in variables if isinstance(v, keras.Variable)]
    with contextlib.ExitStack() as stack:
        for model in models:
            stack.enter_context(internals.untouched_layers(model))
        stack.enter_context(internals.fixed_randomness(0))
        yield stack.enter_context(keras.StatelessScope(state_mapping=held, collect_losses=True))


def callable_model(model: Any) -> Any:
    """Return a model that can be called without being changed.

    A model with layers that are still to be built is copied: they would be built by the
    call, and that cannot be undone.
    """
    if any(internals.may_create_weights(layer) for layer in internals.all_layers(model)):
        return copy_layer(model)
    return model


def build_by_call(model: Any, sample: Sample, *, training: bool) -> None:
    """Let a copy of a model build its layers, and leave their variables as they are made."""
    args, kwargs = copied(sample)
    with (
        contextlib.suppress(Exception),  # Where it fails, it fails again.
        internals.fixed_randomness(0),
        keras.StatelessScope(),
    ):
        model(*args, training=training, **kwargs)


def copied(sample: Sample) -> tuple[Any, Any]:
    """Return a copy of the data for one model: some layers write into what they are given."""
    args = keras.tree.map_structure(copy_value, sample.args)
    kwargs = keras.tree.map_structure(copy_value, sample.kwargs)
    return args, kwargs


def run(model: Any, graph: Graph | None, sample: Sample, *, training: bool) -> Results:
    """Call a model without side effects on its state or on random numbers.

    Args:
        model: The model.
        graph: Its graph, by which outputs are named; `None` if it has none.
        sample: What to call it with.
        training: Whether as in training.
    """
    called = callable_model(model)
    pairs = [*zip(*map(all_variables, (model, called)), strict=False)]
    args, kwargs = copied(sample)
    with internals.whole_tracebacks(), untouched(called) as scope:
        before = [_value_in(scope, variable) for _, variable in pairs]
        returned = called(*args, training=training, **kwargs)
        after = [_value_in(scope, variable) for _, variable in pairs]
        losses = _losses(model, called) if training else {}
    changed = [
        (id(variable), old, new)
        for (variable, _), old, new in zip(pairs, before, after, strict=True)
        if new is not old
    ]
    outputs = {path: array_of(value) for path, value in leaves_by_path(returned)}
    return Results(
        outputs,
        _names(graph, [*outputs]),
        {key: array_of(old) for key, old, _ in changed},
        {key: array_of(new) for key, _, new in changed},
        losses,
    )


def _losses(model: Any, called: Any) -> dict[int, list[np.ndarray]]:
    """Return what each layer of a model added to the loss when a copy of it was called."""
    found: dict[int, list[np.ndarray]] = {}
    layers = zip(*map(internals.all_layers, (model, called)), strict=False)
    for layer, part in layers:
        losses = [loss for loss in internals.own_losses(part) if not is_symbolic(loss)]
        if losses:
            found[id(layer)] = [array_of(loss) for loss in losses]
    return found


def _value_in(scope: keras.StatelessScope, variable: Any) -> Any:
    """Return the value of a variable; a copy if it is a tensor that a call may write to."""
    if isinstance(variable, keras.Variable):
        return scope.get_current_value(variable)
    return np.array(array_of(variable))


def leaves_by_path(tree: Any, path: OutputPath = ()) -> Iterator[tuple[OutputPath, Any]]:
    """Yield the tensors in a structure, in Keras's flat order, with the keys that lead there."""
    if isinstance(tree, dict):
        for key in _sorted(tree):
            yield from leaves_by_path(tree[key], (*path, key))
    elif isinstance(tree, (list, tuple)):
        for number, item in enumerate(tree):
            yield from leaves_by_path(item, (*path, number))
    else:
        yield path, tree


def _sorted(tree: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(tree)
    except TypeError:  # keys of several classes
        return sorted(tree, key=lambda key: (type(key).__name__, str(key)))


def _names(graph: Graph | None, paths: list[OutputPath]) -> dict[OutputPath, str]:
    """Name outputs: by their keys, or else by the calls of the graph that make them."""
    refs: list[Any] = []
    if graph is not None:
        labels = call_labels(graph)
        refs = [
            f"{labels[ref.call]}.{ref.index}" if ref.index else labels[ref.call]
            for ref in keras.tree.flatten(graph.outputs)
        ]
    found: dict[OutputPath, str] = {}
    for number, path in enumerate(paths):
        keyed = any(isinstance(step, str) for step in path)
        if not keyed and len(refs) == len(paths):
            found[path] = f"output '{refs[number]}'"
        else:
            found[path] = f"output '{'.'.join(map(str, path))}'" if path else "the output"
    return found


def run_differences(
    first: Results, second: Results, pairs: Pairs, variables: Variables, differs: Differs
) -> Iterator[RunDifference]:
    """Yield differences in outputs, in the variables that calls update, and in losses."""
    yield from output_differences(first, second, differs, pairs)
    yield from effect_differences(first, second, pairs, variables, differs)


def effect_differences(
    first: Results, second: Results, pairs: Pairs, variables: Variables, differs: Differs
) -> Iterator[RunDifference]:
    """Yield differences in the variables that calls update, and in losses."""
    yield from _updates(first, second, variables, differs)
    yield from _loss_differences(first, second, pairs, differs)


def output_differences(
    first: Results, second: Results, differs: Differs, pairs: Pairs | None = None
) -> Iterator[RunDifference]:
    """Yield differences in what two models return; without pairs, two runs of one model."""
    for path, name, old, new in _paired_outputs(first, second, pairs):
        if old is None or new is None:
            yield RunDifference(f"{name} is in the {SIDES[old is None]} model only", path)
            continue
        difference = differs(old, new)
        if difference:
            yield RunDifference(f"{name} {difference}", path)


def _paired_outputs(
    first: Results, second: Results, pairs: Pairs | None
) -> Iterator[tuple[OutputPath, str, np.ndarray | None, np.ndarray | None]]:
    """Pair outputs by their places in what is returned.

    If no place is the same, by the calls that make them, or else by order.
    """
    if first.outputs.keys() & second.outputs.keys():
        for path in dict.fromkeys([*first.outputs, *second.outputs]):
            name = first.names[path] if path in first.names else second.names[path]
            yield path, name, first.outputs.get(path), second.outputs.get(path)
        return
    olds, news = [*first.outputs.items()], [*second.outputs.items()]
    makers = _makers(pairs, (len(olds), len(news)))
    if len(olds) == len(news) and {*makers[0]} == {*makers[1]}:
        news = [news[makers[1].index(maker)] for maker in makers[0]]
    for number in range(max(len(olds), len(news))):
        old = olds[number] if number < len(olds) else None
        new = news[number] if number < len(news) else None
        path = olds[number][0] if old is not None else news[number][0]
        name = first.names[path] if old is not None else second.names[path]
        yield path, name, None if old is None else old[1], None if new is None else new[1]


def _makers(pairs: Pairs | None, counts: tuple[int, int]) -> tuple[list[Any], list[Any]]:
    """Return the tensors that two graphs return, in terms of the first; nothing if not known."""
    level = None if pairs is None else pairs.alignment
    if level is None:
        return [], [None]
    known = {id(b): id(a) for a, b in level.pairing}
    found: list[list[Any]] = []
    for side, graph in enumerate((level.first, level.second)):
        tensors = [level.nodes[side].tensors[ref] for ref in keras.tree.flatten(graph.outputs)]
        keys = [(id(n) if side == 0 else known.get(id(n)), index) for n, index in tensors]
        if len(keys) != counts[side] or len({*keys}) != len(keys):
            return [], [None]
        found.append(keys)
    return found[0], found[1]


def _updates(
    first: Results, second: Results, variables: Variables, differs: Differs
) -> Iterator[RunDifference]:
    """Compare what the call made of variables that were the same before it."""
    met: set[tuple[int, int]] = set()
    for both in variables.pairs:
        keys = id(both.old), id(both.new)
        if keys in met or not (keys[0] in first.updated or keys[1] in second.updated):
            continue
        met.add(keys)
        pairs: list[list[np.ndarray]] = []
        for what in ("before", "updated"):
            sides = zip((first, second), keys, (both.old, both.new), strict=True)
            pairs.append([_value(getattr(r, what), key, v) for r, key, v in sides])
        if differs(*pairs[0]):
            continue  # The state says so already.
        difference = differs(*pairs[1])
        if difference:
            yield RunDifference(
                f"updated {both.where} {difference}", owners=(both.path, both.other)
            )


def _loss_differences(
    first: Results, second: Results, pairs: Pairs, differs: Differs
) -> Iterator[RunDifference]:
    """Compare what layers add to the loss."""
    met: set[tuple[int, int]] = set()
    for both in pairs.layers:
        keys = id(both.old), id(both.new)
        losses = first.losses.get(keys[0], []), second.losses.get(keys[1], [])
        is_new = not met & {*enumerate(keys)}  # of several partners, the first
        met |= {*enumerate(keys)}
        if not is_new:
            continue
        if len(losses[0]) != len(losses[1]):
            text = f"{both.where} adds {len(losses[0])} and {len(losses[1])} terms to the loss"
            yield RunDifference(text, owners=(both.path, both.other))
        elif description := next(filter(None, map(differs, *losses)), ""):
            yield RunDifference(
                f"the loss of {both.where} {description}", owners=(both.path, both.other)
            )
    for side, (places, known) in enumerate(
        zip(pairs.alone, (first.losses, second.losses), strict=True)
    ):
        for path, layer in places:
            if id(layer) in known:
                text = f"the loss of layer '{path}' is in the {SIDES[side]} model only"
                yield RunDifference(text, owners=(path, path))


def _value(known: dict[int, np.ndarray], key: int, variable: Any) -> np.ndarray:
    return known[key] if key in known else array_of(variable)


def cut(text: str) -> str:
    """Return the start of a long message."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0]} ..."


def failure(error: Exception, paths: dict[int, str]) -> str:
    """Say what a model raised, and in which layer.

    Args:
        error: What was raised, with its whole traceback.
        paths: The paths of the layers, by their ids.
    """
    text = internals.reason_of(error)
    description = (
        f"{type(error).__name__}: {cut(text)}" if str(error).strip() else type(error).__name__
    )
    trace_, path = error.__traceback__, None
    while trace_ is not None:
        layer = trace_.tb_frame.f_locals.get("self")
        path = paths.get(id(layer)) or path
        trace_ = trace_.tb_next
    return f" in layer '{path}': {description}" if path else f": {description}"

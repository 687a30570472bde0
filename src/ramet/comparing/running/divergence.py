"""Two models run call by call, to find the first that returns something else."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import keras
import numpy as np

from ramet import backends
from ramet import keras_internals as internals
from ramet.comparing.alignment.align import Alignment
from ramet.comparing.alignment.facts import constant
from ramet.comparing.alignment.nodes import Node
from ramet.comparing.contents import Contents, read
from ramet.comparing.counterparts import CallPair, Pairs, pair
from ramet.comparing.objects.arrays import array_of
from ramet.comparing.objects.held import is_trained
from ramet.comparing.running.outputs import Differs, build_by_call, callable_model, failure
from ramet.comparing.running.samples import Sample
from ramet.comparing.running.taps import Event, Seen, Tap
from ramet.comparing.state import SIDES, is_inside
from ramet.graph import Graph
from ramet.graph.names import with_article
from ramet.results.divergence import Divergence

_BYTES = 1 << 26
"""How many bytes of outputs are kept at once."""
_SHOWN = 3
"""How many reasons of each kind are listed."""


@dataclass(frozen=True)
class Comparison:
    """How two models are run side by side."""

    pairs: Pairs
    """Which of their layers belong together."""
    sample: Sample
    """What to call them with."""
    training: bool
    """Whether as in training."""
    differs: Differs
    """How outputs are compared."""
    expected: frozenset[str] = frozenset()
    """Calls of one of the models that may return something else."""
    edited: int = 1
    """Which of them that is."""
    description: str = ""
    """How their outputs differ, in words."""


def first_divergence(comparison: Comparison) -> Divergence | None:
    """Run two models, and name the first call that returns something else on the same inputs.

    Runs each of them twice: once for a digest of what every call returns, and once for the
    values of those that differ; more often if these do not fit into memory at once, or if
    they differ by less than is allowed. Neither model is changed.
    """
    sources = comparison.pairs.first, comparison.pairs.second
    models = [callable_model(model) for model in sources]
    if any(model is not source for model, source in zip(models, sources, strict=True)):
        for model, source in zip(models, sources, strict=True):
            if model is not source:
                build_by_call(model, comparison.sample, training=comparison.training)
        comparison = replace(comparison, pairs=pair(*models))
    found = None
    if comparison.pairs.alignment is not None:
        found = _Walk(comparison, by_graph=True).divergence()
    if found is None and not comparison.expected:
        # Models with a `call` of their own do not run their graphs.
        found = _Walk(comparison, by_graph=False).divergence() or _of_the_model(comparison)
    if found is None:
        return None
    return replace(found, training=comparison.training)


def _of_the_model(comparison: Comparison) -> Divergence | None:
    """Explain what models make of what their layers return."""
    whole = comparison.pairs.layers[0]
    if type(whole.old) is not type(whole.new):
        return None
    reasons = [
        str(difference)
        for difference in read(comparison.pairs).layers[0]
        if difference.attribute != "output_names"
    ]
    if not (reasons and comparison.description):
        return None
    description = f"calls layers that return the same: {comparison.description}"
    return Divergence(whole.old.name, description, "structure", ", ".join(reasons[:_SHOWN]))


@dataclass(frozen=True, slots=True)
class _Step:
    """One event of either model, and its layers."""

    old: str
    """The path of the first model's."""
    new: str
    """The path of the second model's."""
    layers: tuple[Any, Any]
    """The live layers."""
    call: CallPair | None
    """The calls, if it is one of a graph."""


class _Walk:
    """Runs two models, and compares what their calls return."""

    def __init__(self, comparison: Comparison, *, by_graph: bool) -> None:
        self._comparison = comparison
        self._pairs = comparison.pairs
        self._by_graph = by_graph
        self._steps: dict[str, _Step] = {}
        alignment = self._pairs.alignment if by_graph else None
        graphs = (None, None) if alignment is None else (alignment.first, alignment.second)
        in_graphs = [_called_layers(graph) for graph in graphs]
        parts: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        hidden = _hidden(self._pairs)
        for both in self._pairs.layers[1:]:
            if id(both.old) in in_graphs[0] or id(both.new) in in_graphs[1]:
                continue
            if id(both.old) in hidden or id(both.new) in hidden:
                continue
            if id(both.old) in parts[0] or id(both.new) in parts[1]:
                continue  # of several partners, the first
            parts[0][id(both.old)] = both.path, both.old
            parts[1][id(both.new)] = both.other, both.new
            self._steps[both.path] = _Step(both.path, both.other, (both.old, both.new), None)
        if by_graph:
            for both in self._pairs.calls():
                layers = (_operation(both.old), _operation(both.new))
                self._steps[both.path] = _Step(both.path, both.other, layers, both)
        models = self._pairs.first, self._pairs.second
        sides = zip(models, graphs, parts, strict=True)
        self._taps = [Tap(model, graph, layers) for model, graph, layers in sides]

    @cached_property
    def _contents(self) -> Contents:
        return read(self._pairs)

    def divergence(self) -> Divergence | None:
        """Return the first call that returns something else, if there is one."""
        self._run(())
        signs = [tap.signs for tap in self._taps]
        differing = [
            (event, other)
            for event in signs[0]
            if (other := self._partner(event)) is not None
            and other in signs[1]
            and signs[0][event].digest != signs[1][other].digest
            and not self._is_expected(event, other)
        ]
        errors = [tap.error for tap in self._taps]
        late: Divergence | None = None
        for batch in self._batches(differing):
            self._run(batch)
            for event, other in batch:
                old, new = (t.seen.get(e) for t, e in zip(self._taps, (event, other), strict=True))
                difference = self._difference(old, new)
                if not difference or old is None or new is None:
                    continue
                step = self._steps[event[0]]
                if step.call is not None or not self._arguments(step, old, new):
                    return self._explained(event, difference, old, new)
                # What is around it gave it something else.
                late = late or self._around(step, difference)
        return late or self._failure(errors) or self._returned()

    def _returned(self) -> Divergence | None:
        """Name a call that one of the models returns and the other does not."""
        level = self._pairs.alignment
        if level is None or not self._by_graph or self._comparison.expected:
            return None
        partners = {id(a): b for a, b in level.pairing}
        graphs = level.first, level.second
        ends = [
            [nodes.tensors[ref] for ref in keras.tree.flatten(graph.outputs)]
            for nodes, graph in zip(level.nodes, graphs, strict=True)
        ]
        for (a, one), (b, two) in zip(*ends, strict=False):
            signs = [tap.signs.get((n.path, 0)) for tap, n in zip(self._taps, (a, b), strict=True)]
            if partners.get(id(a)) is b and one != two:
                description = f"returns output {one} where the second model returns output {two}"
                return Divergence(a.path, description, "structure", "the models have other outputs")
            if partners.get(id(a)) is b or signs[0] == signs[1]:
                continue
            alone = self._alone_at(0, level, [a], "") or self._alone_at(1, level, [b], "")
            if alone is not None:
                return alone
            description = f"is returned where the second model returns '{b.path}'"
            return Divergence(a.path, description, "structure", "the models have other outputs")
        return None

    def _around(self, step: _Step, difference: str) -> Divergence:
        """Explain a layer that is called on something else, by what calls it."""
        outer = [
            (number, both)
            for number, both in enumerate(self._pairs.layers)
            if not both.path or is_inside(step.old, both.path)
        ]
        for number, both in reversed(outer):
            found = [str(each) for each in self._contents.layers.get(number, ())]
            if found:
                detail = f"{both.where} has {', '.join(found[:_SHOWN])}"
                return Divergence(step.old, difference, "structure", detail)
        for side, places in zip(SIDES, self._pairs.alone, strict=True):
            if places:
                path, layer = places[0]
                detail = f"layer '{path}' ({type(layer).__name__}) is in the {side} model only"
                return Divergence(step.old, difference, "structure", detail)
        return Divergence(step.old, difference, "arguments", "it is called on something else")

    def _run(self, events: Any) -> None:
        for side, tap in enumerate(self._taps):
            wanted = [pair[side] for pair in events]
            tap.run(self._comparison.sample, training=self._comparison.training, wanted=wanted)

    def _partner(self, event: Event) -> Event | None:
        step = self._steps.get(event[0])
        return None if step is None else (step.new, event[1])

    def _is_expected(self, event: Event, other: Event) -> bool:
        path = (event, other)[self._comparison.edited][0]
        return path.partition("/")[0] in self._comparison.expected

    def _batches(self, pairs: list[tuple[Event, Event]]) -> Iterator[list[tuple[Event, Event]]]:
        """Split pairs of events into as many as can be kept at once."""
        batch: list[tuple[Event, Event]] = []
        size = 0
        signs = [tap.signs for tap in self._taps]
        for event, other in pairs:
            size += signs[0][event].size + signs[1][other].size
            if batch and size > _BYTES:
                yield batch
                batch, size = [], signs[0][event].size + signs[1][other].size
            batch.append((event, other))
        if batch:
            yield batch

    def _difference(self, old: Seen | None, new: Seen | None) -> str:
        if old is None or new is None:
            return ""
        if len(old.outputs) != len(new.outputs):
            return f"returns {len(old.outputs)} and {len(new.outputs)} tensors"
        description = (
            self._comparison.differs(a, b) for a, b in zip(old.outputs, new.outputs, strict=True)
        )
        return next(filter(None, description), "")

    def _failure(self, errors: list[Exception | None]) -> Divergence | None:
        """Name the call in which one of the models fails."""
        sides = [side for side, error in enumerate(errors) if error is not None]
        if len(sides) != 1 or not self._taps[sides[0]].open:
            return None
        side = sides[0]
        path, number = self._taps[side].open[-1]
        if side:
            path = next((step.old for step in self._steps.values() if step.new == path), path)
        error: Any = errors[side]
        description = f"fails in the {SIDES[side]} model: {internals.reason_of(error)}"
        if path not in self._steps:
            return Divergence(path, description, "unknown", failure(error, {}).lstrip(": "))
        return self._explained((path, number), description, None, None)

    # --- why -------------------------------------------------------------------------

    def _explained(
        self, event: Event, description: str, old: Seen | None, new: Seen | None
    ) -> Divergence:
        step = self._steps[event[0]]
        alone = self._alone_above(step)
        if alone is not None and (old is None or new is None or self._arguments(step, old, new)):
            return alone
        by_cause: dict[str, list[str]] = {}
        for cause, detail in self._reasons(step, old, new):
            by_cause.setdefault(cause, []).append(detail)
        if not by_cause:
            return Divergence(step.old, description, "unknown", "layers and arguments are the same")
        cause, details = next(iter(by_cause.items()))
        more = f" and {len(details) - _SHOWN} more" if len(details) > _SHOWN else ""
        return Divergence(step.old, description, cause, ", ".join(details[:_SHOWN]) + more)

    def _reasons(
        self, step: _Step, old: Seen | None, new: Seen | None
    ) -> Iterator[tuple[str, str]]:
        a, b = step.layers
        if type(a) is not type(b):
            yield "structure", " and ".join(_classes(a, b))
        else:
            yield from self._layer_reasons(a, b)
        variables: list[tuple[str, str]] = []
        if isinstance(a, keras.Layer) and isinstance(b, keras.Layer):
            variables = [*self._variable_reasons(a, b)]
        # A seed that nobody chose differs everywhere, and few calls draw from it.
        yield from (reason for reason in variables if not _is_seed(reason))
        if old is not None and new is not None:
            yield from self._mask_reasons(old, new)
            yield from self._arguments(step, old, new)
        yield from filter(_is_seed, variables)
        if self._comparison.training and self._order(step, 0) != self._order(step, 1):
            yield "order", "its calls are made, and draw random numbers, in another order"

    def _order(self, step: _Step, side: int) -> list[Event]:
        """Return the calls of a layer in the order in which one model makes them.

        Keras goes by depth, which nesting changes: a layer that is called in several branches
        may serve them in another order once its model is inlined.
        """
        of_layer = {
            (each.old, each.new)[side]: each.old
            for each in self._steps.values()
            if each.layers[side] is step.layers[side]
        }
        return [(of_layer[path], n) for path, n in self._taps[side].signs if path in of_layer]

    def _layer_reasons(self, a: Any, b: Any) -> Iterator[tuple[str, str]]:
        root = next((p for p in self._pairs.layers if p.old is a and p.new is b), None)
        if root is None:
            return
        for number, both in enumerate(self._pairs.layers):
            if both is root or is_inside(both.path, root.path):
                start = both.path[len(root.path) + 1 :]
                for difference in self._contents.layers.get(number, ()):
                    if difference.name != "trainable":
                        text = str(difference)
                        yield "structure", f"{start}: {text}" if start else text

    def _variable_reasons(self, a: Any, b: Any) -> Iterator[tuple[str, str]]:
        """Yield the variables in which two layers differ, those of sublayers too."""
        root = next((p for p in self._pairs.layers if p.old is a and p.new is b), None)
        if root is None:
            return
        variables = self._contents.variables
        for both in variables.pairs:
            if both.noun != "variable" or not is_inside(both.path, root.path):
                continue
            if array_of(both.old).tobytes() != array_of(both.new).tobytes():
                name = both.path[len(root.path) + 1 :].replace("/", ".")
                yield "weights" if is_trained(both.old) else "state", f"{name} differs"
        for side, path in enumerate((root.path, root.other)):
            for words, variable in variables.alone[side]:
                where = words.split("'")[1]
                if words.startswith("variable ") and is_inside(where, path):
                    name = where[len(path) + 1 :].replace("/", ".")
                    cause = "weights" if is_trained(variable) else "state"
                    yield cause, f"{name} is in the {SIDES[side]} model only"

    def _mask_reasons(self, old: Seen, new: Seen) -> Iterator[tuple[str, str]]:
        for a, b in zip(old.masks, new.masks, strict=False):
            if (a is None) != (b is None):
                side = SIDES[a is None]
                yield "mask", f"the tensor that it reads has a mask in the {side} model only"
            elif a is not None and b is not None and self._comparison.differs(a, b):
                yield "mask", "the masks on the tensor that it reads differ"

    def _arguments(self, step: _Step, old: Seen, new: Seen) -> list[tuple[str, str]]:
        named = [
            internals.named_arguments(layer, *seen.arguments)
            for layer, seen in zip(step.layers, (old, new), strict=True)
        ]
        return [
            ("arguments", f"{name} differs")
            for name in dict.fromkeys([*named[0], *named[1]])
            if self._are_other(*(known.get(name) for known in named))
        ]

    def _are_other(self, a: Any, b: Any) -> bool:
        flat = [keras.tree.flatten(value) for value in (a, b)]
        return len(flat[0]) != len(flat[1]) or any(
            bool(self._comparison.differs(x, y))
            if isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
            else not (x is y or constant(x) == constant(y))
            for x, y in zip(*flat, strict=True)
        )

    def _alone_above(self, step: _Step) -> Divergence | None:
        """Return the layer of one model only that a call reads, if there is one."""
        if step.call is None or self._comparison.expected:
            return None
        sides = (step.old, step.call.old), (step.new, step.call.new)
        for side, (path, node) in enumerate(sides):
            above = [maker for maker, _ in node.inputs]
            prefix = path.removesuffix(node.path)
            alone = self._alone_at(side, step.call.level, above, prefix)
            if alone is not None:
                return alone
        return None

    def _alone_at(
        self, side: int, level: Alignment, nodes: list[Node], prefix: str
    ) -> Divergence | None:
        """Return the first call of one model only on the way to some calls."""
        paired = {id(both[side]) for both in level.pairing}
        waiting, alone = [*nodes], None
        while waiting:
            node = waiting.pop()
            if id(node) not in paired and node.layer is not None:
                alone = node
                waiting += [maker for maker, _ in node.inputs]
        if alone is None or alone.layer is None:
            return None
        description = f"is in the {SIDES[side]} model only"
        kind = with_article(alone.layer.kind)
        return Divergence(prefix + alone.path, description, "structure", kind)


def _operation(node: Node) -> Any:
    return None if node.layer is None else node.layer.origin


def _called_layers(graph: Graph | None) -> set[int]:
    """Return the ids of the layers that a graph and those nested in it call."""
    found: set[int] = set()
    waiting = [] if graph is None else [graph]
    while waiting:
        for layer in waiting.pop().layers.values():
            if layer.graph is not None and id(layer.origin) not in found:
                waiting.append(layer.graph)
            found.add(id(layer.origin))
    return found


def _hidden(pairs: Pairs) -> set[int]:
    """Return the ids of the layers inside Keras's own: on some backends, a loop compiles them."""
    return {
        id(part)
        for both in pairs.layers
        for layer in (both.old, both.new)
        if isinstance(layer, keras.Layer) and not isinstance(layer, keras.Model)
        if backends.is_of_keras(type(layer))
        for part in internals.all_layers(layer)[1:]
    }


def _classes(a: Any, b: Any) -> list[str]:
    names = [type(layer).__name__ for layer in (a, b)]
    if names[0] == names[1]:
        return [names[0], f"another class {names[1]}"]
    return names


def _is_seed(reason: tuple[str, str]) -> bool:
    return reason[1].partition(" ")[0].rpartition(".")[2].startswith("seed")

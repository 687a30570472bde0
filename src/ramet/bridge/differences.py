"""How two graphs differ, each difference where it begins."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.align import align, config_of, constant, is_same_name
from ramet.bridge.roles import roles_of
from ramet.bridge.values import same_bits
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.names import is_automatic
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves, map_tree

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Entry:
    """One change."""

    kind: str
    """`added`, `removed`, `replaced`, `renamed`, `config`, `shape`, `weights`, `arguments`,
    `sharing`, `masks`, `inputs` or `outputs`."""
    where: str
    """Path of the layer or call, in the first model if it is there."""
    text: str
    """What changed, in words."""


def differences(first: Graph, second: Graph, *, weights: bool) -> Iterator[Entry]:
    """Yields how two graphs differ, and those nested in them."""
    yield from _Comparison(first, second, "", weights=weights).entries()


class _Comparison:
    def __init__(self, first: Graph, second: Graph, prefix: str, *, weights: bool) -> None:
        self._first, self._second = first, second
        self._prefix = prefix
        self._weights = weights
        self._found = align(first, second)
        self._back = {new: old for old, new in self._found.calls.items()}
        self._written = [{call.name: call for call in written_calls(g)} for g in (first, second)]

    def entries(self) -> Iterator[Entry]:
        yield from self._missing()
        for old, new in self._found.layers.items():
            yield from self._layers(old, new)
        for old, new in self._found.calls.items():
            yield from self._calls(self._first.calls[old], self._second.calls[new])
        yield from self._sharing()
        yield from self._ends("inputs", self._first.inputs, self._second.inputs)
        yield from self._ends("outputs", self._first.outputs, self._second.outputs)

    def _entry(self, kind: str, where: str, text: str) -> Entry:
        return Entry(kind, self._prefix + where, text)

    def _missing(self) -> Iterator[Entry]:
        """Yields layers that only one of the graphs has."""
        sides = (
            ("removed", self._first, self._written[0], self._found.calls),
            ("added", self._second, self._written[1], self._back),
        )
        for kind, graph, written, known in sides:
            paired = {graph.calls[name].layer for name in known}
            used = dict.fromkeys(call.layer for call in written.values() if call.layer)
            for key in used:
                if key not in paired:
                    yield self._entry(kind, key, graph.layers[key].kind)

    def _layers(self, old: str, new: str) -> Iterator[Entry]:
        """Yields how two paired layers differ by themselves."""
        a, b = self._first.layers[old], self._second.layers[new]
        if a.kind != b.kind:
            yield self._entry("replaced", old, f"{a.kind} by {b.kind} '{new}'")
            return
        if not is_same_name(a.name, b.name, a.kind):
            yield self._entry("renamed", old, f"now '{new}'")
        changed = [*_changed_config(config_of(a), config_of(b))]
        flags = [getattr(layer.origin, "trainable", None) for layer in (a, b)]
        if flags[0] != flags[1] and not any(text.startswith("trainable") for text in changed):
            changed.append(f"trainable={flags[0]} is now {flags[1]}")
        if changed:
            yield self._entry("config", old, "; ".join(changed))
        if a.graph is not None and b.graph is not None:
            inner = _Comparison(a.graph, b.graph, f"{self._prefix}{old}/", weights=self._weights)
            yield from inner.entries()
        elif self._weights and not changed:
            yield from self._values(old, a, b)

    def _values(self, where: str, a: Layer, b: Layer) -> Iterator[Entry]:
        """Yields how the weights of two layers differ."""
        if not (isinstance(a.origin, keras.Layer) and isinstance(b.origin, keras.Layer)):
            return
        olds, news = _variables(a.origin), _variables(b.origin)
        told = [
            text
            for role in dict.fromkeys([*olds, *news])
            if (text := _value_difference(role, olds.get(role), news.get(role)))
        ]
        if told:
            yield self._entry("weights", where, "; ".join(told))

    def _calls(self, old: Call, new: Call) -> Iterator[Entry]:
        """Yields how two paired calls differ in arguments, shapes and masks."""
        arguments = [self._arguments(old, 0), self._arguments(new, 1)]
        rewired = arguments[0] != arguments[1]
        if rewired and not any(_ABSENT in leaves(tree) for tree in arguments):
            yield self._entry("arguments", old.name, _told(old, new))
        if rewired or self._inputs_differ(old, new) or self._is_told(old, new):
            return
        for a, b in zip(old.outputs, new.outputs, strict=False):
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                text = f"{a.dtype}{list(a.shape)} is now {b.dtype}{list(b.shape)}"
                yield self._entry("shape", old.name, text)
            elif (a.mask is None) != (b.mask is None):
                text = "carries a mask no longer" if b.mask is None else "now carries a mask"
                yield self._entry("masks", old.name, text)

    def _is_told(self, old: Call, new: Call) -> bool:
        """Tells whether the layers of two calls differ, so that an entry says so already."""
        if old.layer is None or new.layer is None:
            return False
        a, b = self._first.layers[old.layer], self._second.layers[new.layer]
        return a.kind != b.kind or config_of(a) != config_of(b) or a.graph is not None

    def _inputs_differ(self, old: Call, new: Call) -> bool:
        """Tells whether what two calls read differs in shape or mask already."""
        pairs = zip(old.written_refs, new.written_refs, strict=False)
        return any(_facts(self._first, a) != _facts(self._second, b) for a, b in pairs) or len(
            old.written_refs
        ) != len(new.written_refs)

    def _arguments(self, call: Call, side: int) -> Any:
        """Returns the arguments of a call in terms of the first graph's tensors."""
        kwargs = {key: item for key, item in call.kwargs.items() if key not in call.derived}

        def shown(leaf: Any) -> Any:
            return self._tensor(leaf, side) if isinstance(leaf, Ref) else constant(leaf)

        return map_tree(shown, (call.args, kwargs))

    def _tensor(self, ref: Ref, side: int) -> Any:
        """Returns a tensor in terms of the first graph, past layers that only one has."""
        graph = self._second if side else self._first
        known = self._back if side else self._found.calls
        while ref.call not in known:
            above = graph.calls[ref.call].written_refs
            if len(above) != 1:
                return _ABSENT  # What makes it is told as added or removed.
            ref = above[0]
        return f"{known[ref.call] if side else ref.call}.{ref.index}"

    def _sharing(self) -> Iterator[Entry]:
        """Yields calls that were of one layer and are of two now, or the other way."""
        for old, new in self._found.calls.items():
            key, other = self._first.calls[old].layer, self._second.calls[new].layer
            if key is None or other is None:
                continue
            expected = self._found.layers.get(key)
            if expected is not None and expected != other:
                yield self._entry("sharing", old, f"a call of '{key}', now one of '{other}'")

    def _ends(self, kind: str, old: Any, new: Any) -> Iterator[Entry]:
        before = map_tree(lambda ref: self._tensor(ref, 0), old)
        if before != map_tree(lambda ref: self._tensor(ref, 1), new):
            yield self._entry(kind, kind, f"{_names(old)} is now {_names(new)}")


def _variables(layer: Any) -> dict[tuple[str, ...], Any]:
    """Returns the variables of a layer by role; those without names by their order."""
    found: dict[tuple[str, ...], Any] = {}
    for role, variable in roles_of(layer).items():
        start = role[:-1] if is_automatic(role[-1], "Variable") else None
        number = sum(known[:-1] == start for known in found)
        found[role if start is None else (*start, f"variable {number + 1}")] = variable
    return found


def _told(old: Call, new: Call) -> str:
    refs = [", ".join(ref.call for ref in call.written_refs) for call in (old, new)]
    if refs[0] != refs[1]:
        return f"reads {refs[0] or 'nothing'}, now {refs[1] or 'nothing'}"
    return "takes other constants"


def _names(tree: Any) -> str:
    return repr(map_tree(lambda ref: ref.call, tree))


def _facts(graph: Graph, ref: Ref) -> Any:
    spec: Spec = graph.calls[ref.call].outputs[ref.index]
    return spec.shape, spec.dtype, spec.mask is None


def _changed_config(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
    if old is None or new is None:
        return
    for name in dict.fromkeys([*old, *new]):
        a, b = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if a != b:
            yield f"{name}={_short(a)} is now {_short(b)}"


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "not there"
    if isinstance(value, dict) and "class_name" in value:
        return str(value["class_name"])
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 fits a cell


def _value_difference(role: tuple[str, ...], old: Any, new: Any) -> str:
    """Says how much a variable differs, or nothing."""
    name = ".".join(role)
    if old is None or new is None:
        return f"{name} is {'new' if old is None else 'gone'}"
    if tuple(old.shape) != tuple(new.shape):
        return f"{name} is {tuple(old.shape)}, now {tuple(new.shape)}"
    a, b = (np.asarray(internals.to_numpy(variable)) for variable in (old, new))
    if same_bits(a, b):
        return ""
    if a.dtype != b.dtype:
        return f"{name} is {a.dtype}, now {b.dtype}"
    if a.dtype.kind not in "fiub" or a.size == 0:
        return f"{name} differs"
    size = np.abs(a.astype("float64") - b.astype("float64"))
    return f"{name} differs in {int((size > 0).sum())} of {a.size} values, by {np.nanmax(size):.3g}"

"""Which layer of one graph is which of another: by structure first, then by name.

A call is known by what it is (the class and config of its layer, without the name)
and by what lies above it, or by what lies below it. Where an edit made both differ,
the name decides, and at last the neighbours do.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import keras

from ramet.bridge import internals
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.names import is_automatic
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves, map_tree


@dataclass
class Alignment:
    """Which calls and layers of two graphs belong together."""

    calls: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the second graph's calls, by those of the first."""
    layers: dict[str, str] = field(default_factory=dict[str, str])
    """Keys of the second graph's layers, by those of the first."""


def align(first: Graph, second: Graph) -> Alignment:
    """Pairs the calls and layers of two graphs. Costs O(calls), and one config per layer."""
    return _Aligner(first, second).aligned()


def config_of(layer: Layer) -> dict[str, Any] | None:
    """Returns the config of a layer without its name, as plain data; `None` if it has none."""
    own = internals.own_config(layer.origin) if layer.graph is not None else None
    try:
        config = own or keras.saving.serialize_keras_object(layer.origin).get("config", {})
        plain = json.loads(json.dumps(config, sort_keys=True, default=_kind))
    except Exception:  # noqa: BLE001 a layer without a config has none to compare
        return None
    plain.pop("name", None)
    plain = {key: _without_counters(item) for key, item in plain.items()}
    if layer.graph is not None:
        # What a nested model holds is compared inside of it.
        for name in ("layers", "input_layers", "output_layers"):
            plain.pop(name, None)
    return plain


def is_same_name(first: str, second: str, kind: str) -> bool:
    """Whether two layers of a kind have one name, but for the numbers that Keras counts."""
    return first == second or (is_automatic(first, kind) and is_automatic(second, kind))


def _without_counters(value: Any) -> Any:
    """Returns a config value in which layers have automatic names without their numbers.

    `Bidirectional` puts a word before the names of its parts.
    """
    if isinstance(value, list):
        return [_without_counters(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    plain = {key: _without_counters(item) for key, item in cast("dict[str, Any]", value).items()}
    config, kind = plain.get("config"), plain.get("class_name")
    if isinstance(config, dict) and isinstance(kind, str) and isinstance(config.get("name"), str):
        name = config["name"]
        if is_automatic(re.sub("^(forward|backward)_", "", name), kind):
            config["name"] = re.sub(r"_\d+$", "", name)
    return plain


def _kind(value: Any) -> str:
    return type(value).__name__


class _Aligner:
    def __init__(self, first: Graph, second: Graph) -> None:
        self._graphs = (first, second)
        self._written = [written_calls(graph) for graph in self._graphs]
        self._found = Alignment()
        self._taken: set[str] = set()
        self._are_counted_alike = _are_counted_alike(first, second)
        self._facts = [
            {key: _digest(layer.kind, config_of(layer)) for key, layer in graph.layers.items()}
            for graph in self._graphs
        ]

    def aligned(self) -> Alignment:
        self._pair(self._inputs)
        above, below = (
            [sign(side) for side in (0, 1)] for sign in (self._from_above, self._from_below)
        )
        self._pair(lambda side, call: (above[side][call.name], below[side][call.name]))
        self._pair(lambda side, call: above[side][call.name])
        self._pair(lambda side, call: below[side][call.name])
        self._pair(self._name_and_kind)
        self._pair(self._neighbours)
        for old, new in self._found.calls.items():
            key, other = self._graphs[0].calls[old].layer, self._graphs[1].calls[new].layer
            if key is not None and other is not None:
                self._found.layers.setdefault(key, other)
        return self._found

    def _pair(self, sign: Callable[[int, Call], Any]) -> None:
        """Pairs calls of the same sign: those of one name first, then in order."""
        groups: list[dict[Any, list[str]]] = []
        for side, calls in enumerate(self._written):
            group: defaultdict[Any, list[str]] = defaultdict(list)
            for call in calls:
                free = call.name not in (self._taken if side else self._found.calls)
                mark = sign(side, call) if free else None
                if mark is not None:
                    group[mark].append(call.name)
            groups.append(group)
        for mark, olds in groups[0].items():
            news = groups[1].get(mark, [])
            same = [name for name in olds if name in news and self._tells(0, name)]
            rest = [[n for n in names if n not in same] for names in (olds, news)]
            for old, new in [*zip(same, same, strict=True), *zip(*rest, strict=False)]:
                self._found.calls[old] = new
                self._taken.add(new)

    def _inputs(self, side: int, call: Call) -> Any:
        """Returns where a call stands among the inputs of its graph."""
        refs = list(leaves(self._graphs[side].inputs))
        return refs.index(Ref(call.name)) if Ref(call.name) in refs else None

    def _from_above(self, side: int) -> dict[str, str]:
        """Returns what each call is, by itself and all above it."""
        signs: dict[str, str] = {}
        for call in self._written[side]:
            inputs = self._inputs(side, call)
            signs[call.name] = _digest(
                inputs if inputs is not None else self._fact(side, call),
                _arguments(call, lambda ref: (signs.get(ref.call, "?"), ref.index)),
            )
        return signs

    def _from_below(self, side: int) -> dict[str, str]:
        """Returns what each call is, by itself and all below it."""
        readers: defaultdict[str, list[Any]] = defaultdict(list)
        for place, ref in enumerate(leaves(self._graphs[side].outputs)):
            readers[ref.call].append(("output", place, ref.index))
        signs: dict[str, str] = {}
        for call in reversed(self._written[side]):
            below = sorted(readers[call.name], key=str)
            signs[call.name] = _digest(self._fact(side, call), below)
            for place, ref in enumerate(call.written_refs):
                readers[ref.call].append((signs[call.name], place, ref.index))
        return signs

    def _name_and_kind(self, side: int, call: Call) -> Any:
        layer = self._graphs[side].layers.get(call.layer or "")
        if not self._tells(side, call.name):
            return None
        return call.name, None if layer is None else layer.kind

    def _tells(self, side: int, name: str) -> bool:
        """Whether the name of a call says which layer it is, also in the other graph."""
        layer = self._graphs[side].layers.get(self._graphs[side].calls[name].layer or "")
        chosen = layer is not None and not is_automatic(layer.name, layer.kind)
        return chosen or self._are_counted_alike

    def _neighbours(self, side: int, call: Call) -> Any:
        """Returns what a call reads, in terms of the first graph, if that is paired."""
        back = {new: old for old, new in self._found.calls.items()} if side else None
        names = [ref.call for ref in call.written_refs]
        known = [back.get(name) if back is not None else name for name in names]
        paired = names and all(name is not None and name in self._found.calls for name in known)
        return tuple(known) if paired else None

    def _fact(self, side: int, call: Call) -> str:
        return "" if call.layer is None else self._facts[side][call.layer]


def _are_counted_alike(first: Graph, second: Graph) -> bool:
    """Whether automatic names of two graphs come from the same counting.

    Where the same code made both models, one after the other, Keras went on counting, and
    no number of the first is the first number of the second.
    """
    starts: list[dict[str, int]] = [{}, {}]
    for graph, start in zip((first, second), starts, strict=True):
        for layer in graph.layers.values():
            if is_automatic(layer.name, layer.kind):
                number = re.search(r"_(\d+)$", layer.name)
                count = int(number[1]) if number else 0
                start[layer.kind] = min(count, start.get(layer.kind, count))
    common = starts[0].keys() & starts[1].keys()
    return not common or any(starts[0][kind] == starts[1][kind] for kind in common)


def _arguments(call: Call, sign: Callable[[Ref], Any]) -> str:
    kwargs = {key: item for key, item in call.kwargs.items() if key not in call.derived}

    def shown(leaf: Any) -> Any:
        return sign(leaf) if isinstance(leaf, Ref) else constant(leaf)

    return repr(map_tree(shown, (call.args, kwargs)))


def constant(leaf: Any) -> str:
    """Returns a constant of a call's arguments as text by which it can be compared."""
    if leaf is None or isinstance(leaf, (bool, int, float, str, slice)):
        return repr(leaf)
    if isinstance(leaf, keras.Variable):
        return f"variable {leaf.path}"
    try:
        array = keras.ops.convert_to_numpy(leaf)
    except Exception:  # noqa: BLE001 not every constant is an array
        return type(leaf).__name__
    return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"


def _digest(*facts: Any) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()

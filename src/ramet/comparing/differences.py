"""How two models differ, each difference where it begins."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ramet.comparing.alignment.align import Alignment, align
from ramet.comparing.alignment.facts import constant, without_tuples
from ramet.comparing.alignment.nodes import Node, is_named_alike
from ramet.comparing.calls import Tensors, agree
from ramet.comparing.flags import Flags
from ramet.comparing.layer_changes import (
    changed_attributes,
    changed_config,
    is_replaced,
    layer_values,
)
from ramet.comparing.objects.texts import ABSENT
from ramet.comparing.sharing import split_layers
from ramet.graph import Graph, Layer, Ref, Spec
from ramet.graph.names import counted
from ramet.graph.tree import leaves, map_tree
from ramet.results.diff import Entry

_BRIEF = 40
"""Letters of a constant that is quoted."""

Pair = tuple[Node | None, Node | None]
"""A call of the first model and one of the second, or one of them alone."""


@dataclass(frozen=True, slots=True)
class Change:
    """An entry, and the calls that it is about."""

    entry: Entry
    """What changed."""
    calls: tuple[Pair, ...] = field(default=(), compare=False)
    """The calls of the layer that changed; none where the model as a whole did."""


def differences(first: Graph, second: Graph, *, weights: bool) -> Iterator[Entry]:
    """Yield how two graphs differ, and those nested in them."""
    for change in changes(align(first, second, weights=weights), weights=weights):
        yield change.entry


def changes(alignment: Alignment, *, weights: bool) -> list[Change]:
    """List how two aligned graphs differ, outer ones first, each change once."""
    flags = Flags(alignment, weights=weights)
    found = [*_model(alignment)]
    found += [Change(Entry("config", path, text), calls) for path, text, calls in flags.wholes()]
    given: dict[int, bool] = {}
    levels = [*alignment.walk()]
    counterparts = Counter(one for one, _, _ in levels)
    compared: set[Any] = set()
    for one, two, level in levels:
        comparison = _Level(level, (one, two), flags, weights=weights)
        comparison.compared = compared
        comparison.is_one_of_several = counterparts[one] > 1
        comparison.is_given_other = given.get(id(level), False)
        found += comparison.changes()
        for a, b in level.pairing:
            inner = level.inside.get((a.key or "", b.key or ""))
            if inner is not None:
                given[id(inner)] = given.get(id(inner), False) or _inputs_differ(a, b)
    for where, text, calls in split_layers(alignment, _LayerTexts(weights=weights)):
        found.append(Change(Entry("sharing", where, text), calls))
    # A model that was one and is two now is compared with both of them.
    return [*{change.entry: change for change in found}.values()]


def _model(alignment: Alignment) -> Iterator[Change]:
    """Yield whether the model itself has another class."""
    models = [getattr(g.origin, "model", None) for g in (alignment.first, alignment.second)]
    kinds = [type(model).__name__ for model in models]
    if None not in models and kinds[0] != kinds[1]:
        yield Change(Entry("class", alignment.first.name, f"{kinds[0]} is now {kinds[1]}"))


class _Level:
    """How two graphs differ, without what is inside of nested models."""

    def __init__(
        self, alignment: Alignment, prefixes: tuple[str, str], flags: Flags, *, weights: bool
    ) -> None:
        self.is_given_other = False
        """Whether a model is called on other shapes, so that its inputs are others as well."""
        self.is_one_of_several = False
        """Whether the first graph is compared with other graphs too."""
        self.compared: set[Any] = set()
        """The layers that were compared already: one may be used on several levels."""
        self._alignment = alignment
        self._prefixes = prefixes
        self._flags = flags
        self._weights = weights
        pairs = alignment.pairing
        self._tensors = Tensors(alignment)
        self._paired = alignment.all_layers()
        self._layers: dict[tuple[str, str], list[tuple[Node, Node]]] = {}
        for a, b in pairs:
            if a.key is not None and b.key is not None:
                self._layers.setdefault((a.key, b.key), []).append((a, b))

    def changes(self) -> Iterator[Change]:
        """Yield the changes of this level."""
        yield from self._models()
        yield from self._missing(0, "removed")
        yield from self._missing(1, "added")
        for calls in self._layers.values():
            yield from self._layer(calls)
        for a, b in self._alignment.pairing:
            yield from self._call(a, b)
        yield from self._ends()

    def _change(self, kind: str, where: str, text: str, *calls: Pair, side: int = 0) -> Change:
        return Change(Entry(kind, self._prefixes[side] + where, text), calls)

    # --- what only one of the models has

    def _models(self) -> Iterator[Change]:
        """Yield nested models that only one of the graphs nests, each once wherever it is used."""
        alignment = self._alignment
        sides = (
            ("inlined", alignment.inlined, "of it moved into the model around it"),
            ("wrapped", alignment.wrapped, "moved into it from the model around it"),
        )
        for side, (kind, models, moved) in enumerate(sides):
            opened = alignment.nodes[side].opened
            same: dict[Any, list[str]] = {}
            for key in models:
                layer = opened[key][0].layer
                same.setdefault(None if layer is None else layer.identity, []).append(key)
            for keys in same.values():
                calls = [_alone(node, side) for key in keys for node in opened[key]]
                layers = sum(len(models[key].layers) for key in keys)
                text = f"{counted(layers, 'layer')} {moved}"
                yield self._change(kind, keys[0], text, *calls, side=side)

    def _missing(self, side: int, kind: str) -> Iterator[Change]:
        """Yield layers that only one of the graphs has, and calls of layers that both have."""
        alone: dict[str, list[Node]] = {}
        known = {node.key for pair in self._alignment.pairing for node in [pair[side]]}
        for node in self._alignment.nodes[side].order:
            if self._tensors.has_partner(node, side):
                continue
            if node.key is None or node.key in known:
                text = "input" if node.key is None else f"a call of '{node.key}'"
                yield self._change(kind, node.path, text, _alone(node, side), side=side)
            else:
                alone.setdefault(node.key, []).append(node)
        for key, nodes in alone.items():
            name = nodes[0].layer.kind if nodes[0].layer is not None else ""
            calls = [_alone(node, side) for node in nodes]
            yield self._change(kind, key, name, *calls, side=side)

    # --- layers

    def _layer(self, calls: list[tuple[Node, Node]]) -> Iterator[Change]:
        """Yield how two paired layers differ by themselves."""
        (node, other), *_ = calls
        a, b = node.layer, other.layer
        if a is None or b is None or self._paired.get(node.key or "") != other.key:
            return  # Of layers that are several now, or one, `sharing` says how.
        if (a.identity, b.identity) in self.compared:
            return
        self.compared.add((a.identity, b.identity))
        key, new, both = node.key or "", other.key or "", [*calls]
        if a.kind != b.kind and (a.graph is None or b.graph is None):
            rest = ", and inlined elsewhere" if key in self._alignment.inlined else ""
            yield self._change("replaced", key, f"{a.kind} by {b.kind} '{new}'{rest}", *both)
            return
        if a.kind != b.kind:
            yield self._change("class", key, f"{a.kind} is now {b.kind}", *both)
        config, shapes = self._options(node, other, a, b)
        values = layer_values(a, b, shapes=shapes)[0] if self._weights else []
        if is_replaced(node, other, weights=self._weights):
            text = f"{a.kind} by {b.kind} '{new}': {'; '.join(config)}"
            yield self._change("replaced", key, text, *both)
            return
        if not is_named_alike(node, other):
            yield self._change("renamed", key, f"now '{new}'", *both)
        flag = self._flags.alone(node, other)
        if config or flag:
            texts = [*config, *([flag] if flag else []), *(values if config else [])]
            yield self._change("config", key, self._in_which(texts, new), *both)
        if values and not config:
            yield self._change("weights", key, self._in_which(values, new), *both)

    def _options(self, node: Node, other: Node, a: Layer, b: Layer) -> tuple[list[str], bool]:
        """Return how layers are made otherwise, and if other shapes do not follow from that."""
        config = [*changed_config(a, b)]
        if node.is_input and self.is_given_other:
            config = []
        if config or _inputs_differ(node, other):
            return config, False
        return [*changed_attributes(a, b)], True

    def _in_which(self, texts: list[str], key: str) -> str:
        """Return what changed, and in which layer if the first model's layer became several."""
        which = f" in '{self._prefixes[1]}{key}'" if self.is_one_of_several else ""
        return "; ".join(texts) + which

    # --- calls

    def _call(self, a: Node, b: Node) -> Iterator[Change]:
        """Yield how two paired calls differ in arguments, shapes and masks."""
        if _kind(a) == _kind(b):
            rewired = not agree(self._arguments(a, 0), self._arguments(b, 1))
        else:  # Another layer may be called otherwise on the same tensors.
            sides = (a, 0), (b, 1)
            rewired = not agree(*(self._tensors.reads(*each) for each in sides))
        if rewired:
            yield self._change("arguments", a.path, self._reads(a, b), (a, b))
        specs = [[_facts(spec) for spec in node.call.outputs] for node in (a, b)]
        if rewired or specs[0] == specs[1] or _inputs_differ(a, b) or _is_opened(a, b):
            return
        if _is_told(a.layer, b.layer):
            return
        for old, new in zip(a.call.outputs, b.call.outputs, strict=False):
            if not (old.known and new.known):
                continue
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                text = f"{old.dtype}{list(old.shape)} is now {new.dtype}{list(new.shape)}"
                yield self._change("shape", a.path, text, (a, b))
            elif (old.mask is None) != (new.mask is None):
                text = "no longer carries a mask" if new.mask is None else "now carries a mask"
                yield self._change("masks", a.path, text, (a, b))

    def _arguments(self, node: Node, side: int) -> Any:
        """Return the arguments of a call in terms of the first graph's tensors."""
        return without_tuples(self._tensors.arguments(node, side))

    def _reads(self, old: Node, new: Node) -> str:
        """Say what two calls read, or on which constants they are called."""
        sides = (old, 0), (new, 1)
        if agree(*(self._tensors.reads(*each) for each in sides)):
            constants = [_constants(node) for node in (old, new)]
            if len(constants[0]) == len(constants[1]):
                changed = [(x, y) for x, y in zip(*constants, strict=True) if x != y]
                if changed and all(len(text) <= _BRIEF for both in changed for text in both):
                    texts = [f"{before}, now {after}" for before, after in changed]
                    return f"is called on {'; '.join(texts)}"
            return "is called differently, on the same tensors"
        names = [", ".join(maker.path for maker, _ in node.inputs) for node in (old, new)]
        if names[0] != names[1]:
            return f"reads {names[0] or 'nothing'}, now {names[1] or 'nothing'}"
        return "reads other outputs"

    # --- ends

    def _ends(self) -> Iterator[Change]:
        """Yield whether the model takes or returns something else."""
        first, second = self._alignment.first, self._alignment.second
        for kind in ("inputs", "outputs"):
            trees = [getattr(graph, kind) for graph in (first, second)]
            shown = [self._tensors.ends(tree, side) for side, tree in enumerate(trees)]
            if not agree(*shown) and not (kind == "inputs" and self._inputs_are_listed(*shown)):
                text = f"{_names(trees[0])} is now {_names(trees[1])}"
                yield self._change(kind, kind, text)

    def _inputs_are_listed(self, *trees: Any) -> bool:
        """Whether inputs differ only by those that are listed as added or removed."""
        rest = [[x for x in leaves(tree) if x is not ABSENT] for tree in trees]
        return rest[0] == rest[1]


class _LayerTexts:
    """Says how layers differ whose calls are paired, though the layers are not a pair."""

    def __init__(self, *, weights: bool) -> None:
        self._weights = weights

    def __call__(self, node: Node, other: Node) -> list[str]:
        a, b = node.layer, other.layer
        if a is None or b is None:
            return []
        if a.kind != b.kind:
            return [f"{a.kind} is now {b.kind}"]
        config = [*changed_config(a, b)]
        shapes = not (config or _inputs_differ(node, other))
        return config + (layer_values(a, b, shapes=shapes)[0] if self._weights else [])


def _kind(node: Node) -> str:
    return "" if node.layer is None else node.layer.kind


def _inputs_differ(a: Node, b: Node) -> bool:
    """Whether what two calls read differs in shape or mask already."""
    facts = [[_facts(_spec(*tensor)) for tensor in node.inputs] for node in (a, b)]
    return facts[0] != facts[1]


def _alone(node: Node, side: int) -> Pair:
    return (None, node) if side else (node, None)


def _is_told(a: Layer | None, b: Layer | None) -> bool:
    """Whether layers differ, so that an entry says so already, or inside of them."""
    if a is None or b is None:
        return False
    return a.kind != b.kind or a.graph is not None or any(changed_config(a, b))


def _is_opened(*nodes: Node) -> bool:
    """Whether what a call reads or returns is reported inside a nested model, and may be less."""
    near = [*nodes, *(maker for node in nodes for maker, _ in node.inputs)]
    return any(node.alias is not None for node in near)


def _constants(node: Node) -> list[str]:
    """Return the constants that a call is called on, in order."""
    tree = node.call.args, node.kwargs
    return [constant(leaf) for leaf in leaves(tree) if not isinstance(leaf, Ref)]


def _names(tree: Any) -> str:
    return repr(map_tree(lambda ref: ref.call, tree))


def _facts(spec: Spec) -> Any:
    return spec.shape, spec.dtype, spec.mask is None


def _spec(node: Node, index: int) -> Spec:
    return node.call.outputs[index]

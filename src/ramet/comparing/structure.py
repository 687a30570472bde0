"""How two models are made, side by side: classes, names, arguments, attributes and wiring."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.building.weights.roles import own_roles
from ramet.comparing.alignment.align import Alignment
from ramet.comparing.alignment.facts import constant
from ramet.comparing.alignment.nodes import Node, is_same_name
from ramet.comparing.contents import Contents
from ramet.comparing.counterparts import LayerPair, Pairs
from ramet.comparing.texts import ABSENT, apart, shown
from ramet.comparing.walk import ValueDifference
from ramet.graph import Call, Ref
from ramet.graph.names import counted, prefixed
from ramet.graph.tree import map_tree
from ramet.tracing.trace import has_graph

_SIDES = ("first", "second")


def structure_differences(pairs: Pairs, contents: Contents) -> Iterator[str]:
    """Yield differences in classes, names, arguments, attributes and wiring.

    The name of the models themselves may differ.
    """
    yield from _graph_or_not(pairs)
    for side, other in ((0, 1), (1, 0)):
        for path in pairs.inlined[side]:
            has, lacks = _SIDES[side], _SIDES[other]
            yield f"nested model '{path}' of the {has} model is inlined in the {lacks}"
    for side, places in zip(_SIDES, pairs.alone, strict=True):
        for path, layer in places:
            yield f"layer '{path}' ({type(layer).__name__}) is in the {side} model only"
    yield from _names(pairs)
    consequences = _Consequences(pairs)
    for number, both in enumerate(pairs.layers):
        told = [d for d in contents.layers.get(number, ()) if not consequences.has(both, d)]
        yield from _layers(consequences.where(both), both, told)
    yield from _paths(pairs)
    if pairs.alignment is not None:
        for one, _, alignment in pairs.alignment.walk():
            yield from _Wiring(one, alignment).differences()
    for difference in contents.compiled:
        yield f"the model was compiled with {difference}"


def _graph_or_not(pairs: Pairs) -> Iterator[str]:
    first, second = has_graph(pairs.first), has_graph(pairs.second)
    if first != second:
        have, lack = _SIDES if first else _SIDES[::-1]
        yield f"the {have} model has a graph, the {lack} has none"


# --- layers --------------------------------------------------------------------------


class _Consequences:
    """What follows from differences elsewhere, and is not told where it does."""

    def __init__(self, pairs: Pairs) -> None:
        others = {
            id(call.old.layer.origin)
            for call in pairs.calls()
            if call.old.layer is not None and _shapes(call.old) != _shapes(call.new)
        }
        self._paths = {both.path for both in pairs.layers if id(both.old) in others}
        self._partners = Counter(id(both.old) for both in pairs.layers)

    def has(self, both: LayerPair, difference: ValueDifference) -> bool:
        """Whether a layer differs only because what it is called on has another shape."""
        if not difference.name.startswith("_input_spec.axes"):
            return False
        return any(f"{both.path}/".startswith(f"{path}/") for path in self._paths)

    def where(self, both: LayerPair) -> str:
        """Return a layer in words, and which one it is if it became several."""
        which = f" ('{both.other}' in the second model)" if self._partners[id(both.old)] > 1 else ""
        return both.where + which


def _shapes(node: Node) -> Any:
    return [maker.call.outputs[index].shape for maker, index in node.inputs]


def _layers(where: str, both: LayerPair, differences: Iterable[ValueDifference]) -> Iterator[str]:
    if type(both.old) is not type(both.new):
        # Of other classes, they have other attributes too.
        old, new = apart(type(both.old), type(both.new))
        yield f"{where} has class {old} and {new}"
        for name in ("trainable", "compiled"):
            pair = [getattr(layer, name, None) for layer in (both.old, both.new)]
            if None not in pair and pair[0] != pair[1]:
                yield f"{where} has {name} {pair[0]} and {pair[1]}"
        return
    for difference in differences:
        if difference.attribute != "output_names":  # the wiring says so
            yield f"{where} has {difference}"


def _names(pairs: Pairs) -> Iterator[str]:
    """Yield which layers have other names; those that Keras counted in one line."""
    automatic: list[tuple[str, str]] = []
    kept = {id(x) for p in pairs.layers if p.old.name == p.new.name for x in (p.old, p.new)}
    for both in pairs.layers[1:]:
        old, new = both.old.name, both.new.name
        if old == new or _is_inlined_name(both) or {id(both.old), id(both.new)} & kept:
            continue  # of a layer that is several in the other model, one has its name
        if type(both.old) is type(both.new) and _is_counted(both):
            automatic.append((old, new))
        else:
            yield f"{both.where} has name '{old}' and '{new}'"
    if automatic:
        old, new = automatic[0]
        names = counted(len(automatic), "automatic name")
        verb = "differs" if len(automatic) == 1 else "differ"
        example = "" if len(automatic) == 1 else "e.g. "
        yield f"{names} {verb}: {example}'{old}' and '{new}'"


def _is_counted(both: LayerPair) -> bool:
    """Whether two layers have names that Keras made, with other numbers."""
    old, new = both.old.name, both.new.name
    if all(re.fullmatch(r"keras_tensor(_\d+)?(CLONE)?", name) for name in (old, new)):
        return True  # an input where a model was cut out of another
    if not isinstance(both.old, keras.Layer):
        # An operation is named after the function that makes it, by Keras alone.
        return re.sub(r"_\d+$", "", old) == re.sub(r"_\d+$", "", new)
    one, two = (re.sub("^(forward|backward)_", "", name) for name in (old, new))
    same_word = old.removesuffix(one) == new.removesuffix(two)
    return same_word and is_same_name(one, two, type(both.old).__name__)


def _is_inlined_name(both: LayerPair) -> bool:
    """Whether a name is another because a nested model was inlined."""
    for name, there in ((both.old.name, both.new.name), (both.new.name, both.old.name)):
        longer = name
        for model in reversed(both.opened):
            longer = prefixed(model, longer)
            if re.sub(r"[_#]\d+$", "", longer) == re.sub(r"[_#]\d+$", "", there):
                return True
    return False


def _paths(pairs: Pairs) -> Iterator[str]:
    """Yield variables whose paths differ by more than the names of layers."""
    if any(pairs.inlined) or has_graph(pairs.first) != has_graph(pairs.second):
        return  # Their paths have other steps.
    renamed = {(both.old.name, both.new.name) for both in pairs.layers}
    for both in pairs.layers:
        if isinstance(both.old, keras.Layer) and isinstance(both.new, keras.Layer):
            roles = own_roles(both.old), own_roles(both.new)
            for role in roles[0].keys() & roles[1].keys():
                old, new = (known[role].path for known in roles)
                if old != new and not _is_renamed(old, new, renamed):
                    yield f"variable '{role}' of {both.where} has path '{old}' and '{new}'"


def _is_renamed(old: str, new: str, renamed: set[tuple[str, str]]) -> bool:
    steps = [path.split("/") for path in (old, new)]
    return len(steps[0]) == len(steps[1]) and all(
        a == b or (a, b) in renamed or re.sub(r"_\d+$", "", a) == re.sub(r"_\d+$", "", b)
        for a, b in zip(*steps, strict=True)
    )


# --- wiring --------------------------------------------------------------------------


class _Wiring:
    """The calls of two graphs: what they read, and what they return."""

    def __init__(self, prefix: str, level: Alignment) -> None:
        self._prefix = prefix
        self._level = level
        self._partners = (
            {id(a): b for a, b in level.pairing},
            {id(b): a for a, b in level.pairing},
        )

    def differences(self) -> Iterator[str]:
        where = f"model '{self._prefix.rstrip('/')}'" if self._prefix else "the model"
        for noun in ("inputs", "outputs"):
            trees = [getattr(graph, noun) for graph in (self._level.first, self._level.second)]
            if not _agree(*(self._ends(tree, side) for side, tree in enumerate(trees))):
                yield f"{where} has {noun} {_named(trees[0])} and {_named(trees[1])}"
        for old, new in self._level.pairing:
            yield from self._calls(old, new)

    def _ends(self, tree: Any, side: int) -> Any:
        tensors = self._level.nodes[side].tensors
        return map_tree(lambda ref: self._tensor(*tensors[ref], side), tree)

    def _calls(self, old: Node, new: Node) -> Iterator[str]:
        where = f"call '{self._prefix}{old.path}'"
        if not _are_called_alike(old, new):
            tensors = [
                [self._tensor(*each, side) for each in node.inputs]
                for side, node in enumerate((old, new))
            ]
            if not _agree(*tensors):
                yield f"{where} reads {_read(old)} and {_read(new)}"
            return
        arguments = [self._arguments(node, side) for side, node in enumerate((old, new))]
        for name in dict.fromkeys([*arguments[0], *arguments[1]]):
            values = [known.get(name) for known in arguments]
            if not _agree(*values):
                texts = [_named(_written(node).get(name)) for node in (old, new)]
                another = "another " if texts[0] == texts[1] else ""  # of two arrays
                yield f"{where} has {name} {texts[0]} and {another}{texts[1]}"
        if not self._reads_otherwise(old, new):
            yield from _specs(where, old.call, new.call)

    def _reads_otherwise(self, old: Node, new: Node) -> bool:
        """Whether what two calls read differs in shape or mask already, or what they call.

        A nested model knows nothing of the masks and sizes of what it is called on.
        """
        if self._level.inlined or self._level.wrapped:
            return True
        specs = [[maker.call.outputs[index] for maker, index in n.inputs] for n in (old, new)]
        facts = [[(s.shape, s.dtype, s.mask is None) for s in each] for each in specs]
        nested = any(n.layer is not None and n.layer.graph is not None for n in (old, new))
        return facts[0] != facts[1] or nested

    def _arguments(self, node: Node, side: int) -> dict[str, Any]:
        """Return the arguments of a call by name, with tensors in terms of the first graph."""
        tensors = iter(node.inputs)

        def resolved(leaf: Any) -> Any:
            return self._tensor(*next(tensors), side) if isinstance(leaf, Ref) else leaf

        args, kwargs = map_tree(resolved, (node.call.args, _kept(node.call)))
        return _by_name(node, args, kwargs)

    def _tensor(self, node: Node, index: int, side: int) -> Any:
        """Return a tensor in terms of the first graph, past layers that only one has."""
        while id(node) not in self._partners[side]:
            if len(node.inputs) != 1:
                return ABSENT  # What makes it is told as a layer of one model only.
            ((node, index),) = node.inputs
        node = self._partners[1][id(node)] if side else node
        return Ref(node.path, index)


def _are_called_alike(old: Node, new: Node) -> bool:
    """Whether two calls are of layers of one class, which have the same arguments."""
    kinds = [None if node.layer is None else type(node.layer.origin) for node in (old, new)]
    return kinds[0] is kinds[1]


def _read(node: Node) -> str:
    return ", ".join(_named(Ref(maker.path, index)) for maker, index in node.inputs) or "nothing"


def _kept(call: Call) -> Any:
    return {name: item for name, item in call.kwargs.items() if name not in call.derived}


def _by_name(node: Node, args: Any, kwargs: Any) -> dict[str, Any]:
    if node.layer is None or not (args or kwargs):
        return {}
    return internals.named_arguments(node.layer.origin, args, kwargs)


def _written(node: Node) -> dict[str, Any]:
    """Return the arguments of a call by name, as its author wrote them."""
    return _by_name(node, node.call.args, _kept(node.call))


def _specs(where: str, old: Call, new: Call) -> Iterator[str]:
    for number, (a, b) in enumerate(zip_longest(old.outputs, new.outputs)):
        several = max(len(old.outputs), len(new.outputs)) > 1
        which = f"output {number} of " if several else ""
        if a is None or b is None:
            yield f"{which}{where} is in the {_SIDES[a is None]} model only"
            continue
        for name in ("shape", "dtype", "sparse", "ragged"):
            values = getattr(a, name), getattr(b, name)
            if values[0] != values[1]:
                yield f"{which}{where} has {name} {values[0]} and {values[1]}"
        if (a.mask is None) != (b.mask is None):
            yield f"{which}{where} carries a mask in the {_SIDES[a.mask is None]} model only"


def _agree(old: Any, new: Any) -> bool:
    """Whether trees are the same, but for tensors whose makers only one of the models has."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_agree(old[key], new[key]) for key in old)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        same = isinstance(old, list) == isinstance(new, list) and len(old) == len(new)
        return same and all(map(_agree, old, new))
    if old is ABSENT or new is ABSENT:
        return True
    if isinstance(old, Ref) or isinstance(new, Ref):
        return old == new
    return constant(old) == constant(new)


def _named(tree: Any) -> str:
    """Return a tree of arguments as text."""
    if isinstance(tree, Ref):
        return f"'{tree.call}.{tree.index}'" if tree.index else f"'{tree.call}'"
    if isinstance(tree, (list, tuple)):
        items = ", ".join(map(_named, tree))
        return f"[{items}]" if isinstance(tree, list) else f"({items}{',' * (len(tree) == 1)})"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{key}: {_named(item)}' for key, item in tree.items())}}}"
    if isinstance(tree, slice):
        ends = [tree.start, tree.stop, *([] if tree.step is None else [tree.step])]
        return ":".join("" if end is None else _named(end) for end in ends)
    return "..." if tree is Ellipsis else shown(tree)

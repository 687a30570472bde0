"""How two models are made, side by side: classes, names, arguments, attributes and wiring."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import keras

from ramet.building.weights.roles import own_roles
from ramet.comparing.alignment.align import Alignment
from ramet.comparing.alignment.nodes import Node, is_same_name
from ramet.comparing.calls import Tensors, agree, are_called_alike, named, written
from ramet.comparing.contents import Contents
from ramet.comparing.counterparts import LayerPair, Pairs
from ramet.comparing.objects.texts import apart, shown
from ramet.comparing.objects.walk import ValueDifference
from ramet.graph import Call, Ref
from ramet.graph.names import counted, prefixed
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
        remaining = [d for d in contents.layers.get(number, ()) if not consequences.has(both, d)]
        yield from _layers(consequences.where(both), both, remaining)
    yield from _paths(pairs)
    for prefix, level in pairs.levels():
        yield from _Wiring(prefix, level, contents).differences()
    for difference in contents.compiled:
        yield f"the model was compiled with {difference}"


def _graph_or_not(pairs: Pairs) -> Iterator[str]:
    first, second = has_graph(pairs.first), has_graph(pairs.second)
    if first != second:
        have, lack = _SIDES if first else _SIDES[::-1]
        yield f"the {have} model has a graph, the {lack} has none"


# --- layers --------------------------------------------------------------------------


class _Consequences:
    """What follows from differences elsewhere, and is not reported separately."""

    def __init__(self, pairs: Pairs) -> None:
        others = {
            id(old.layer.origin)
            for _, level in pairs.levels()
            for old, new in level.pairing
            if old.layer is not None and _shapes(old) != _shapes(new)
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

    def __init__(self, prefix: str, level: Alignment, contents: Contents) -> None:
        self._prefix = prefix
        self._level = level
        self._contents = contents
        self._tensors = Tensors(level)

    def differences(self) -> Iterator[str]:
        where = f"model '{self._prefix.rstrip('/')}'" if self._prefix else "the model"
        for noun in ("inputs", "outputs"):
            trees = [getattr(graph, noun) for graph in (self._level.first, self._level.second)]
            if not agree(*(self._tensors.ends(tree, side) for side, tree in enumerate(trees))):
                yield f"{where} has {noun} {_named(trees[0])} and {_named(trees[1])}"
        for old, new in self._level.pairing:
            yield from self._calls(old, new)

    def _calls(self, old: Node, new: Node) -> Iterator[str]:
        where = f"call '{self._prefix}{old.path}'"
        if not are_called_alike(old, new):
            if not agree(self._tensors.reads(old, 0), self._tensors.reads(new, 1)):
                yield f"{where} reads {_read(old)} and {_read(new)}"
            return
        arguments = [
            named(node, *self._tensors.arguments(node, side))
            for side, node in enumerate((old, new))
        ]
        for name in dict.fromkeys([*arguments[0], *arguments[1]]):
            if not agree(*(known.get(name) for known in arguments)):
                texts = [_named(written(node).get(name)) for node in (old, new)]
                another = "another " if texts[0] == texts[1] else ""  # of two arrays
                yield f"{where} has {name} {texts[0]} and {another}{texts[1]}"
        for difference in self._contents.calls.get((id(old), id(new)), ()):
            yield f"{where} has {difference}"
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


def _read(node: Node) -> str:
    return ", ".join(_named(Ref(maker.path, index)) for maker, index in node.inputs) or "nothing"


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

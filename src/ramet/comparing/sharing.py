"""Layers that were one and are several now, or the other way round."""

from collections.abc import Callable, Iterator

from ramet.comparing.alignment.align import Alignment
from ramet.comparing.alignment.nodes import Node

Calls = tuple[tuple[Node, Node], ...]


Member = tuple[str, tuple[Node, Node], tuple[object, object], bool]
"""Prefix of a call, the pair of calls, their layers, and whether the layers are a pair."""


def split_layers(
    alignment: Alignment, differ: Callable[[Node, Node], list[str]]
) -> Iterator[tuple[str, str, Calls]]:
    """Yield where, in words and by which calls layers are shared in one model only.

    Layers are compared across models that are nested in each other too: a layer may be used
    inside of a model and beside it.

    Args:
        alignment: The alignment of two models.
        differ: Says how the layers of two calls differ.
    """
    for group in _groups(alignment):
        firsts, seconds = ({layers[side] for _, _, layers, _ in group} for side in (0, 1))
        if len(firsts) == len(seconds) == 1:
            continue
        moved = [member for member in group if not member[3]] or group[1:]
        texts: list[str] = []
        for prefix, (a, b), _, _ in moved:
            call = f"'{prefix}{a.path}' " if texts else ""
            # Of layers that became one, only one is what it was.
            more = differ(a, b) if len(firsts) == 1 else []
            change = f", {'; '.join(more)}" if more else ""
            texts.append(f"{call}a call of '{a.key}', now one of '{b.key}'{change}")
        prefix, (a, _), _, _ = moved[0]
        yield prefix + a.path, "; ".join(texts), tuple(pair for _, pair, _, _ in moved)


def _groups(alignment: Alignment) -> list[list[Member]]:
    """Return the paired calls, together where they have a layer in common."""
    parents: dict[object, object] = {}

    def root(item: object) -> object:
        while parents.setdefault(item, item) != item:
            item = parents[item]
        return item

    members = [*_members(alignment)]
    for _, _, (first, second), _ in members:
        parents[root((0, first))] = root((1, second))
    groups: dict[object, list[Member]] = {}
    for member in members:
        groups.setdefault(root((0, member[2][0])), []).append(member)
    return [*groups.values()]


def _members(alignment: Alignment) -> Iterator[Member]:
    """Yield the paired calls of all levels, with prefix, layers, and if the layers are a pair."""
    split: set[int] = set()
    for one, _, level in alignment.walk():
        if id(level) in split:
            continue  # Of a model that is several now, that is said of the model.
        keys: dict[str, set[str]] = {}
        backs: dict[str, set[str]] = {}
        layers = level.all_layers()
        for a, b in level.pairing:
            if a.key is not None and b.key is not None:
                keys.setdefault(a.key, set()).add(b.key)
                backs.setdefault(b.key, set()).add(a.key)
        for (old, new), inner in level.inside.items():
            if len(keys[old]) > 1 or len(backs[new]) > 1:
                split |= {id(each) for _, _, each in inner.walk()}
        for a, b in level.pairing:
            if a.layer is not None and b.layer is not None:
                is_pair = layers.get(a.key or "") == b.key
                yield one, (a, b), (a.layer.identity, b.layer.identity), is_pair

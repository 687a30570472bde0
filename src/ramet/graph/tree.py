"""Nested structures of lists, tuples and dicts: the shape of call arguments.

Leaves are met in the order in which the author wrote them, and every container
keeps its type.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

Tree: TypeAlias = Any
"""A leaf, or a list, tuple or dict of trees."""


def map_tree(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """Returns a tree of the same shape with `function` applied to every leaf."""
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree)
        mapped = {key: map_tree(function, value) for key, value in items.items()}
        return mapped if type(items) is dict else _rebuild(items, mapped)
    if isinstance(tree, list):
        values = [map_tree(function, value) for value in cast("list[Any]", tree)]
        kind = type(cast("list[Any]", tree))
        return values if kind is list else kind(values)
    if isinstance(tree, tuple):
        items = cast("tuple[Any, ...]", tree)
        values = [map_tree(function, value) for value in items]
        kind = type(items)
        if hasattr(kind, "_make"):
            return cast("Any", kind)._make(values)
        return kind(values)
    return function(tree)


def _rebuild(template: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    """Puts items into a new dict of the template's class (a defaultdict, say)."""
    rebuilt = template.copy()
    if type(rebuilt) is not type(template):
        rebuilt = type(template)()
    for key, value in items.items():
        rebuilt[key] = value
    return rebuilt


def leaves(tree: Tree) -> Iterator[Any]:
    """Yields the leaves of a tree, in order."""
    if isinstance(tree, dict):
        for value in cast("dict[Any, Any]", tree).values():
            yield from leaves(value)
    elif isinstance(tree, (list, tuple)):
        for value in cast("list[Any]", tree):
            yield from leaves(value)
    else:
        yield tree


def paired_leaves(first: Tree, second: Tree) -> list[tuple[Any, Any]] | None:
    """Lists the leaves of two trees side by side; `None` if their shapes differ."""
    pairs: list[tuple[Any, Any]] = []
    return pairs if _pair(first, second, pairs) else None


def same_shape(first: Tree, second: Tree) -> bool:
    """Tells whether two trees have the same containers."""
    return paired_leaves(first, second) is not None


def _pair(first: Tree, second: Tree, pairs: list[tuple[Any, Any]]) -> bool:
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and cast("dict[Any, Any]", first).keys() == cast("dict[Any, Any]", second).keys()
            and all(_pair(first[key], second[key], pairs) for key in cast("dict[Any, Any]", first))
        )
    if isinstance(first, (list, tuple)):
        if not isinstance(second, (list, tuple)) or isinstance(first, list) != isinstance(
            second, list
        ):
            return False
        items, others = cast("list[Any]", first), cast("list[Any]", second)
        return len(items) == len(others) and all(
            _pair(item, other, pairs) for item, other in zip(items, others, strict=True)
        )
    if isinstance(second, (dict, list, tuple)):
        return False
    pairs.append((first, second))
    return True

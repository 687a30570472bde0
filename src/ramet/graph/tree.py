"""Nested structures of lists, tuples and dicts: the shape of call arguments.

Leaves come in the order in which the author wrote them, and every container keeps its type.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from ramet._arguments import DEEPEST
from ramet.errors import OptionError

Tree: TypeAlias = Any
"""A leaf, or a list, tuple or dict of trees."""


def map_tree(function: Callable[[Any], Any], tree: Tree, _level: int = 0) -> Tree:
    """Return a tree of the same structure with `function` applied to every leaf.

    Raises:
        OptionError: If it is nested too deeply.
    """
    if not isinstance(tree, (dict, list, tuple)):
        return function(tree)
    if _level > DEEPEST:
        raise _too_deep()
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree)
        mapped = {key: map_tree(function, value, _level + 1) for key, value in items.items()}
        return mapped if type(items) is dict else _rebuild(items, mapped)
    values = [map_tree(function, value, _level + 1) for value in cast("list[Any]", tree)]
    kind = cast("Any", type(cast("object", tree)))
    if kind is list:
        return values
    return kind._make(values) if hasattr(kind, "_make") else kind(values)


def _rebuild(template: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    """Return items in a new dict of the template's class, such as a defaultdict."""
    rebuilt = template.copy()
    if type(rebuilt) is not type(template):
        rebuilt = type(template)()
    for key, value in items.items():
        rebuilt[key] = value
    return rebuilt


def leaves(tree: Tree) -> Iterator[Any]:
    """Return the leaves of a tree, in order.

    Raises:
        OptionError: If it is nested too deeply.
    """
    flat: list[Any] = []
    _collect((tree,), flat, 0)
    return iter(flat)


def _collect(items: Iterable[Any], flat: list[Any], level: int) -> None:
    """Add the leaves of trees to a list."""
    if level > DEEPEST:
        raise _too_deep()
    for item in items:
        if isinstance(item, dict):
            _collect(cast("dict[Any, Any]", item).values(), flat, level + 1)
        elif isinstance(item, (list, tuple)):
            _collect(cast("list[Any]", item), flat, level + 1)
        else:
            flat.append(item)


def _too_deep() -> OptionError:
    return OptionError(
        f"lists, tuples and dicts are nested more than {DEEPEST} levels deep; pass a flatter "
        "structure"
    )


def paired_leaves(first: Tree, second: Tree) -> list[tuple[Any, Any]] | None:
    """List the leaves of two trees in pairs; `None` if their structures differ."""
    pairs: list[tuple[Any, Any]] = []
    return pairs if _pair(first, second, pairs) else None


def same_shape(first: Tree, second: Tree) -> bool:
    """Whether two trees have the same containers."""
    return paired_leaves(first, second) is not None


def same_value(first: Any, second: Any) -> bool:
    """Whether two values, or trees of them, are the same: of one type, and arrays by content."""
    if first is second or type(first) is not type(second):
        return first is second
    if isinstance(first, Mapping):
        items, others = cast("Mapping[Any, Any]", first), cast("Mapping[Any, Any]", second)
        return items.keys() == others.keys() and all(
            same_value(item, others[key]) for key, item in items.items()
        )
    if isinstance(first, (list, tuple)):
        both = cast("list[Any]", first), cast("list[Any]", second)
        return len(both[0]) == len(both[1]) and all(map(same_value, *both))
    return _equal(first, second)


def _equal(first: Any, second: Any) -> bool:
    try:
        if hasattr(first, "dtype"):
            import numpy as np  # noqa: PLC0415 only arrays need it: `ramet --help` is fast without

            arrays = np.asarray(first), np.asarray(second)
            return arrays[0].dtype == arrays[1].dtype and bool(
                np.array_equal(*arrays, equal_nan=arrays[0].dtype.kind in "fc")
            )
        return bool(first == second) or bool(first != first and second != second)  # noqa: PLR0124 not a number
    except Exception:  # noqa: BLE001 a value that cannot be compared is only itself
        return False


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

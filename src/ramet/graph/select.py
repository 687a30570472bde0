"""Selections: some layers of a graph, by kind, name or what else can be asked of them."""

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import GraphError, OptionError
from ramet.graph.locate import calls_of_layer, is_operation, layer_paths
from ramet.graph.names import counted
from ramet.graph.parts import Layer

if TYPE_CHECKING:
    from ramet.graph.core import Graph


_SHOWN = 5
"""How many paths a text about a selection names."""


class Selection:
    """Some layers of a graph, nested ones too, by path and in the order of the graph."""

    def __init__(
        self, graph: "Graph", paths: tuple[str, ...], what: str, *, missing_ok: bool
    ) -> None:
        """Holds paths; `Graph.select` makes one."""
        self.graph = graph
        self.paths = paths
        self.what = what
        self._missing_ok = missing_ok

    def __iter__(self) -> Iterator[str]:
        """Yields the paths."""
        return iter(self.paths)

    def __len__(self) -> int:
        """Returns how many layers are selected."""
        return len(self.paths)

    def __getitem__(self, index: int) -> str:
        """Returns one of the paths."""
        return self.paths[index]

    def __contains__(self, path: object) -> bool:
        """Tells whether a layer is selected."""
        return path in self.paths

    def __repr__(self) -> str:
        """Returns what was asked for and what was found."""
        shown = ", ".join(self.paths[:_SHOWN]) + (", ..." if len(self) > _SHOWN else "")
        return f"<{counted(len(self), 'layer')} of '{self.graph.name}' by {self.what}: {shown}>"

    def __and__(self, other: "Selection") -> "Selection":
        """Selects what both select."""
        return self._combined(other, "&", lambda path: path in self and path in other)

    def __or__(self, other: "Selection") -> "Selection":
        """Selects what either selects."""
        return self._combined(other, "|", lambda path: path in self or path in other)

    def __sub__(self, other: "Selection") -> "Selection":
        """Selects what the other does not select."""
        return self._combined(other, "-", lambda path: path in self and path not in other)

    def _combined(self, other: "Selection", sign: str, keeps: Callable[[str], bool]) -> "Selection":
        if not isinstance(cast("Any", other), Selection):
            message = f"a selection can be combined with another one, not with {other!r}"
            raise OptionError(message)
        if other.graph is not self.graph:
            message = (
                f"the graphs of two selections differ: '{self.graph.name}' after "
                f"{counted(len(self.graph.journal), 'edit')} and '{other.graph.name}' after "
                f"{counted(len(other.graph.journal), 'edit')}; ask one graph for both"
            )
            raise GraphError(message)
        paths = tuple(path for path, _ in layer_paths(self.graph) if keeps(path))
        what = f"({self.what} {sign} {other.what})"
        ok = self._missing_ok and other._missing_ok  # noqa: SLF001 the same class
        return Selection(self.graph, paths, what, missing_ok=ok)

    def one(self) -> str:
        """Returns the path of the only layer.

        Raises:
            GraphError: If there is none, or several.
        """
        if len(self) != 1:
            shown = ", ".join(self.paths[:_SHOWN])
            message = (
                f"expected one layer of graph '{self.graph.name}' by {self.what}, found "
                f"{len(self)}{': ' + shown if shown else ''}; narrow the selection"
            )
            raise GraphError(message)
        return self.paths[0]

    def layers(self) -> list[Any]:
        """Lists the live layers. They are the model's own: read them, do not change them."""
        found = dict(layer_paths(self.graph))
        return [found[path].origin for path in self.paths]

    def calls(self) -> list[str]:
        """Lists every call of the layers by path, as an edit of one place wants it.

        A layer that several graphs have in common has calls in each of them.
        """
        places: dict[tuple[int, int], list[str]] = {}
        for prefix, inner in _all_graphs(self.graph):
            for key, layer in inner.layers.items():
                names = [call.name for call in calls_of_layer(inner, key)]
                if len(names) > 1:
                    names = [name if "#" in name else f"{name}#1" for name in names]
                places.setdefault(layer.identity, []).extend(prefix + name for name in names)
        layers = dict(layer_paths(self.graph))
        return [place for path in self.paths for place in places[layers[path].identity]]

    def need(self) -> None:
        """Checks that something is selected, or need not be.

        Raises:
            GraphError: If nothing is, and that was not allowed.
        """
        if not self.paths and not self._missing_ok:
            message = (
                f"no layer of graph '{self.graph.name}' is selected by {self.what}; ask for "
                "missing_ok=True if that is all right"
            )
            raise GraphError(message)

    # --- edits, each on every layer that is selected; see the edits of Graph ---

    def replace(self, new: Any, *, weights: str = "fit") -> "Graph":
        """Replaces each layer by what a function makes of it; see `Graph.replace`."""
        return self.graph.replace(self, new, weights=weights)

    def configure(self, *, weights: str = "fit", **changes: Any) -> "Graph":
        """Gives each layer other constructor arguments; see `Graph.configure`."""
        return self.graph.configure(self, weights=weights, **changes)

    def insert_after(self, new: Any) -> "Graph":
        """Inserts what a function makes after each call of each layer."""
        return self.graph.insert_after(self, new)

    def insert_before(self, new: Any) -> "Graph":
        """Inserts what a function makes before each call of each layer."""
        return self.graph.insert_before(self, new)

    def freeze(self) -> "Graph":
        """Stops each layer from training; see `Graph.freeze`."""
        return self.graph.freeze(self)

    def unfreeze(self) -> "Graph":
        """Lets each layer train; see `Graph.unfreeze`."""
        return self.graph.unfreeze(self)

    def remove(self) -> "Graph":
        """Takes each layer out; see `Graph.remove`."""
        return self.graph.remove(self)

    def unshare(self) -> "Graph":
        """Takes the calls of each shared layer apart; see `Graph.unshare`."""
        return self.graph.unshare(self)


def select(  # noqa: PLR0913 each asks something else
    graph: "Graph",
    *,
    kind: Any,
    name: str | None,
    regex: str | None,
    where: Callable[[Any], bool] | None,
    missing_ok: bool,
) -> Selection:
    """Selects layers for which everything that is asked holds."""
    tests: list[Callable[[str, Layer], bool]] = []
    what: list[str] = []
    if kind is not None:
        tests.append(_by_kind(kind))
        what.append(f"kind={_kind_name(kind)}")
    if name is not None:
        tests.append(lambda path, _: path_matches(path, name))
        what.append(f"name={name!r}")
    if regex is not None:
        pattern = _compiled(regex)
        tests.append(lambda path, _: pattern.search(path) is not None)
        what.append(f"regex={regex!r}")
    if where is not None:
        tests.append(_by_question(graph, where))
        what.append("where=...")
    found: dict[tuple[int, int], str] = {}
    for path, layer in layer_paths(graph):
        named = kind is not None or path == name
        if (named or layer.kind != "InputLayer") and all(test(path, layer) for test in tests):
            found.setdefault(layer.identity, path)
    return Selection(
        graph, tuple(found.values()), ", ".join(what) or "nothing", missing_ok=missing_ok
    )


def _all_graphs(graph: "Graph") -> Iterator[tuple[str, "Graph"]]:
    """Yields a graph and those nested in it with the paths to them, each model once."""
    met: set[tuple[int, int]] = set()
    waiting = [("", graph)]
    while waiting:
        prefix, inner = waiting.pop(0)
        yield prefix, inner
        for key, layer in inner.layers.items():
            if layer.graph is not None and layer.identity not in met:
                met.add(layer.identity)
                waiting.append((f"{prefix}{key}/", layer.graph))


def _by_question(graph: "Graph", where: Callable[[Any], bool]) -> Callable[[str, Layer], bool]:
    """Returns a test that asks a function of the user's about the live layer.

    An operation of `keras.ops` lacks most attributes of layers (`weights`, `trainable`):
    one that is asked for such an attribute is not meant.
    """
    if not callable(cast("Any", where)):
        message = f"where must be a function of a layer, got {where!r}"
        raise OptionError(message)

    def test(path: str, layer: Layer) -> bool:
        live = graph.live_origin().current(layer)
        try:
            return bool(where(live))
        except Exception as error:
            if is_operation(layer) and isinstance(error, AttributeError) and error.obj is live:
                return False
            error.add_note(f"while asking `where` about layer '{path}' ({layer.kind})")
            raise

    return test


def _kinds(kind: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", kind) if isinstance(kind, tuple) else (kind,)


def _by_kind(kind: Any) -> Callable[[str, Layer], bool]:
    kinds = _kinds(kind)
    for each in kinds:
        if not isinstance(each, (type, str)):
            message = f"kind must be a class of layers or its name, got {each!r}"
            raise OptionError(message)
    classes = tuple(each for each in kinds if isinstance(each, type))
    names = [each for each in kinds if isinstance(each, str)]
    return lambda _, layer: isinstance(layer.origin, classes) or layer.kind in names


def _kind_name(kind: Any) -> str:
    kinds = _kinds(kind)
    return "|".join(each if isinstance(each, str) else each.__name__ for each in kinds)


def path_matches(path: str, pattern: str) -> bool:
    """Tells whether a glob fits: with `/` the whole path, step by step; else the last name."""
    steps, wanted = path.split("/"), pattern.split("/")
    if len(wanted) == 1:
        return fnmatchcase(steps[-1], pattern)
    return len(steps) == len(wanted) and all(map(fnmatchcase, steps, wanted))


def _compiled(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except re.error as error:
        message = f"regex={regex!r} is not a regular expression: {error}"
        raise OptionError(message) from error

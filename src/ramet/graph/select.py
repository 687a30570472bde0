"""Selections: some layers of a graph, by class, name or any property."""

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from ramet._arguments import (
    attribute,
    check_flag,
    check_function,
    check_index,
    check_text,
    is_true,
    shown,
)
from ramet._words import Policy
from ramet.errors import GraphError, OptionError
from ramet.graph.data import Layer
from ramet.graph.locate import calls_of_layer
from ramet.graph.names import brief, counted, listed
from ramet.graph.paths import layer_paths
from ramet.text.html import html_table

if TYPE_CHECKING:
    from ramet.graph.core import Graph


_SHOWN = 5
"""How many paths of a selection a message lists."""


class Selection:
    """Some layers of a graph and of its nested models, by path and in the order of the graph.

    Examples:
        >>> graph = ramet.trace(model)
        >>> selection = graph.select(kind=layers.Dense) | graph.select(name="conv*")
        >>> [*selection]
        ['conv', 'head']
    """

    def __init__(
        self, graph: "Graph", paths: tuple[str, ...], what: str, *, missing_ok: bool
    ) -> None:
        """Hold paths. Use `Graph.select` to create a selection.

        Raises:
            OptionError: If an argument has the wrong type.
        """
        if attribute(graph, "live_origin") is None:
            raise OptionError(f"a selection is of a Graph, got {shown(graph)}")
        if not isinstance(cast("Any", paths), tuple):
            raise OptionError(f"paths must be a tuple of strings, got {shown(paths)}")
        for path in paths:
            check_text(path, "a path")
        check_text(what, "what")
        check_flag(missing_ok, "missing_ok")
        self.graph = graph
        self.paths = paths
        self.what = what
        """The criteria, as text: `kind=Dense`."""
        self._missing_ok = missing_ok

    def __iter__(self) -> Iterator[str]:
        """Yield the paths."""
        return iter(self.paths)

    def __len__(self) -> int:
        """Return the number of selected layers."""
        return len(self.paths)

    def __getitem__(self, index: int) -> str:
        """Return one of the paths."""
        if isinstance(cast("Any", index), slice):
            return self.paths[index]
        check_index(index, "the number of a path")
        if not -len(self) <= index < len(self):
            size = counted(len(self), "layer")
            message = f"a selection of {size} has no number {shown(index)}; count from 0"
            raise OptionError(message)
        return self.paths[index]

    def __contains__(self, path: object) -> bool:
        """Whether a layer is selected."""
        return isinstance(path, str) and path in self.paths

    @property
    def asked(self) -> str:
        """The criteria, to follow `3 layers` in a text: `'relu*'`, or `by kind=Dense`."""
        name = re.fullmatch(r"name=('[^']*')", self.what)
        return f"by {self.what}" if name is None else name[1]

    def __repr__(self) -> str:
        """Return the criteria and the first matches, on one line."""
        shown = f": {listed(self.paths, _SHOWN)}" if self.paths else ""
        count = counted(len(self), "layer")
        return brief("Selection", f"of '{self.graph.name}' by {self.what}: {count}{shown}")

    def _repr_html_(self) -> str:
        """Return the layers as a table, for notebooks."""
        chosen = {*self.paths}
        rows = [(path, layer.kind) for path, layer in layer_paths(self.graph) if path in chosen]
        title = f"{counted(len(self), 'layer')} of '{self.graph.name}' by {self.what}"
        return html_table(title, ("layer", "kind"), rows)

    def __and__(self, other: "Selection") -> "Selection":
        """Select the layers in both selections."""
        return self._combined(other, "&", lambda path: path in self and path in other)

    def __or__(self, other: "Selection") -> "Selection":
        """Select the layers in either selection."""
        return self._combined(other, "|", lambda path: path in self or path in other)

    def __sub__(self, other: "Selection") -> "Selection":
        """Select the layers that are not in the other selection."""
        return self._combined(other, "-", lambda path: path in self and path not in other)

    def _combined(self, other: "Selection", sign: str, keeps: Callable[[str], bool]) -> "Selection":
        if not isinstance(cast("Any", other), Selection):
            message = f"a selection can be combined with another one, not with {shown(other)}"
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
        """Return the path of the only layer.

        Raises:
            GraphError: If there is none, or several.

        Examples:
            >>> ramet.trace(model).select(kind="Dense").one()
            'head'
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
        """List the live layers. They are the model's own: read them, do not change them.

        Examples:
            >>> [layer.name for layer in ramet.trace(model).select(kind="Dense").layers()]
            ['head']
        """
        self.graph.live_origin()  # A graph without one has no live layers.
        records = dict(layer_paths(self.graph))
        return [records[path].origin for path in self.paths]

    def calls(self) -> list[str]:
        """List every call of the layers by path, in the form that edits expect.

        A layer that several graphs share has calls in each of them.

        Examples:
            >>> ramet.trace(model).select(kind="Dense").calls()
            ['head']
        """
        places: dict[tuple[int, int], list[str]] = {}
        for visit in self.graph.walk():
            prefix, inner = visit.prefix, visit.graph
            for key, layer in inner.layers.items():
                names = [call.name for call in calls_of_layer(inner, key)]
                if len(names) > 1:
                    names = [name if "#" in name else f"{name}#1" for name in names]
                places.setdefault(layer.identity, []).extend(prefix + name for name in names)
        layers = dict(layer_paths(self.graph))
        return [place for path in self.paths for place in places[layers[path].identity]]

    def need(self) -> None:
        """Check that the selection is not empty, unless it may be.

        Raises:
            GraphError: If it is empty, without `missing_ok=True`.

        Examples:
            >>> ramet.trace(model).select(kind="Dense").need()
        """
        if not self.paths and not self._missing_ok:
            message = (
                f"no layer of graph '{self.graph.name}' is selected by {self.what}; pass "
                "missing_ok=True to allow that"
            )
            raise GraphError(message)

    # --- edits of every selected layer; see the same edits of Graph ---

    def replace(self, new: Any, *, weights: Policy = "fit") -> "Graph":
        """Replace each layer by what a function returns for it; see `Graph.replace`.

        Examples:
            >>> selection = ramet.trace(model).select(kind=layers.ReLU)
            >>> graph = selection.replace(lambda old: layers.PReLU(name=old.name))
        """
        return self.graph.replace(self, new, weights=weights)

    def configure(self, *, weights: Policy = "fit", **changes: Any) -> "Graph":
        """Change constructor arguments of each layer; see `Graph.configure`.

        Examples:
            >>> graph = ramet.trace(model).select(kind=layers.Dropout).configure(rate=0.5)
        """
        return self.graph.configure(self, weights=weights, **changes)

    def insert_after(self, new: Any) -> "Graph":
        """Insert a layer after each call of each layer; see `Graph.insert_after`.

        Examples:
            >>> selection = ramet.trace(model).select(kind=layers.Conv2D)
            >>> graph = selection.insert_after(lambda old: layers.Dropout(0.1))
        """
        return self.graph.insert_after(self, new)

    def insert_before(self, new: Any) -> "Graph":
        """Insert a layer before each call of each layer; see `Graph.insert_before`.

        Examples:
            >>> selection = ramet.trace(model).select(kind=layers.Dense)
            >>> graph = selection.insert_before(lambda old: layers.Dropout(0.1))
        """
        return self.graph.insert_before(self, new)

    def freeze(self) -> "Graph":
        """Stop each layer from training; see `Graph.freeze`.

        Examples:
            >>> graph = ramet.trace(model).select(name="conv*").freeze()
        """
        return self.graph.freeze(self)

    def unfreeze(self) -> "Graph":
        """Make each layer trainable; see `Graph.unfreeze`.

        Examples:
            >>> graph = ramet.trace(model).freeze().select(name="head").unfreeze()
        """
        return self.graph.unfreeze(self)

    def remove(self) -> "Graph":
        """Remove each layer; see `Graph.remove`.

        Examples:
            >>> graph = ramet.trace(model).select(kind=layers.Dropout).remove()
        """
        return self.graph.remove(self)

    def unshare(self) -> "Graph":
        """Give each call of each shared layer its own layer; see `Graph.unshare`.

        Examples:
            >>> x = keras.Input((4,))
            >>> tower = layers.Dense(4, name="tower")
            >>> deep = keras.Model(x, tower(tower(x)))
            >>> graph = ramet.trace(deep).select(kind=layers.Dense).unshare()
        """
        return self.graph.unshare(self)


def select(  # noqa: PLR0913 each is another criterion
    graph: "Graph",
    *,
    kind: Any,
    name: str | None,
    regex: str | None,
    where: Callable[[Any], bool] | None,
    missing_ok: bool,
) -> Selection:
    """Select the layers that meet all criteria."""
    _check(name, regex, missing_ok)
    tests: list[Callable[[str, Layer], bool]] = []
    what: list[str] = []
    if kind is not None:
        tests.append(_by_kind(graph, kind))
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
    paths: dict[tuple[int, int], str] = {}
    for path, layer in layer_paths(graph):
        named = kind is not None or path == name
        if (named or not layer.is_input) and all(test(path, layer) for test in tests):
            paths.setdefault(layer.identity, path)
    return Selection(
        graph, tuple(paths.values()), ", ".join(what) or "nothing", missing_ok=missing_ok
    )


def _check(name: Any, regex: Any, missing_ok: Any) -> None:
    if name is not None:
        check_text(name, "name, a glob,")
    if regex is not None and not isinstance(regex, re.Pattern):
        check_text(regex, "regex")
    check_flag(missing_ok, "missing_ok")


def _by_question(graph: "Graph", where: Callable[[Any], bool]) -> Callable[[str, Layer], bool]:
    """Return a test that calls a user's function on the live layer.

    Operations of `keras.ops` lack most attributes of layers (`weights`, `trainable`): one that
    lacks an attribute that the function reads is not selected.
    """
    check_function(where, "where", 1, "a layer")

    def test(path: str, layer: Layer) -> bool:
        live = graph.live_origin().current(layer)
        try:
            answer = where(live)
        except Exception as error:
            if layer.is_operation and isinstance(error, AttributeError) and error.obj is live:
                return False
            error.add_note(f"while asking `where` about layer '{path}' ({layer.kind})")
            raise
        return is_true(answer, "where")

    return test


def _kinds(kind: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", kind) if isinstance(kind, tuple) else (kind,)


def _by_kind(graph: "Graph", kind: Any) -> Callable[[str, Layer], bool]:
    kinds = _kinds(kind)
    for each in kinds:
        if not isinstance(each, (type, str)):
            message = f"kind must be a class of layers or its name, got {shown(each)}"
            raise OptionError(message)
    classes = tuple(each for each in kinds if isinstance(each, type))
    names = [each for each in kinds if isinstance(each, str)]
    if not classes:
        return lambda _, layer: layer.kind in names
    live = graph.live_origin()
    return lambda _, layer: layer.kind in names or live.is_instance(layer, classes)


def _kind_name(kind: Any) -> str:
    kinds = _kinds(kind)
    return "|".join(each if isinstance(each, str) else each.__name__ for each in kinds)


def path_matches(path: str, pattern: str) -> bool:
    """Whether a glob matches: with `/` the whole path, step by step; otherwise the last name.

    A step `**` stands for any number of steps, also none.
    """
    steps, wanted = path.split("/"), pattern.split("/")
    if len(wanted) == 1:
        return fnmatchcase(steps[-1], pattern)
    reached = {0}  # how many of the steps are matched so far, in every possible way
    for want in wanted:
        if want == "**":
            reached = set(range(min(reached, default=len(steps) + 1), len(steps) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(steps) and fnmatchcase(steps[at], want)}
    return len(steps) in reached


def _compiled(regex: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        message = f"regex={shown(regex)} is not a regular expression: {error}"
        raise OptionError(message) from error
    if not isinstance(cast("Any", pattern.pattern), str):
        raise OptionError("regex must be a regular expression of strings, not of bytes")
    return pattern

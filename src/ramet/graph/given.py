"""What a user gives to an edit: a layer, a function that makes one, or a function of tensors."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ramet.errors import GraphError
from ramet.graph.draft import UNKNOWN, Draft
from ramet.graph.names import counted, unique_name
from ramet.graph.parts import Call, Edit, Layer, Ref, apart
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph

Given: TypeAlias = Any
"""A layer, a function from the live layer at the place to one, or a function of tensors."""


@dataclass(frozen=True)
class TensorFunction:
    """A function of tensors, traced wherever an edit puts it."""

    graph: "Graph"
    """The outermost graph."""
    function: Callable[..., Any]
    """The function."""
    where: str
    """What it is for, in the words of an error."""
    failure: Exception | None = None
    """What it raised when it was asked for a layer."""

    @property
    def text(self) -> str:
        """How the journal names it."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return "a function" if name == "<lambda>" else f"function '{name}'"

    def traced(self, inner: "Graph", args: Tree, kwargs: Tree, count: int | None) -> "Graph":
        """Return the calls that the function makes of some tensors.

        Args:
            inner: The graph that the tensors are of.
            args: Its arguments, with `Ref`s for tensors.
            kwargs: Arguments that it is passed if it accepts them.
            count: How many tensors it has to return; `None` if any number will do.

        Raises:
            GraphError: If it returns another number of tensors.
        """
        live = self.graph.live_origin()
        graph = live.traced(self, inner, args, kwargs)
        found = len([*leaves(graph.outputs)])
        if count is not None and found != count:
            message = (
                f"{self.where} returns {counted(found, 'tensor')}, but {count} "
                f"{'is' if count == 1 else 'are'} used there; let it return as many"
            )
            raise GraphError(message)
        return graph


def resolve(graph: "Graph", given: Given, old: Any, where: str) -> Layer | TensorFunction:
    """Return what a user gives to an edit as the record of a layer, or as a function of tensors.

    A function may be meant to make a layer of the one that is there, or tensors of tensors.
    It is asked for a layer first, unless it is one of Keras's own.

    Args:
        graph: The outermost graph.
        given: What the user gives.
        old: Returns the argument for a function that makes a layer: the live layer there.
        where: What it is for, in the words of an error.
    """
    live = graph.live_origin()
    if not callable(given) or isinstance(given, type) or live.is_layer(given):
        return _brought(graph, given, where)
    function = TensorFunction(graph, given, where)
    if live.is_of_tensors(given):
        return function
    try:
        made = given(old())
    except Exception as error:  # noqa: BLE001 it may be a function of tensors
        return dataclasses.replace(function, failure=error)
    return _brought(graph, made, where) if live.is_layer(made) else function


def _brought(graph: "Graph", layer: Any, where: str) -> Layer:
    """Return the record of a layer that an edit brings in."""
    return dataclasses.replace(apart(graph.live_origin().layer(layer, where)), brought=True)


def put(
    draft: Draft, new: "Layer | Graph", args: Tree, kwargs: Tree, count: int = 1
) -> tuple[list[Ref], set[str]]:
    """Let a new layer, or the calls of a function, read some tensors.

    Returns:
        The tensors that it makes, and the names of its calls.
    """
    refs = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Ref)]
    if isinstance(new, Layer):
        key = draft.add_layer(new)
        name = unique_name(key, draft.calls)
        specs = tuple(UNKNOWN for _ in range(count))
        draft.add_call(Call(name, key, args, kwargs, specs), after=_last(draft, refs))
        return [Ref(name, index) for index in range(count)], {name}
    starts = dict(zip(leaves(new.inputs), dict.fromkeys(refs), strict=True))
    found = splice(draft, new, starts, lambda layer: _take_in(draft, layer))
    added = {ref.call for ref in found.values()} - {ref.call for ref in refs}
    return [found[ref] for ref in leaves(new.outputs)], added


def _take_in(draft: Draft, layer: Layer) -> str:
    return draft.add_or_find(dataclasses.replace(layer, brought=True))


def _last(draft: Draft, refs: Iterable[Ref]) -> str | None:
    """Return the last of the calls that make some tensors."""
    order = {name: place for place, name in enumerate(draft.calls)}
    return max((ref.call for ref in refs), key=order.__getitem__, default=None)


def splice(
    draft: Draft,
    new: "Graph",
    starts: dict[Ref, Ref],
    take: Callable[[Layer], str],
    more: Callable[[Layer, Call], dict[str, Any]] = lambda _, __: {},
) -> dict[Ref, Ref]:
    """Take the calls of one graph into another.

    Args:
        draft: The graph that they come into.
        new: The graph that they are of.
        starts: What its inputs are there. The calls stand behind the last of these.
        take: Takes a layer in, and returns its key.
        more: Returns further arguments of a call.

    Returns:
        Where the tensors of the graph are found.
    """
    refs = dict(starts)

    def moved(leaf: Any) -> Any:
        return refs[leaf] if isinstance(leaf, Ref) else leaf

    after = _last(draft, starts.values())
    keys: dict[str, str] = {}
    for call in new.calls.values():
        if Ref(call.name) in refs:
            continue
        key = cast("str", call.layer)
        if key not in keys:
            keys[key] = take(new.layers[key])
        name = unique_name(keys[key], draft.calls)
        extra = more(new.layers[key], call)
        made: Call = dataclasses.replace(
            call,
            name=name,
            layer=keys[key],
            args=map_tree(moved, call.args),
            kwargs={**map_tree(moved, call.kwargs), **extra},
            derived=call.derived - extra.keys(),
            outputs=tuple(dataclasses.replace(spec, mask=None) for spec in call.outputs),
        )
        draft.add_call(made, after=after)
        after = name
        refs.update({Ref(call.name, i): Ref(name, i) for i in range(len(call.outputs))})
    return refs


def replace_call(graph: "Graph", name: str, function: TensorFunction, edit: Edit) -> "Graph":
    """Put what a function makes of its arguments in the place of a call."""
    call = graph.calls[name]
    kwargs = {key: item for key, item in call.kwargs.items() if key not in call.derived}
    new = function.traced(graph, call.args, kwargs, len(call.outputs))
    draft = Draft(graph, edit)
    aside = unique_name(f"{name}#gone", draft.calls)
    draft.rename_calls({name: aside})  # What comes in may have its name.
    if not any(c.layer == call.layer for c in draft.calls.values() if c.name != aside):
        del draft.layers[cast("str", call.layer)]
    made, _ = put(draft, new, call.args, kwargs)
    draft.redirect({Ref(aside, index): ref for index, ref in enumerate(made)})
    draft.forget({aside})
    return draft.done()

"""The tensors among the arguments of a call: finding one, and replacing it."""

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ramet._arguments import check_index, shown
from ramet.errors import GraphError
from ramet.graph.data import Call, Edit, Ref
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import edit_inside
from ramet.graph.journal import with_entry
from ramet.graph.locate import descend, find_call, find_tensor_beside, place_text

if TYPE_CHECKING:
    from ramet.graph.core import Graph

Place: TypeAlias = tuple[Any, ...]
"""The place of a tensor: an argument by position or keyword, and steps into structures."""


def rewire(graph: "Graph", path: str, argument: "int | str", tensor: "str | Ref") -> "Graph":
    """Replace one tensor among the arguments of a call."""
    models, inner, name = descend(graph, path)
    call = find_call(inner, name)
    ref = find_tensor_beside(graph, models, tensor)
    at = find_argument(call, argument, path)
    text = f"rewire argument {argument!r} of '{path}' to '{place_text(tensor)}'"
    edit = Edit(text, promise="exact" if argument_places(call)[at] == ref else "changed")

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        draft.set_argument(call.name, at, ref)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def argument_places(call: Call) -> dict[Place, Ref]:
    """Return the tensors that the author passed to a call, by place."""
    places: dict[Place, Ref] = {}
    for start, tree in [*enumerate(call.args), *call.written.items()]:
        _list_places((start,), tree, places)
    return places


def _list_places(place: Place, tree: Any, places: dict[Place, Ref]) -> None:
    if isinstance(tree, Ref):
        places[place] = tree
    elif isinstance(tree, dict):
        for key, item in cast("dict[Any, Any]", tree).items():
            _list_places((*place, key), item, places)
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(cast("list[Any]", tree)):
            _list_places((*place, index), item, places)


def find_argument(call: Call, argument: "int | str", path: str) -> Place:
    """Return the place of a tensor by its number among the tensors, or by keyword.

    In `Add([a, b])`, `b` is 1.
    """
    places = argument_places(call)
    names = {".".join(map(str, place)): place for place in places}
    if not isinstance(cast("Any", argument), str):
        check_index(argument, f"the argument of '{path}', if it is not a keyword,")
    if isinstance(argument, int):
        if 0 <= argument < len(names):
            return [*places][argument]
    elif argument in names:
        return names[argument]
    message = (
        f"call '{path}' has no tensor at argument {shown(argument)}; it takes "
        f"{', '.join(f'{i} ({n})' for i, n in enumerate(names)) or 'no tensors'}"
    )
    raise GraphError(message)

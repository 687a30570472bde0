"""`show`: a model as a table in the terminal, as a page, or as a picture."""

import os
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from ramet._arguments import check_word, checked_path
from ramet.errors import FileError, OptionError
from ramet.files.outline import readable
from ramet.files.save import save_content
from ramet.graph import Graph, Layer
from ramet.graph.paths import call_labels, layer_paths
from ramet.results.base import Table
from ramet.results.inventory import Inventory
from ramet.results.profile import MEASURES, Profile
from ramet.results.sensitivity import Sensitivity
from ramet.showing.parts import View
from ramet.showing.read import layers_of, read
from ramet.showing.shades import Key
from ramet.showing.table import calls_of, table_of, totals
from ramet.text.console import as_text

__all__ = ["show", "text_of"]

Cost: TypeAlias = "Profile | Sensitivity | str | None"
"""What calls are shaded by."""

_SUFFIXES = (".html", ".svg", ".png", ".pdf")


def show(
    model: Any,
    other: Any = None,
    *,
    to: str | os.PathLike[str] | None = None,
    cost: "Profile | Sensitivity | str | None" = None,
) -> None:
    """Show a model: as a table in the terminal, as a page, or as a picture.

    The model is neither called nor changed. A page is one file that needs no network: the
    graph, with blocks and nested models that unfold in place, search, and a panel with the
    config, shapes and weights of a layer. Takes O(calls), for a page also O(values).

    Args:
        model: A model that can be traced, a Graph, or the path of a file. In an edited Graph, a
            question mark marks what is not known before it is built; of a file with classes that
            are not part of Keras, what only their code could say. Nothing of that file is run.
        other: A second one, to show what was added, removed and changed, layer by layer, as
            `diff` lists it. Edited graphs are built first.
        to: The file to write: `.html` for a page; `.svg`, `.png` or `.pdf` for a picture. By
            default, a table is printed.
        cost: Shade calls by their share of what the model costs: `"macs"`, `"params"`,
            `"memory"` or `"time"`, for one example; or by a profile of the model: by time if that
            was measured, and by MACs otherwise; or by what `ramet.adapt.sensitivity` returned:
            by the first way that was tried, or by the one of `costs.only("int4")`. In a table, a
            column. An edited Graph is built first.

    Raises:
        ModelError: If the argument is not a model, or has no graph.
        OptionError: If `to` has an unknown suffix, or `cost` cannot be shown.
        ExtraError: If a `.png` or `.pdf` is to be written and vl-convert is not installed.
        FileError: If the file cannot be written, or one to be shown is broken or hostile.

    Examples:
        >>> ramet.show(model, to="model.html")
        >>> ramet.show(model, to="costs.html", cost="macs")
        >>> costs = ramet.adapt.sensitivity(model, how=["int8"])
        >>> ramet.show(model, to="costs.html", cost=costs)
    """
    suffix = "" if to is None else _suffix(to)
    _check_cost(cost, other)
    stock = _stock(model) if other is None and to is None else None
    if stock is not None:
        Console().print(stock.table())
        return
    (model, note), (other, second) = readable(model), readable(other)
    notes = tuple(filter(None, (note, second)))
    if to is None:
        Console().print(_table(model, other, cost, notes))
        return
    save_content(_content(model, other, suffix, cost=cost, notes=notes), Path(to), force=True)


def _stock(model: Any) -> Inventory | None:
    """Return the weights in a file of which nothing else is known."""
    if not isinstance(model, (str, Path)):
        return None
    from ramet.files.inventory import inventory  # noqa: PLC0415 it imports h5py

    try:
        return inventory(Path(model))
    except FileError:
        return None  # loading gives the reason


def check_shown(
    to: str | os.PathLike[str] | None = None, other: Any = None, cost: Cost = None
) -> None:
    """Check what `show` is asked for, before any model is read.

    Raises:
        OptionError: If a file has an unknown suffix, or costs cannot be shown.
    """
    if to is not None:
        _suffix(to)
    _check_cost(cost, other)


def content_for(  # noqa: PLR0913 as `show`, and more
    to: str | os.PathLike[str],
    model: Any,
    other: Any = None,
    *,
    names: tuple[str, ...] = (),
    cost: Cost = None,
    notes: tuple[str, ...] = (),
) -> str | bytes:
    """Return what `show` writes to a file.

    Args:
        to: The file.
        model: As in `show`.
        other: As in `show`.
        names: What the models are called, such as the names of their files.
        cost: As in `show`.
        notes: What is not known of the models.
    """
    _check_cost(cost, other)
    return _content(model, other, _suffix(to), names, cost, notes)


def _content(  # noqa: PLR0913, PLR0917 as `show` and `content_for` pass them
    model: Any,
    other: Any,
    suffix: str,
    names: tuple[str, ...] = (),
    cost: Cost = None,
    notes: tuple[str, ...] = (),
) -> str | bytes:
    view, layers, key = _view(model, other, cost)
    if other is not None and not names:
        names = tuple(str(getattr(each, "name", "")) for each in (model, other))
    if suffix == ".html":
        from ramet.showing.page import page_of  # noqa: PLC0415 it imports Keras
        from ramet.tracing.failures import explained  # noqa: PLC0415 the same

        with explained(*(each for each in (model, other) if each is not None)):
            compared = other is not None
            return page_of(view, layers, compared=compared, names=names, key=key, notes=notes)
    from ramet.showing.picture import drawn_as, picture_of  # noqa: PLC0415 not needed for a table

    return drawn_as(suffix, picture_of(view, key=key))


def text_of(
    model: Any, other: Any = None, *, cost: Cost = None, notes: tuple[str, ...] = ()
) -> str:
    """Return what `show` prints, as plain text."""
    _check_cost(cost, other)
    return as_text(_table(model, other, cost, notes))


def data_of(model: Any, other: Any = None, *, cost: Cost = None) -> dict[str, Any]:
    """Return what `show` prints as plain data: the calls of the model, and the totals."""
    _check_cost(cost, other)
    view, layers, _ = _view(model, other, cost)
    return {"name": view.name, "calls": calls_of(view), "totals": totals(view, layers)}


def _view(model: Any, other: Any, cost: Cost) -> tuple[View, list[Layer], Key | None]:
    """Return the view of a model, or of two overlaid, its layers, and what its shades mean."""
    if cost is not None:
        return _shaded(model, cost)
    if other is None:
        graph = _graph(model)
        return read(graph), layers_of(graph), None
    # They import Keras.
    from ramet.showing.compared import compared  # noqa: PLC0415 the same
    from ramet.tracing.settled import settled  # noqa: PLC0415 the same

    first, second = settled(model), settled(other)
    return compared(first, second), layers_of(second), None


def _check_cost(cost: Any, other: Any) -> None:
    """Check that costs can be shown.

    Raises:
        OptionError: If they are no measure and no result with costs, or not of one model.
    """
    if cost is None:
        return
    if not isinstance(cost, (Profile, Sensitivity)):
        check_word(cost, "cost", MEASURES)
    if other is not None:
        message = "cost shades the calls of one model, and two are compared"
        raise OptionError(f"{message}; show them one by one, or use Profile.against")


def _shaded(model: Any, cost: "Profile | Sensitivity | str") -> tuple[View, list[Layer], Key]:
    """Return the view of a model, shaded, its layers, and what the shades stand for."""
    # They import Keras.
    from ramet.profiling.profile import profile_of  # noqa: PLC0415 the same
    from ramet.tracing.settled import settled  # noqa: PLC0415 the same

    graph = settled(model)
    layers = layers_of(graph)
    if isinstance(cost, Sensitivity):
        from ramet.showing import sensitivities  # noqa: PLC0415 not needed for most

        way = cost.how[0]
        known = {path: layer.kind for path, layer in layer_paths(graph)}
        _check_of(graph, "layer", [e.path for e in cost.layers if known.get(e.path) != e.kind])
        view = sensitivities.shaded(read(graph), graph, cost, way)
        return view, layers, sensitivities.key_of(way)
    from ramet.showing import costs  # noqa: PLC0415 not needed for most

    if isinstance(cost, Profile):
        profile, by = cost, "macs" if cost.seconds is None else "time"
    else:
        profile, by = profile_of(graph, time=cost == "time"), cost
    labels = {*call_labels(graph).values()}
    _check_of(graph, "call", [call.path for call in profile.calls if call.path not in labels])
    return costs.shaded(read(graph), profile, by), layers, costs.key_of(by)


def _check_of(graph: Graph, what: str, foreign: list[str]) -> None:
    """Check that costs are those of a graph.

    Raises:
        OptionError: If they name calls or layers that the graph does not have.
    """
    if foreign:
        message = f"cost has a {what} '{foreign[0]}', which graph '{graph.name}' does not have"
        raise OptionError(f"{message}; pass costs of the same model")


def _graph(model: Any) -> Graph:
    if isinstance(model, Graph):
        return model
    from ramet.tracing.trace import trace  # noqa: PLC0415 it imports Keras

    return trace(model)


def _table(model: Any, other: Any, cost: Cost, notes: tuple[str, ...] = ()) -> Table:
    view, layers, key = _view(model, other, cost)
    return table_of(view, layers, compared=other is not None, key=key, notes=notes)


def _suffix(to: str | os.PathLike[str]) -> str:
    suffix = checked_path(to, "to").suffix.lower()
    if suffix not in _SUFFIXES:
        actual = f"'{suffix}'" if suffix else "none"
        message = (
            f"show writes files with the suffix {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}, "
            f"got {actual} in '{os.fspath(to)}'"
        )
        raise OptionError(message)
    return suffix

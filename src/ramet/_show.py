"""`show`: a model as a table in the terminal, as a page, or as a picture."""

import os
from pathlib import Path
from typing import Any

from rich.console import Console

from ramet._arguments import checked_path
from ramet.errors import OptionError
from ramet.files.save import save_content
from ramet.graph import Graph, Layer
from ramet.results.base import Table
from ramet.showing.parts import View
from ramet.showing.read import layers_of, read
from ramet.showing.table import table_of
from ramet.text.console import as_text

__all__ = ["show", "text_of"]

_SUFFIXES = (".html", ".svg", ".png", ".pdf")


def show(model: Any, other: Any = None, *, to: str | os.PathLike[str] | None = None) -> None:
    """Show a model: as a table in the terminal, as a page, or as a picture.

    The model is neither called nor changed. A page is one file that needs no network: the
    graph, with blocks and nested models that unfold in place, search, and a panel with the
    config, shapes and weights of a layer. Takes O(calls), for a page also O(values).

    Args:
        model: A model that can be traced, or a Graph. In an edited Graph, a question mark
            marks what is not known before it is built.
        other: A second one, to show what was added, removed and changed, layer by layer as
            `diff` lists it. Edited graphs are built first.
        to: The file to write: `.html` for a page; `.svg`, `.png` or `.pdf` for a picture. By
            default, a table is printed.

    Raises:
        ModelError: If it is not a model, or has no graph.
        OptionError: If `to` has another suffix.
        ExtraError: If a `.png` or `.pdf` is to be written and vl-convert is not installed.
        FileError: If the file cannot be written.

    Examples:
        >>> ramet.show(model, to="model.html")
    """
    suffix = "" if to is None else _suffix(to)
    if to is None:
        Console().print(_table(model, other))
        return
    save_content(_content(model, other, suffix), Path(to), force=True)


def content_for(
    to: str | os.PathLike[str], model: Any, other: Any = None, *, names: tuple[str, ...] = ()
) -> str | bytes:
    """Return what `show` writes to a file.

    Args:
        to: The file.
        model: As in `show`.
        other: As in `show`.
        names: What the models are called, such as the names of their files.
    """
    return _content(model, other, _suffix(to), names)


def _content(model: Any, other: Any, suffix: str, names: tuple[str, ...] = ()) -> str | bytes:
    view, layers = _view(model, other)
    if other is not None and not names:
        names = tuple(str(getattr(each, "name", "")) for each in (model, other))
    if suffix == ".html":
        from ramet.showing.page import page_of  # noqa: PLC0415 it imports Keras
        from ramet.tracing.failures import explained  # noqa: PLC0415 the same

        with explained(*(each for each in (model, other) if each is not None)):
            return page_of(view, layers, compared=other is not None, names=names)
    from ramet.showing.picture import drawn_as, picture_of  # noqa: PLC0415 not needed for a table

    return drawn_as(suffix, picture_of(view))


def text_of(model: Any, other: Any = None) -> str:
    """Return what `show` prints, as plain text."""
    return as_text(_table(model, other))


def _view(model: Any, other: Any) -> tuple[View, list[Layer]]:
    """Return the view of a model, or of two overlaid, and its layers."""
    if other is None:
        graph = _graph(model)
        return read(graph), layers_of(graph)
    # They import Keras.
    from ramet.showing.compared import compared  # noqa: PLC0415 the same
    from ramet.tracing.settled import settled  # noqa: PLC0415 the same

    first, second = settled(model), settled(other)
    return compared(first, second), layers_of(second)


def _graph(model: Any) -> Graph:
    if isinstance(model, Graph):
        return model
    from ramet.tracing.trace import trace  # noqa: PLC0415 it imports Keras

    return trace(model)


def _table(model: Any, other: Any) -> Table:
    view, layers = _view(model, other)
    return table_of(view, layers, compared=other is not None)


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

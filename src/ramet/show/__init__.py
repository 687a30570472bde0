"""`show`: a model as a table in the terminal, as a page, or as a picture."""

import os
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ramet.errors import OptionError
from ramet.graph import Graph, Layer
from ramet.graph.console import as_text
from ramet.show.parts import View
from ramet.show.read import layers_of, read
from ramet.show.table import table_of

__all__ = ["show", "text_of"]

_SUFFIXES = (".html", ".svg")

_WIDTH = 120
"""Columns of the table where there is no terminal."""


def show(model: Any, other: Any = None, *, to: str | os.PathLike[str] | None = None) -> None:
    """Shows a model: as a table in the terminal, as a page, or as a picture.

    The model is read, not called and not changed. A page is one file that needs no
    network: the graph, with nested models to open, search, and a panel with the config,
    shapes and weight statistics of a layer. Costs O(calls), for a page also O(values).

    Args:
        model: A model that can be traced, or a Graph. Of a Graph that was edited, a
            question mark stands behind what is known on build only.
        other: A second one, to show what was added, removed and changed in it. Layers are
            compared by name.
        to: A file to write, `.html` for a page or `.svg` for a picture. By default a table
            is printed.

    Raises:
        ModelError: If it is not a model, or one that has no graph.
        OptionError: If `to` has another suffix.
        ExtraError: If a file is to be written and igraph is not installed.
    """
    suffix = "" if to is None else _suffix(to)
    if to is None:
        Console().print(_table(model, other))
        return
    view, layers = _view(model, other)
    if suffix == ".html":
        from ramet.show.page import page_of  # noqa: PLC0415 it imports Keras

        _write(Path(to), page_of(view, layers, compared=other is not None))
    else:
        from ramet.show.picture import picture_of  # noqa: PLC0415 a table needs none

        _write(Path(to), picture_of(view))


def text_of(model: Any, other: Any = None) -> str:
    """Returns what `show` prints, as plain text."""
    return as_text(_table(model, other), width=_WIDTH)


def _view(model: Any, other: Any) -> tuple[View, list[Layer]]:
    """Returns a model as it is drawn, or two in one, and its layers."""
    graph = _graph(model)
    view = read(graph)
    if other is not None:
        from ramet.show.difference import overlay  # noqa: PLC0415 it imports NumPy

        graph = _graph(other)
        view = overlay(view, read(graph))
    return view, layers_of(graph)


def _graph(model: Any) -> Graph:
    if isinstance(model, Graph):
        return model
    from ramet.bridge.trace import trace  # noqa: PLC0415 it imports Keras

    return trace(model)


def _table(model: Any, other: Any) -> Table:
    view, layers = _view(model, other)
    return table_of(view, layers, compared=other is not None)


def _suffix(to: str | os.PathLike[str]) -> str:
    suffix = Path(to).suffix.lower()
    if suffix not in _SUFFIXES:
        found = f"'{suffix}'" if suffix else "none"
        message = (
            f"show writes files with the suffix {' or '.join(_SUFFIXES)}, got {found} "
            f"in '{os.fspath(to)}'"
        )
        raise OptionError(message)
    return suffix


def _write(path: Path, text: str) -> None:
    """Writes a file under another name first, so that no half of one is left."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        draft = Path(file.name)
        try:
            file.write(text)
            file.close()
            draft.chmod(0o644)
            draft.replace(path)
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise

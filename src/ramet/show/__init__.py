"""`show`: a model as a table in the terminal, as a page, or as a picture."""

import os
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from ramet.bridge.trace import trace
from ramet.errors import OptionError
from ramet.show.difference import overlay
from ramet.show.page import page_of
from ramet.show.picture import picture_of
from ramet.show.read import layers_of, read
from ramet.show.table import table_of

__all__ = ["show"]

_SUFFIXES = (".html", ".svg")


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
    graph = trace(model)
    view = read(graph)
    compared = other is not None
    if compared:
        graph = trace(other)
        view = overlay(view, read(graph))
    if to is None:
        Console().print(table_of(view, layers_of(graph), compared=compared))
    elif suffix == ".html":
        _write(Path(to), page_of(view, layers_of(graph), compared=compared))
    else:
        _write(Path(to), picture_of(view))


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

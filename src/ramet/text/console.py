"""Text wrapped to the width of the terminal."""

import shutil

from rich.cells import cell_len, chop_cells
from rich.console import Console, RenderableType

_USUAL = 80
"""Columns where there is no terminal, such as in a file or a pipe."""
_LEAST = 40
"""The smallest width that text is wrapped to."""
_ROOM = 10
"""Columns beside an indentation, however deep: then lines are longer than the width."""


def terminal_width() -> int:
    """Return the width of the terminal (or `$COLUMNS`), and 80 where there is none."""
    return max(_LEAST, shutil.get_terminal_size((_USUAL, 24)).columns)


def as_text(renderable: RenderableType, *, width: int | None = None) -> str:
    """Return what rich would print, without colours and trailing spaces.

    Args:
        renderable: What to print.
        width: Columns; those of the terminal by default.
    """
    console = Console(width=width or terminal_width(), color_system=None, force_jupyter=False)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).rstrip()


def folded(text: str, width: int, *, hanging: int = 0) -> list[str]:
    """Return a text wrapped at spaces to a width.

    A word that is longer than a line is broken after a slash, or where the line ends, and
    never shortened.

    Args:
        text: The text; its own line breaks are kept.
        width: Columns; a wide character fills two.
        hanging: Spaces before all lines but the first.
    """
    indent = " " * hanging
    width = max(width, hanging + _ROOM)
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line, *words = paragraph.split(" ")
        for word in words:
            if cell_len(f"{line} {word}") <= width or cell_len(line) < hanging:
                line = f"{line} {word}"
            else:
                lines.append(line)
                line = f"{indent}{word}"
            line = _broken(line, width, indent, lines)
        lines.append(_broken(line, width, indent, lines))
    return lines


def _broken(line: str, width: int, indent: str, lines: list[str]) -> str:
    """Append a line to `lines` in pieces until the rest of it fits, and return the rest."""
    while cell_len(line) > width:
        start = chop_cells(line, width)[0]
        path = start.rpartition("/")[0]
        start = f"{path}/" if path.strip() else start  # Break a path between names.
        lines.append(start)
        line = f"{indent}{line[len(start) :]}"
    return line

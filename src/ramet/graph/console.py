"""What rich draws, as plain text."""

from rich.console import Console, RenderableType

_WIDTH = 100


def as_text(drawn: RenderableType, *, width: int = _WIDTH) -> str:
    """Returns what rich would print, without colours."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(drawn)
    return capture.get().rstrip()

"""What reaches the terminal while a command works."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TextIO

from ramet.files.words import printable

_STDERR = 2

_spinner: ContextVar[TextIO | None] = ContextVar("spinner", default=None)
"""Where a spinner may turn."""


@contextmanager
def hushed(*, spinner: bool) -> Generator[None]:
    """Keeps what backends and modules write away from the terminal.

    Backends log from C++, past Python, and some cannot be told not to. So the stream
    itself is turned away; the spinner gets a copy of it.
    """
    sys.stderr.flush()
    with os.fdopen(os.dup(_STDERR), "w") as terminal, open(os.devnull, "w") as nowhere:  # noqa: PTH123 no text is written to it
        token = _spinner.set(terminal if spinner and terminal.isatty() else None)
        os.dup2(nowhere.fileno(), _STDERR)
        try:
            with redirect_stdout(nowhere):
                yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal.fileno(), _STDERR)
            _spinner.reset(token)


@contextmanager
def working(what: str) -> Generator[None]:
    """Shows that something takes its time, if somebody watches."""
    terminal = _spinner.get()
    if terminal is None:
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(file=terminal).status(Text(printable(what)), spinner="dots"):
        yield

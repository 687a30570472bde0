"""Output to the terminal while a command runs."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TextIO

from ramet.files.words import printable

_STDOUT, _STDERR = 1, 2

_spinner: ContextVar[TextIO | None] = ContextVar("spinner", default=None)
"""The terminal for a spinner, if there is one."""


@contextmanager
def hushed(*, spinner: bool) -> Generator[None]:
    """Silence what backends and modules print.

    Backends log from C++, past Python, and some of them cannot be silenced. So the file
    descriptor itself is redirected; the spinner gets a copy of it.
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


def drop_output() -> None:
    """Discard what could not be written to stdout, which Python would try again at exit."""
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 no text is written to it
        os.dup2(nowhere.fileno(), _STDOUT)


@contextmanager
def working(what: str) -> Generator[None]:
    """Show a spinner while something takes its time, if there is a terminal."""
    terminal = _spinner.get()
    if terminal is None:
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(file=terminal).status(Text(printable(what)), spinner="dots"):
        yield

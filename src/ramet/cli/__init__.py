"""The command line: `ramet clone|diff|verify|masks|show|emit|edit FILE...`, and more commands.

`commands` has a function per command, and so have `adapters`, `editing`, `factoring`, `folding`,
`growing`, `precision`, `profiles` and `pruning`; `common` and `writing` have what they share.
`written_edits` and `written_layers` read edits and layers from options, `order` knows which option
came first, `backend` and `custom` prepare Keras, and `remedies` turns Python advice into options.
"""

import io
import os
import signal
import sys
from typing import NoReturn

from ramet.cli.adapters import merge_adapter
from ramet.cli.commands import app
from ramet.cli.editing import edit
from ramet.cli.factoring import factorize
from ramet.cli.folding import fold
from ramet.cli.growing import deepen, widen
from ramet.cli.precision import cast, quantize
from ramet.cli.profiles import profile
from ramet.cli.pruning import prune

REGISTERED = (
    cast, deepen, edit, factorize, fold, merge_adapter, profile, prune, quantize, widen,
)  # fmt: skip
"""Commands in files of their own: importing them adds them to the app."""


def main() -> None:
    """Run the command line and exit: 0 same or done, 1 different, 2 an error."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every terminal can print every character
            stream.reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _end)
    app(prog_name="ramet")


def _end(number: int, _frame: object) -> NoReturn:
    """End as if by the signal, but remove temporary files first."""
    sys.exit(128 + number)


def _open_streams() -> None:
    """Open the streams that the caller closed, so that no file gets their numbers.

    Backends write to these numbers, and would write into a model.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] if it was closed
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 as long as the process
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] the same
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 the same

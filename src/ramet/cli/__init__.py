"""The command line: `ramet clone|diff|verify|masks|show|emit|edit FILE...`."""

import io
import sys

from ramet.cli.commands import app


def main() -> None:
    """Runs the command line and ends the process: 0 same or done, 1 different, 2 an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every terminal knows every letter
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="ramet")

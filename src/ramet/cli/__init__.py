"""The command line: `ramet clone|diff|verify|masks|show|emit|edit FILE...`."""

from ramet.cli.commands import app


def main() -> None:
    """Runs the command line and ends the process: 0 same or done, 1 different, 2 an error."""
    app(prog_name="ramet")

"""What commands that write an edited model have in common."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ramet.cli.common import Answer
from ramet.cli.terminal import working

Target: TypeAlias = Annotated[Path | None, typer.Argument(help="The .keras file to write.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Write nothing.")]


def check_target(source: Path, target: Path | None, *, dry_run: bool, force: bool) -> None:
    """Check that there is a file to write, before anything is loaded."""
    from ramet.errors import OptionError
    from ramet.files import check_target as check

    if target is None and not dry_run:
        raise OptionError("there is no file to write; name one, or use --dry-run")
    if target is not None and not dry_run:
        check(target, suffixes=(".keras",), force=force, sources=[source])


def written(  # noqa: PLR0913 each is another part of the answer
    graph: Any,
    text: str,
    data: dict[str, Any],
    source: Path,
    target: Path | None,
    *,
    dry_run: bool,
    force: bool,
) -> Answer:
    """Build an edited graph, save it, and return the answer of the command.

    Args:
        graph: The graph.
        text: What the command says.
        data: The same for machines; the file names and the journal are added.
        source: The file that was read.
        target: The file to write.
        dry_run: Whether to write nothing.
        force: Whether to overwrite a file.
    """
    from ramet.files import save

    if target is not None and not dry_run:
        with working(f"saving {target}"):
            save(graph.build(), target, force=force, sources=[source])
    about = {
        "source": str(source),
        "target": None if dry_run else str(target),
        "dry_run": dry_run,
        "journal": [entry.to_dict() for entry in graph.journal],
        "notes": [*graph.journal.notes],
    }
    last = "nothing was written (--dry-run)" if dry_run else f"written to {target}"
    return Answer(f"{text}\n{last}", {**about, **data})

"""What commands that write an edited model have in common."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

import ramet as verbs
from ramet.cli.common import DIFFERENT, DONE, Answer
from ramet.cli.terminal import working

Target: TypeAlias = Annotated[Path | None, typer.Argument(help="The .keras file to write.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Write nothing.")]
Prove: TypeAlias = Annotated[
    bool, typer.Option("--prove", help="Measure whether the edits keep their promises.")
]


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
    prove: bool | None = None,
) -> Answer:
    """Build an edited graph, save it, and return the answer of the command.

    Nothing is saved if a promise is broken.

    Args:
        graph: The graph.
        text: What the command says.
        data: The same for machines; the file names and the journal are added.
        source: The file that was read.
        target: The file to write.
        dry_run: Whether to write nothing.
        force: Whether to overwrite a file.
        prove: Whether to measure if the edits keep their promises; `None` for a command that does
            not offer it.
    """
    from ramet.files import save

    code, why = DONE, "--dry-run"
    stays = dry_run
    if prove is not None:
        data = {**data, "proof": None}
    if prove:
        with working("proving"):
            proof = verbs.prove(graph)
        text, data = f"{text}\n{proof}", {**data, "proof": proof.to_dict()}
        code = DONE if proof.ok else DIFFERENT
        if proof.broken:
            stays, why = True, "a promise is broken"
    if target is not None and not stays:
        with working(f"saving {target}"):
            save(graph.build(), target, force=force, sources=[source])
    about = {
        "source": str(source),
        "target": None if stays else str(target),
        "dry_run": dry_run,
        "journal": [entry.to_dict() for entry in graph.journal],
        "notes": [*graph.journal.notes],
    }
    last = f"nothing was written ({why})" if stays else f"written to {target}"
    return Answer(f"{text}\n{last}", {**about, **data}, code)

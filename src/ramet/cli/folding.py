"""`ramet fold`: norms and constant scales folded into the layers beside them."""

from pathlib import Path
from typing import Annotated

import typer

import ramet as verbs
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working


@command(app)
def fold(  # noqa: PLR0913 each is an option
    source: File,
    target: Annotated[Path | None, typer.Argument(help="The .keras file to write.")] = None,
    *,
    inference_only: Annotated[
        bool,
        typer.Option("--inference-only", help="Drop layers that only act in training, too."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Fold batch norms and constant scales into the layers beside them.

    The new model computes the same in inference, up to rounding, with fewer layers. The table
    says what is folded into what, and what is kept and why.

    Examples:
      ramet fold model.keras folded.keras
      ramet fold model.keras folded.keras --inference-only
      ramet fold model.keras --dry-run
    """
    from ramet.errors import OptionError
    from ramet.files import check_target, save

    if target is None and not dry_run:
        raise OptionError("there is no file to write; name one, or use --dry-run")
    if target is not None and not dry_run:
        check_target(target, suffixes=(".keras",), force=force, sources=[source])
    model = common.load(source)
    compress = verbs.compress
    with working("folding"):
        listing = compress.foldable(model, inference_only=inference_only)
        graph = compress.fold(model, inference_only=inference_only)
    if target is not None and not dry_run:
        with working(f"saving {target}"):
            save(graph.build(), target, force=force, sources=[source])
    data = {
        "source": str(source),
        "target": None if dry_run else str(target),
        "dry_run": dry_run,
        "journal": [entry.to_dict() for entry in graph.journal],
        "notes": [*graph.journal.notes],
        **listing.to_dict(),
    }
    last = "nothing was written (--dry-run)" if dry_run else f"written to {target}"
    return Answer(f"{listing}\n{last}", data)

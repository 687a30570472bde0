"""`ramet fold`: norms and constant scales folded into the layers beside them."""

from typing import Annotated

import typer

import ramet as verbs
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working
from ramet.cli.writing import DryRun, Target, check_target, written


@command(app)
def fold(  # noqa: PLR0913 each is an option
    source: File,
    target: Target = None,
    *,
    inference_only: Annotated[
        bool,
        typer.Option("--inference-only", help="Also drop layers that only act in training."),
    ] = False,
    dry_run: DryRun = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Fold batch norms and constant scales into the layers beside them.

    The new model computes the same at inference, up to rounding, with fewer layers. The table
    shows what is folded into what, and what is kept and why.

    Examples:
      ramet fold model.keras folded.keras
      ramet fold model.keras folded.keras --inference-only
      ramet fold model.keras --dry-run
    """
    check_target(source, target, dry_run=dry_run, force=force)
    model = common.load(source)
    compress = verbs.compress
    with working("folding"):
        listing = compress.foldable(model, inference_only=inference_only)
        graph = compress.fold(model, inference_only=inference_only)
    return written(
        graph, str(listing), listing.to_dict(), source, target, dry_run=dry_run, force=force
    )

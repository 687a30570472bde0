"""`ramet prune`: a file with fewer channels."""

from typing import Annotated, Any

import typer

import ramet as verbs
from ramet._arguments import check_word
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working
from ramet.cli.writing import DryRun, Prove, Target, check_target, written
from ramet.errors import OptionError

CRITERIA = (
    *("l1", "l2", "bn", "lamp", "fpgm", "random"),
    *("activation", "taylor"),
    "hessian",
    "obd",
)
"""What `prune` knows; the last four need data. It imports Keras to say so itself."""
SCOPES = ("local", "global", "isomorphic")
"""What scores are compared across."""


@command(app)
def prune(  # noqa: PLR0913 each is an option
    source: File,
    target: Target = None,
    *,
    ratio: Annotated[float | None, typer.Option(help="Fraction of the channels to remove.")] = None,
    macs: Annotated[
        float | None, typer.Option(help="Fraction of the multiply-accumulates to keep at most.")
    ] = None,
    params: Annotated[
        float | None, typer.Option(help="Fraction of the weights to keep at most.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="How much a channel matters: l1, l2, bn, lamp, fpgm or random.")
    ] = "l2",
    scope: Annotated[
        str, typer.Option(help="What is compared: local, global or isomorphic groups.")
    ] = "local",
    keep: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Groups to leave alone. Repeatable.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Prune only these groups. Repeatable.")
    ] = None,
    round_to: Annotated[int, typer.Option(help="Round group sizes to a multiple of this.")] = 1,
    max_ratio: Annotated[
        float, typer.Option(help="Largest fraction that one group may lose.")
    ] = 1.0,
    steps: Annotated[
        int, typer.Option(help="Number of steps; scores are computed anew in each.")
    ] = 1,
    dry_run: DryRun = False,
    prove: Prove = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Remove the channels that matter least, from every layer that computes or uses them.

    The table lists the groups of channels that can only be removed together. Inputs and outputs
    of the model stay as they are. With --prove, the new model is compared with the old one in
    which the removed channels are masked; if they are not equal, nothing is written, and it exits
    with 1.

    Examples:
      ramet prune model.keras --dry-run
      ramet prune model.keras smaller.keras --ratio 0.5
      ramet prune model.keras smaller.keras --macs 0.5 --scope global --round-to 8 --prove
    """
    check_target(source, target, dry_run=dry_run, force=force)
    goals = {"ratio": ratio, "macs": macs, "params": params}
    _check(goals, by, scope, max_ratio, dry_run=dry_run)
    model = common.load(source)
    listing = verbs.compress.groups(model)
    options: dict[str, Any] = {**goals}
    if dry_run and all(value is None for value in goals.values()):
        return Answer(str(listing), {"source": str(source), "dry_run": True, **listing.to_dict()})
    options |= {"by": by, "scope": scope, "keep": keep or (), "only": only or ()}
    options |= {"round_to": round_to, "max_ratio": max_ratio, "steps": steps}
    with working("pruning"):
        graph = verbs.compress.prune(model, **options)
        before, after = verbs.profile(model), verbs.profile(graph)
    left = (
        f"MACs: {before.macs:,} → {after.macs:,}; parameters: {before.params:,} → {after.params:,}"
    )
    text = f"{listing}\n{graph.journal.text(full=True)}\n{left}"
    data = {
        "macs": [before.macs, after.macs],
        "params": [before.params, after.params],
        **listing.to_dict(),
    }
    return written(graph, text, data, source, target, dry_run=dry_run, force=force, prove=prove)


def _check(
    goals: dict[str, float | None], by: str, scope: str, max_ratio: float, *, dry_run: bool
) -> None:
    """Check options before the file is loaded.

    Raises:
        OptionError: If they do not name one goal, or a number or a word is wrong.
    """
    check_word(by, "by", CRITERIA)
    check_word(scope, "scope", SCOPES)
    named = {name: value for name, value in goals.items() if value is not None}
    if len(named) > 1 or not (named or dry_run):
        raise OptionError("pass one of --ratio, --macs and --params, for example --ratio 0.5")
    for name, value in {**named, "max_ratio": max_ratio}.items():
        if not 0 <= value <= 1:
            raise OptionError(f"{name} must be a number between 0 and 1, got {value}")

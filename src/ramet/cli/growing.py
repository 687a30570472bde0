"""`ramet widen` and `ramet deepen`: files with more channels, and with more layers."""

from typing import Annotated, Any

import typer

import ramet as verbs
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working
from ramet.cli.writing import DryRun, Prove, Target, check_target, written


@command(app)
def widen(  # noqa: PLR0913 each is an option
    source: File,
    target: Target = None,
    *,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SIZE", help="Channels that a layer or group gets. Repeatable."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="How new channels start: zeros, averages or copies; by default what is possible."
        ),
    ] = None,
    dry_run: DryRun = False,
    prove: Prove = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Give layers more channels, so that the model computes the same and goes on learning.

    All layers that share the channels grow together. A dry run without --at lists the groups of
    channels. With --prove, nothing is written if the outputs differ, and it exits with 1.

    Examples:
      ramet widen model.keras --dry-run
      ramet widen model.keras wide.keras --at ffn=4096
      ramet widen vit.keras wide.keras --at embedding=512 --at mha:heads=8 --prove
    """
    from ramet.errors import OptionError

    check_target(source, target, dry_run=dry_run, force=force)
    wishes = [*map(_wish, at or ())]
    if not wishes and not dry_run:
        raise OptionError("no channels are to be added; name a layer, such as --at ffn=4096")
    graph = model = common.load(source)
    if not wishes:
        listing = verbs.compress.groups(model)
        return Answer(str(listing), {"source": str(source), "dry_run": True, **listing.to_dict()})
    with working("widening"):
        for name, size in wishes:
            graph = verbs.compress.widen(graph, name, size, method=method)  # type: ignore[arg-type] it checks words
    return _grown(model, graph, source, target, dry_run=dry_run, prove=prove, force=force)


@command(app)
def deepen(  # noqa: PLR0913 each is an option
    source: File,
    target: Target = None,
    *,
    at: Annotated[str, typer.Option(metavar="TENSOR", help="After which layer.")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER", help="A layer of a branch whose last kernel is zero. Repeatable."
        ),
    ] = None,
    dry_run: DryRun = False,
    prove: Prove = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Add layers after a tensor, so that the model computes the same and goes on learning.

    The layers of --by are a branch, whose output is added to the tensor. Without --by, one layer
    is added that starts as the identity. A layer is written as in Python, with literal
    arguments: it is parsed, not evaluated. With --prove, nothing is written if the outputs
    differ, and it exits with 1.

    Examples:
      ramet deepen model.keras deep.keras --at conv
      ramet deepen a.keras b.keras --at pool --by 'layers.Dense(64, "gelu")' --by 'layers.Dense(8)'
    """
    from ramet.cli.written_layers import read_layer

    check_target(source, target, dry_run=dry_run, force=force)
    branch = [read_layer(text).make() for text in by] if by else None
    model = common.load(source)
    with working("deepening"):
        graph = verbs.compress.deepen(model, at, branch)
    return _grown(model, graph, source, target, dry_run=dry_run, prove=prove, force=force)


def _wish(text: str) -> tuple[str, int]:
    from ramet.errors import OptionError

    name, sign, size = text.rpartition("=")
    if not (sign and name and size.isdecimal()):
        raise OptionError(f"--at '{text}' is not of the form NAME=SIZE; write --at ffn=4096")
    return name, int(size)


def _grown(model: Any, graph: Any, source: Any, target: Any, **options: bool) -> Answer:
    """Write a larger model, and say what it has more."""
    before, after = verbs.profile(model), verbs.profile(graph)
    left = (
        f"MACs: {before.macs:,} → {after.macs:,}; parameters: {before.params:,} → {after.params:,}"
    )
    data = {"macs": [before.macs, after.macs], "params": [before.params, after.params]}
    return written(graph, f"{graph.journal}\n{left}", data, source, target, **options)

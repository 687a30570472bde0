"""`ramet quantize` and `ramet cast`: the layers that you name in fewer bits."""

from typing import Annotated

import typer

import ramet as verbs
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working
from ramet.cli.writing import DryRun, Target, check_target, written


@command(app)
def quantize(  # noqa: PLR0913 each is an option
    source: File,
    target: Target = None,
    *,
    at: Annotated[
        list[str],
        typer.Option(
            metavar="PATTERN=MODE", help="Layers, and int8, int4 or float8. The first match counts."
        ),
    ],
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Layers to leave as they are, or head. Repeatable."),
    ] = None,
    dry_run: DryRun = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Store the weights of the layers that you name with fewer bits.

    The table shows how many bytes this saves, and the error of each layer.

    Examples:
      ramet quantize model.keras small.keras --at '*=int8' --skip head
      ramet quantize model.keras small.keras --at '**/ffn*=int4' --at '*=int8'
      ramet quantize model.keras --at '*=int4' --dry-run
    """
    patterns = dict(map(_pattern, at))
    check_target(source, target, dry_run=dry_run, force=force)
    model = common.load(source)
    with working("quantizing"):
        listing = verbs.adapt.quantize(model, patterns, skip=skip or None, explain=True)
        graph = verbs.adapt.quantize(model, patterns, skip=skip or None)
    return written(
        graph, str(listing), listing.to_dict(), source, target, dry_run=dry_run, force=force
    )


@command(app)
def cast(  # noqa: PLR0913 each is an option
    source: File,
    target: Target = None,
    *,
    at: Annotated[list[str], typer.Option(metavar="PATTERN", help="Layers. Repeatable.")],
    dtype: Annotated[str, typer.Option(help="The policy, such as bfloat16 or mixed_bfloat16.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Layers to leave as they are, or norms, softmax, head. Repeatable.",
        ),
    ] = None,
    dry_run: DryRun = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Make the layers that you name compute in another precision.

    The table shows how many bytes this saves, and how much the outputs change.

    Examples:
      ramet cast model.keras half.keras --at '*' --dtype bfloat16 --keep norms --keep head
      ramet cast model.keras --at 'encoder/**' --dtype mixed_bfloat16 --dry-run
    """
    check_target(source, target, dry_run=dry_run, force=force)
    model = common.load(source)
    with working("casting"):
        listing = verbs.adapt.cast(model, at, dtype, keep=keep or None, explain=True)
        graph = verbs.adapt.cast(model, at, dtype, keep=keep or None)
    return written(
        graph, str(listing), listing.to_dict(), source, target, dry_run=dry_run, force=force
    )


def _pattern(text: str) -> tuple[str, str]:
    """Return the pattern and the mode of an option."""
    from ramet.errors import OptionError

    pattern, sign, mode = text.rpartition("=")
    if not sign or not pattern:
        raise OptionError(f"--at {text!r} names no mode; write PATTERN=MODE, such as '*=int8'")
    return pattern, mode

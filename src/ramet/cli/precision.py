"""`ramet quantize` and `ramet cast`: the layers that you name in fewer bits."""

from pathlib import Path
from typing import Annotated, Any

import typer

import ramet as verbs
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working

_Target = Annotated[Path | None, typer.Argument(help="The .keras file to write.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing.")]


@command(app)
def quantize(  # noqa: PLR0913 each is an option
    source: File,
    target: _Target = None,
    *,
    at: Annotated[
        list[str],
        typer.Option(
            metavar="PATTERN=MODE", help="Layers, and int8, int4 or float8. The first match counts."
        ),
    ],
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Layers that stay as they are, or head. Repeatable."),
    ] = None,
    dry_run: _DryRun = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Store the weights of the layers that you name with fewer bits.

    The table says how many bytes that saves, and how far each layer's results are off.

    Examples:
      ramet quantize model.keras small.keras --at '*=int8' --skip head
      ramet quantize model.keras small.keras --at '**/ffn*=int4' --at '*=int8'
      ramet quantize model.keras --at '*=int4' --dry-run
    """
    patterns = dict(map(_pattern, at))
    _check(source, target, dry_run=dry_run, force=force)
    model = common.load(source)
    with working("quantizing"):
        listing = verbs.adapt.quantize(model, patterns, skip=skip or None, explain=True)
        graph = verbs.adapt.quantize(model, patterns, skip=skip or None)
    return _answer(graph, listing, source, target, dry_run=dry_run, force=force)


@command(app)
def cast(  # noqa: PLR0913 each is an option
    source: File,
    target: _Target = None,
    *,
    at: Annotated[list[str], typer.Option(metavar="PATTERN", help="Layers. Repeatable.")],
    dtype: Annotated[str, typer.Option(help="The policy, such as bfloat16 or mixed_bfloat16.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Layers that stay as they are, or norms, softmax, head. Repeatable.",
        ),
    ] = None,
    dry_run: _DryRun = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Let the layers that you name compute in another precision.

    The table says how many bytes that saves, and how far the outputs are off.

    Examples:
      ramet cast model.keras half.keras --at '*' --dtype bfloat16 --keep norms --keep head
      ramet cast model.keras --at 'encoder/**' --dtype mixed_bfloat16 --dry-run
    """
    _check(source, target, dry_run=dry_run, force=force)
    model = common.load(source)
    with working("casting"):
        listing = verbs.adapt.cast(model, at, dtype, keep=keep or None, explain=True)
        graph = verbs.adapt.cast(model, at, dtype, keep=keep or None)
    return _answer(graph, listing, source, target, dry_run=dry_run, force=force)


def _pattern(text: str) -> tuple[str, str]:
    """Return the pattern and the mode of an option."""
    from ramet.errors import OptionError

    pattern, sign, mode = text.rpartition("=")
    if not sign or not pattern:
        raise OptionError(f"--at {text!r} names no mode; write PATTERN=MODE, such as '*=int8'")
    return pattern, mode


def _check(source: Path, target: Path | None, *, dry_run: bool, force: bool) -> None:
    from ramet.errors import OptionError
    from ramet.files import check_target

    if target is None and not dry_run:
        raise OptionError("there is no file to write; name one, or use --dry-run")
    if target is not None and not dry_run:
        check_target(target, suffixes=(".keras",), force=force, sources=[source])


def _answer(  # noqa: PLR0913 each is another part of it
    graph: Any, listing: Any, source: Path, target: Path | None, *, dry_run: bool, force: bool
) -> Answer:
    from ramet.files import save

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

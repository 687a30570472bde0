"""`ramet profile`: what a model costs, or two models side by side."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import ramet as verbs
from ramet._arguments import check_batch, check_word
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, UsageError, command
from ramet.cli.remedies import with_options
from ramet.cli.terminal import working
from ramet.results.profile import MEASURES, check_depth
from ramet.text.console import folded, terminal_width


@command(app)
def profile(  # noqa: PLR0913 each is an option
    file: File,
    other: Annotated[Path | None, typer.Argument(help="A file to compare with.")] = None,
    *,
    batch: Annotated[int, typer.Option(help="How many examples are computed at once.")] = 1,
    time: Annotated[bool, typer.Option("--time", help="Measure the time of each call.")] = False,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[INPUT=]SIZES",
            help="Sizes of an input that leaves them open, such as 224,224,3. Repeatable.",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Order of the rows: macs, params, memory or time.")
    ] = None,
    depth: Annotated[int, typer.Option(help="Levels of nested models to unfold.")] = 0,
    common: Common,
) -> Answer:
    """Count what a model costs, call by call: MACs, weights, memory, and time if asked.

    With a second file, compare the two side by side. Of a file with classes that are not part of
    Keras, everything else is counted; nothing of it is loaded.

    Examples:
      ramet profile model.keras
      ramet profile model.keras --batch 8 --time --by time
      ramet profile detector.keras --shape image=640,640,3
      ramet profile before.keras after.keras
    """
    check_batch(batch)
    check_depth(depth)
    if by is not None:
        check_word(by, "by", MEASURES)
    if by == "time" and not time:
        raise UsageError("--by time needs times; use --time")
    shapes = _shapes(shape or [])
    files = [path for path in (file, other) if path is not None]
    models, notes = common.read(files) if not time else ([*map(common.load, files)], [])
    with working("counting"):
        profiles = [verbs.profile(m, batch=batch, shapes=shapes, time=time) for m in models]
    data: dict[str, Any] = {"file": str(file), "other": None if other is None else str(other)}
    if other is None:
        (one,) = profiles
        one = replace(one, notes=(*map(with_options, one.notes), *notes))
        return Answer(one.text(by=by, depth=depth), data | one.to_dict())
    comparison = profiles[0].against(profiles[1])
    told = (line for note in notes for line in folded(note, terminal_width(), hanging=3))
    text = "\n".join((comparison.text(depth=depth), *told))
    return Answer(text, data | comparison.to_dict() | {"notes": notes})


def _shapes(options: list[str]) -> Any:
    """Return the shapes that options name: one without a name, or several with names."""
    shapes: dict[str, tuple[int, ...]] = {}
    for option in options:
        name, _, sizes = option.rpartition("=")
        try:
            shapes[name] = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            message = f"--shape takes sizes such as 224,224,3 or image=224,224,3, got '{option}'"
            raise UsageError(message) from None
    if "" in shapes and len(shapes) > 1:
        raise UsageError("--shape names each input if there are several: --shape image=224,224,3")
    return shapes.get("", shapes or None)

"""`ramet merge-adapter`: adapters in a file made part of its kernels."""

from typing import Annotated

import typer

import ramet as verbs
from ramet.cli.commands import File, Target, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working


@command(app)
def merge_adapter(  # noqa: PLR0913 each is an option
    source: File,
    target: Target,
    *,
    adapter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Which adapter; by default those in use. Repeatable."),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="An adapter file, or a PEFT folder, to merge."),
    ] = None,
    force: Force = False,
    common: Common,
) -> Answer:
    """Merge adapters into the kernels of a model, and remove all adapters.

    The new model has plain layers and computes the same as the adapted one, up to rounding.

    Examples:
      ramet merge-adapter tuned.keras merged.keras
      ramet merge-adapter tuned.keras french.keras --adapter fr
      ramet merge-adapter base.keras french.keras --load fr.safetensors
    """
    from ramet.files import check_target, save

    check_target(target, suffixes=(".keras",), force=force, sources=[source])
    model = common.load(source)
    with working("merging"):
        graph = verbs.trace(model)
        if load is not None:
            graph = verbs.adapt.load(graph, load)
        graph = verbs.adapt.merge(graph, adapter or None)
        merged = graph.build()
    with working(f"saving {target}"):
        save(merged, target, force=force, sources=[source])
    data = {
        "source": str(source),
        "target": str(target),
        "journal": [entry.to_dict() for entry in graph.journal],
    }
    return Answer(f"{graph.journal}\nwritten to {target}", data)

"""`ramet factorize`: a file with kernels of lower rank."""

from typing import Annotated, Any

import typer

import ramet as verbs
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.terminal import working
from ramet.cli.writing import DryRun, Prove, Target, check_target, written


@command(app)
def factorize(  # noqa: PLR0913 each is an option
    source: File,
    target: Target = None,
    *,
    at: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Layers; by default all with a kernel.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="How many dimensions of each kernel are kept.")
    ] = None,
    energy: Annotated[
        float | None, typer.Option(help="Part of the squares of each kernel that is kept.")
    ] = None,
    params: Annotated[
        int | None, typer.Option(help="How many parameters the new model may have.")
    ] = None,
    dry_run: DryRun = False,
    prove: Prove = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Replace kernels by products of smaller ones, which have fewer parameters.

    The table says what each layer loses, and why others are left alone. At full rank, the
    model computes the same; with --prove, that is measured.

    Examples:
      ramet factorize model.keras small.keras --energy 0.95
      ramet factorize model.keras small.keras --params 1000000
      ramet factorize model.keras --at 'block*/ffn*' --rank 64 --dry-run
    """
    check_target(source, target, dry_run=dry_run, force=force)
    model = common.load(source)
    options: dict[str, Any] = {"at": at, "rank": rank, "energy": energy, "params": params}
    with working("factorizing"):
        listing = verbs.compress.factorizable(model, **options)
        graph = verbs.compress.factorize(model, **options)
    data = listing.to_dict()
    return written(
        graph, str(listing), data, source, target, dry_run=dry_run, force=force, prove=prove
    )

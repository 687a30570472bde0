"""`ramet edit`: edits of a file, in the order of the options."""

from typing import Annotated, TypeAlias

import typer

import ramet as verbs
from ramet.cli.backend import choose
from ramet.cli.commands import File, app
from ramet.cli.common import Answer, Common, Force, command
from ramet.cli.order import Ordered, edits_in_order
from ramet.cli.terminal import working
from ramet.cli.writing import DryRun, Prove, Target, check_target, written

_Edits: TypeAlias = list[str] | None


@command(app, cls=Ordered)
def edit(  # noqa: PLR0913 each is an option
    ctx: typer.Context,
    source: File,
    target: Target = None,
    *,
    replace: Annotated[_Edits, typer.Option(metavar="GLOB=LAYER", help="Replace layers.")] = None,
    remove: Annotated[_Edits, typer.Option(metavar="GLOB", help="Remove layers.")] = None,
    insert_after: Annotated[
        _Edits, typer.Option(metavar="GLOB=LAYER", help="Insert a layer after others.")
    ] = None,
    insert_before: Annotated[
        _Edits, typer.Option(metavar="GLOB=LAYER", help="Insert a layer before others.")
    ] = None,
    insert_on: Annotated[
        _Edits,
        typer.Option(metavar="CALL[:ARGUMENT]=LAYER", help="Insert a layer on an input of a call."),
    ] = None,
    rename: Annotated[_Edits, typer.Option(metavar="OLD=NEW", help="Rename a layer.")] = None,
    configure: Annotated[
        _Edits, typer.Option(metavar="GLOB:KEY=VALUE,...", help="Change arguments of layers.")
    ] = None,
    freeze: Annotated[_Edits, typer.Option(metavar="GLOB", help="Freeze layers.")] = None,
    unfreeze: Annotated[_Edits, typer.Option(metavar="GLOB", help="Make layers train.")] = None,
    flatten: Annotated[
        _Edits, typer.Option(metavar="GLOB", help="Inline nested models; * for all.")
    ] = None,
    prefix: Annotated[_Edits, typer.Option(metavar="TEXT", help="Prefix all names.")] = None,
    share: Annotated[
        _Edits, typer.Option(metavar="FIRST=OTHER,...", help="Tie layers to the first.")
    ] = None,
    unshare: Annotated[
        _Edits, typer.Option(metavar="GLOB", help="Give each call a layer of its own.")
    ] = None,
    rewire: Annotated[
        _Edits, typer.Option(metavar="CALL[:ARGUMENT]=TENSOR", help="Replace an input of a call.")
    ] = None,
    add_output: Annotated[
        _Edits, typer.Option(metavar="TENSOR", help="Also return a tensor.")
    ] = None,
    extract: Annotated[
        _Edits, typer.Option(metavar="TENSOR,...", help="Keep only what leads to these tensors.")
    ] = None,
    inputs: Annotated[
        _Edits, typer.Option(metavar="KEY=VALUE,...", help="Change the input: shape, dtype, ...")
    ] = None,
    dry_run: DryRun = False,
    prove: Prove = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Edit the graph of a model. Edits are applied in the order of the options.

    A layer is written as in Python, with literal arguments: it is parsed, not evaluated.
    Layers that no edit touches keep their weights. With --prove, the models before and after each
    edit are called on generated inputs; if a promise is broken, nothing is written. Exits with 1
    if a promise is broken or could not be measured.

    Examples:
      ramet edit a.keras b.keras --replace 'relu*=keras.layers.PReLU()'
      ramet edit a.keras b.keras --remove 'drop*' --rename fc=head
      ramet edit a.keras b.keras --insert-after 'block2=layers.Dropout(0.1)'
      ramet edit a.keras b.keras --configure 'head:units=20,weights=grow'
      ramet edit a.keras --configure 'conv*:trainable=false' --dry-run
      ramet edit a.keras b.keras --freeze '*' --unfreeze head --inputs 'shape=(32, 32, 4)'
      ramet edit a.keras b.keras --flatten '*' --extract pool
      ramet edit a.keras b.keras --insert-after 'pool=layers.Dropout(0.2)' --prove
    """
    # They are read in order below.
    del replace, remove, insert_after, insert_before, insert_on, rename, configure, freeze
    del unfreeze, flatten, prefix, share, unshare, rewire, add_output, extract, inputs
    from ramet.errors import OptionError

    edits = edits_in_order(ctx)
    if not edits:
        raise OptionError("there are no edits; name one, such as --remove 'drop*'")
    check_target(source, target, dry_run=dry_run, force=force)
    choose(common.backend)
    from ramet.cli.written_edits import read

    changes = [read(how, text) for how, text in edits]  # all, before the file is loaded
    graph = verbs.trace(common.load(source))
    for change in changes:
        graph = change(graph)
    with working("building"):
        report = graph.transfer_report()
    data = {"weights": report.to_dict()["transfers"], "optimizer": report.optimizer}
    text = f"{graph.journal}\n{report}"
    return written(graph, text, data, source, target, dry_run=dry_run, force=force, prove=prove)

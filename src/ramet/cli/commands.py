"""The commands. Each reads files, calls one verb of ramet, and returns an answer."""

from dataclasses import asdict
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ramet.cli.common import DIFFERENT, DONE, Answer, Commands, Common, Force, command
from ramet.cli.order import Ordered, edits_in_order
from ramet.cli.terminal import working

app = typer.Typer(
    name="ramet",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File: TypeAlias = Annotated[Path, typer.Argument(help="A .keras or .h5 file.")]
Target: TypeAlias = Annotated[Path, typer.Argument(help="The .keras file to write.")]
Seed: TypeAlias = Annotated[int, typer.Option(help="Seed of the made-up inputs.")]
_Edits: TypeAlias = list[str] | None


class Weights(StrEnum):
    """What a copy gets as weights."""

    copy = "copy"
    fresh = "fresh"


def _show_version(wanted: bool) -> None:  # noqa: FBT001 typer passes it by position
    if not wanted:
        return
    try:
        print(f"ramet {version('ramet')}")
    except PackageNotFoundError:
        print("ramet (not installed)")
    raise typer.Exit


@app.callback()
def ramet(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=_show_version,
        ),
    ] = False,
) -> None:
    """Copies Keras models exactly, edits their graphs, and proves what it did.

    Files are looked at before they are loaded, and written whole or not at all.

    Exit codes:
      0  done, or the same
      1  different, or something was found
      2  an error: one line on stderr
    """


@command(app)
def clone(  # noqa: PLR0913 each is an option
    source: File,
    target: Target,
    *,
    weights: Annotated[Weights, typer.Option(help="Copied, or initialized anew.")] = Weights.copy,
    seed: Annotated[int | None, typer.Option(help="Seed of fresh weights.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new model.")] = None,
    force: Force = False,
    common: Common,
) -> Answer:
    """Copy a model exactly, or with fresh weights.

    The copy has the same layers, names, sharing, weights, optimizer and metrics.

    Examples:
      ramet clone model.keras twin.keras
      ramet clone model.keras member.keras --weights fresh --seed 7
      ramet clone old.h5 new.keras --name resnet
    """
    from ramet.files import save

    _check_model_target(target, force=force)
    model = common.load(source)
    from ramet.clone import clone as cloned

    with working("copying"):
        copy = cloned(model, weights=str(weights), seed=seed, name=name)
    with working(f"saving {target}"):
        save(copy, target, force=force)
    data = {
        "source": str(source),
        "target": str(target),
        "model": copy.name,
        "weights": str(weights),
        "parameters": copy.count_params() if copy.built else None,
    }
    return Answer(f"'{copy.name}' is in {target}, with {_weights_text(weights)}", data)


@command(app)
def verify(first: File, second: File, *, seed: Seed = 0, common: Common) -> Answer:
    """Compare two models: structure, sharing, state, and what they compute.

    Both are called on the same made-up inputs. Ends with 0 if they are the same, with 1 if not.

    Examples:
      ramet verify model.keras twin.keras
      ramet verify model.keras twin.keras --json --seed 3
    """
    models = common.load(first), common.load(second)
    from ramet.verify import verify as verified

    with working("comparing"):
        report = verified(*models, seed=seed)
    data = {
        "first": str(first),
        "second": str(second),
        "same": report.ok,
        "complete": report.complete,
        "checks": [{**asdict(check), "verdict": check.verdict} for check in report.checks],
    }
    return Answer(str(report), data, DONE if report.ok else DIFFERENT)


@command(app)
def diff(first: File, second: File, *, common: Common) -> Answer:
    """Show in what two models differ, layer by layer.

    Ends with 0 if they do not differ, with 1 if they do.

    Examples:
      ramet diff before.keras after.keras
      ramet diff before.keras after.keras --json
    """
    import ramet as verbs

    models = common.load(first), common.load(second)
    found: Any = verbs.diff(*models)
    data = {
        "first": str(first),
        "second": str(second),
        "same": not found,
        "diff": found.to_dict(),
    }
    return Answer(str(found), data, DIFFERENT if found else DONE)


@command(app)
def masks(file: File, *, common: Common) -> Answer:
    """Follow the masks of a model, and find where they are lost.

    Nothing is called. Ends with 0 if nothing is wrong, with 1 if something was found.

    Examples:
      ramet masks translator.keras
      ramet masks translator.keras --json
    """
    model = common.load(file)
    from ramet.masks import masks as followed

    flow = followed(model)
    data = {
        "file": str(file),
        "ok": flow.ok,
        "findings": [asdict(finding) for finding in flow.findings],
        "tensors": [
            {
                "path": tensor.path,
                "index": tensor.index,
                "shape": list(tensor.spec.shape),
                "sources": tensor.sources,
                "users": tensor.users,
                "dropped_at": tensor.dropped_at,
                "passed_to": tensor.passed_to,
                "is_output": tensor.is_output,
            }
            for tensor in flow.tensors
        ],
    }
    return Answer(str(flow), data, DONE if flow.ok else DIFFERENT)


@command(app)
def show(
    file: File,
    other: Annotated[Path | None, typer.Argument(help="Another, to compare.")] = None,
    *,
    to: Annotated[Path | None, typer.Option(help="Write a page, such as model.html.")] = None,
    force: Force = False,
    common: Common,
) -> Answer:
    """Show a model as a graph, or two side by side.

    In the terminal, or as a page that needs nothing else.

    Examples:
      ramet show model.keras
      ramet show model.keras --to model.html
      ramet show before.keras after.keras --to change.html
    """
    from ramet.files import check_target
    from ramet.show import show as shown
    from ramet.show import text_of

    if to is not None:
        check_target(to, force=force)
    files = [file] if other is None else [file, other]
    models = None if to is not None else common.describe(files)
    models = models or [common.load(each) for each in files]
    data = {"file": str(file), "other": None if other is None else str(other)}
    if to is not None:
        shown(*models, to=to)
        return Answer(f"'{models[0].name}' is shown in {to}", {**data, "to": str(to)})
    text = text_of(*models)
    return Answer(text, {**data, "to": None, "text": text})


@command(app)
def emit(
    file: File,
    *,
    to: Annotated[Path | None, typer.Option(help="Write a file, such as model.py.")] = None,
    force: Force = False,
    common: Common,
) -> Answer:
    """Write a model as Python code that makes it.

    The weights stay in the file. The code is run once to check it, but only with --trust.

    Examples:
      ramet emit model.keras
      ramet emit model.keras --to model.py
    """
    import ramet as verbs
    from ramet.files import check_target, save_text

    if to is not None:
        check_target(to, force=force)
    model = common.load(file)
    # Code that is written from a stranger's file is not run here.
    code: str = verbs.emit(model, check=common.trust)
    data = {"file": str(file), "to": None, "checked": common.trust, "code": code}
    if to is None:
        return Answer(code, data)
    save_text(code, to, force=force)
    told = "" if common.trust else "; it was not run to check it (--trust)"
    return Answer(f"'{model.name}' is in {to}{told}", {**data, "to": str(to)})


@command(app, cls=Ordered)
def edit(  # noqa: PLR0913 each is an option
    ctx: typer.Context,
    source: File,
    target: Annotated[Path | None, typer.Argument(help="The .keras file to write.")] = None,
    *,
    replace: Annotated[_Edits, typer.Option(metavar="GLOB=LAYER", help="Replace layers.")] = None,
    remove: Annotated[_Edits, typer.Option(metavar="GLOB", help="Take layers out.")] = None,
    insert_after: Annotated[
        _Edits, typer.Option(metavar="GLOB=LAYER", help="Put a layer after others.")
    ] = None,
    insert_before: Annotated[
        _Edits, typer.Option(metavar="GLOB=LAYER", help="Put a layer before others.")
    ] = None,
    rename: Annotated[_Edits, typer.Option(metavar="OLD=NEW", help="Rename a layer.")] = None,
    configure: Annotated[
        _Edits, typer.Option(metavar="GLOB:KEY=VALUE,...", help="Give layers other arguments.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Edit the graph of a model. Edits are made in the order in which they are given.

    A layer is written as in Python, with literal arguments: it is read, not evaluated.
    What is not touched keeps its weights.

    Examples:
      ramet edit a.keras b.keras --replace 'relu*=keras.layers.PReLU()'
      ramet edit a.keras b.keras --remove 'drop*' --rename fc=head
      ramet edit a.keras b.keras --insert-after 'block2=layers.Dropout(0.1)'
      ramet edit a.keras b.keras --configure 'head:units=20,weights=grow'
      ramet edit a.keras --configure 'conv*:trainable=false' --dry-run
    """
    del replace, remove, insert_after, insert_before, rename, configure  # taken in order
    from ramet.errors import OptionError
    from ramet.files import save

    edits = edits_in_order(ctx)
    if not edits:
        raise OptionError("there is nothing to do; name an edit, such as --remove 'drop*'")
    if target is None and not dry_run:
        raise OptionError("there is no file to write; name one, or pass --dry-run")
    if target is not None and not dry_run:
        _check_model_target(target, force=force)
    model = common.load(source)
    from ramet.bridge.trace import trace
    from ramet.written import Written, apply

    graph = apply(trace(model), [Written(how, text) for how, text in edits])
    with working("building"):
        report = graph.transfer_report()
    if target is not None and not dry_run:
        with working(f"saving {target}"):
            save(graph.build(), target, force=force)
    written = None if dry_run else str(target)
    data = {
        "source": str(source),
        "target": written,
        "dry_run": dry_run,
        "journal": [str(line) for line in graph.journal],
        "weights": [asdict(transfer) for transfer in report.transfers],
        "optimizer": report.optimizer,
    }
    last = "nothing was written (--dry-run)" if dry_run else f"written to {target}"
    return Answer(f"{graph.journal}\n{report}\n{last}", data)


def _check_model_target(target: Path, *, force: bool) -> None:
    from ramet.files import check_target

    check_target(target, suffixes=(".keras",), force=force)


def _weights_text(weights: Weights) -> str:
    return "the same weights" if weights is Weights.copy else "fresh weights"

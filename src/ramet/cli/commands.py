"""The commands. Each loads files, calls one verb of ramet, and returns an answer."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

import ramet as verbs
from ramet.cli.backend import choose
from ramet.cli.common import DIFFERENT, DONE, Answer, Commands, Common, Force, command
from ramet.cli.terminal import working
from ramet.errors import FileError

app = typer.Typer(
    name="ramet",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File: TypeAlias = Annotated[Path, typer.Argument(help="A .keras or .h5 file.")]
Target: TypeAlias = Annotated[Path, typer.Argument(help="The .keras file to write.")]
Seed: TypeAlias = Annotated[int, typer.Option(help="Seed of the generated inputs.")]
Only: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ASPECT",
        help="Compare only structure, sharing, state, outputs or training. Repeatable.",
    ),
]
Relative: TypeAlias = Annotated[float, typer.Option(help="Relative tolerance for outputs.")]
Absolute: TypeAlias = Annotated[float, typer.Option(help="Absolute tolerance for outputs.")]


class Weights(StrEnum):
    """The weights of a copy."""

    copy = "copy"
    fresh = "fresh"


def _show_version(wanted: bool) -> None:  # noqa: FBT001 typer passes it by position
    if wanted:
        print(f"ramet {verbs.__version__}")
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
    """Copy Keras models exactly, edit their graphs, and prove what was done.

    Files are checked before they are loaded, and written atomically.

    Exit codes:
      0  done, or the same
      1  different, or something was found
      2  an error, in one line on stderr
    """


@command(app)
def clone(  # noqa: PLR0913 each is an option
    source: File,
    target: Target,
    *,
    weights: Annotated[
        Weights, typer.Option(help="Copy the weights, or initialize them.")
    ] = Weights.copy,
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
    from ramet.errors import OptionError
    from ramet.files import save

    if seed is not None and weights is Weights.copy:
        raise OptionError("--seed has no effect on copied weights; use --weights fresh")
    _check_model_target(source, target, force=force)
    model = common.load(source)
    with working("copying"):
        copy = verbs.clone(model, weights=weights.value, seed=seed, name=name)
    with working(f"saving {target}"):
        save(copy, target, force=force, sources=[source])
    data = {
        "source": str(source),
        "target": str(target),
        "model": copy.name,
        "weights": str(weights),
        "parameters": copy.count_params() if copy.built else None,
    }
    return Answer(f"'{copy.name}' is in {target}, with {_weights_text(weights)}", data)


@command(app)
def verify(  # noqa: PLR0913 each is an option of its own
    first: File,
    second: File,
    *,
    only: Only = None,
    rtol: Relative = 0.0,
    atol: Absolute = 0.0,
    seed: Seed = 0,
    common: Common,
) -> Answer:
    """Compare two models: structure, sharing, state, and what they compute.

    Both are called on the same generated inputs. Exits with 0 if they are the same, and with 1
    if they differ or something could not be compared.

    Examples:
      ramet verify model.keras twin.keras
      ramet verify model.keras folded.keras --only outputs --rtol 1e-5
      ramet verify model.keras twin.keras --json --seed 3
    """
    from ramet.comparing.options import check_seed, check_tolerances, checked_aspects

    checked_aspects(only)
    check_tolerances(rtol=rtol, atol=atol)
    check_seed(seed)
    models = common.load(first), common.load(second)
    chosen: Any = None if only is None else tuple(only)
    with working("comparing"):
        report = verbs.verify(*models, only=chosen, rtol=rtol, atol=atol, seed=seed)
    data = {
        "first": str(first),
        "second": str(second),
        "same": report.ok,
        "complete": report.complete,
        "checks": report.to_dict()["checks"],
        "first_divergence": report.to_dict()["first_divergence"],
    }
    return Answer(str(report), data, DONE if report.ok else DIFFERENT)


@command(app)
def diff(first: File, second: File, *, common: Common) -> Answer:
    """List what differs between two models, layer by layer.

    Exits with 0 if nothing differs, with 1 if something does. Files with classes that are not
    part of Keras are compared as far as they say what they hold; nothing of them is loaded.

    Examples:
      ramet diff before.keras after.keras
      ramet diff before.keras after.keras --json
    """
    models, notes = common.read([first, second])
    changes = replace(verbs.diff(*models), notes=tuple(notes))
    data = {
        "first": str(first),
        "second": str(second),
        "same": changes.ok,
        "diff": changes.to_dict(),
    }
    return Answer(str(changes), data, DONE if changes.ok else DIFFERENT)


@command(app)
def masks(file: File, *, common: Common) -> Answer:
    """Follow the masks of a model, and find where they are lost.

    The model is not called. Exits with 0 if there are no findings, with 1 if there are some.

    Examples:
      ramet masks translator.keras
      ramet masks translator.keras --json
    """
    try:
        model = common.load(file)  # before the verb, which imports Keras
    except FileError as error:
        raise _masks_unknown(error) from error
    flow = verbs.masks(model)
    data = {"file": str(file), **flow.to_dict()}
    return Answer(str(flow), data, DONE if flow.ok else DIFFERENT)


def _masks_unknown(error: FileError) -> FileError:
    """Say why masks cannot be followed through classes that are not part of Keras."""
    problem, separator, remedy = str(error).rpartition("; ")
    if "not part of Keras" not in problem:
        return error
    why = "only its code says what it does with masks"
    return FileError(f"{problem}, and {why}{separator}{remedy} and use --import for the class")


@command(app)
def show(  # noqa: PLR0913 each is an option
    file: File,
    other: Annotated[Path | None, typer.Argument(help="A file to compare with.")] = None,
    *,
    to: Annotated[
        Path | None, typer.Option(help="Write a page (.html) or a picture (.svg, .png, .pdf).")
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(help="Shade calls by their share of macs, params, memory or time."),
    ] = None,
    force: Force = False,
    common: Common,
) -> Answer:
    """Show a model, or what differs between two.

    Prints a table, or writes a page that needs no network. A file with classes that are not part
    of Keras is shown as far as possible, without loading anything from it.

    Examples:
      ramet show model.keras
      ramet show model.keras --to model.html
      ramet show model.keras --to costs.html --cost macs
      ramet show before.keras after.keras --to change.html
    """
    from ramet._show import check_shown, content_for, data_of, text_of
    from ramet.files import check_target
    from ramet.files.save import save_content

    check_shown(to, other, cost)
    files = [file] if other is None else [file, other]
    if to is not None:
        check_target(to, force=force, sources=files)
    # A comparison needs Keras.
    models = common.describe(files) if to is None and other is None and not cost else None
    notes: list[str] = []
    if models is None:
        stock = common.inventory(file) if to is None and other is None else None
        if stock is not None:
            return Answer(str(stock), {"file": str(file), **stock.to_dict()})
        models, notes = common.read(files)
    note = "\n".join(notes)
    data = {"file": str(file), "other": None if other is None else str(other), "note": note}
    if to is not None:
        names = tuple(each.name for each in files) if other is not None else ()
        content = content_for(to, *models, names=names, cost=cost, notes=tuple(notes))
        save_content(content, to, force=force, sources=files)
        said = f"'{models[0].name}' is shown in {to}"
        return Answer("\n".join(filter(None, (said, note))), {**data, "to": str(to)})
    text = text_of(*models, cost=cost, notes=tuple(notes))
    return Answer(text, {**data, "to": None, **data_of(*models, cost=cost)})


@command(app)
def emit(
    file: File,
    *,
    to: Annotated[Path | None, typer.Option(help="Write a file, such as model.py.")] = None,
    exact_names: Annotated[
        bool, typer.Option("--exact-names", help="Keep all names, including those of operations.")
    ] = False,
    force: Force = False,
    common: Common,
) -> Answer:
    """Write a model as Python source that re-creates it, without its weights.

    With --trust, the source is run once to check it. Layers keep the names that were chosen for
    them. With --exact-names, operations keep theirs too; that takes a helper function that uses
    private attributes of Keras.

    Examples:
      ramet emit model.keras
      ramet emit model.keras --to model.py
      ramet emit model.keras --exact-names
    """
    from ramet.files import check_target, save_text

    if to is not None:
        check_target(to, force=force, sources=[file])
    model = common.load(file)
    # Source that was written from an untrusted file is not run.
    names = "exact" if exact_names else "given"
    code: str = verbs.emit(model, names=names, check=common.trust)
    data = {"file": str(file), "to": None, "names": names, "checked": common.trust, "code": code}
    if to is None:
        return Answer(code, data)
    save_text(code, to, force=force, sources=[file])
    note = "" if common.trust else "; use --trust to run and check it"
    return Answer(f"'{model.name}' is in {to}{note}", {**data, "to": str(to)})


@command(app)
def doctor(*, common: Common) -> Answer:
    """Check the installation: versions, the backend, the core of the copier, files.

    Keras is not imported. Exits with 0 if there is no problem, with 1 if there is one.

    Examples:
      ramet doctor
      ramet doctor --json
    """
    from ramet._doctor import doctor as checkup

    if common.backend is not None:
        choose(common.backend)
    found = checkup()
    return Answer(str(found), found.to_dict(), DONE if found.ok else DIFFERENT)


def _check_model_target(source: Path, target: Path, *, force: bool) -> None:
    from ramet.files import check_target

    check_target(target, suffixes=(".keras",), force=force, sources=[source])


def _weights_text(weights: Weights) -> str:
    return "the same weights" if weights is Weights.copy else "fresh weights"

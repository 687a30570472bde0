"""`ramet quantize` and `ramet cast`: the layers that you name in fewer bits."""

from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile

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
            metavar="PATTERN=MODE",
            help="Layers, and int8, int4, gptq or float8. The first match counts.",
        ),
    ],
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Layers to leave as they are, or head. Repeatable."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="For gptq, a batch to calibrate on: .npy, or .npz by names of inputs."),
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
      ramet quantize model.keras small.keras --at '*=gptq' --data batch.npy
      ramet quantize model.keras --at '*=int4' --dry-run
    """
    patterns = dict(map(_pattern, at))
    check_target(source, target, dry_run=dry_run, force=force)
    batch = None if data is None else _batch(data)
    model = common.load(source)
    options: dict[str, Any] = {"skip": skip or None, "data": batch}
    with working("quantizing"):
        listing = verbs.adapt.quantize(model, patterns, **options, explain=True)
        graph = verbs.adapt.quantize(model, patterns, **options)
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


def _batch(path: Path) -> Any:
    """Return the array of a .npy file, or those of an .npz file by name.

    Raises:
        FileError: If it is neither.
    """
    import numpy as np

    from ramet.errors import FileError

    arrays: dict[str, Any] = {}
    reason = "it holds something else"
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        arrays = dict(loaded) if hasattr(loaded, "files") else {"": loaded}
    except FileNotFoundError:
        reason = "there is no such file"
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        reason = str(error)
    if not arrays or not all(isinstance(array, np.ndarray) for array in arrays.values()):
        message = f"'{path}' cannot be read as arrays: {reason}"
        raise FileError(f"{message}; write it with numpy.save or numpy.savez")
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _pattern(text: str) -> tuple[str, str]:
    """Return the pattern and the mode of an option."""
    from ramet.errors import OptionError

    pattern, sign, mode = text.rpartition("=")
    if not sign or not pattern:
        raise OptionError(f"--at {text!r} names no mode; write PATTERN=MODE, such as '*=int8'")
    return pattern, mode

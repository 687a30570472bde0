"""What all commands have in common: options, answers, errors and exit codes."""

import inspect
import json
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from ramet.cli.backend import Backend, choose
from ramet.cli.custom import custom_objects
from ramet.cli.terminal import hushed, working
from ramet.files.words import one_line, printable

DONE, DIFFERENT, FAILED = 0, 1, 2
"""Exit codes."""

UsageError: Any = typer.BadParameter.__base__
"""What is raised for a command line that cannot be understood. Typer has no name for it."""

_PANEL = "Common options"


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options that every command has."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=_PANEL)
    ] = False
    backend: Annotated[
        Backend | None,
        typer.Option(help="What Keras runs on; else $KERAS_BACKEND.", rich_help_panel=_PANEL),
    ] = None
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Load pickled functions and classes that are not Keras's. They can do anything.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE|FILE",
            help="Import classes of your own first; with --trust.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and logs.", rich_help_panel=_PANEL)
    ] = False

    def describe(self, paths: list[Path]) -> list[Any] | None:
        """Reads the graphs of models from their files; `None` if that takes Keras."""
        from ramet.files.described import describe

        if self.imports or self.backend is not None:
            return None
        found = [describe(path) for path in paths]
        return None if None in found else found

    def load(self, path: Path) -> Any:
        """Loads a model, on the backend that was chosen."""
        from ramet.files import load

        choose(self.backend)
        own = custom_objects(self.imports or [], trust=self.trust)
        with working(f"loading {path}"):
            return load(path, trust=self.trust, custom_objects=own)


Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite files.")]
"""An option of the commands that write."""


@dataclass(frozen=True)
class Answer:
    """What a command has to say."""

    text: str
    """For people."""
    data: dict[str, Any]
    """The same for machines."""
    code: int = DONE
    """The exit code."""


class Commands(TyperGroup):
    """Commands whose errors are one line, those of the command line too."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Runs the command line."""
        try:
            code = super().main(*args, standalone_mode=False, **options)
        except UsageError as error:
            code = FAILED
            path = "ramet" if error.ctx is None else error.ctx.command_path
            told = error.format_message().rstrip(".")
            if told:  # nothing is told if nothing was asked: the help was shown
                _fail(path, f"{told}; see {path} --help", as_json="--json" in _given(args, options))
        if standalone_mode:
            sys.exit(code)
        return code


def _given(args: tuple[Any, ...], options: dict[str, Any]) -> list[str]:
    given = args[0] if args else options.get("args")
    return sys.argv[1:] if given is None else list(given)


def command(app: typer.Typer, *, cls: Any = None) -> Callable[..., Any]:
    """Makes a command of a function that takes `common` and returns an `Answer`.

    In the place of `common`, the command has the options in `Common`.
    """

    def decorated(function: Callable[..., Answer]) -> Callable[..., Answer]:
        own = [p for p in inspect.signature(function).parameters.values() if p.name != "common"]
        parameters = [*own, *_shared_parameters()]

        def run(**given: Any) -> None:
            shared = Common(**{field.name: given.pop(field.name) for field in fields(Common)})
            raise typer.Exit(_run(function, given, shared))

        run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess] functions have one
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(function.__name__, cls=cls, help=inspect.getdoc(function))(run)
        return function

    return decorated


def _shared_parameters() -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=field.type)
        for field in fields(Common)
    ]


def _run(function: Callable[..., Answer], given: dict[str, Any], common: Common) -> int:
    """Runs a command, shows its answer or its error, and returns the exit code."""
    name = function.__name__
    try:
        quiet = nullcontext() if common.debug else hushed(spinner=not common.as_json)
        with quiet, warnings.catch_warnings(record=True) as warned:
            answer = function(**given, common=common)
    except Exception as error:  # noqa: BLE001 whatever it is, it is told in one line
        if common.debug:
            traceback.print_exc()
        return _fail(f"ramet {name}", _told(error), as_json=common.as_json)
    for warning in warned:
        if issubclass(warning.category, UserWarning):
            print(f"ramet {name}: warning: {one_line(str(warning.message))}", file=sys.stderr)
    if common.as_json:
        print(json.dumps({"command": name, **answer.data}))
    else:
        print(printable(answer.text))
    return answer.code


def _told(error: Exception) -> str:
    from ramet.errors import RametError

    text = one_line(str(error))
    return text if isinstance(error, RametError) else f"{type(error).__name__}: {text}"


def _fail(path: str, message: str, *, as_json: bool) -> int:
    print(f"{path}: {printable(message)}", file=sys.stderr)
    if as_json:
        print(json.dumps({"command": path.rsplit(maxsplit=1)[-1], "error": message}))
    return FAILED

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
from ramet.cli.custom import check_trusted, custom_objects
from ramet.cli.remedies import with_options
from ramet.cli.terminal import drop_output, hushed, working
from ramet.errors import FileError, RametError
from ramet.files.words import one_line, printable

DONE, DIFFERENT, FAILED = 0, 1, 2
"""Exit codes."""

_READ = ("source", "first", "second", "file", "other")
"""The arguments of commands that are files to read."""

INTERRUPTED = 130
"""The exit code of programs that were interrupted from the keyboard."""

UsageError: Any = typer.BadParameter.__base__
"""Raised for an invalid command line. Typer has no public name for it."""

_PANEL = "Common options"


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options of every command."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=_PANEL)
    ] = False
    backend: Annotated[
        Backend | None,
        typer.Option(
            help="Backend of Keras; by default $KERAS_BACKEND, or the first installed.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Load pickled functions and foreign classes, which can run any code.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE|FILE",
            help="Import your own classes first; needs --trust.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and logs.", rich_help_panel=_PANEL)
    ] = False

    def describe(self, paths: list[Path]) -> list[Any] | None:
        """Read the graphs of models from their files; return `None` if that needs Keras."""
        from ramet.files.description import describe

        if self.imports or self.backend is not None:
            return None
        try:
            graphs = [describe(path, trust=self.trust) for path in paths]
        except RametError:
            return None  # loading gives the reason, or an outline
        return None if None in graphs else graphs

    def inventory(self, path: Path) -> Any:
        """List the weights in a file of which nothing else is known; return `None` for others."""
        from ramet.files.inventory import inventory

        try:
            return None if self.trust else inventory(path)
        except FileError:
            return None  # loading gives the reason

    def read(self, paths: list[Path]) -> tuple[list[Any], list[str]]:
        """Load models to look at them: those whose classes are not known, as outlines.

        Returns:
            The models, and notes on what the outlines leave out.
        """
        models: list[Any] = []
        notes: list[str] = []
        for path in paths:
            try:
                models.append(self.load(path))
            except FileError as error:
                if self.trust:
                    raise
                from ramet.files.outline import outline

                model, note = outline(path, error)
                models.append(model)
                notes.append(with_options(note))
        return models, notes

    def load(self, path: Path) -> Any:
        """Load a model on the chosen backend."""
        from ramet.files import load

        check_trusted(self.imports or [], trust=self.trust)
        choose(self.backend)
        own = custom_objects(self.imports or [], trust=self.trust)
        with working(f"loading {path}"):
            return load(path, trust=self.trust, custom_objects=own)


Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
"""The option of commands that write files."""


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    text: str
    """For people."""
    data: dict[str, Any]
    """The same for machines."""
    code: int = DONE
    """The exit code."""


class Commands(TyperGroup):
    """Commands whose errors are one line, including errors of usage."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run the command line."""
        code: Any = DONE
        try:
            code = super().main(*args, standalone_mode=False, **options)
            sys.stdout.flush()
        except typer.Abort:
            code = _fail("ramet", "interrupted", as_json=False, code=INTERRUPTED)
        except OSError as error:  # of the output: those of a command are reported by the command
            code = _fail("ramet", f"the output cannot be written: {error.strerror}", as_json=False)
            drop_output()
        except UsageError as error:
            code = FAILED
            path = "ramet" if error.ctx is None else error.ctx.command_path
            message = error.format_message().rstrip(".")
            if message:  # without arguments, the help was shown instead
                as_json = "--json" in _arguments(args, options)
                _fail(path, f"{message}; see {path} --help", as_json=as_json)
        if standalone_mode:
            sys.exit(code)
        return code


def _arguments(args: tuple[Any, ...], options: dict[str, Any]) -> list[str]:
    passed = args[0] if args else options.get("args")
    return sys.argv[1:] if passed is None else list(passed)


def command(app: typer.Typer, *, cls: Any = None) -> Callable[..., Any]:
    """Turn a function with a parameter `common` that returns an `Answer` into a command.

    In place of `common`, the command has the options in `Common`.
    """

    def decorated(function: Callable[..., Answer]) -> Callable[..., Answer]:
        own = [p for p in inspect.signature(function).parameters.values() if p.name != "common"]
        parameters = [*own, *_shared_parameters()]

        def run(**options: Any) -> None:
            shared = Common(**{field.name: options.pop(field.name) for field in fields(Common)})
            raise typer.Exit(_run(function, options, shared))

        run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess] functions have one
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(function.__name__.replace("_", "-"), cls=cls, help=inspect.getdoc(function))(
            run
        )
        return function

    return decorated


def _shared_parameters() -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=field.type)
        for field in fields(Common)
    ]


def _run(function: Callable[..., Answer], options: dict[str, Any], common: Common) -> int:
    """Run a command, print its answer or its error, and return the exit code."""
    name = function.__name__.replace("_", "-")
    try:
        quiet = nullcontext() if common.debug else hushed(spinner=not common.as_json)
        with quiet, warnings.catch_warnings(record=True) as warned:
            _check_files(options)
            answer = function(**options, common=common)
    except KeyboardInterrupt:
        return _fail(f"ramet {name}", "interrupted", as_json=common.as_json, code=INTERRUPTED)
    except Exception as error:  # noqa: BLE001 every error is reported in one line
        if common.debug:
            traceback.print_exc()
        return _fail(f"ramet {name}", _message(error), as_json=common.as_json)
    for warning in warned:
        if issubclass(warning.category, UserWarning):
            print(f"ramet {name}: warning: {one_line(str(warning.message))}", file=sys.stderr)
    data = json.dumps({"command": name, **answer.data}) if common.as_json else None
    return _print(printable(answer.text) if data is None else data, answer.code)


def _check_files(options: dict[str, Any]) -> None:
    """Check that all files are there before the first is loaded.

    Raises:
        FileError: If one is not, or cannot be a model.
    """
    from ramet.files.archive import check_path

    for name in _READ:
        if options.get(name) is not None:
            check_path(options[name])


def _print(text: str, code: int) -> int:
    """Print an answer, and return the exit code: another one if it cannot be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        drop_output()
        return _fail("ramet", f"the output cannot be written: {error.strerror}", as_json=False)
    return code


def _message(error: Exception) -> str:
    if isinstance(error, RametError):
        return one_line(with_options(str(error)))
    usage: Any = error
    if isinstance(error, UsageError):
        return one_line(usage.format_message())
    return f"{type(error).__name__}: {one_line(str(error))}"


def _fail(path: str, message: str, *, as_json: bool, code: int = FAILED) -> int:
    print(f"{path}: {printable(message)}", file=sys.stderr)
    if not as_json:
        return code
    return _print(json.dumps({"command": path.rsplit(maxsplit=1)[-1], "error": message}), code)

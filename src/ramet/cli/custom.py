"""User classes and functions, from a module or a file."""

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ramet.errors import OptionError
from ramet.files.words import one_line


def custom_objects(sources: Sequence[str], *, trust: bool) -> dict[str, Any]:
    """Import modules or files, and return their classes and functions by name.

    Raises:
        OptionError: If `trust` is not set, or one cannot be imported.
    """
    check_trusted(sources, trust=trust)
    objects: dict[str, Any] = {}
    for source in sources:
        objects |= _objects(_imported(source))
    return objects


def check_trusted(sources: Sequence[str], *, trust: bool) -> None:
    """Check that nothing is to be imported without trust.

    Raises:
        OptionError: If something is.
    """
    if sources and not trust:
        raise OptionError(f"--import {sources[0]} runs code; use --trust to allow that")


@functools.cache
def _imported(source: str) -> ModuleType:
    try:
        if source.endswith(".py"):
            return _from_file(Path(source))
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(source)
    except Exception as error:  # user code may raise anything
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        raise OptionError(f"--import {source} failed: {reason}") from error


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"'{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _objects(module: ModuleType) -> dict[str, Any]:
    def is_own(value: Any) -> bool:
        home = getattr(value, "__module__", None) or ""
        known = inspect.isclass(value) or inspect.isfunction(value)
        return known and home.split(".")[0] not in {"keras", "builtins"}

    return {name: value for name, value in vars(module).items() if is_own(value)}

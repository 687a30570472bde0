"""Ramet copies Keras 3 models exactly, edits their graphs safely, and proves what it did.

The verbs are here. What they return is in `ramet.results`, what they raise in `ramet.errors`,
and the parts of a graph are in `ramet.graph`.

Names are imported on first use, so `import ramet` is fast and does not import Keras: set
`KERAS_BACKEND` any time before the first verb is used.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ramet.errors import ExtraError, RametError

if TYPE_CHECKING:  # the same names as in `_HOMES`, for type checkers
    from ramet._clone import clone, clone_model, clones
    from ramet._combine import chain, merge
    from ramet._diff import diff
    from ramet._emit import emit
    from ramet._masks import masks
    from ramet._profile import profile
    from ramet._prove import prove
    from ramet._rewrite import any_layer, rewrite
    from ramet._run import run
    from ramet._show import show
    from ramet._verify import verify
    from ramet.graph import Graph
    from ramet.tracing.trace import trace

__all__ = [
    "Graph",
    "RametError",
    "any_layer",
    "chain",
    "clone",
    "clone_model",
    "clones",
    "diff",
    "emit",
    "masks",
    "merge",
    "profile",
    "prove",
    "rewrite",
    "run",
    "show",
    "trace",
    "verify",
]

_BACKENDS = ("jax", "tensorflow", "torch")

_MODULES = ("adapt", "compress", "errors", "files", "graph", "profiling", "results")
"""The public modules."""

_HOMES = {
    "Graph": "ramet.graph",
    "any_layer": "ramet._rewrite",
    "chain": "ramet._combine",
    "clone": "ramet._clone",
    "clone_model": "ramet._clone",
    "clones": "ramet._clone",
    "diff": "ramet._diff",
    "emit": "ramet._emit",
    "masks": "ramet._masks",
    "merge": "ramet._combine",
    "profile": "ramet._profile",
    "prove": "ramet._prove",
    "rewrite": "ramet._rewrite",
    "run": "ramet._run",
    "show": "ramet._show",
    "trace": "ramet.tracing.trace",
    "verify": "ramet._verify",
}
"""The modules of the names that are imported on first use."""


_EARLIER = {
    "ramet.errors": """
        CopyError DepthError DifferenceError ExtraError FileError GraphError ModelError OptionError
        SourceError StateError UntestedKerasWarning VersionError
    """,
    "ramet.graph": "Call Edit Journal Layer Ref Selection Spec",
    "ramet.results": """
        CallCost CastLayer Casting Check Checkup Diff Divergence Entry Explanation Fact Finding Fold
        Folding Group Groups LayerSensitivity MaskFlow Member Miss Profile ProfileComparison Proof
        Proven Quantization QuantizedLayer Report Sensitivity Source TensorMask Transfer
        TransferReport
        Factored Factorization
    """,
}
"""Names of public modules that can be imported from here too, as most of them once were."""

_HIDDEN = {name: module for module, names in _EARLIER.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return _imported(f"ramet.{name}")
    home = _HOMES.get(name) or _HIDDEN.get(name)
    if home is None:
        message = f"module 'ramet' has no attribute '{name}'"
        raise AttributeError(message)
    value = getattr(_imported(home), name)
    globals()[name] = value
    return value


def _imported(module: str) -> ModuleType:
    """Import a module; if the backend of Keras is not installed, say which are."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in _BACKENDS:
            raise
        raise ExtraError(_advice(error.name)) from error
    except ValueError as error:  # such as KERAS_BACKEND=pytorch
        if not str(error).startswith("Unable to import backend"):
            raise
        raise ExtraError(_advice(str(error).rpartition(":")[2].strip())) from error


def _advice(missing: str) -> str:
    """Return what to do about a backend that Keras wants and that is not installed."""
    from importlib.util import find_spec  # noqa: PLC0415 only needed for the message

    installed = [name for name in _BACKENDS if find_spec(name) is not None]
    if not installed:
        return (
            f"Keras needs a backend, and none is installed; install one of {', '.join(_BACKENDS)}, "
            "for example with: pip install 'ramet[jax]'"
        )
    one = installed[0]
    what = "installed" if missing in _BACKENDS else f"one of {', '.join(_BACKENDS)}"
    return (
        f"Keras is set to run on '{missing}', which is not {what}; installed: "
        f"{', '.join(installed)}. Set the environment variable KERAS_BACKEND={one} before Keras is "
        f'imported (or "backend": "{one}" in ~/.keras/keras.json)'
    )


def __dir__() -> list[str]:
    """List the public names and modules, whether they are imported yet or not."""
    return sorted({*__all__, *_MODULES, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 a slow import

    try:
        return version("ramet")
    except PackageNotFoundError:
        return "unknown"

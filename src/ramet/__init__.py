"""Ramet copies Keras 3 models exactly, edits their graphs safely, and proves what it did.

Whatever is more than an error is imported when it is first used, and Keras with the first
name that needs it. So `import ramet` is quick, and the backend can be chosen afterwards.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ramet.errors import (
    CopyError,
    DifferenceError,
    ExtraError,
    FileError,
    GraphError,
    ModelError,
    OptionError,
    RametError,
    SourceError,
    StateError,
)

if TYPE_CHECKING:  # what `_HOMES` says, for those who read and do not run
    from ramet._run import run
    from ramet.bridge.differences import Entry
    from ramet.bridge.divergence import Divergence
    from ramet.bridge.trace import trace
    from ramet.clone import clone, clone_model, clones
    from ramet.combine import chain, merge
    from ramet.diff import Diff, diff
    from ramet.emit import Source, emit
    from ramet.graph import Call, Edit, Graph, Journal, Layer, Ref, Selection, Spec
    from ramet.graph.match import Miss
    from ramet.graph.transfer import Transfer, TransferReport
    from ramet.masks import Finding, MaskFlow, TensorMask, masks
    from ramet.rewrite import Explanation, any_layer, rewrite
    from ramet.show import show
    from ramet.verify import Check, Report, verify

__all__ = [
    "Call",
    "Check",
    "CopyError",
    "Diff",
    "DifferenceError",
    "Divergence",
    "Edit",
    "Entry",
    "Explanation",
    "ExtraError",
    "FileError",
    "Finding",
    "Graph",
    "GraphError",
    "Journal",
    "Layer",
    "MaskFlow",
    "Miss",
    "ModelError",
    "OptionError",
    "RametError",
    "Ref",
    "Report",
    "Selection",
    "Source",
    "SourceError",
    "Spec",
    "StateError",
    "TensorMask",
    "Transfer",
    "TransferReport",
    "any_layer",
    "chain",
    "clone",
    "clone_model",
    "clones",
    "diff",
    "emit",
    "masks",
    "merge",
    "rewrite",
    "run",
    "show",
    "trace",
    "verify",
]

_HOMES = {
    "Call": "ramet.graph",
    "Check": "ramet.verify",
    "Diff": "ramet.diff",
    "Divergence": "ramet.bridge.divergence",
    "Edit": "ramet.graph",
    "Entry": "ramet.bridge.differences",
    "Explanation": "ramet.rewrite",
    "Finding": "ramet.masks",
    "Graph": "ramet.graph",
    "Journal": "ramet.graph",
    "Layer": "ramet.graph",
    "MaskFlow": "ramet.masks",
    "Miss": "ramet.graph.match",
    "Ref": "ramet.graph",
    "Report": "ramet.verify",
    "Selection": "ramet.graph",
    "Source": "ramet.emit",
    "Spec": "ramet.graph",
    "TensorMask": "ramet.masks",
    "Transfer": "ramet.graph.transfer",
    "TransferReport": "ramet.graph.transfer",
    "any_layer": "ramet.rewrite",
    "chain": "ramet.combine",
    "clone": "ramet.clone",
    "clone_model": "ramet.clone",
    "clones": "ramet.clone",
    "diff": "ramet.diff",
    "emit": "ramet.emit",
    "masks": "ramet.masks",
    "merge": "ramet.combine",
    "rewrite": "ramet.rewrite",
    "run": "ramet._run",
    "show": "ramet.show",
    "trace": "ramet.bridge.trace",
    "verify": "ramet.verify",
}
"""The modules of the names that are imported when they are first used."""


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used."""
    if name not in _HOMES:
        message = f"module 'ramet' has no attribute '{name}'"
        raise AttributeError(message)
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Lists the public names, those that are not imported yet too."""
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """A package in which `clone` is the function, also once the module `ramet.clone` is in."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets what Python sets, but for a module that has a verb's name: there, the verb."""
        if isinstance(value, ModuleType) and name in _HOMES:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

"""Ramet copies Keras 3 models exactly, edits them safely, and proves what it did."""

from ramet.bridge.trace import trace
from ramet.clone import clone, clone_model
from ramet.errors import (
    CopyError,
    DifferenceError,
    GraphError,
    ModelError,
    OptionError,
    RametError,
    StateError,
)
from ramet.graph import Call, Graph, Layer, Ref, Spec

__all__ = [
    "Call",
    "CopyError",
    "DifferenceError",
    "Graph",
    "GraphError",
    "Layer",
    "ModelError",
    "OptionError",
    "RametError",
    "Ref",
    "Spec",
    "StateError",
    "clone",
    "clone_model",
    "trace",
]

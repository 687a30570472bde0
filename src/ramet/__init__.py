"""Ramet copies Keras 3 models exactly, and proves it."""

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
from ramet.masks import Finding, MaskFlow, TensorMask, masks
from ramet.verify import Check, Report, verify

__all__ = [
    "Call",
    "Check",
    "CopyError",
    "DifferenceError",
    "Finding",
    "Graph",
    "GraphError",
    "Layer",
    "MaskFlow",
    "ModelError",
    "OptionError",
    "RametError",
    "Ref",
    "Report",
    "Spec",
    "StateError",
    "TensorMask",
    "clone",
    "clone_model",
    "masks",
    "trace",
    "verify",
]

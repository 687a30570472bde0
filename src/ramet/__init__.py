"""Ramet copies Keras 3 models exactly, edits their graphs safely, and proves what it did."""

from ramet.bridge.trace import trace
from ramet.clone import clone, clone_model
from ramet.combine import chain, merge
from ramet.errors import (
    CopyError,
    DifferenceError,
    ExtraError,
    GraphError,
    ModelError,
    OptionError,
    RametError,
    StateError,
)
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
    "DifferenceError",
    "Edit",
    "Explanation",
    "ExtraError",
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
    "Spec",
    "StateError",
    "TensorMask",
    "Transfer",
    "TransferReport",
    "any_layer",
    "chain",
    "clone",
    "clone_model",
    "masks",
    "merge",
    "rewrite",
    "show",
    "trace",
    "verify",
]

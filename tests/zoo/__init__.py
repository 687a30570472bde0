"""Small Keras models of every kind that users write, each with data to run it on."""

from zoo import (
    compiled,
    layers,
    nesting,
    preprocessing,
    recurrent,
    sequential,
    state,
    structure,
    subclass,
    wiring,
)
from zoo.base import CASES, Case, case, for_backend, sample_for_backend

__all__ = [
    "CASES",
    "Case",
    "case",
    "compiled",
    "for_backend",
    "layers",
    "nesting",
    "preprocessing",
    "recurrent",
    "sample_for_backend",
    "sequential",
    "state",
    "structure",
    "subclass",
    "wiring",
]

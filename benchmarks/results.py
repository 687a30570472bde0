"""What one run on one backend measured, as plain data: the content of `results/*.json`."""

from typing import Any, NotRequired, TypedDict

CLONE = "ramet.clone"
SHARE = "weights=share"
KEPT = "ramet.clone, all kept"
CLONE_MODEL = "clone_model"
SET_WEIGHTS = "clone_model + set_weights"
DEEPCOPY = "deepcopy"
SAVE_LOAD = "save + load"
TORCH_DEEPCOPY = "plain torch, deepcopy"
ARRAYS = "arrays alone"
MEMCPY = "memcpy"

PEERS = (
    SHARE,
    KEPT,
    CLONE_MODEL,
    SET_WEIGHTS,
    DEEPCOPY,
    SAVE_LOAD,
    TORCH_DEEPCOPY,
    ARRAYS,
    MEMCPY,
)
"""The ways of copying that are compared with `ramet.clone`, in the order of the tables."""

MOBILENET = "MobileNetV2"
RESNET = "ResNet50"
EFFICIENTNET = "EfficientNetB7"
ENCODER = "BERT-like"
CHAIN = "chain of 5,000"
MLP = "MLP of 2 GB"

MODELS = (MOBILENET, RESNET, EFFICIENTNET, ENCODER, CHAIN, MLP)
QUICK = (MOBILENET, RESNET)
"""What `--quick` measures."""

SHORT, LONG = 500, 5000
"""The layers of the two chains whose times per layer are compared."""

IMPORT_KERAS = "import keras"
IMPORT = "import ramet"
IMPORT_CLONE = "import ramet, name ramet.clone"
"""The imports that are timed; the last includes what `ramet` imports on first use."""


class Timing(TypedDict):
    """One way of copying one model: its times, or why there are none."""

    seconds: NotRequired[list[float]]
    """The time of every round."""
    error: NotRequired[str]
    """The class of the error with which it failed."""
    message: NotRequired[str]
    """The first line of that error."""
    not_run: NotRequired[str]
    """Why it was not tried."""


class Subject(TypedDict):
    """One model, and the ways of copying it."""

    layers: int
    weights: int
    bytes: int
    timings: dict[str, Timing]


class Memory(TypedDict):
    """How far a clone raises the peak of the memory in use."""

    bytes: int
    """Of the weights."""
    growth: int
    """Peak during the clone, less what was in use before it."""


class Result(TypedDict):
    """Everything that was measured on one backend."""

    backend: str
    date: str
    versions: dict[str, str]
    machine: dict[str, Any]
    models: dict[str, Subject]
    per_layer: NotRequired[dict[str, Timing]]
    """The times of cloning a chain, by its number of layers."""
    memory: NotRequired[Memory | None]
    """None where the system does not report peaks."""
    imports: NotRequired[dict[str, Timing]]
    """The times of imports; those of ramet come on top of that of Keras."""


def best(timings: dict[str, Timing], way: str) -> float | None:
    """Return the shortest time of a way, or None if there is none."""
    return min(timings.get(way, {}).get("seconds", []), default=None)


def ratio(timings: dict[str, Timing], over: str, under: str) -> float | None:
    """Divide the best time of one way by that of another, if there are both."""
    top, bottom = best(timings, over), best(timings, under)
    return None if top is None or bottom is None else top / bottom


def per_layer(result: Result, layers: int) -> float | None:
    """Return the best time of a clone of a chain, in seconds per layer."""
    seconds = best(result.get("per_layer", {}), str(layers))
    return None if seconds is None else seconds / layers

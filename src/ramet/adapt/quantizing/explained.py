"""What it costs and saves to quantize layers: bytes, and how far their results are off."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import layers, ops

from ramet.adapt._sizes import bytes_of
from ramet.adapt.quantizing.attention import projections
from ramet.adapt.quantizing.convolutions import INT8_CLASSES
from ramet.adapt.quantizing.modes import CALIBRATED, KERNELS, quantized_policy
from ramet.adapt.quantizing.plan import Plan
from ramet.adapt.quantizing.weights import Trial, part_of
from ramet.backends.values import to_numpy
from ramet.building.weights.computed import read_value
from ramet.building.weights.roles import roles_of
from ramet.building.weights.stages import as_edited
from ramet.graph import Graph, Layer
from ramet.graph.paths import layer_paths
from ramet.graph.values import Array, Role, Variable, evaluate
from ramet.results.quantization import Quantization, QuantizedLayer

_SAMPLES, _INDICES = 32, 512
"""How many inputs a layer is tried with; of an embedding, how many rows."""

_SIZE = 16
"""What an open dimension of an input is tried with."""


def explained(
    graph: Graph,
    planned: Plan,
    new: Mapping[tuple[int, int], Layer],
    errors: Mapping[str, float],
) -> Quantization:
    """Return sizes and errors of the layers of a plan.

    Args:
        graph: The graph before the edit.
        planned: Which layers are quantized.
        new: Their records, by the identities of those before.
        errors: The errors of layers that were calibrated, on their data, by path.
    """
    rows = [
        _row(path, layer, mode, new[layer.identity], errors.get(path))
        for path, (layer, mode) in planned.modes.items()
    ]
    left = [
        QuantizedLayer(
            path, layer.kind, None, bytes_of(layer.origin), bytes_of(layer.origin), reason=reason
        )
        for path, (layer, reason) in planned.left.items()
    ]
    records = {layer.identity: layer for _, layer in layer_paths(graph) if layer.graph is None}
    total = sum(bytes_of(layer.origin) for layer in records.values())
    return Quantization(graph.name, tuple(rows), tuple(left), total)


def _row(path: str, layer: Layer, mode: str, new: Layer, error: float | None) -> QuantizedLayer:
    held = [(name,) for name in projections(layer.origin)]
    trials = [_tried(layer, mode, new, part) for part in held or [()]]
    before = bytes_of(layer.origin)
    after = before - sum(bytes_of(floats) - bytes_of(quantized) for floats, quantized, _ in trials)
    if error is None:
        error = max(_distance(*trial) for trial in trials)
    return QuantizedLayer(path, layer.kind, mode, before, after, error)


def _tried(layer: Layer, mode: str, new: Layer, held: Role) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return a layer, or one that it holds, before and after, and the shape of its inputs."""
    trial = Trial.of(layer, held)
    before = {name: _read(Variable(layer, (*held, name))) for name in _kernels(layer, held)}
    known: dict[int, Any] = {}
    after = {
        role[-1]: evaluate(value, _read, known)
        for role, value in (new.recipe or {}).items()
        if not isinstance(value, Variable) and role[:-1] == held
    }
    floats = trial.made(before)
    shape = trial.fitting(next(iter(before.values())).shape)
    if trial.cls in INT8_CLASSES:
        return floats, Trial(INT8_CLASSES[trial.cls], trial.config, trial.shape).made(after), shape
    policy = quantized_policy("int4" if mode == CALIBRATED else mode, floats.dtype_policy.name)
    return floats, trial.made(after or before, policy, shape), shape


def _kernels(layer: Layer, held: Role) -> list[str]:
    live = part_of(layer, held)
    return [name for name in KERNELS[type(live)] if (name,) in roles_of(live)]


def _read(variable: Variable) -> Array:
    return read_value(variable, lambda record: as_edited(record, {}, sites=False))


def _distance(floats: Any, quantized: Any, shape: tuple[int | None, ...]) -> float:
    """Return the difference of what two layers compute, relative to its size."""
    rng = np.random.default_rng(0)
    if isinstance(floats, layers.Embedding):
        inputs = np.arange(min(floats.input_dim, _INDICES))
    else:
        sizes = [size or _SIZE for size in shape[1:]]
        inputs = rng.standard_normal([shape[0] or _SAMPLES, *sizes]).astype("float32")
    results = [to_numpy(ops.convert_to_tensor(layer(inputs))) for layer in (floats, quantized)]
    first, second = (np.asarray(each, np.float64) for each in results)
    size = float(np.sqrt(np.mean(first**2)))
    return float(np.sqrt(np.mean((first - second) ** 2))) / size if size else 0.0

"""Input data for a model, made from what it says about its inputs."""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.trace import has_graph, trace
from ramet.graph import Graph, Ref, Spec
from ramet.graph.tree import map_tree

_BATCH = 2
"""Samples in a batch, where the model leaves it open."""

SIZES = (8, 32)
"""What an open dimension is tried with."""

_IMAGE_RANK, _IMAGE_SCALE = 4, 8
"""From this rank on there are images, which deep strides shrink: so much larger."""

_WORDS = np.array(["a b", "b c d", "d", "unheard of"])
"""Strings, where no vocabulary is known."""


@dataclass(frozen=True)
class Sample:
    """Arguments to call a model with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def make_sample(model: Any, size: int, seed: int) -> Sample | None:
    """Makes input data for a model, or `None` if its input shapes are not known.

    Shapes and dtypes are the model's own; open dimensions get the given size,
    integers stay below the sizes of the vocabularies that they reach, and strings
    come from them.
    """
    rng = np.random.default_rng(seed)
    if has_graph(model):
        return Sample((_graph_inputs(trace(model), size, rng),), {})
    return _built_inputs(model, size, rng)


def _graph_inputs(graph: Graph, size: int, rng: np.random.Generator) -> Any:
    def make(ref: Ref) -> Any:
        spec = graph.calls[ref.call].outputs[ref.index]
        return _array(spec, _Reached(_readers(graph, ref)), size, rng)

    return map_tree(make, graph.inputs)


def _built_inputs(model: Any, size: int, rng: np.random.Generator) -> Sample | None:
    """Makes arguments for a model without a graph from what it was built with."""
    shapes = internals.build_shapes(model)
    if not shapes:
        return None
    reached = _Reached(internals.all_layers(model))
    dtype = "int32" if reached.vocabulary_sizes() else "float32"

    def make(shape: Any) -> Any:
        return _array(Spec(tuple(shape), dtype, ""), reached, size, rng)

    names = [name.removesuffix("_shape") for name in shapes]
    values = [_map_shapes(make, shape) for shape in shapes.values()]
    if len(values) == 1:
        return Sample((values[0],), {})
    return Sample((), dict(zip(names, values, strict=True)))


def _map_shapes(make: Any, shapes: Any) -> Any:
    """Maps over a structure whose leaves are shapes: tuples of sizes."""
    if isinstance(shapes, dict):
        return {key: _map_shapes(make, value) for key, value in shapes.items()}
    if all(size is None or isinstance(size, int) for size in shapes):
        return make(shapes)
    return type(shapes)([_map_shapes(make, shape) for shape in shapes])


@dataclass(frozen=True)
class _Reached:
    """The layers that an input reaches before it turns into something else."""

    layers: list[Any]

    def vocabulary_sizes(self) -> list[int]:
        return [
            getattr(part, name)
            for layer in self.layers
            if isinstance(layer, keras.Layer)
            for part in internals.all_layers(layer)
            for name in ("input_dim", "num_tokens")
            if isinstance(part, (keras.layers.Embedding, keras.layers.CategoryEncoding))
            and isinstance(getattr(part, name, None), int)
        ]

    def vocabulary(self, kind: str) -> np.ndarray | None:
        """Returns the words, or the integers, that a lookup layer knows."""
        for layer in self.layers:
            if hasattr(layer, "get_vocabulary"):
                words = np.array(layer.get_vocabulary())
                if words.dtype.kind == kind and words.size:
                    return words
        return None


def _readers(graph: Graph, start: Ref) -> list[Any]:
    """Lists the layers that read a tensor, directly or reshaped."""
    kind = np.dtype(_numpy_dtype(_spec(graph, start))).kind
    reached, found = {start}, []
    for call in graph.calls.values():
        if call.layer is None or not reached.intersection(call.refs):
            continue
        found.append(graph.layers[call.layer].origin)
        for index, spec in enumerate(call.outputs):
            if np.dtype(_numpy_dtype(spec)).kind == kind != "f":
                reached.add(Ref(call.name, index))
    return found


def _spec(graph: Graph, ref: Ref) -> Spec:
    return graph.calls[ref.call].outputs[ref.index]


def _numpy_dtype(spec: Spec) -> str:
    if spec.dtype == "string":
        return "U"
    return "float32" if "float" in spec.dtype else spec.dtype


def _array(spec: Spec, reached: _Reached, size: int, rng: np.random.Generator) -> Any:
    values = _values(spec, reached, size, rng)
    if values.dtype.kind == "U" and keras.backend.backend() != "tensorflow":
        return values  # Only TensorFlow has tensors of strings.
    if spec.sparse:
        return internals.sparse_tensor(values * (values > 0))
    return keras.ops.convert_to_tensor(values, spec.dtype)


def _values(spec: Spec, reached: _Reached, size: int, rng: np.random.Generator) -> np.ndarray:
    scale = _IMAGE_SCALE if len(spec.shape) >= _IMAGE_RANK else 1
    sizes = [size * scale if at else _BATCH for at in range(len(spec.shape))]
    shape = [known or guess for known, guess in zip(spec.shape, sizes, strict=True)]
    kind = np.dtype(_numpy_dtype(spec)).kind
    if kind == "U":
        words = reached.vocabulary("U")
        return rng.choice(_WORDS if words is None else words, shape)
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        known = reached.vocabulary("i")
        if known is not None:
            return rng.choice(known, shape).astype(spec.dtype)
        return rng.integers(0, min(reached.vocabulary_sizes(), default=2), shape).astype(spec.dtype)
    return rng.standard_normal(shape).astype("float32")

"""Input data for a model, made from what it says about its inputs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from ramet import backends
from ramet import keras_internals as internals
from ramet.graph import Graph, Ref, Spec
from ramet.graph.tree import map_tree

_BATCH = 2
"""Samples in a batch, where the model leaves it open."""

_MOST_SAMPLES = 64
"""Samples in a batch of integers at most; it has enough for a whole vocabulary to occur."""

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


def make_sample(
    models: Sequence[Any], graphs: Sequence[Graph | None], size: int, seed: int
) -> Sample | None:
    """Make input data for some models, or `None` if their input shapes are not known.

    Shapes and dtypes are the models' own; open dimensions get the given size,
    integers stay below the sizes of the vocabularies that they reach, and strings
    come from them.

    Args:
        models: The models. The data is made for the first of which enough is known, and
            suits the vocabularies of all.
        graphs: Their graphs; `None` for one without.
        size: The size of open dimensions.
        seed: Seed of the data.
    """
    rng = np.random.default_rng(seed)
    known = [graph for graph in graphs if graph is not None]
    if known:
        hidden = [each for each, graph in zip(models, graphs, strict=True) if graph is None]
        extra = [layer for each in hidden for layer in internals.all_layers(each)]
        return Sample((_graph_inputs(known, extra, size, rng),), {})
    built = [each for each in models if internals.build_shapes(each)]
    return _built_inputs(built, size, rng) if built else None


def _graph_inputs(
    graphs: list[Graph], extra: list[Any], size: int, rng: np.random.Generator
) -> Any:
    """Make the inputs of the first of some graphs, also for the others."""
    flat = [keras.tree.flatten(graph.inputs) for graph in graphs]
    alike = [refs for refs in flat if len(refs) == len(flat[0])]

    def described(ref: Ref) -> tuple[Spec, _Reached]:
        places = [refs[flat[0].index(ref)] for refs in alike]
        both = [
            *zip((g for g, r in zip(graphs, flat, strict=True) if r in alike), places, strict=True)
        ]
        readers = [layer for graph, place in both for layer in _readers(graph, place)]
        spec = _known_shape([_spec(graph, place) for graph, place in both])
        return spec, _Reached([*readers, *extra])

    inputs = {ref: described(ref) for ref in flat[0]}
    batch = _batch_of([*inputs.values()], size)
    return map_tree(lambda ref: _array(*inputs[ref], size, rng, batch), graphs[0].inputs)


def _batch_of(inputs: "list[tuple[Spec, _Reached]]", size: int) -> int:
    """Return how many samples there are in a batch: enough for whole vocabularies to occur."""
    batches = [_BATCH]
    for spec, reached in inputs:
        if np.dtype(_numpy_dtype(spec)).kind not in "iu" or not spec.shape or spec.shape[0]:
            return _BATCH
        tokens = math.prod(known or size for known in spec.shape[1:])
        batches.append(-(-min(reached.vocabulary_sizes(), default=0) // max(tokens, 1)))
    return min(max(batches), _MOST_SAMPLES)


def _known_shape(specs: list[Spec]) -> Spec:
    """Return the first of some specs, with sizes that only others know."""
    shapes = [spec.shape for spec in specs if len(spec.shape) == len(specs[0].shape)]
    sizes = tuple(
        next((n for n in known if n is not None), None) for known in zip(*shapes, strict=True)
    )
    return replace(specs[0], shape=sizes)


def _built_inputs(models: list[Any], size: int, rng: np.random.Generator) -> Sample | None:
    """Make arguments for models without graphs from what the first was built with."""
    shapes = internals.build_shapes(models[0]) or {}
    reached = _Reached([layer for model in models for layer in internals.all_layers(model)])
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
        """Return the words, or the integers, that lookup layers know."""
        known = [np.array(layer.get_vocabulary()) for layer in self.layers if _is_lookup(layer)]
        known = [words for words in known if words.dtype.kind == kind and words.size]
        if len(known) > 1:
            return np.unique(np.concatenate(known))
        return known[0] if known else None


def _is_lookup(layer: Any) -> bool:
    return hasattr(layer, "get_vocabulary")


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


def _array(
    spec: Spec, reached: _Reached, size: int, rng: np.random.Generator, batch: int = _BATCH
) -> Any:
    values = _values(spec, reached, size, rng, batch)
    if values.dtype.kind == "U" and not backends.current().has_strings:
        return values
    if spec.sparse:
        return backends.current().sparse_tensor(values * (values > 0))
    return keras.ops.convert_to_tensor(values, spec.dtype)


def _values(
    spec: Spec, reached: _Reached, size: int, rng: np.random.Generator, batch: int
) -> np.ndarray:
    scale = _IMAGE_SCALE if len(spec.shape) >= _IMAGE_RANK else 1
    sizes = [size * scale if at else batch for at in range(len(spec.shape))]
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
        return _tokens(min(reached.vocabulary_sizes(), default=2), shape, rng).astype(spec.dtype)
    return rng.standard_normal(shape).astype("float32")


def _tokens(vocabulary: int, shape: list[int], rng: np.random.Generator) -> np.ndarray:
    """Return integers below a limit: all of them, before one occurs again."""
    rounds = -(-math.prod(shape) // vocabulary) if vocabulary else 0
    drawn = [rng.permutation(vocabulary) for _ in range(rounds)]
    return np.concatenate([*drawn, np.zeros(0, int)])[: math.prod(shape)].reshape(shape)

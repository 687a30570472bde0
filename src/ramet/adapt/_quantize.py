"""`quantize`: store the weights of the layers that you name with fewer bits."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, overload

from ramet._arguments import check_flag
from ramet.adapt.quantizing.explained import explained
from ramet.adapt.quantizing.layers import quantized_layer
from ramet.adapt.quantizing.plan import Plan, plan
from ramet.graph import Graph, Layer
from ramet.graph.data import Edit
from ramet.graph.edits.nested import rebuilt
from ramet.graph.journal import with_entry
from ramet.graph.names import counted, listed
from ramet.results.quantization import Quantization
from ramet.tracing.trace import trace


@overload
def quantize(
    model: Any, at: Mapping[Any, str], *, skip: Any = None, explain: Literal[False] = False
) -> Graph: ...
@overload
def quantize(
    model: Any, at: Mapping[Any, str], *, skip: Any = None, explain: Literal[True]
) -> Quantization: ...
def quantize(
    model: Any, at: Mapping[Any, str], *, skip: Any = None, explain: bool = False
) -> Graph | Quantization:
    """Store the weights of the layers that you name with fewer bits.

    Dense, EinsumDense, Embedding and ReversibleEmbedding are quantized as by Keras's own
    `quantize`, with the same bits, names and paths. Convolutions, which Keras cannot
    quantize, get int8 kernels that are converted to floats in each call (`Int8Conv2D`). The
    quantized weights do not train; biases and everything else do.

    Args:
        model: A graph or a model.
        at: Modes by patterns: `{"encoder/**": "int4", "*": "int8"}`. A pattern is a glob, as in
            `Graph.select`, or a compiled regular expression; a nested model stands for the
            layers in it. The first pattern that matches a layer applies. Modes are `"int8"`;
            `"int4"`, in blocks of 128 weights; and `"float8"`, for training.
        skip: What to leave as it is: a pattern, a selection, or a list of them. Unless a layer has
            that name, `"head"` stands for the layers nearest to the outputs that have weights.
        explain: Whether to return sizes and errors instead.

    Returns:
        The new Graph; with `explain`, a `Quantization`, which prints as a table.

    Raises:
        OptionError: If a mode is unknown.
        GraphError: If a pattern matches nothing that can be quantized.

    Examples:
        >>> report = ramet.adapt.quantize(model, {"*": "int8"}, skip="head", explain=True)
        >>> [(layer.path, layer.before, layer.after) for layer in report]
        [('conv', 448, 140)]
        >>> small = ramet.adapt.quantize(model, {"*": "int8"}, skip="head").build()
        >>> small.get_layer("conv").int8_kernel.dtype
        'int8'
    """
    check_flag(explain, "explain")
    graph = trace(model)
    planned = plan(graph, at, skip)
    edit = _edit(planned)
    new = {
        layer.identity: quantized_layer(graph, layer, mode, edit)
        for layer, mode in planned.modes.values()
    }
    if explain:
        return explained(graph, planned, new)

    def renewed(layer: Layer) -> Layer:
        quantized = new.get(layer.identity)
        return layer if quantized is None else dataclasses.replace(quantized, name=layer.name)

    return with_entry(rebuilt(graph, edit, renewed, lambda inner: inner), edit)


def _edit(planned: Plan) -> Edit:
    lines = [
        f"quantize '{path}' ({layer.kind}) to {mode}"
        for path, (layer, mode) in planned.modes.items()
    ]
    numbers = Counter(mode for _, mode in planned.modes.values())
    modes = ", ".join(f"{number} to {mode}" for mode, number in numbers.items())
    text = lines[0] if len(lines) == 1 else f"quantize {counted(len(lines), 'layer')}: {modes}"
    left = [f"'{path}'" for path in planned.left]
    if left:
        text += f"; {listed(left)} cannot be quantized"
    return dataclasses.replace(Edit.of_many(text, lines), promise="changed")

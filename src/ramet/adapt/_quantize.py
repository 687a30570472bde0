"""`quantize`: store the weights of the layers that you name with fewer bits."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, overload

from ramet._arguments import check_flag
from ramet.adapt.quantizing.calibrated import calibrated
from ramet.adapt.quantizing.explained import explained
from ramet.adapt.quantizing.layers import quantized_layer
from ramet.adapt.quantizing.modes import CALIBRATED
from ramet.adapt.quantizing.plan import Plan, plan
from ramet.errors import OptionError
from ramet.graph import Graph, Layer
from ramet.graph.data import Edit
from ramet.graph.edits.nested import rebuilt
from ramet.graph.journal import with_entry
from ramet.graph.names import counted, listed
from ramet.results.quantization import Quantization
from ramet.tracing.settled import settled
from ramet.tracing.trace import trace


@overload
def quantize(
    model: Any,
    at: Mapping[Any, str],
    *,
    skip: Any = None,
    data: Any = None,
    explain: Literal[False] = False,
) -> Graph: ...
@overload
def quantize(
    model: Any, at: Mapping[Any, str], *, skip: Any = None, data: Any = None, explain: Literal[True]
) -> Quantization: ...
def quantize(
    model: Any,
    at: Mapping[Any, str],
    *,
    skip: Any = None,
    data: Any = None,
    explain: bool = False,
) -> Graph | Quantization:
    """Store the weights of the layers that you name with fewer bits.

    Dense, EinsumDense, Embedding and ReversibleEmbedding are quantized as by Keras's own
    `quantize`, with the same bits, names and paths. Convolutions, which Keras cannot
    quantize, get int8 kernels that are converted to floats in each call (`Int8Conv2D`). In
    attention layers, the projections are quantized (`QuantizedMultiHeadAttention`). The quantized
    weights do not train; biases and everything else do.

    Args:
        model: A graph or a model.
        at: Modes by patterns: `{"encoder/**": "int4", "*": "int8"}`. A pattern is a glob, as in
            `Graph.select`, or a compiled regular expression; a nested model stands for the
            layers in it. The first pattern that matches a layer counts. Modes are `"int8"`;
            `"int4"`, in blocks of 128 weights; `"gptq"`, which is int4 for Dense and EinsumDense,
            rounded by what they read on `data`; and `"float8"`, for training.
        skip: What stays as it is: a pattern, a selection, or a list of them. Where no layer has
            such a name, `"head"` stands for the layers nearest to the outputs that have weights.
        data: For gptq, a batch that the model can be called on. The model is run on it, layer by
            layer, with those before quantized already, and each kernel is rounded so that the
            results of its layer change little: later weights make up for what earlier ones are
            off. A few hundred examples like those of training are enough.
        explain: Whether to return sizes and errors instead.

    Returns:
        The new Graph; with `explain`, a `Quantization`, which prints as a table.

    Raises:
        OptionError: If a mode is unknown, or data is missing.
        GraphError: If a pattern matches nothing, or nothing that can be quantized.

    Examples:
        >>> report = ramet.adapt.quantize(model, {"*": "int8"}, skip="head", explain=True)
        >>> [(layer.path, layer.before, layer.after) for layer in report]
        [('conv', 448, 140)]
        >>> small = ramet.adapt.quantize(model, {"*": "int8"}, skip="head").build()
        >>> small.get_layer("conv").int8_kernel.dtype
        'int8'
    """
    check_flag(explain, "explain")
    # What starts afresh is drawn once, so that before and after have the same weights.
    graph = settled(model) if explain else trace(model)
    planned = plan(graph, at, skip)
    _check_data(planned, data)
    edit = _edit(planned)
    plain = {path: each for path, each in planned.modes.items() if each[1] != CALIBRATED}
    new = {
        layer.identity: quantized_layer(graph, layer, mode, edit) for layer, mode in plain.values()
    }
    errors: dict[str, float] = {}
    if planned.calibrated:
        before = _with_layers(graph, new, edit) if new else graph
        for path, each in calibrated(before, planned.calibrated, data).items():
            layer, errors[path] = planned.modes[path][0], each.error
            new[layer.identity] = quantized_layer(graph, layer, "int4", edit, each.recipe)
    return explained(graph, planned, new, errors) if explain else _with_layers(graph, new, edit)


def _check_data(planned: Plan, data: Any) -> None:
    """Check that there is data if it is needed, and only then.

    Raises:
        OptionError: If not.
    """
    if planned.calibrated and data is None:
        message = f"mode '{CALIBRATED}' rounds weights by what layers read on data; pass data, a "
        raise OptionError(f"{message}batch that the model can be called on, or use 'int4'")
    if data is not None and not planned.calibrated:
        raise OptionError(f"data is for mode '{CALIBRATED}', which no layer gets; leave it out")


def _with_layers(graph: Graph, new: Mapping[tuple[int, int], Layer], edit: Edit) -> Graph:
    """Return a graph with other layers, by the identities of those before."""

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

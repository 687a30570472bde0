"""`fold`: norms and other constant scales and shifts, folded into the layers beside them."""

from typing import Any

from ramet._arguments import check_flag
from ramet._words import weakest
from ramet.compress.folding.apply import apply
from ramet.compress.folding.search import Search
from ramet.graph import Edit, Graph
from ramet.graph.journal import with_entry
from ramet.graph.names import counted
from ramet.results.folding import Folding, folds_text
from ramet.tracing.trace import trace


def fold(model: Any, *, inference_only: bool = False) -> Graph:
    """Fold batch norms and other scales and shifts into the layers beside them.

    At inference, a batch norm multiplies each channel by a number and adds another. So do
    `Rescaling`, an adapted `Normalization`, the layer scale of ConvNeXt, and `x * c` or `x + c`
    with a constant. A convolution (1D to 3D, depthwise, separable, transposed, in groups), `Dense`
    or `EinsumDense` before or after it can do the same with its kernel and bias, computed in
    float64 and cast once. Parallel convolutions of one tensor that are added up, with or without
    the tensor itself, become one. Layers that do nothing are dropped.

    Nothing is folded that would change the result: a layer that is shared, or whose output is used
    elsewhere, an activation in between, a shift of a tensor that is padded with zeros, kernels
    with LoRA, quantization or constraints. `foldable` lists what stays, with the reasons.

    Training differs afterwards, since a folded norm no longer has batch statistics. A
    folded input scale is part of the weights: `build(weights="fresh")` does not have it.

    Args:
        model: A graph or a model.
        inference_only: Whether to drop layers that only act in training too, such as
            `Dropout`.

    Returns:
        The new Graph, with one entry in its journal; the same graph if there is nothing to fold.

    Raises:
        OptionError: If an argument has the wrong type.
        ModelError: If the model has no graph.

    Examples:
        >>> graph = ramet.compress.fold(model)
        >>> print(graph.journal)
        1. fold 'norm' (BatchNormalization) into 'conv' (Conv2D) [inference-equal]
        >>> ramet.verify(model, graph.build(), only="outputs", rtol=1e-4).ok
        True
    """
    check_flag(inference_only, "inference_only")
    graph = trace(model)
    search = Search(graph, inference_only=inference_only)
    folded = [each for each in search.folds if each.is_folded]
    if not folded:
        return graph
    kept = len(search.folds) - len(folded)
    text = str(folded[0]) if len(folded) == 1 else f"fold: {folds_text(folded)}"
    text += f"; {counted(kept, 'layer')} kept" if kept else ""
    promise = weakest(each.promise for each in folded)
    parts = tuple(Edit(str(each), promise=each.promise) for each in folded)
    edit = Edit(text, parts if len(parts) > 1 else (), promise=promise)
    return with_entry(apply(graph, search, edit), edit)


def foldable(model: Any, *, inference_only: bool = False) -> Folding:
    """List what `fold` would fold into what, and what it would keep and why. Nothing is changed.

    For a graph that `fold` returned, it lists what was kept.

    Args:
        model: A graph or a model.
        inference_only: As in `fold`.

    Returns:
        A list of layers; print it for a table.

    Raises:
        OptionError: If an argument has the wrong type.
        ModelError: If the model has no graph.

    Examples:
        >>> graph = ramet.trace(model).configure("conv", activation="relu")
        >>> ramet.compress.foldable(graph).kept[0].reason
        "above, 'conv' has an activation (relu); below, 'relu' (ReLU) is not a layer with a kernel"
    """
    check_flag(inference_only, "inference_only")
    graph = trace(model)
    search = Search(graph, inference_only=inference_only)
    return Folding(graph.name, tuple(search.folds))

"""`factorize`: kernels replaced by products of smaller ones."""

from numbers import Integral
from typing import Any

from ramet._arguments import shown
from ramet._words import weakest
from ramet.compress.factoring.apply import apply
from ramet.compress.factoring.plan import EXACT, Plan, Wish, has_kernel
from ramet.errors import GraphError, OptionError
from ramet.graph import Edit, Graph, Layer
from ramet.graph.edits.freeze import layer_at
from ramet.graph.journal import with_entry
from ramet.graph.names import counted
from ramet.graph.paths import layer_paths
from ramet.graph.select import Selection, path_matches
from ramet.results.factorization import Factored, Factorization
from ramet.tracing.trace import trace


def factorize(
    model: Any,
    *,
    at: "str | Selection | None" = None,
    rank: int | None = None,
    energy: float | None = None,
    params: int | None = None,
) -> Graph:
    """Replace kernels by products of smaller ones, which have fewer parameters.

    A `Dense` or `EinsumDense` layer becomes two, by its singular values. A convolution becomes up
    to three, by a Tucker decomposition: one of size 1 that reduces the channels, one with the old
    window, strides, padding and dilation, and one of size 1 that restores the channels. The last
    one keeps name, bias and activation. Set how much to keep in one of three ways.

    A layer whose factors would have more parameters is left alone, and so are kernels with LoRA,
    quantization or constraints; `factorizable` lists them with the reasons, and the error of each
    kernel. The singular values are computed when this is called, the factors on build.

    Args:
        model: A graph or a model.
        at: The name or path of a layer, a glob, or a selection; by default all layers.
        rank: How many dimensions of each kernel to keep; for a convolution, on either side.
        energy: Which share of each kernel's sum of squares to keep, above 0 and up to 1.
        params: How many parameters the new model may have. The same share of each kernel is kept.

    Returns:
        The new Graph, with one entry in its journal; the same graph if all layers are left alone.

    Raises:
        OptionError: If not exactly one of `rank`, `energy` and `params` is given, one has no valid
            value, a rank is larger than a kernel that was chosen, or a budget cannot be met.
        GraphError: If no layer with a kernel is chosen.

    Examples:
        >>> graph = ramet.compress.factorize(model, at="conv", rank=1)
        >>> print(graph.journal)
        1. factorize 'conv' (Conv2D) to rank 1 x 1: 108 parameters → 16, error 0... [changed]
        >>> [layer.name for layer in graph.build().layers][1:4]
        ['conv_in', 'conv_core', 'conv']
    """
    graph = trace(model)
    plan = _plan(graph, at, rank, energy, params)
    if not plan.factorized:
        return graph
    report = [each for each in plan.report() if each.is_factorized]
    parts = tuple(
        Edit(f"factorize {each}", promise="equal" if each.error <= EXACT else "changed")
        for each in report
    )
    edit = parts[0] if len(parts) == 1 else _edit_of(report, parts)
    return with_entry(apply(graph, plan.factorized, edit), edit)


def _edit_of(report: list[Factored], parts: tuple[Edit, ...]) -> Edit:
    before, after = (sum(getattr(each, name) for each in report) for name in ("before", "after"))
    worst = max(each.error for each in report)
    text = (
        f"factorize {counted(len(parts), 'layer')}: {before:,} parameters → {after:,}, errors up "
        f"to {worst:.2g}"
    )
    return Edit(text, parts, promise=weakest(each.promise for each in parts))


def factorizable(
    model: Any,
    *,
    at: "str | Selection | None" = None,
    rank: int | None = None,
    energy: float | None = None,
    params: int | None = None,
) -> Factorization:
    """List what `factorize` would do with the same arguments. Nothing is changed.

    Args:
        model: A graph or a model.
        at: As in `factorize`.
        rank: As in `factorize`.
        energy: As in `factorize`.
        params: As in `factorize`.

    Returns:
        A list of layers with ranks, errors and parameters, and why others are left alone.

    Raises:
        OptionError: As in `factorize`.
        GraphError: As in `factorize`.

    Examples:
        >>> (head,) = ramet.compress.factorizable(model, at="head", rank=2)
        >>> head.reason
        'its factors would have 14 parameters instead of 12'
    """
    graph = trace(model)
    plan = _plan(graph, at, rank, energy, params)
    return Factorization(graph.name, tuple(plan.report()))


def _plan(graph: Graph, at: Any, rank: Any, energy: Any, params: Any) -> Plan:
    given = {"rank": rank, "energy": energy, "params": params}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        what = " and ".join(named) or "none of them"
        raise OptionError(f"one of rank, energy and params says what is kept, got {what}; pass one")
    for name in ("rank", "params"):
        value = given[name]
        is_count = not isinstance(value, bool) and isinstance(value, Integral)
        if value is not None and not (is_count and 0 < int(value) < 2**62):
            raise OptionError(f"{name} must be a positive integer, got {shown(value)}")
    is_share = isinstance(energy, (int, float)) and not isinstance(energy, bool)
    if energy is not None and not (is_share and 0 < energy <= 1):
        raise OptionError(f"energy must be a number above 0 and up to 1, got {shown(energy)}")
    wish = Wish(
        None if rank is None else int(rank),
        energy,
        None if params is None else int(params),
        by_name=at is not None,
    )
    return Plan(graph, _chosen(graph, at), wish)


def _chosen(graph: Graph, at: Any) -> list[tuple[str, Layer]]:
    """List the layers that were chosen and have a kernel, each once."""
    if at is None:
        layers, what = [*layer_paths(graph)], "graph"
    elif isinstance(at, Selection):
        layers, what = [(path, layer_at(graph, path)) for path in at], f"selection by {at.what}"
    elif isinstance(at, str):
        what = f"at={shown(at)}"
        if any(character in at for character in "*?["):
            layers = [(path, layer) for path, layer in layer_paths(graph) if path_matches(path, at)]
        else:
            layers = [(at, layer_at(graph, at))]
    else:
        message = f"at must be the name of a layer, a glob or a selection, got {shown(at)}"
        raise OptionError(message)
    chosen: dict[tuple[int, int], tuple[str, Layer]] = {}
    for path, layer in layers:
        if has_kernel(layer):
            chosen.setdefault(layer.identity, (path, layer))
    if not chosen:
        known = [path for path, layer in layer_paths(graph) if has_kernel(layer)]
        hint = f"name one that has, such as '{known[0]}'" if known else "it has none at all"
        message = (
            f"no layer of graph '{graph.name}' with a kernel to factorize is in the {what}; {hint}"
        )
        raise GraphError(message)
    return [*chosen.values()]

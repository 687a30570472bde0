"""Which layers of a model are factorized, how far, and why others are left alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras

from ramet.backends import is_of_keras
from ramet.building.reconfigure import made_with
from ramet.compress.factoring.kernels import Ranks
from ramet.compress.factoring.pieces import Factorable, factorable
from ramet.compress.factoring.ranks import Kernel, to_budget
from ramet.compress.folding.rules import known_value, why_fixed
from ramet.compress.folding.site import BUILD_FIRST, Uses
from ramet.errors import OptionError
from ramet.graph import Graph, Layer, Ref
from ramet.graph.names import listed
from ramet.graph.tree import leaves
from ramet.graph.values import Variable
from ramet.results.factorization import Factored

EXACT = 1e-6
"""The relative error of a kernel that counts as rounding."""


@dataclass(frozen=True)
class Wish:
    """How much is to be kept: one of the three is given."""

    rank: int | None
    """The rank of each kernel."""
    energy: float | None
    """The share of the squares of each kernel."""
    params: int | None
    """The most parameters of the new model."""
    by_name: bool
    """Whether the layers were chosen by name, so that none may be left alone in silence."""


@dataclass(frozen=True)
class Candidate:
    """A layer that was chosen."""

    path: str
    """Its path."""
    layer: Layer
    """Its record."""
    reason: str = ""
    """Why it is left alone; empty if it is factorized."""
    how: Factorable | None = None
    """How it is factorized."""
    kernel: Kernel | None = None
    """Its kernel."""
    ranks: Ranks | None = None
    """How much of it is kept."""


class Plan:
    """What becomes of the chosen layers of a model."""

    def __init__(self, graph: Graph, chosen: Sequence[tuple[str, Layer]], wish: Wish) -> None:
        """Decide it.

        Raises:
            OptionError: If a rank is larger than a kernel, or a budget cannot be met.
        """
        self.graph = graph
        uses = Uses(graph)
        self.candidates = [_candidate(graph, uses, path, layer) for path, layer in chosen]
        self._choose(wish)

    @property
    def factorized(self) -> list[Candidate]:
        """The layers that are factorized."""
        return [each for each in self.candidates if each.ranks is not None and not each.reason]

    def report(self) -> list[Factored]:
        """Return what becomes of each layer."""
        return [_factored(each) for each in self.candidates]

    def _choose(self, wish: Wish) -> None:
        able = [each for each in self.candidates if each.kernel is not None and not each.reason]
        kernels = [each.kernel for each in able if each.kernel is not None]
        if wish.rank is not None:
            if wish.by_name:
                _check_rank(able, wish.rank)
            chosen = [kernel.of_rank(min(wish.rank, kernel.full)) for kernel in kernels]
        elif wish.energy is not None:
            chosen = [kernel.of_energy(wish.energy) for kernel in kernels]
        else:
            chosen = self._to_budget(kernels, wish.params or 0)
        ranks = dict(zip((each.path for each in able), chosen, strict=True))
        self.candidates = [
            each if each.path not in ranks else _settled(each, ranks[each.path], wish)
            for each in self.candidates
        ]

    def _to_budget(self, kernels: list[Kernel], budget: int) -> list[Ranks]:
        total = _parameters(self.graph)

        def spare(ranks: Sequence[Ranks]) -> int:
            pairs = zip(kernels, ranks, strict=True)
            saved = sum(max(0, kernel.shape.size - kernel.size(rank)) for kernel, rank in pairs)
            return budget - (total - saved)

        least = total - budget + spare([kernel.of_rank(1) for kernel in kernels])
        if spare([kernel.of_rank(1) for kernel in kernels]) < 0:
            smallest = total - least
            message = (
                f"graph '{self.graph.name}' has {total:,} parameters, and cannot have only "
                f"{budget:,}: with every chosen kernel of rank 1, {smallest:,} are left; choose "
                "more layers or allow more parameters"
            )
            raise OptionError(message)
        return to_budget(kernels, spare)


def _candidate(graph: Graph, uses: Uses, path: str, layer: Layer) -> Candidate:
    """Return a layer with how it can be factorized, or why not."""
    live = layer.origin
    found = Candidate(path, layer)
    if not is_of_keras(type(live)):
        return replace(found, reason=f"{layer.kind} is not one of Keras's own classes")
    reason = uses.why_held(layer) or why_fixed(layer, live) or _why_called(graph, layer)
    if reason is not None:
        return replace(found, reason=reason)
    how = factorable(live, layer.kind, 0)
    if how is None or isinstance(how, str):
        return replace(found, reason=how or f"{layer.kind} has no kernel")
    if made_with(live, {"name": f"{layer.name}_in"}) is None:
        return replace(found, reason="it cannot be re-created from its config")
    value = known_value(Variable(layer, ("kernel",)))
    if value is None or layer.is_changed:
        return replace(found, reason=f"an edit changed it; {BUILD_FIRST}")
    return replace(found, how=how, kernel=Kernel(how.shape, value, how.prefers_out))


def has_kernel(layer: Layer) -> bool:
    """Whether a layer is one of those that have a kernel."""
    is_built = isinstance(layer.origin, keras.Layer) and layer.facts.built
    return is_built and layer.graph is None and factorable_kind(layer)


def factorable_kind(layer: Layer) -> bool:
    """Whether layers of a class have kernels, by its name or that of a base class."""
    return any(is_of_keras(base) and base.__name__ in KINDS for base in type(layer.origin).__mro__)


KINDS = frozenset({"Conv1D", "Conv2D", "Conv3D", "Dense", "EinsumDense"})
"""Classes whose kernels can be factorized."""


def _why_called(graph: Graph, layer: Layer) -> str | None:
    """Return why new layers cannot be put before the calls of a layer."""
    for visit in graph.walk():
        for call in visit.graph.calls.values():
            record = None if call.layer is None else visit.graph.layers[call.layer]
            if record is None or record.identity != layer.identity:
                continue
            refs = [leaf for leaf in leaves(call.args) if isinstance(leaf, Ref)]
            if len(refs) != 1 or call.args[0] != refs[0] or len(call.written_refs) != 1:
                return "it is called on more than one tensor"
    return None


def _check_rank(able: Sequence[Candidate], rank: int) -> None:
    for each in able:
        if each.kernel is not None and rank > each.kernel.full:
            message = (
                f"rank={rank} is larger than the kernel of '{each.path}' ({each.layer.kind}), "
                f"whose rank is {each.kernel.full} at most; pass a smaller one"
            )
            raise OptionError(message)


def _settled(candidate: Candidate, ranks: Ranks, wish: Wish) -> Candidate:
    """Return a layer with its ranks, or why it is left alone."""
    kernel = candidate.kernel
    if kernel is None:
        return candidate
    before, after = kernel.shape.size, kernel.size(ranks)
    if wish.rank is not None and wish.rank > kernel.full:
        reason = f"its rank is {kernel.full} at most"
    elif after >= before:
        reason = f"its factors would have {after:,} parameters instead of {before:,}"
    else:
        reason = ""
    return replace(candidate, ranks=ranks, reason=reason)


def _factored(candidate: Candidate) -> Factored:
    kernel, ranks = candidate.kernel, candidate.ranks
    size = 0 if kernel is None else kernel.shape.size
    if kernel is None or ranks is None or candidate.reason:
        return Factored(candidate.path, candidate.layer.kind, (), 0.0, size, size, candidate.reason)
    kept = tuple(rank for rank in (ranks.into, ranks.out) if rank is not None)
    error, after = kernel.error(ranks), kernel.size(ranks)
    return Factored(candidate.path, candidate.layer.kind, kept, error, size, after)


def _parameters(graph: Graph) -> int:
    """Return how many parameters a model has, each layer counted once."""
    layers: dict[tuple[int, int], Any] = {}
    for visit in graph.walk():
        for layer in visit.graph.layers.values():
            if layer.graph is None and isinstance(layer.origin, keras.Layer):
                layers[layer.identity] = layer.origin
    return sum(int(layer.count_params()) for layer in layers.values() if layer.built)


def names_of(candidates: Sequence[Candidate]) -> str:
    """Return the first paths of some layers."""
    return listed([f"'{each.path}'" for each in candidates])

"""Finds what can be folded into what, and why the rest cannot."""

from collections.abc import Callable, Iterator

from ramet._words import Promise
from ramet.backends import is_of_keras
from ramet.compress.folding.affine import Affine, affine, unsettled
from ramet.compress.folding.branches import merge
from ramet.compress.folding.linear import Linear
from ramet.compress.folding.rules import (
    RESHAPING,
    above,
    below,
    check_no_activation,
    check_range,
    is_idle,
    rule_of,
    same_order,
    without_zeros,
)
from ramet.compress.folding.site import Kept, Site, Uses
from ramet.compress.folding.weights import Weights
from ramet.graph import Call, Graph, Ref
from ramet.results.folding import Fold

_FARTHEST = 50
"""How many layers may lie between a layer and those that it is folded into."""


class Search:
    """What can be folded in a graph and those nested in it."""

    def __init__(self, graph: Graph, *, inference_only: bool) -> None:
        """Find all of it.

        Args:
            graph: The outermost graph.
            inference_only: Whether layers that only act in training may be dropped.
        """
        self.inference_only = inference_only
        self.weights: dict[tuple[int, int], Weights] = {}
        """What becomes of the kernels of layers, by the identities of their records."""
        self.folds: list[Fold] = []
        """What becomes of each layer that scales and shifts, and of those that do nothing."""
        uses = Uses(graph)
        self.sites = [Site(visit, uses) for visit in graph.walk()]
        for site in self.sites:
            self._drop_idle(site)
            for name, reasons in self._fold_all(site).items():
                self._leave(site, name, reasons)

    def _fold_all(self, site: Site) -> dict[str, list[str]]:
        """Fold what can be folded in one graph, and return the reasons why the rest cannot."""
        calls = [*site.written.values()]
        while True:
            count = len(self.folds)
            left: dict[str, list[str]] = {}
            for call in calls:
                self._try(site, call, self._up, left)
            for call in [site.written[name] for name in reversed(left)]:
                self._try(site, call, self._down, left)
            for call, whole in merge(site, self.weights):
                left.pop(call.name, None)
                into = f"'{site.path(whole)}' ({site.layer(whole).kind})"
                norms = {"BatchNormalization"} & {site.layer(call).kind}
                self.fold(site, call, [into], "inference-equal" if norms else "equal")
            if count == len(self.folds) or not left:
                return left
            calls = [site.written[name] for name in left]  # What is gone may have been in the way.

    def fold(self, site: Site, call: Call, into: list[str], promise: Promise) -> None:
        """Note that a call is folded."""
        kind = site.layer(call).kind
        self.folds.append(Fold(site.path(call), kind, tuple(into), "", promise))

    def _leave(self, site: Site, name: str, reasons: list[str]) -> None:
        call = site.written[name]
        reason = reasons[0] if len({*reasons}) == 1 else "above, {}; below, {}".format(*reasons)
        self.folds.append(Fold(site.path(call), site.layer(call).kind, (), reason))

    # --- layers that do nothing ---

    def _drop_idle(self, site: Site) -> None:
        for call in site.written.values():
            place = site.place(call)
            if place is None:
                continue
            undone = _undone(site, call)
            if undone is None and not is_idle(place, inference_only=self.inference_only):
                continue
            source = undone or site.input_of(call)
            if source is None or not _is_droppable(site, call, source):
                continue
            always = undone is not None or is_idle(place, inference_only=False)
            promise: Promise = "equal" if always else "inference-equal"
            self.fold(site, call, [], promise)
            before = site.input_of(call)
            site.bypass(call, source)
            if undone is not None and before is not None:
                self._drop_unused(site, before, source)

    def _drop_unused(self, site: Site, ref: Ref | None, source: Ref) -> None:
        """Drop the calls that were undone, up to the tensor that was restored, while unused."""
        while ref not in (None, source) and not site.readers(ref) and not site.is_output(ref):
            call = site.graph.calls[ref.call]
            ref = site.input_of(call)
            self.fold(site, call, [], "equal")
            site.remove(call)

    # --- layers that scale and shift ---

    def _try(
        self,
        site: Site,
        call: Call,
        way: "Callable[[Site, Call, Affine], Iterator[tuple[Call, Affine, bool]]]",
        left: dict[str, list[str]],
    ) -> None:
        """Fold a call in one direction if that is possible, and note the reason otherwise."""
        place = None if call.name in site.gone else site.place(call)
        if place is None:
            return
        is_known = place.shape and call.outputs[0].known
        function = affine(place) if is_known else unsettled(place)
        if function is None or (is_known and "float" not in call.outputs[0].dtype):
            return
        try:
            if isinstance(function, str):
                raise Kept(function)  # noqa: TRY301 the one reason of both directions
            site.check_removable(call)
            targets = [*way(site, call, function)]
            self._absorb(site, [(target, part) for target, part, _ in targets], way == self._up)
        except Kept as kept:
            left.setdefault(call.name, []).append(str(kept))
            return
        left.pop(call.name, None)
        exact = not function.is_norm and not any(crossed for *_, crossed in targets)
        names = [f"'{site.path(target)}' ({site.layer(target).kind})" for target, *_ in targets]
        self.fold(site, call, names, "equal" if exact else "inference-equal")
        ref = site.input_of(call)
        if ref is not None:
            site.bypass(call, ref)

    def _absorb(self, site: Site, targets: list[tuple[Call, Affine]], up: bool) -> None:  # noqa: FBT001 private
        """Scale and shift the outputs or the inputs of some layers, of all or of none."""
        absorbed: dict[tuple[int, int], Weights] = {}
        for call, function in targets:
            layer = site.layer(call)
            rule = rule_of(site, call)
            if rule is None or layer.identity in absorbed:
                raise Kept(f"'{layer.name}' is reached twice")
            weights = self.weights.get(layer.identity) or Weights.of(layer, rule)
            weights = weights.after(function) if up else weights.before(function)
            check_range(weights, layer.origin)
            absorbed[layer.identity] = weights
        self.weights |= absorbed

    def _up(self, site: Site, call: Call, function: Affine) -> Iterator[tuple[Call, Affine, bool]]:
        """Yield the layers whose outputs are scaled and shifted instead of a call's input."""
        ref = site.input_of(call)
        if ref is None:
            raise Kept("it is called on several tensors")
        yield from self._above(site, ref, function, call.name)

    def _above(
        self, site: Site, ref: Ref, function: Affine, reader: str, *, steps: int = 0
    ) -> Iterator[tuple[Call, Affine, bool]]:
        call = site.graph.calls[ref.call]
        if call.layer is None or site.layer(call).is_input:
            raise Kept(f"'{ref.call}' is an input")
        if site.layer(call).graph is not None:
            raise Kept(f"'{ref.call}' is a nested model; flatten the graph first")
        site.check_only_reader(ref, reader)
        rule = rule_of(site, call)
        if rule is not None:
            check_no_activation(site, call)
            _check_axis(site, call, function, rule.out)
            yield call, function, False
            return
        _check_steps(call, steps)
        crossed = site.layer(call).kind not in ("Add", "Concatenate")
        for source, part in above(site, call, function):
            for target, last, more in self._above(site, source, part, call.name, steps=steps + 1):
                yield target, last, crossed or more

    def _down(
        self, site: Site, call: Call, function: Affine
    ) -> Iterator[tuple[Call, Affine, bool]]:
        """Yield the layers whose inputs are scaled and shifted instead of a call's output."""
        yield from self._below(site, Ref(call.name), function)

    def _below(
        self, site: Site, ref: Ref, function: Affine, *, steps: int = 0
    ) -> Iterator[tuple[Call, Affine, bool]]:
        readers = site.readers(ref)
        if site.is_output(ref):
            raise Kept(f"'{ref.call}' is an output of the model")
        if len({*readers}) < len(readers) or not {*readers} <= site.written.keys():
            raise Kept(f"'{ref.call}' is used in other ways than as the input of a layer")
        for name in readers:
            call = site.written[name]
            if call.layer is None or site.layer(call).graph is not None:
                raise Kept(f"'{name}' is a nested model; flatten the graph first")
            rule = rule_of(site, call)
            if rule is not None:
                yield call, _absorbable(site, call, function, rule), False
                continue
            _check_steps(call, steps)
            passed = below(site, call, function)
            for target, last, _ in self._below(site, Ref(name), passed, steps=steps + 1):
                yield target, last, True


def _undone(site: Site, call: Call) -> Ref | None:
    """Return the tensor that a call restores by undoing those above it, if it does."""
    if site.layer(call).kind == "Permute":
        return _unpermuted(site, call)
    ref: Ref | None = Ref(call.name)
    while ref is not None and not ref.index:
        above = site.graph.calls[ref.call]
        place = None if above.layer is None else site.place(above)
        if place is None or place.layer.kind not in RESHAPING or not is_of_keras(type(place.live)):
            return None
        if getattr(place.live, "data_format", "channels_last") != "channels_last":
            return None
        ref = site.input_of(above)
        is_other = above is not call and ref is not None and place.is_settled
        if is_other and same_order(place.shape, call.outputs[0].shape):
            return ref
    return None


def _unpermuted(site: Site, call: Call) -> Ref | None:
    """Return the tensor that a Permute restores by undoing the one above it, if it does."""
    ref = site.input_of(call)
    if ref is None or ref.index:
        return None
    other = site.graph.calls[ref.call]
    if other.layer is None or site.layer(other).kind != "Permute":
        return None
    second, first = (site.place(each) for each in (call, other))
    if first is None or second is None:
        return None
    order = [first.live.dims[axis - 1] for axis in second.live.dims]
    return site.input_of(other) if order == sorted(order) else None


def _is_droppable(site: Site, call: Call, source: Ref) -> bool:
    """Whether the consumers of a call can read another tensor instead."""
    before, after = site.spec(source), call.outputs[0]
    alike = (before.dtype, before.shape, before.mask) == (after.dtype, after.shape, after.mask)
    above = site.graph.calls[source.call]
    is_input = above.layer is None or site.layer(above).is_input
    if not alike or not before.known or (is_input and site.is_output(Ref(call.name))):
        return False
    try:
        site.check_mask(call)
    except Kept:
        return False
    return True


def _check_steps(call: Call, steps: int) -> None:
    if steps > _FARTHEST:
        raise Kept(f"'{call.name}' and more than {_FARTHEST} layers lie between")


def _check_axis(site: Site, call: Call, function: Affine, axis: int) -> None:
    """Check that what is scaled is the channels of a layer.

    Raises:
        Kept: If it is another axis.
    """
    if function.axis not in (None, axis):
        name = site.layer(call).name
        raise Kept(f"it scales axis {function.axis}, but the channels of '{name}' are axis {axis}")


def _absorbable(site: Site, call: Call, function: Affine, rule: Linear) -> Affine:
    """Return by what a layer can have its input scaled and shifted.

    Raises:
        Kept: If it cannot.
    """
    _check_axis(site, call, function, rule.into)
    if rule.obstacle is not None:
        function = without_zeros(function)
    if function.shift is not None and rule.obstacle is not None:
        raise Kept(f"'{site.layer(call).name}': {rule.obstacle}")
    return function

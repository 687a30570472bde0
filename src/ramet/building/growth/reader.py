"""Follow symbolic tensors back to where their channels come from."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.building.growth.axes import Axes, Run, agreed
from ramet.building.growth.makers import MAKERS
from ramet.building.growth.passing import PASSING
from ramet.building.growth.recurrent import RECURRENT
from ramet.building.growth.site import RULES, Reads, Site, meaning_of
from ramet.tracing.mask_slots import is_mask_argument

RULES.update({**PASSING, **MAKERS, **RECURRENT})


class Reader:
    """Finds out what the axes of symbolic tensors are made of, in O(calls) above a tensor."""

    def __init__(self, lineage: Callable[[Any], Any]) -> None:
        """Start with nothing read.

        Args:
            lineage: Returns a key of a layer that is the same before and after the edits.
        """
        self._lineage = lineage
        self._known: dict[int, Axes] = {}
        self._alive: list[Any] = []  # so that no id is given to another tensor

    def bind(self, tensor: Any, axes: Axes) -> None:
        """Set what the axes of a tensor are made of, instead of following it further."""
        self._known[id(tensor)] = axes
        self._alive.append(tensor)

    def axes(self, tensor: Any) -> Axes:
        """Return what the axes of a symbolic tensor are made of."""
        waiting = [tensor]
        while waiting:
            top = waiting[-1]
            source = internals.producer(top)
            if id(top) in self._known:
                waiting.pop()
            elif source is None or source[0].is_input:
                self.bind(top, self._start(top, source))
            else:
                tensors = source[0].arguments.keras_tensors
                missing = [each for each in tensors if id(each) not in self._known]
                if missing:
                    waiting += missing
                else:
                    self._read(source[0])
        return self._known[id(tensor)]

    def _start(self, tensor: Any, source: tuple[Any, int] | None) -> Axes:
        key = ("input", self._lineage(source[0].operation)) if source else ("tensor", id(tensor))
        return tuple(Run((*key, axis), size) for axis, size in enumerate(tensor.shape))

    def _read(self, node: Any) -> None:
        site = self.site(node.operation, [node])
        function = internals.functional_of(node.operation)
        outputs = meaning_of(site).outputs if function is None else self._through(function, node)
        for tensor, axes in zip(node.outputs, outputs, strict=True):
            fits = len(axes) == len(tensor.shape) and all(
                part.size is None or size is None or part.size == size
                for part, size in zip(axes, tensor.shape, strict=True)
            )
            self.bind(tensor, axes if fits else self._unread(site, tensor))

    def _unread(self, site: Site, tensor: Any) -> Axes:
        reason = f"how '{site.layer.name}' arranges its output is not known"
        return tuple(Run((*site.key, "?", i), size, reason) for i, size in enumerate(tensor.shape))

    def _through(self, function: Any, node: Any) -> list[Axes]:
        """Read a call of a nested model through its graph."""
        inner = Reader(self._lineage)
        tensors = node.arguments.keras_tensors
        starts = internals.flat_inputs(function)
        if len(tensors) == len(starts):
            for start, tensor in zip(starts, tensors, strict=True):
                if len(start.shape) == len(tensor.shape):
                    inner.bind(start, self._known[id(tensor)])
        return [inner.axes(out) for out in keras.tree.flatten(internals.structures_of(function)[1])]

    def site(self, layer: Any, nodes: Iterable[Any]) -> Site:
        """Return a layer in its place; its inputs in several calls have to agree."""
        nodes = [*nodes]
        reads: Reads | None = None
        constants: Mapping[str, Any] = {}
        for node in nodes:
            own, constants = self._reads(node)
            reads = own if reads is None else _both(reads, own)
        shapes = tuple(tuple(t.shape) for t in nodes[0].outputs) if nodes else ()
        return Site(layer, (self._lineage(layer),), reads, shapes, constants)

    def _reads(self, node: Any) -> tuple[Reads, Mapping[str, Any]]:
        """Return the axes of the tensors that a call gets, by argument, and its other arguments."""
        args, kwargs = node.arguments.args, node.arguments.kwargs
        try:
            bound = inspect.signature(node.operation.call).bind_partial(*args, **kwargs).arguments
        except (TypeError, ValueError):
            bound = {str(i): value for i, value in enumerate(args)} | kwargs
        reads: dict[str, Any] = {}
        for name, value in bound.items():
            tensors = [t for t in keras.tree.flatten(value) if isinstance(t, keras.KerasTensor)]
            if tensors and not is_mask_argument(name):
                axes = [self.axes(tensor) for tensor in tensors]
                reads[name] = axes[0] if isinstance(value, keras.KerasTensor) else axes
        return reads, {name: value for name, value in bound.items() if name not in reads}


def sites_inside(site: Site, labels: Mapping[int, str]) -> dict[str, Site]:
    """Return the layers of a nested model in their places, by label.

    Args:
        site: The nested model.
        labels: Labels of its layers, by their ids.
    """
    function = internals.functional_of(site.layer)
    if function is None:
        return {}
    reader = Reader(lambda layer: (*site.key, labels.get(id(layer), id(layer))))
    starts, axes_in = internals.flat_inputs(function), site.tensors()
    for start, axes in zip(starts, axes_in, strict=False) if len(starts) == len(axes_in) else ():
        if len(start.shape) == len(axes):
            reader.bind(start, axes)
    sites: dict[str, Site] = {}
    for layer in internals.sublayers_of(site.layer):
        nodes = internals.nodes_inside(function, layer)
        if nodes and id(layer) in labels:
            sites[labels[id(layer)]] = reader.site(layer, nodes)
    return sites


def _both(first: Reads, second: Reads) -> Reads:
    """Return the inputs of a layer in two calls: axes that have to agree."""

    def merged(a: Any, b: Any) -> Any:
        if isinstance(a, list) and isinstance(b, list):
            return [merged(x, y) for x, y in zip(a, b, strict=False)]
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(agreed(pair) for pair in zip(a, b, strict=True))
        return a

    return {name: merged(first[name], second[name]) for name in first if name in second}

"""Which layers train in one model and not in the other, said once for what was frozen at once."""

from collections.abc import Iterator
from dataclasses import dataclass

from ramet.comparing.alignment.align import Alignment
from ramet.comparing.alignment.nodes import Node
from ramet.comparing.layer_changes import is_replaced
from ramet.graph import Layer
from ramet.graph.names import counted

_SEVERAL = 2
"""From how many layers on a model is said to be frozen, and not the layers."""


@dataclass(eq=False)
class _Flag:
    """Whether a layer trains, in both models."""

    path: str
    calls: tuple[Node, Node]
    old: bool
    new: bool
    has_weights: bool
    is_model: bool

    @property
    def is_changed(self) -> bool:
        return self.old != self.new


class Flags:
    """The flags of all layers that two models have in common."""

    def __init__(self, alignment: Alignment, *, weights: bool) -> None:
        """Read the flags."""
        self._name = alignment.first.name
        self._flags = [*_flags(alignment, weights=weights)]
        self._wholes: dict[str, bool] = {}
        """Prefixes of the models all of whose layers became trainable, or no longer are."""
        prefixes = ["", *(f"{flag.path}/" for flag in self._flags if flag.is_model)]
        for prefix in prefixes if any(flag.is_changed for flag in self._flags) else ():
            is_known = any(prefix.startswith(known) for known in self._wholes)
            if not is_known and not self._is_inner(prefix, prefixes):
                now = self._whole(prefix)
                if now is not None:
                    self._wholes[prefix] = now
        self._alone = {
            (id(flag.calls[0].layer), id(flag.calls[1].layer)): flag
            for flag in self._flags
            if flag.is_changed and not self._is_listed(flag)
        }

    def wholes(self) -> Iterator[tuple[str, str, tuple[tuple[Node, Node], ...]]]:
        """Yield path, text and calls of the models that were frozen, or no longer are, at once."""
        for prefix, now in self._wholes.items():
            inside = [flag for flag in self._flags if flag.path.startswith(prefix)]
            changed = [flag for flag in inside if flag.is_changed and not flag.is_model]
            own = next((flag for flag in self._flags if f"{flag.path}/" == prefix), None)
            layers = counted(len(changed), "layer")
            text = f"trainable={not now} is now {now} for {layers} inside"
            yield prefix[:-1] or self._name, text, (() if own is None else (own.calls,))

    def alone(self, a: Node, b: Node) -> str:
        """Return whether a layer trains now, if it is not said of a model around it."""
        flag = self._alone.get((id(a.layer), id(b.layer)))
        return "" if flag is None else f"trainable={flag.old} is now {flag.new}"

    def _whole(self, prefix: str) -> bool | None:
        """Return whether all layers of a model train now, if that changed for it as a whole."""
        inside = [flag for flag in self._flags if flag.path.startswith(prefix)]
        changed = [flag for flag in inside if flag.is_changed and not flag.is_model]
        states = {flag.new for flag in inside if flag.has_weights and not flag.is_model}
        states |= {flag.new for flag in changed}
        own = next((flag for flag in self._flags if f"{flag.path}/" == prefix), None)
        enough = len(changed) >= _SEVERAL or (own is not None and own.is_changed and changed)
        return states.pop() if enough and len(states) == 1 else None

    def _is_inner(self, prefix: str, prefixes: list[str]) -> bool:
        """Whether all that changed in a model is inside one model that it nests."""
        changed = [
            flag.path
            for flag in self._flags
            if flag.is_changed and not flag.is_model and flag.path.startswith(prefix)
        ]
        inner = [each for each in prefixes if each != prefix and each.startswith(prefix)]
        return any(all(path.startswith(each) for path in changed) for each in inner if changed)

    def _is_listed(self, flag: _Flag) -> bool:
        """Whether a model around a layer, or the layer as a model, says it already."""
        return any(
            f"{flag.path}/".startswith(prefix) and flag.new == now
            for prefix, now in self._wholes.items()
        )


def _flags(alignment: Alignment, *, weights: bool) -> Iterator[_Flag]:
    for one, _, level in alignment.walk():
        left = level.all_layers()
        for a, b in level.pairing:
            flags = [getattr(_origin(node.layer), "trainable", None) for node in (a, b)]
            if left.get(a.key or "") != b.key or a.is_input or None in flags or a.layer is None:
                continue
            if is_replaced(a, b, weights=weights):
                continue  # Another layer took its place, which trains or not by itself.
            del left[a.key or ""]
            origin, is_model = a.layer.origin, a.layer.graph is not None
            old, new = map(bool, flags)
            has_weights = bool(origin.weights)
            yield _Flag(f"{one}{a.key}", (a, b), old, new, has_weights, is_model)


def _origin(layer: Layer | None) -> object:
    return None if layer is None else layer.origin

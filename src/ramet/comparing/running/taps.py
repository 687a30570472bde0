"""A model run once, and what its calls and the layers inside them return on the way."""

import contextlib
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.backends.values import is_symbolic, is_tensor
from ramet.comparing.objects.arrays import array_of
from ramet.comparing.running.outputs import copied, untouched
from ramet.comparing.running.run import Tapped
from ramet.comparing.running.samples import Sample
from ramet.graph import Call, Graph

Event = tuple[str, int]
"""The path of a call, or of a layer inside one, and its number among the events of that path."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What is kept of the outputs of every call."""

    digest: bytes
    """The same for the same bits."""
    size: int
    """How many bytes they have."""


@dataclass
class Seen:
    """What was seen of one event."""

    arguments: tuple[Any, Any]
    """Positional and keyword arguments."""
    masks: list[np.ndarray | None] = field(default_factory=list[np.ndarray | None])
    """The masks on the tensors among the arguments."""
    outputs: list[np.ndarray] = field(default_factory=list[np.ndarray])
    """The outputs."""


class Tap:
    """Runs a model, and keeps a sign of the outputs of every call, and some values."""

    def __init__(
        self, model: Any, graph: Graph | None, parts: Mapping[int, tuple[str, Any]]
    ) -> None:
        """Take a model, its graph if its calls are to be seen, and layers to be seen by path."""
        self._model = model
        self._graph = graph
        self._parts = parts
        self.signs: dict[Event, Sign] = {}
        self.seen: dict[Event, Seen] = {}
        self.open: list[Event] = []
        self.error: Exception | None = None
        self._wanted: frozenset[Event] = frozenset()
        self._counts: Counter[str] = Counter()

    def run(self, sample: Sample, *, training: bool, wanted: Iterable[Event] = ()) -> None:
        """Call the model; an exception is kept, with the events that were open."""
        self.signs, self.seen, self.open, self.error = {}, {}, [], None
        self._wanted, self._counts = frozenset(wanted), Counter()
        args, kwargs = copied(sample)
        with untouched(self._model), internals.whole_tracebacks(), self._tapped_parts():
            try:
                if self._graph is None:
                    self._model(*args, training=training, **kwargs)
                else:
                    _GraphTap(self, self._graph).run(args[0], training=training)
            except Exception as error:  # noqa: BLE001 a model may raise anything
                self.error = error

    @contextlib.contextmanager
    def _tapped_parts(self) -> Generator[None]:
        """Make layers that are not called by a graph report when they are called."""
        plain = [(vars(layer), vars(layer).get("call")) for _, layer in self._parts.values()]
        for path, layer in self._parts.values():
            # Past `__setattr__`, by which layers and backends track what they are given.
            vars(layer)["call"] = self._tapped(path, layer.call)
        try:
            yield
        finally:
            for fields, function in plain:
                if function is None:
                    fields.pop("call", None)
                else:
                    fields["call"] = function

    def _tapped(self, path: str, function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.enter(path, args, kwargs)
            outputs = function(*args, **kwargs)
            self.leave(outputs)
            return outputs

        return call

    def enter(self, path: str, args: Any, kwargs: Any) -> None:
        """See the arguments of a call."""
        event = path, self._counts[path]
        self._counts[path] += 1
        self.open.append(event)
        if event in self._wanted:
            kept = keras.tree.map_structure(_kept, (args, kwargs))
            masks = [
                internals.get_keras_mask(value) for value in keras.tree.flatten((args, kwargs))
            ]
            values = [None if mask is None else array_of(mask) for mask in masks]
            self.seen[event] = Seen(kept, values)

    def leave(self, outputs: Any) -> None:
        """See the outputs of the call that was entered last."""
        event = self.open.pop()
        values = [value for value in keras.tree.flatten(outputs) if value is not None]
        if any(isinstance(v, keras.KerasTensor) or is_symbolic(v) for v in values):
            self.seen.pop(event, None)
            return  # inside a loop that a backend compiles
        arrays = [array_of(value) for value in values]
        self.signs[event] = _sign(arrays)
        if event in self.seen:
            self.seen[event].outputs = arrays


def _kept(value: Any) -> Any:
    """Return a value that nothing can change any more."""
    if value is not None and is_tensor(value) and not is_symbolic(value):
        return np.array(array_of(value))
    return value


def _sign(arrays: list[np.ndarray]) -> Sign:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(
            repr(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes()
        )
    return Sign(digest.digest(), sum(array.nbytes for array in arrays))


class _GraphTap(Tapped):
    """Report every call of a graph to a `Tap`."""

    def __init__(self, tap: Tap, graph: Graph) -> None:
        super().__init__(graph)
        self._tap = tap

    def given(self, path: str, value: Any) -> None:
        """Inputs are the same for both models."""

    def entered(self, path: str, arguments: tuple[Any, Any]) -> None:
        self._tap.enter(re.sub(r"#1(?=/|$)", "", path), *arguments)

    def seen(self, path: str, graph: Graph, call: Call, outputs: Any) -> Any:  # noqa: ARG002 the call entered last
        self._tap.leave(outputs)
        return outputs

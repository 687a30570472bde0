"""Copies of models with a graph (`keras.Function`): when they are filled, and with which graph.

Most get a copy of the source's graph. The builder of an edited model announces beforehand which
graphs it builds itself (`Copier.await_graph`), and provides each when `Copier.advance` returns
its function (`Copier.give_graph`).
"""

from collections import deque
from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet.copying.handlers import Registry
from ramet.copying.keras_calls import copy_bare_tensor
from ramet.copying.keras_layers import make_shell

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()


class Graphs:
    """The models with a graph that a copier has met."""

    def __init__(self) -> None:
        """Start without models."""
        self.waiting: deque[Any] = deque()
        """Functions with a shell that has no graph yet."""
        self.late: deque[Any] = deque()
        """Functions that start in the middle of another graph, and are filled after it."""
        self.copied: list[Any] = []
        """New functions with a copy of the source's graph."""
        self.awaited: set[int] = set()
        """Ids of the functions whose graphs are built elsewhere."""
        self.asked: set[int] = set()
        """Ids of those among them that `advance` has returned."""
        self.ends: dict[int, tuple[Any, Any]] = {}
        """Inputs and outputs of graphs that were built elsewhere, by the ids of functions."""
        self.built_elsewhere: list[Any] = []
        """New functions with such a graph, which is not mapped yet."""


@copies(keras.Function)
def copy_function_shell(copier: "Copier", function: Any) -> Any:
    """Create the shell of a function, which gets its graph later."""
    shell = make_shell(copier, function)
    copier.graphs.waiting.append(function)
    return shell


def set_graph(copier: "Copier", function: Any) -> bool:
    """Queue the shell of a function, with a graph built elsewhere or a copy.

    Returns:
        Whether it has a graph; if not, its graph is built elsewhere and not provided yet.
    """
    graphs, key = copier.graphs, id(function)
    if key in graphs.ends:
        twin = copier.memo[key]
        internals.set_structures(twin, *graphs.ends[key])
        graphs.built_elsewhere.append(twin)
        copier.shells.waiting.append(function)
    elif key in graphs.awaited:
        graphs.asked.add(key)
        return False
    else:
        graphs.copied.append(copier.memo[key])
        # The tensors that it starts from may still be copied with another graph.
        late = internals.starts_inside(function)
        (graphs.late if late else copier.shells.waiting).append(function)
    return True


def start_late_graph(copier: "Copier") -> None:
    """Queue the next function that starts in the middle of another graph."""
    function = copier.graphs.late.popleft()
    for tensor in internals.starts_inside(function):
        if id(tensor) not in copier.memo:
            copy_bare_tensor(copier, tensor)
    copier.shells.waiting.append(function)

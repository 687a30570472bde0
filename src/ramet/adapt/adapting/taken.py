"""The adapters that a graph has, and names for new ones."""

import re
from typing import Any

from ramet._arguments import did_you_mean, shown
from ramet.adapt.adapting.steps import Add, Drop
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer
from ramet.graph.names import listed
from ramet.graph.paths import layer_paths
from ramet.layers import Adapted, Entry

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def entries_of(record: Layer) -> tuple[Entry, ...]:
    """Return the adapters that a layer of a graph will have when it is built."""
    entries = record.origin.adapters.entries if isinstance(record.origin, Adapted) else ()
    for step in record.steps:
        if isinstance(step, Drop):
            entries = ()
        elif isinstance(step, Add):
            entries = (*entries, step.entry)
    return entries


def adapted_layers(graph: Graph) -> dict[tuple[int, int], tuple[str, Layer, tuple[Entry, ...]]]:
    """Return the layers of a graph that have adapters, each once, with their paths."""
    layers: dict[tuple[int, int], tuple[str, Layer, tuple[Entry, ...]]] = {}
    for path, record in layer_paths(graph):
        entries = entries_of(record)
        if entries:
            layers.setdefault(record.identity, (path, record, entries))
    return layers


def names_in(graph: Graph) -> list[str]:
    """List the names of the adapters that a graph has."""
    entries = (entry for *_, layer in adapted_layers(graph).values() for entry in layer)
    return [*dict.fromkeys(entry.name for entry in entries)]


def check_adapter_name(name: Any) -> None:
    """Check that something can be the name of an adapter.

    Raises:
        OptionError: If it cannot.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        message = f"the name of an adapter is made of letters, digits, - and _, got {shown(name)}"
        raise OptionError(message)


def check_new_name(graph: Graph, name: Any) -> None:
    """Check that a graph has no adapter of a name.

    Raises:
        GraphError: If it has.
    """
    check_adapter_name(name)
    if name in names_in(graph):
        message = (
            f"graph '{graph.name}' already has an adapter '{name}'; choose another name, or remove "
            "all adapters first, with ramet.adapt.remove"
        )
        raise GraphError(message)


def check_known(where: str, known: list[str], names: list[str]) -> None:
    """Check that a graph or model has adapters of some names.

    Raises:
        GraphError: If it has not.
    """
    for name in names:
        if name not in known:
            has = f"it has: {listed(known)}" if known else "add one with ramet.adapt.lora"
            near = did_you_mean(name, known)
            raise GraphError(f"{where} has no adapter '{name}'{near or f'; {has}'}")

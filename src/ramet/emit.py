"""`emit`: a model as Python source that makes it again."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras

from ramet.bridge.source.module import NAMER, Module
from ramet.bridge.trace import is_edited, live_of, trace
from ramet.graph.names import counted


class Source(str):
    """The source of a model, and what has to be given to it.

    `build_model(**source.parameters)` makes the model again.
    """

    __slots__ = ("_parameters",)

    _parameters: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What has no source, by the names under which `build_model` takes it."""
        return self._parameters


def emit(model: Any) -> Source:
    """Writes a model as Python source in Keras's functional style.

    The source defines `build_model()`, which makes a model with the same layers, names
    and wiring, and with fresh weights. What has no source, such as a Python lambda, is
    a keyword parameter of it; `source.parameters` has the live objects.

    Args:
        model: A model that has a graph, or a Graph.

    Returns:
        The source, a string.

    Raises:
        ModelError: If it is not a model, or one that has no graph.
        SourceError: If a layer cannot be made again by any source.
    """
    graph = trace(model)
    live = live_of(graph)
    if live.model is None or is_edited(graph):
        graph = live.settled(graph)
    module = Module(graph)
    module.write()
    source = Source("\n".join(_lines(module)) + "\n")
    parameters = {one.name: one.value for one in module.values.parameters.values()}
    source._parameters = MappingProxyType(parameters)  # noqa: SLF001 a string has no other __init__
    return source


def _lines(module: Module) -> list[str]:
    graph = module.graph
    lines = [
        f"# Model {ascii(graph.name)[1:-1]}: {counted(len(graph.layers), 'layer')}, "
        f"written by ramet from Keras {keras.__version__}.",
        "# build_model() makes it with fresh weights.",
    ]
    parameters = [*module.values.parameters.values()]
    if parameters:
        lines.append("# It needs what has no source:")
        lines += [f"#   {one.name}: {ascii(one.what)[1:-1]}" for one in parameters]
    lines.append("")
    lines += ["import keras"]
    if module.values.numpy:
        lines.append("import numpy as np")
    lines += sorted(module.values.imports.values())
    if module.named_operations:
        lines += ["", "", *NAMER.rstrip().split("\n")]
    for unit in module.order:
        needs = f"*, {', '.join(unit.needs)}" if unit.needs else ""
        lines += ["", "", f"def {unit.name}({needs}):", *unit.lines]
    return lines

"""`emit`: a model as Python source that makes it again."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.internals import NAMER
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.source.check import differences
from ramet.bridge.source.module import Module
from ramet.bridge.trace import trace
from ramet.graph.names import counted


class Source(str):  # noqa: SLOT000 a string that carries more than its text
    """The source of a model, and what has to be given to it.

    `build_model(**source.parameters)` makes the model again.
    """

    _parameters: Mapping[str, Any] = MappingProxyType({})
    _differences: tuple[str, ...] = ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What has no source, by the names under which `build_model` takes it."""
        return self._parameters

    @property
    def differences(self) -> tuple[str, ...]:
        """What the model has that the source does not say, in words: attributes set later."""
        return self._differences

    @classmethod
    def of(cls, text: str, parameters: Mapping[str, Any], differences: list[str]) -> "Source":
        """Makes a source of its text and of what was found."""
        made = cls(text)
        made._parameters = MappingProxyType(dict(parameters))
        made._differences = tuple(differences)
        return made


_SHOWN = 5
"""How many differences the header shows; `Source.differences` has all."""


def emit(model: Any, *, check: bool = True) -> Source:
    """Writes a model as Python source in Keras's functional style.

    The source defines `build_model()`, which makes a model with the same layers, names
    and wiring, and with fresh weights. What has no source, such as a Python lambda, is
    a keyword parameter of it; `source.parameters` has the live objects.

    Args:
        model: A model that has a graph, or a Graph.
        check: Whether to run the source once and compare the model that it makes. That
            costs a second model, for a moment; what differs is in `source.differences`
            and in the header. Without it nothing that is written is run, which is for
            models from files of strangers; the header says that it was not checked.

    Returns:
        The source, a string.

    Raises:
        ModelError: If it is not a model, or one that has no graph.
        SourceError: If a layer cannot be made again by any source, or the source was
            checked and does not make the model's weights.
    """
    graph = trace(model)
    live = live_of(graph)
    if live.model is None or is_edited(graph):
        graph = live.settled(graph)
    module = Module(graph)
    with internals.room_for(graph), internals.deep_recursion(len(graph.calls)):
        module.write()
        parameters = {str(one.name): one.value for one in module.values.parameters.values()}
        body = _body(module)
        text = "\n".join(body)
        found = differences(text, parameters, live_of(graph).model) if check else []
    header = _header(module, found, checked=check)
    return Source.of("\n".join([*header, *body, ""]), parameters, found)


def _header(module: Module, found: list[str], *, checked: bool) -> list[str]:
    graph = module.graph
    layers = counted(len(graph.layers), "layer")
    lines = [
        f"# Model {graph.name!a}: {layers}, from Keras {keras.__version__}.",
        "# build_model() makes it with fresh weights.",
    ]
    if not checked:
        lines.append("# It was not checked: nobody ran this source to compare its model.")
    parameters = [*module.values.parameters.values()]
    if parameters:
        lines.append("# It needs what has no source:")
        lines += [f"#   {one.name}: {ascii(one.what)[1:-1]}" for one in parameters]
    if found:
        lines.append("# What the source does not say:")
        lines += [f"#   {ascii(one)[1:-1]}" for one in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(f"#   and {len(found) - _SHOWN} more")
    return [*lines, ""]


def _body(module: Module) -> list[str]:
    lines = ["import keras"]
    if module.values.numpy:
        lines.append("import numpy as np")
    lines += sorted(module.values.imports.values())
    if module.named_operations:
        lines += ["", "", *NAMER.rstrip().split("\n")]
    for unit in module.order:
        needs = f"*, {', '.join(unit.needs)}" if unit.needs else ""
        lines += ["", "", f"def {unit.name}({needs}):", *unit.lines]
    return lines

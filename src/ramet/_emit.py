"""`emit`: a model as Python source that re-creates it."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import keras

from ramet import keras_internals as internals
from ramet._arguments import check_flag, check_word
from ramet.errors import SourceError
from ramet.graph.names import counted
from ramet.graph.reach import written_layers
from ramet.results.source import Source
from ramet.source.check import differences
from ramet.source.counting import Plan, planned
from ramet.source.lines import laid_out
from ramet.source.module import Module
from ramet.tracing.failures import explained
from ramet.tracing.settled import settled

NAMES: Final = ("given", "exact")
"""Which names a source can write."""

_SHOWN = 5
"""How many differences the header shows; `Source.differences` has all."""


def emit(model: Any, *, names: Literal["given", "exact"] = "given", check: bool = True) -> Source:
    """Write a model as Python source in Keras's functional style.

    The source defines `build_model()`, which returns a model with the same layers, names
    and connections, and with fresh weights. Objects without source, such as a lambda, become
    keyword parameters of it; `source.parameters` holds the live objects.

    Args:
        model: A model that has a graph, or a Graph.
        names: With `"given"`, layers keep the names that the user chose. Automatic names
            such as `dense_1` are left out where Keras counts to the same ones in a fresh
            session; operations are always named by Keras. With `"exact"`, every name is
            written, and a helper function, which uses private attributes of Keras, renames
            operations.
        check: Whether to run the source once and compare the model that it builds. This
            briefly takes the memory of a second model; differences are listed in
            `source.differences` and in the header. Pass `False` for models from untrusted
            files: no source is run then, and the header says that it was not checked.

    Returns:
        The source, a string.

    Raises:
        ModelError: If the argument is not a model, or has no graph.
        OptionError: If `names` is neither `"given"` nor `"exact"`.
        SourceError: If a layer cannot be written as source, a layer has the name that Keras
            gives to an operation (`names="exact"` allows that), or the source was checked
            and creates other weights than the model has.

    Examples:
        >>> source = ramet.emit(model)
        >>> "def build_model()" in source
        True
        >>> source.ok  # nothing is missing from it
        True
    """
    check_word(names, "names", NAMES)
    check_flag(check, "check")
    graph = settled(model)
    exact = names == "exact"
    module = Module(graph, exact=exact)
    with explained(graph), internals.room_for(graph), internals.deep_recursion(len(graph.calls)):
        module.write()
        parameters = {str(one.name): one.value for one in module.values.parameters.values()}
        plan = Plan() if exact else planned(module.layers.uses, module.pinned)
        body, missing = _body(module, plan), plan.notes
        if check:
            plan, body, missing = _checked(module, plan, parameters)
    header = _header(module, plan, missing, checked=check)
    return Source.of("\n".join([*header, *body, ""]), parameters, missing)


def _checked(
    module: Module, plan: Plan, parameters: Mapping[str, Any]
) -> tuple[Plan, list[str], list[str]]:
    """Run the source; write the names that are left out after all if Keras counts to others.

    Returns:
        Which names are left out, the source, and what it does not say.
    """

    def run(plan: Plan) -> list[str]:
        return differences(module, "\n".join(_body(module, plan)), parameters, plan)

    missing = run(plan)
    if plan.left_out and missing:
        with contextlib.suppress(SourceError):  # a written name can be one that Keras counts to
            fewer = run(Plan())
            if len(fewer) < len(missing):
                plan, missing = Plan(), fewer
    return plan, _body(module, plan), [*plan.notes, *missing]


def _header(module: Module, plan: Plan, missing: list[str], *, checked: bool) -> list[str]:
    graph = module.graph
    layers = counted(len(written_layers(graph)), "layer")
    lines = [
        f"# Model {graph.name!a}: {layers}, from Keras {keras.__version__}.",
        "# build_model() returns it with fresh weights.",
    ]
    if plan.left_out:
        lines.append("# Names that are left out are automatic ones, as in a fresh session.")
    if not checked:
        lines.append("# It was not checked: this source was not run.")
    parameters = [*module.values.parameters.values()]
    if parameters:
        lines.append("# Its parameters are objects without source:")
        lines += [f"#   {one.name}: {_plain(one.what)}" for one in parameters]
    if missing:
        lines.append("# What the source does not say:")
        lines += [f"#   {_plain(line)}" for line in missing[:_SHOWN]]
        if len(missing) > _SHOWN:
            lines.append(f"#   and {len(missing) - _SHOWN} more")
    return [*lines, ""]


def _plain(text: str) -> str:
    """Return a text for a comment: on one line, and in ASCII."""
    return "".join(c if c.isascii() and c.isprintable() else ascii(c)[1:-1] for c in text)


def _body(module: Module, plan: Plan) -> list[str]:
    code: list[str] = []
    if module.named_operations:
        code += ["", "", *internals.NAMER.rstrip().split("\n")]
    for unit in module.order:
        needs = f"*, {', '.join(unit.needs)}" if unit.needs else ""
        code += ["", "", f"def {unit.name}({needs}):", *laid_out(unit.lines, plan.left_out)]
    imports = ["import keras"] if any("keras." in line for line in code) else []
    if module.values.numpy:
        imports.append("import numpy as np")
    return [*imports, *sorted(module.values.imports.values()), *code]

"""`save` and `load`: adapters in files of their own, without the base."""

import dataclasses
import random
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import keras

from ramet._arguments import check_flag, check_mapping, check_word, checked_path, shown
from ramet.adapt.adapting.freezing import Flags, Identity
from ramet.adapt.adapting.places import Place, check_supported, places_of
from ramet.adapt.adapting.steps import Add, PutRoles, put_on
from ramet.adapt.adapting.taken import adapted_layers, check_known, check_new_name, names_in
from ramet.adapt.storing import peft
from ramet.adapt.storing.contents import Contents, Part, digest, packed, unpacked
from ramet.building.weights.roles import roles_of
from ramet.errors import FileError, GraphError, OptionError
from ramet.files import check_target
from ramet.files.save import save_content
from ramet.graph import Graph
from ramet.graph.data import Step
from ramet.graph.names import counted, listed
from ramet.graph.paths import layer_paths
from ramet.layers import Adapted, Target, kernel_at
from ramet.tracing.trace import trace

Format: TypeAlias = Literal["ramet", "peft"]
"""`ramet`: one file with all that an adapter is. `peft`: a folder as PEFT writes and reads it."""

_SUFFIXES = (".safetensors",)


def save(
    model: Any,
    path: str | Path,
    name: str | None = None,
    *,
    format: Format = "ramet",  # noqa: A002 the word that users expect
    force: bool = False,
) -> None:
    """Save an adapter, and other trained layers, to a file without the base.

    Args:
        model: A model with adapters.
        path: The `.safetensors` file; for PEFT's format a folder, which is created.
        name: Which adapter; not needed if there is only one.
        format: `"ramet"`, or `"peft"` for adapter_model.safetensors and adapter_config.json with
            the names and layouts of PEFT.
        force: Whether to overwrite.

    Raises:
        FileError: If the file exists, or cannot be written.
        GraphError: If there is no such adapter, or PEFT cannot represent it.

    Examples:
        >>> adapted = ramet.adapt.lora(model, "head", rank=2, name="fr").build()
        >>> ramet.adapt.save(adapted, "fr.safetensors")
        >>> again = ramet.adapt.load(model, "fr.safetensors").build()
    """
    target = checked_path(path, "path")
    check_word(format, "format", ("ramet", "peft"))
    check_flag(force, "force")
    graph = trace(model)
    contents = _contents_of(graph, _name_in(graph, name))
    if format == "ramet":
        check_target(target, suffixes=_SUFFIXES, force=force)
        save_content(packed(contents), target, force=force)
        return
    kernels = {place.full(kernel): kernel for place in places_of(graph) for kernel in place.kernels}
    weights, config = peft.packed(contents, kernels)
    _make_folder(target)
    for file in (peft.WEIGHTS, peft.CONFIG):
        check_target(target / file, force=force)
    for file, content in ((peft.WEIGHTS, weights), (peft.CONFIG, config)):
        save_content(content, target / file, force=force)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"'{path}' cannot be a folder: {error.strerror}") from error


def _name_in(graph: Graph, name: str | None) -> str:
    known = names_in(graph)
    where = f"graph '{graph.name}'"
    if name is None:
        if len(known) > 1:
            message = f"{where} has several adapters: {listed(known)}; name one of them"
            raise GraphError(message)
        check_known(where, known, known or ["default"])
        return known[0]
    if not isinstance(cast("Any", name), str):
        raise OptionError(f"an adapter is named by a string, got {shown(name)}")
    check_known(where, known, [name])
    return name


def _contents_of(graph: Graph, name: str) -> Contents:
    """Return an adapter of a graph that is not edited."""
    parts: list[Part] = []
    for path, record, _ in adapted_layers(graph).values():
        if record.steps or not isinstance(record.origin, Adapted):
            message = (
                f"the adapters of graph '{graph.name}' are not built; build it, and pass the model"
            )
            raise GraphError(message)
        layer: Any = record.origin
        entry = layer.adapters.entry(name)
        if entry is not None:
            values = {
                variable.name.removeprefix(f"{name}_"): keras.ops.convert_to_numpy(variable)
                for variable in layer.adapters.of(entry)
            }
            found = [kernel_at(layer, target.held, target.variable) for target in entry.targets]
            digests = tuple(digest(each[1]) for each in found if each is not None)
            parts.append(Part(path, entry, values, digests))
    return Contents(name, tuple(parts), _besides(graph))


def _besides(graph: Graph) -> dict[str, dict[str, Any]]:
    """Return the values of what trains beside adapters."""
    besides: dict[str, dict[str, Any]] = {}
    for path, record in layer_paths(graph):
        if not isinstance(record.origin, keras.Layer) or record.graph is not None:
            continue
        values = {
            "/".join(role): keras.ops.convert_to_numpy(variable)
            for role, variable in roles_of(record.origin).items()
            if variable.trainable and role[0] != "adapters"
        }
        if values:
            besides[path] = values
    return besides


def load(
    model: Any,
    path: str | Path,
    name: str | None = None,
    *,
    check: bool = True,
    names: peft.Names = None,
) -> Graph:
    """Add an adapter from a file, restore what was trained besides it, and freeze everything else.

    Args:
        model: The base: a model or graph. Adapters that it already has are switched off.
        path: A `.safetensors` file that `save` wrote, or a folder that PEFT or `save` wrote.
        name: A name for the adapter; the one in the file by default.
        check: Whether the kernels must be those that the adapter was trained on, bit for bit.
            PEFT's files do not record which those were.
        names: For PEFT's files, a dict or function from names of modules to paths of layers.

    Raises:
        FileError: If the file cannot be read, or is broken or hostile.
        GraphError: If the adapter belongs to another base.

    Examples:
        >>> adapted = ramet.adapt.lora(model, "head", rank=2, name="fr").build()
        >>> ramet.adapt.save(adapted, "fr", format="peft")
        >>> again = ramet.adapt.load(model, "fr", name="fr").build()
    """
    source = checked_path(path, "path")
    check_flag(check, "check")
    if names is not None and not callable(names):
        check_mapping(names, "names", "paths by PEFT's names of modules")
    graph = trace(model)
    places = places_of(graph)
    by_path = {place.path: place for place in places}
    is_folder = _is_folder(source)
    contents = peft.unpacked(source, places, names) if is_folder else unpacked(source)
    name = contents.name if name is None else name
    check_new_name(graph, name)
    besides = _layers_besides(graph, source, contents)
    steps: dict[Identity, tuple[Step, ...]] = {}
    adapted: set[Identity] = set()
    ranks: dict[str, int] = {}
    start = random.randrange(1 << 31)  # noqa: S311 no secret
    for part in contents.parts:
        place = _place_of(graph, source, part, by_path)
        entry = dataclasses.replace(part.entry, name=name, targets=_targets(source, part, place))
        if check:
            _check_base(source, part, entry.targets, place)
        ranks |= {f"{place.path}/{target.path}": target.rank for target in entry.targets}
        identity = place.record.identity
        adapted.add(identity)
        entry = dataclasses.replace(entry, trains=True, froze=(), thawed=())
        trains_base = identity in besides
        seed = start, len(steps)
        steps[identity] = (Add(entry, seed=seed, values=part.values, trains_base=trains_base),)
    check_supported(places, ranks, contents.parts[0].entry.variant if contents.parts else "lora")
    flags = Flags.of(graph, adapted, {*besides})
    _note_flags(steps, flags)
    for identity, values in besides.items():
        steps[identity] = (*steps.get(identity, ()), PutRoles(values))
    size = counted(len(adapted), "layer")
    text = f"load adapter '{name}' from {source.name} for {size}{flags.text}"
    return put_on(graph, steps, flags, text, "changed")


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name cannot be one of a file"
        raise FileError(f"'{path.name!a}' cannot be read: {reason}") from error


def _note_flags(steps: dict[Identity, tuple[Step, ...]], flags: Flags) -> None:
    """Let the first layer of an adapter know what was frozen for it."""
    for identity, (step, *_) in steps.items():
        if isinstance(step, Add):
            entry = dataclasses.replace(step.entry, froze=flags.froze, thawed=flags.thawed)
            steps[identity] = (dataclasses.replace(step, entry=entry),)
            return


def _place_of(graph: Graph, source: Path, part: Part, places: Mapping[str, Place]) -> Place:
    place = places.get(part.path)
    if place is None:
        message = (
            f"'{source}' has an adapter of layer '{part.path}', but graph '{graph.name}' has no "
            f"such layer with kernels; it has: {listed([*places], 6)}"
        )
        raise GraphError(message)
    return place


def _targets(source: Path, part: Part, place: Place) -> tuple[Target, ...]:
    """Return the kernels of a place that the adapter in a file is for."""
    kernels = {kernel.path: kernel for kernel in place.kernels}
    targets: list[Target] = []
    by_attribute = {(each.held, each.variable.name): each for each in place.kernels}
    for target in part.entry.targets:
        # Keras counts the names that a user's layer leaves out: there, the attribute is the same.
        kernel = kernels.get(target.path) or by_attribute.get((target.held, target.variable))
        if kernel is None or (kernel.shape, kernel.outs) != (target.shape, target.outs):
            has = "is not there" if kernel is None else f"has the shape {kernel.shape}"
            message = (
                f"'{source}' has an adapter of the kernel '{part.path}/{target.path}' of shape "
                f"{target.shape}, which {has}; it was trained for another base"
            )
            raise GraphError(message)
        held, variable = kernel.held, kernel.variable.name
        targets.append(dataclasses.replace(target, path=kernel.path, held=held, variable=variable))
    return tuple(targets)


def _check_base(source: Path, part: Part, targets: tuple[Target, ...], place: Place) -> None:
    kernels = {kernel.path: kernel for kernel in place.kernels}
    for target, known in zip(targets, part.digests, strict=False):
        if digest(kernels[target.path].variable) != known:
            message = (
                f"'{source}' was trained on another base: the kernel '{place.path}/{target.path}' "
                "has other values; pass check=False to use it all the same"
            )
            raise GraphError(message)


def _layers_besides(graph: Graph, source: Path, contents: Contents) -> dict[Identity, Any]:
    """Return the values of what trained besides, by layer."""
    besides: dict[Identity, Any] = {}
    records = dict(layer_paths(graph))
    for path, values in contents.besides.items():
        record = records.get(path)
        origin = None if record is None else record.origin
        roles = roles_of(origin) if isinstance(origin, keras.Layer) else {}
        shapes = {"/".join(role): tuple(each.shape) for role, each in roles.items()}
        for role, value in values.items():
            if record is None or shapes.get(role) != value.shape:
                message = (
                    f"'{source}' has values for '{path}/{role}' of shape {value.shape}, which "
                    f"graph '{graph.name}' does not have; it was trained for another base"
                )
                raise GraphError(message)
        if record is not None:
            besides[record.identity] = values
    return besides

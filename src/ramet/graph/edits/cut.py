"""Parts of a graph: other inputs, other outputs, and the masks of tensors at a cut."""

import dataclasses
from collections.abc import Container
from typing import TYPE_CHECKING, Any, cast

from ramet._arguments import check_depth, check_mapping, check_name
from ramet._words import Promise, weakest
from ramet.errors import GraphError, OptionError
from ramet.graph.data import Call, Edit, Layer, Ref, Spec
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.inline import Taps, flatten
from ramet.graph.edits.resolve import promised
from ramet.graph.journal import with_entry
from ramet.graph.locate import check_place, find_ref
from ramet.graph.names import did_you_mean, listed, shown, unique_name
from ramet.graph.reach import pruned, unsettled_calls
from ramet.graph.stages import Stage
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def extract(graph: "Graph", inputs: Tree, outputs: Tree, *, by_name: bool = False) -> "Graph":
    """Cut out the calls between some tensors and some others.

    A tensor that carries a mask becomes two inputs, the second one for the mask; then, or
    with `by_name`, the inputs are a dict.
    """
    shown = {"inputs": inputs, "outputs": outputs}
    text = ", ".join(f"{k}={_names(v)}" for k, v in shown.items() if v is not None)
    _check_starts(inputs)
    original = graph
    promise = _promise_of_part(graph, is_cut=inputs is not None)
    taps = Taps(graph)
    inputs, outputs = taps.refs(inputs, outputs)
    graph, inputs, outputs = _settled_at(taps.graph, inputs, outputs)
    ends = graph.outputs if outputs is None else outputs
    if not any(True for _ in leaves(ends)):
        message = f"no outputs are named for a part of graph '{graph.name}'; name at least one"
        raise GraphError(message)
    edit = Edit(f"extract {text or 'everything'}", promise=promise)
    draft = Draft(graph, edit)
    draft.outputs = ends
    starts: dict[Ref, Ref] = {}
    if inputs is not None:
        starts = _cut(graph, draft, inputs, by_name=by_name)
    part = pruned(dataclasses.replace(draft.done(), origin=graph.live_origin().part()))
    if inputs is None:
        part = _with_needed_inputs(part)
        starts = {ref: ref for ref in leaves(part.inputs)}
    return with_entry(part, edit, Stage(original, graph, starts, ends))


def _promise_of_part(graph: "Graph", *, is_cut: bool) -> Promise:
    """Return what a part promises: its outputs are the tensors of the whole.

    The layers above a cut draw no random numbers any more, which others would draw after them.
    """
    live = graph.live_origin()
    promise = live.promise_of_order(graph)
    if is_cut and any(map(live.trains_otherwise, graph.layers.values())):
        return weakest((promise, "inference-equal"))
    return promise


def _check_starts(inputs: Tree) -> None:
    """Check that inputs are named by a place, a list of places, or a dict of them."""
    places: list[Any] = []
    if isinstance(inputs, dict):
        named = cast("dict[str, Any]", inputs)
        check_mapping(named, "inputs", "places by the names of new inputs")
        places = [*named.values()]
    elif isinstance(inputs, (list, tuple)):
        places = [*cast("list[Any]", inputs)]
    elif inputs is None:
        return
    else:
        places = [inputs]
    for place in places or [None]:
        check_place(place)


def _settled_at(graph: "Graph", inputs: Tree, outputs: Tree) -> "tuple[Graph, Tree, Tree]":
    """Return a graph in which the specs of the tensors at a cut are known, and the tensors in it.

    After an edit, shapes and masks are inferred on build, so the graph is built, with shared
    weights, and traced. The same goes for masks from nested models, which tensors only get at
    run time; the models are inlined for that.
    """
    if inputs is None:
        return graph, inputs, outputs
    live, nested = graph.live_origin(), any(layer.graph for layer in graph.layers.values())
    unsettled = unsettled_calls(graph)
    hides_masks = nested and live.hides_masks(graph)
    if not hides_masks and not any(ref.call in unsettled for ref in leaves(inputs)):
        return graph, inputs, outputs
    ends = graph.outputs if outputs is None else outputs
    tapped = dataclasses.replace(graph, outputs=[inputs, ends])
    settled = live.settled(flatten(tapped, None) if hides_masks else tapped)
    inputs, ends = settled.outputs
    known = settled.changed(outputs=ends, journal=graph.journal)
    return known, inputs, None if outputs is None else ends


def split(graph: "Graph", at: Tree) -> "tuple[Graph, Graph]":
    """Cut a graph in two, so that the outputs of the first part are the inputs of the second."""
    taps = Taps(graph)
    if at is None or not any(True for _ in leaves(at)):
        message = f"no tensor is named to split graph '{graph.name}' at; name at least one"
        raise GraphError(message)
    (at,) = taps.refs(at)
    graph, at, _ = _settled_at(taps.graph, at, None)
    refs = cast("list[Ref]", list(leaves(at)))
    tail = extract(graph, at, None, by_name=len(refs) > 1)
    specs = [graph.calls[ref.call].outputs[ref.index] for ref in refs]
    masks: list[Ref] = [spec.mask for spec in specs if isinstance(spec.mask, Ref)]
    tensors = [*refs, *masks]
    if len(tensors) == 1:
        return extract(graph, None, tensors[0]), tail
    names = [ref.call for ref in leaves(tail.inputs)]
    return extract(graph, None, dict(zip(names, tensors, strict=True))), tail


def _cut(graph: "Graph", draft: Draft, inputs: Tree, *, by_name: bool) -> dict[Ref, Ref]:
    """Replace tensors, and the masks that they carry, by new inputs.

    The calls before them are removed, with their derived masks: Keras derives them again from
    the masks of the new inputs.

    Returns:
        The tensors by the new inputs.
    """
    starts = map_tree(lambda name: find_ref(graph, name), inputs)
    keys = _keys(starts)
    specs = [graph.calls[ref.call].outputs[ref.index] for ref in keys]
    masked = {spec.mask for spec in specs if isinstance(spec.mask, Ref)}
    below = _calls_below(graph, draft.outputs, keys.keys() | masked)
    taken = {layer for name in below if (layer := graph.calls[name].layer) is not None}
    mapping: dict[Ref, Ref] = {}
    sources: dict[Ref, Ref] = {}
    masks: list[Ref] = []
    new: list[tuple[Layer, Call]] = []
    for ref, key in keys.items():
        if _is_input(graph, graph.calls[ref.call]):
            mapping[ref] = sources[ref] = ref
            continue
        if key in taken:
            message = (
                f"the part of graph '{graph.name}' already has a layer '{key}', so an input cannot "
                "have that name; choose another key"
            )
            raise GraphError(message)
        name, mask = _free_name(key or _input_name(graph, ref), taken), None
        spec = graph.calls[ref.call].outputs[ref.index]
        if isinstance(spec.mask, Ref):
            of_mask = graph.calls[spec.mask.call].outputs[spec.mask.index]
            mask = Ref(_free_name(f"{name}_mask", taken))
            new.append(_new_input(graph, of_mask, mask.call, optional=True))
            mapping.setdefault(spec.mask, mask)
            sources[mask] = spec.mask
            masks.append(mask)
        new.append(_new_input(graph, spec, name, mask=mask))
        mapping[ref] = Ref(name)
        sources[Ref(name)] = ref
    draft.redirect({old: ref for old, ref in mapping.items() if old != ref})
    draft.forget(draft.calls.keys() - below)
    for layer, call in new:
        draft.layers[call.name] = dataclasses.replace(layer, edit=draft.edit)
        draft.add_call(call, after=None)
    tree = map_tree(mapping.__getitem__, starts)
    if (masks or by_name) and not isinstance(tree, dict):
        # By name: Keras sorts a dict of inputs by key, and so do the masks that they carry.
        tree = {ref.call: ref for ref in leaves(tree)}
    draft.inputs = tree
    if masks:
        draft.inputs = cast("dict[str, Any]", tree) | {mask.call: mask for mask in masks}
    return sources


def _keys(starts: Tree) -> dict[Ref, str | None]:
    """Return the tensors to start from, with their keys if they are in a dict."""
    if isinstance(starts, dict):
        return {ref: key for key, ref in cast("dict[str, Ref]", starts).items()}
    return dict.fromkeys(leaves(starts))


def _input_name(graph: "Graph", ref: Ref) -> str:
    several = len(graph.calls[ref.call].outputs) > 1
    return (f"{ref.call}_{ref.index}" if several else ref.call).replace("#", "_")


def _calls_below(graph: "Graph", outputs: Tree, starts: Container[Ref]) -> set[str]:
    """Return the names of the calls between some tensors and the outputs.

    Raises:
        GraphError: If an output depends on another input of the model.
    """
    waiting = [(ref, ref) for ref in leaves(outputs)]
    met: set[str] = set()
    while waiting:
        ref, output = waiting.pop()
        call = graph.calls[ref.call]
        if ref in starts:
            if _is_input(graph, call):
                met.add(call.name)
        elif call.name not in met:
            if _is_input(graph, call):
                message = (
                    f"'{output.call}' of graph '{graph.name}' still depends on input "
                    f"'{call.name}'; name that or a tensor in between among the inputs"
                )
                raise GraphError(message)
            met.add(call.name)
            waiting += [(above, output) for above in call.written_refs]
    return met


def _free_name(name: str, taken: set[str]) -> str:
    free = name if name not in taken else unique_name(f"{name}_input", taken).replace("#", "_")
    taken.add(free)
    return free


def _new_input(
    graph: "Graph", spec: Spec, name: str, *, optional: bool = False, mask: Ref | None = None
) -> tuple[Layer, Call]:
    # Keras marks the product of a tensor and a number as sparse.
    starts = cast("list[Ref]", list(leaves(graph.inputs)))
    sparse = spec.sparse and any(graph.calls[ref.call].outputs[0].sparse for ref in starts)
    options = {"name": name, "optional": optional, "sparse": sparse}
    layer, call = graph.live_origin().input(None, spec, options)
    specs = (dataclasses.replace(call.outputs[0], mask=mask),)
    return layer, dataclasses.replace(call, outputs=specs)


def add_output(graph: "Graph", place: "str | Ref", name: str | None) -> "Graph":
    """Add a tensor to the outputs."""
    check_place(place)
    if name is not None:
        check_name(name, "the name of an output")
    taps = Taps(graph)
    ref = cast("Ref", taps.refs(place)[0])
    graph = taps.graph
    label = place if isinstance(place, str) else place.call
    promise = promised(graph, lambda live: live.promise_of_order(graph))
    edit = Edit(f"add output '{label}'", promise=promise)
    before: Any = graph.outputs
    if name is not None and not isinstance(before, dict):
        message = f"the outputs of graph '{graph.name}' are not a dict, so none can have a name"
        raise OptionError(message)
    outputs: Tree = [before, ref]
    if isinstance(before, dict):
        key, known = name or ref.call, cast("dict[str, Any]", before)
        if key in known:
            message = f"graph '{graph.name}' already has an output '{key}'; choose another name"
            raise GraphError(message)
        outputs = {**known, key: ref}
    elif isinstance(before, (list, tuple)):
        outputs = [*cast("list[Any]", before), ref]
    return with_entry(dataclasses.replace(graph, outputs=outputs), edit)


def prune_unused(graph: "Graph") -> "Graph":
    """Remove calls that no output depends on."""
    kept = pruned(graph)
    gone = [name for name in graph.calls if name not in kept.calls]
    lines = [f"prune {name}" for name in gone]
    edit = Edit.of_many(f"prune {listed(gone) or 'nothing'}", lines, "exact")
    return with_entry(kept, edit)


def with_inputs(graph: "Graph", inputs: Any, options: dict[str, Any]) -> "Graph":
    """Replace inputs of a model."""
    for name, value in options.items():
        check_depth(value, f"{name} of an input")
    new = _inputs_by_name(graph, inputs, options)
    records = {name: _input_record(graph, name, tensor, options) for name, tensor in new.items()}
    edit = Edit(
        f"with inputs {', '.join(new) if inputs is not None else _options(options)}",
        promise=_promise_of_inputs(graph, {name: call for name, (_, call) in records.items()}),
    )
    draft = Draft(graph, edit)
    mapping = {Ref(name): _add_input(graph, draft, name, *records[name]) for name in new}
    draft.redirect(mapping)
    draft.inputs = map_tree(lambda ref: mapping.get(ref, ref), draft.inputs)
    draft.forget(set(new))
    labels = {ref.call: ref.call.removesuffix(_NEW) for ref in mapping.values()}
    for key, label in labels.items():
        draft.layers.pop(label, None)
        draft.layers[label] = draft.layers.pop(key)
        draft.change_call(key, layer=label)
    draft.rename_calls(labels)
    return with_entry(draft.done(), edit)


def _inputs_by_name(graph: "Graph", inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the new inputs by the names of the old ones; `None` for one by options."""
    names = [ref.call for ref in leaves(graph.inputs)]
    if inputs is not None and options:
        message = f"pass either inputs or {', '.join(options)}, not both"
        raise OptionError(message)
    if isinstance(inputs, dict):
        check_mapping(cast("Any", inputs), "inputs", "new inputs by the names of old ones")
        new = cast("dict[str, Any]", inputs)
        for name in new:
            if name not in names:
                message = (
                    f"graph '{graph.name}' has no input '{name}'{did_you_mean(name, names)}; it "
                    f"has: {', '.join(names)}"
                )
                raise GraphError(message)
        return new
    if inputs is None and not options:
        message = (
            "say what is new: with_inputs(shape=...), or with_inputs({name: keras.Input(...)})"
        )
        raise OptionError(message)
    if len(names) != 1:
        message = (
            f"graph '{graph.name}' has {len(names)} inputs; name those that change: "
            f"with_inputs({{'{names[0]}': keras.Input(...)}})"
        )
        raise GraphError(message)
    return {names[0]: inputs}


_NEW = "#new"
"""Suffix of a new input's name while the old input is still there."""


def _input_record(
    graph: "Graph", name: str, tensor: Any, options: dict[str, Any]
) -> tuple[Layer, Call]:
    """Return the records of a new input.

    Args:
        graph: The graph.
        name: The name of the old input.
        tensor: The new symbolic input, or `None` for one like the old.
        options: What differs from the old one.
    """
    spec = graph.calls[name].outputs[0]
    key = graph.calls[name].layer
    optional = key is not None and graph.layers[key].facts.optional
    return graph.live_origin().input(tensor, spec, {"optional": optional, **options})


def _promise_of_inputs(graph: "Graph", new: dict[str, Call]) -> Promise:
    """Return what other inputs promise of data that both the old and the new ones accept."""
    for name, call in new.items():
        old, spec = graph.calls[name].outputs[0], call.outputs[0]
        kinds = [(s.dtype, s.sparse, s.ragged, len(s.shape)) for s in (old, spec)]
        sizes = [*zip(old.shape, spec.shape, strict=False)]
        is_same_batch = not sizes or sizes[0][0] == sizes[0][1]
        fits = all(a is None or b is None or a == b for a, b in sizes)
        if kinds[0] != kinds[1] or not fits:
            return "changed"
        if not is_same_batch and graph.live_origin().keeps_state(graph):
            return "changed"  # The state has the size of a batch.
    return "changed" if graph.live_origin().has_own_call(graph) else "exact"


def _add_input(graph: "Graph", draft: Draft, name: str, layer: Layer, call: Call) -> Ref:
    """Add a new input to a draft, beside the old one, and return its tensor."""
    is_unnamed = layer.name.startswith(("keras_tensor", "input_layer"))
    label = name if is_unnamed else layer.name
    if label in (draft.calls.keys() | draft.layers.keys()) - {name}:
        message = f"graph '{graph.name}' already has a layer '{label}'; rename the new input"
        raise GraphError(message)
    specs = tuple(dataclasses.replace(s, name=label) for s in call.outputs)
    new = f"{label}{_NEW}"
    draft.layers[new] = dataclasses.replace(layer, name=label, edit=draft.edit)
    draft.add_call(dataclasses.replace(call, name=new, layer=new, outputs=specs), after=None)
    return Ref(new)


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={shown(value)}" for key, value in options.items())


def _with_needed_inputs(part: "Graph") -> "Graph":
    """Remove inputs that the outputs do not depend on, if there are others."""
    kept = {ref for call in part.calls.values() for ref in call.refs} | set(leaves(part.outputs))
    if not any(ref in kept for ref in leaves(part.inputs)):
        return part
    inputs = _filtered(part.inputs, kept)
    return pruned(dataclasses.replace(part, inputs=inputs))


def _filtered(tree: Tree, kept: set[Ref]) -> Tree:
    if isinstance(tree, Ref):
        return tree
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree)
        return {k: _filtered(v, kept) for k, v in items.items() if _has_any(v, kept)}
    values = [_filtered(v, kept) for v in cast("list[Any]", tree) if _has_any(v, kept)]
    return values if isinstance(tree, list) else tuple(values)


def _has_any(tree: Tree, kept: set[Ref]) -> bool:
    return any(ref in kept for ref in leaves(tree))


def _is_input(graph: "Graph", call: Call) -> bool:
    return call.layer is None or graph.layers[call.layer].is_input


def _names(tree: Tree) -> str:
    def name(leaf: Any) -> str:
        return leaf.call if isinstance(leaf, Ref) else leaf

    return shown(map_tree(name, tree))

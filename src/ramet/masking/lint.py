"""What is wrong with the masks of a graph, and how to fix it."""

from collections.abc import Iterator, Sequence

import keras

from ramet.backends import is_of_keras
from ramet.masking import behavior
from ramet.masking.baked import stale_maker
from ramet.masking.data import Event, Shape, fits
from ramet.masking.flow import Flow
from ramet.masking.losses import Unmasked
from ramet.results.masks import Finding


def findings(flow: Flow, unmasked: Sequence[Unmasked] = ()) -> Iterator[Finding]:
    """Yield what is wrong with the masks of a graph.

    Args:
        flow: The masks of the graph.
        unmasked: Outputs that losses and metrics get without their masks.
    """
    named: set[str] = set()
    for finding in (
        *_dropped(flow),
        *_unmasked(flow, unmasked),
        *_unfilled(flow),
        *_mismatched(flow),
        *_passed(flow),
    ):
        named.update(finding.layers)
        yield finding
    yield from _unused(flow, named)


def _dropped(flow: Flow) -> Iterator[Finding]:
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for event in flow.events:
        if event.kind == "wanted" and event.at is not None:
            readers = groups.setdefault((event.mask.sources, event.at), [])
            if event.path not in readers:
                readers.append(event.path)
    for (sources, at), readers in groups.items():
        would = "would use it" if len(readers) == 1 else "would all use it"
        message = (
            f"{_who(flow, at)} loses the mask that {_names(sources)} makes; "
            f"{_names(readers)} further down {would}"
        )
        remedy = _dropped_remedy(
            flow,
            at,
            passing=f"pass mask=... to {_names(readers)} explicitly",
            moving=f", move '{at}' below {_names(readers)}",
        )
        yield Finding("dropped", (*sources, at, *readers), message, remedy)


def _unmasked(flow: Flow, unmasked: Sequence[Unmasked]) -> Iterator[Finding]:
    for item in unmasked:
        at, sources = item.lost.at, item.lost.mask.sources
        message = (
            f"{_who(flow, at)} loses the mask that {_names(sources)} makes; "
            f"{_joined(item.users)} of output '{item.output}' would use it, and now count "
            "masked steps like all others"
        )
        passing = (
            "leave masked steps out by sample_weight=... in fit and evaluate (metrics use it as "
            "weighted_metrics)"
        )
        remedy = _dropped_remedy(flow, at, passing=passing, moving="")
        remedy += "; if sample_weight already leaves them out, no change is needed"
        paths = tuple(dict.fromkeys((*sources, at, item.output)))
        yield Finding("dropped", paths, message, remedy)


def _dropped_remedy(flow: Flow, at: str, *, passing: str, moving: str) -> str:
    layer = flow.layers[at]
    if not isinstance(layer, keras.Layer):
        return (
            f"{passing}, or put the operation into a layer with supports_masking=True; "
            "keras.layers.Add, Multiply and the like pass masks on if all inputs have one"
        )
    if behavior.is_merge(layer):
        return (
            f"give every input of '{at}' a mask, since it passes one on only if all have one, "
            f"or {passing}"
        )
    if behavior.changes_length(layer):
        return (
            f"compute the mask for the output length of '{at}' and {passing}{moving}, "
            f"or subclass {type(layer).__name__} with a compute_mask"
        )
    return (
        f"set supports_masking=True on '{at}' if its output has the same time steps as its input, "
        f"give its class a compute_mask, or {passing}"
    )


def _unfilled(flow: Flow) -> Iterator[Finding]:
    for event in flow.events:
        if event.kind == "unfilled":
            sources = event.mask.sources
            message = (
                f"{_who(flow, event.path)} does not get the mask that {_names(sources)} makes: "
                "Keras fills in a mask only where a call has one tensor argument, and this one "
                "has more, such as initial_state"
            )
            remedy = (
                f"pass mask=... to '{event.path}' explicitly; the compute_mask of the layer that "
                "makes the mask returns it"
            )
            yield Finding("dropped", (*sources, event.path), message, remedy)


def _mismatched(flow: Flow) -> Iterator[Finding]:
    for event in flow.events:
        mask, tensor = _shown(event.mask.shape), _shown(event.shape)
        if event.kind == "mismatched":
            origins = tuple(source for source in event.mask.sources if source != event.path)
            message = (
                f"the output of {_who(flow, event.path)} has shape {tensor}, but the mask that it "
                f"carries, made by {_names(event.mask.sources)}, has shape {mask}"
            )
            remedy = (
                f"give the class of '{event.path}' a compute_mask that returns a mask for the new "
                "shape, or None"
            )
            yield Finding("mismatched", (*origins, event.path), message, remedy)
        elif event.kind == "passed" and not _fits_argument(event):
            message = (
                f"{_who(flow, event.path)} gets {event.argument} of shape {mask} for a tensor of "
                f"shape {tensor}"
            )
            remedy = f"compute the mask from the tensor that '{event.path}' reads"
            yield Finding("mismatched", (event.path,), message, remedy)


def _fits_argument(event: Event) -> bool:
    """Whether a mask that is passed explicitly can belong to the tensor."""
    mask, tensor = event.mask.shape, event.shape
    if behavior.broadcasts_mask(event.layer):
        return len(mask) <= len(tensor) and fits(*_aligned(mask, tensor))
    if is_of_keras(type(event.layer)):
        return fits(mask, tensor)
    # What a user layer does with a mask is not known; by convention it is (batch, time).
    return len(mask) != 2 or mask[1] == 1 or fits(mask, tensor)  # noqa: PLR2004 the two


def _aligned(mask: Shape, tensor: Shape) -> tuple[Shape, Shape]:
    """Return the shapes aligned at their last dimensions, as tensors broadcast."""
    return tuple(None if size == 1 else size for size in mask), tensor[len(tensor) - len(mask) :]


def _passed(flow: Flow) -> Iterator[Finding]:
    for event in flow.events:
        if event.kind != "passed":
            continue
        maker = stale_maker(flow, event)
        if maker is not None:
            yield _frozen(flow, event, maker)
        elif _hides(flow, event):
            sources = event.hidden.sources if event.hidden else ()
            message = (
                f"{_who(flow, event.path)} is given {event.argument}=..., which hides the mask "
                f"that {_names(sources)} makes and its input carries"
            )
            remedy = (
                "leave the argument out to use the mask that the input carries, or combine the "
                "two with keras.ops.logical_and"
            )
            yield Finding("overridden", (*sources, event.path), message, remedy)


def _hides(flow: Flow, event: Event) -> bool:
    hidden, number = event.hidden, event.mask.number
    if hidden is None or hidden.number is None:
        return False
    return number is None or not flow.numbers.depends(number, hidden.number)


def _frozen(flow: Flow, event: Event, maker: str) -> Finding:
    layer = flow.layers[maker]
    form = "NotEqual(its input, 0)"
    now = "makes no mask (mask_zero=False)"
    back = f"mask_zero=True on '{maker}'"
    if not behavior.is_embedding(layer):
        form = "Any(NotEqual(its input, another value))"
        now = f"masks the value {layer.mask_value}"
        back = f"the former mask_value on '{maker}'"
    message = (
        f"{_who(flow, event.path)} still gets {event.argument}={form}, as {_who(flow, maker)} "
        f"once made it, but '{maker}' now {now}"
    )
    remedy = (
        "make the change with ramet.clone_model(model, clone_function=...) on the model that it "
        f"was made from, which lets Keras compute the masks again, or set {back} again; "
        "if you wrote the mask by hand, no change is needed"
    )
    return Finding("frozen", (maker, event.path), message, remedy)


def _unused(flow: Flow, named: set[str]) -> Iterator[Finding]:
    """Yield the layers whose masks are not used, each once."""
    makers: dict[int, list[str]] = {}
    for carry in flow.carries.values():
        for path in () if carry.mask is None else carry.mask.sources:
            layer = flow.layers.get(path)
            if isinstance(layer, keras.Layer) and not isinstance(layer, keras.layers.InputLayer):
                paths = makers.setdefault(id(layer), [])
                paths += [path] * (path not in paths)
    for paths in makers.values():
        if flow.used.isdisjoint(paths) and named.isdisjoint(paths):
            calls = f" (called at {_names(paths)})" if len(paths) > 1 else ""
            message = f"{_who(flow, paths[0])}{calls} makes a mask that no layer uses"
            layer = flow.layers[paths[0]]
            off = (
                f"set mask_zero=False on '{paths[0]}'"
                if behavior.is_embedding(layer)
                else f"leave '{paths[0]}' out if nothing else needs it"
            )
            remedy = (
                f"{off}, or read its output with a layer that uses masks, such as LSTM, "
                "MultiHeadAttention or GlobalAveragePooling1D"
            )
            yield Finding("unused", tuple(paths), message, remedy)


def _who(flow: Flow, path: str) -> str:
    layer = flow.layers.get(path)
    what = "" if isinstance(layer, keras.Layer) else "operation "
    return f"{what}{type(layer).__name__} '{path}'"


def _names(paths: Sequence[str]) -> str:
    return _joined([f"'{path}'" for path in paths])


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _shown(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"

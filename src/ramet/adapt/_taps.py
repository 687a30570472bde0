"""`taps`: a teacher and a student in one model, with pairs of their tensors."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from keras import layers

from ramet._arguments import check_flag, check_name
from ramet.adapt.distilling.checks import check_losses, check_pairs, check_weights
from ramet.adapt.distilling.losses import TapLoss
from ramet.adapt.distilling.teacher import Teacher, teacher_inputs
from ramet.adapt.distilling.widths import widths
from ramet.graph import Call, Graph, Ref
from ramet.graph.data import Edit
from ramet.graph.edits.apart import apart
from ramet.graph.edits.draft import UNKNOWN, Draft
from ramet.graph.journal import with_entry
from ramet.graph.names import counted, next_free
from ramet.graph.tree import Tree, leaves, map_tree
from ramet.tracing.trace import trace


def taps(  # noqa: PLR0913 each is another option
    teacher: Any,
    student: Any,
    pairs: Mapping[str, str],
    *,
    project: bool = True,
    losses: Any = None,
    weights: Sequence[float] | None = None,
    name: str | None = None,
) -> Graph:
    """Combine a teacher and a student in one model, with pairs of tensors inside them.

    Both use the same inputs. The part of the teacher that is needed is copied at once and becomes
    one frozen layer, `teacher`, which runs as at inference; the layers of the student keep their
    names and weights. Where a pair differs in its last dimension, a Dense layer projects the
    student's tensor to the width of the teacher's.

    With `losses`, the model computes what the student computes, and the distances of the pairs
    are part of its loss: compile it with the student's own loss, and `fit` it on the student's
    data. Without `losses`, it returns a dict for a loss of your own: `student`, and for each pair
    `tap_0/teacher` and `tap_0/student`. Afterwards `ramet.trace(trained).extract(outputs=...)`,
    with the student's last layers, is the student.

    Args:
        teacher: A graph or a model.
        student: A graph or a model with the same inputs.
        pairs: The student's tensors by those of the teacher, as places: `encoder/block_2`.
            Nested models that hold one are inlined.
        project: Whether to project where widths differ; if not, that is an error.
        losses: A loss for all pairs, or a list of one for each: the name of a loss, one of
            `keras.losses`, or one of `keras.distillation` such as `LogitsDistillation()`.
        weights: A factor for each of the losses; 1 by default.
        name: Name of the new model.

    Returns:
        A graph, to edit further or to build.

    Raises:
        GraphError: If a place is unknown, the inputs differ, or shapes cannot be projected.
        OptionError: If there are no pairs, or the losses or weights do not match them.

    Examples:
        >>> teacher = ramet.clone(model, weights="fresh", seed=1)
        >>> graph = ramet.adapt.taps(teacher, model, {"pool": "pool"}, losses="mse")
        >>> both = graph.build()
        >>> both.output_shape, both.get_layer("teacher").trainable
        ((None, 3), False)
    """
    check_flag(project, "project")
    places = check_pairs(pairs)
    if name is not None:
        check_name(name, "name")
    named = check_losses(losses, len(places))
    factors = check_weights(weights, named, len(places))
    sides = trace(teacher), trace(student)
    heard = sides[0].extract(outputs=[place for place, _ in places])
    tapped = _with_taps(sides[1], [place for _, place in places])
    text = f"tap {counted(len(places), 'pair')} of '{sides[0].name}' and '{sides[1].name}'"
    draft = Draft(tapped, Edit(text))
    refs = [cast("Ref", ref) for ref in leaves(tapped.outputs)]
    outputs, students = refs[: -len(places)], refs[-len(places) :]
    sizes = widths(heard, tapped, places, project=project)
    # On PyTorch, Keras lists the parameters of a model by their paths, so no two may be alike.
    own = _free("teacher", draft.layers)
    model = heard.flatten().prefix(f"{own}_").build(name=f"{sides[0].name}_taps")
    inputs = teacher_inputs(heard, tapped)
    teachers = _called(draft, Teacher(model, name=own), inputs, len(places))
    projected = [
        ref if size is None else _projected(draft, ref, size, f"tap_{number}_projection")
        for number, (ref, size) in enumerate(zip(students, sizes, strict=True))
    ]
    ends = iter(outputs)
    shaped = map_tree(lambda _: next(ends), sides[1].outputs)
    if named is None:
        both = zip(teachers, projected, strict=True)
        draft.outputs = {"student": shaped} | {
            f"tap_{number}/{side}": ref
            for number, pair in enumerate(both)
            for side, ref in zip(("teacher", "student"), pair, strict=True)
        }
    else:
        flat = [ref for pair in zip(teachers, projected, strict=True) for ref in pair]
        loss = TapLoss(named, factors, name=_free("tap_loss", draft.layers))
        heads = iter(_called(draft, loss, [*outputs, *flat], len(outputs)))
        draft.outputs = map_tree(lambda _: next(heads), sides[1].outputs)
    changed = draft.done()
    return with_entry(changed.changed(name=name) if name else changed, draft.edit)


def _projected(draft: Draft, ref: Ref, width: int, name: str) -> Ref:
    """Add a layer that projects a tensor to a width."""
    (end,) = _called(draft, layers.Dense(width, name=_free(name, draft.layers)), ref, 1)
    return end


def _called(draft: Draft, layer: Any, on: Tree, count: int) -> list[Ref]:
    """Add a call of a new layer, and return its outputs."""
    live = draft.graph.live_origin()
    record = dataclasses.replace(apart(live.layer(layer, "a layer of taps")), brought=True)
    key = draft.add_layer(record)
    last = [*draft.calls][-1]
    draft.add_call(Call(key, key, (on,), {}, (UNKNOWN,) * count), after=last)
    return [Ref(key, index) for index in range(count)]


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """Return a name, numbered if another teacher's taps have it."""
    return next_free(name, taken.keys()) if name in taken else name


def _with_taps(student: Graph, places: list[str]) -> Graph:
    """Return a graph whose outputs are those of a student and the tapped tensors, as a list."""
    outputs = [ref for ref in leaves(student.outputs) if isinstance(ref, Ref)]
    return student.extract(outputs=[*outputs, *places])

"""The widths of tapped tensors, and whether one can be projected to the other."""

from collections.abc import Sequence

from ramet.errors import GraphError
from ramet.graph import Graph, Ref, Spec
from ramet.graph.tree import leaves
from ramet.tracing.settled import settled


def widths(
    teacher: Graph, student: Graph, places: Sequence[tuple[str, str]], *, project: bool
) -> list[int | None]:
    """Return for each pair the width that the student's tensor is projected to, if any.

    Args:
        teacher: A graph whose last outputs are the tapped tensors of the teacher.
        student: The same for the student.
        places: The pairs as the user named them.
        project: Whether a projection is allowed.

    Raises:
        GraphError: If a pair has shapes that cannot be projected.
    """
    count = len(places)
    specs = zip(_specs(teacher)[-count:], _specs(student)[-count:], strict=True)
    done: list[int | None] = []
    for place, pair in zip(places, specs, strict=True):
        shapes = pair[0].shape, pair[1].shape
        where = (
            f"'{place[0]}' of the teacher {shapes[0]} and '{place[1]}' of the student {shapes[1]}"
        )
        if len(shapes[0]) != len(shapes[1]):
            message = f"{where} have different ranks; tap tensors of one rank"
            raise GraphError(message)
        if not all(map(_agree, shapes[0][:-1], shapes[1][:-1])):
            message = (
                f"{where} differ in more than their last dimension, which is all that can be "
                "projected; tap tensors that agree in the others"
            )
            raise GraphError(message)
        width = shapes[0][-1]
        if width == shapes[1][-1]:
            done.append(None)
            continue
        if not project or width is None or shapes[1][-1] is None:
            message = f"{where} have different widths; pass project=True, or tap others"
            raise GraphError(message)
        done.append(width)
    return done


def _agree(first: int | None, second: int | None) -> bool:
    return first is None or second is None or first == second


def _specs(graph: Graph) -> list[Spec]:
    """Return the specs of the outputs of a graph, which may have to be built for that."""
    refs = [ref for ref in leaves(graph.outputs) if isinstance(ref, Ref)]
    known = [graph.calls[ref.call].outputs[ref.index] for ref in refs]
    if all(spec.known for spec in known):
        return known
    built = settled(graph)
    ends = [ref for ref in leaves(built.outputs) if isinstance(ref, Ref)]
    return [built.calls[ref.call].outputs[ref.index] for ref in ends]

"""A teacher as one layer that runs as in inference, whatever the model around it does."""

from typing import Any

import keras

from ramet.errors import GraphError
from ramet.graph import Graph, Ref, Spec
from ramet.graph.tree import Tree, leaves, map_tree


@keras.saving.register_keras_serializable("ramet")
class Teacher(keras.layers.Layer):
    """A frozen model that runs as in inference; `taps` creates it.

    Keras passes `training` on to all layers of a model, and no call argument can override that;
    only a layer that calls the model itself can.

    Examples:
        >>> teacher = ramet.adapt.Teacher(ramet.clone(model), name="teacher")
        >>> teacher.trainable_variables
        []
    """

    def __init__(self, model: Any, **options: Any) -> None:
        """Freeze a model and hold it.

        Args:
            model: The model.
            **options: As for any layer.
        """
        super().__init__(**options)
        self.model = model
        self.trainable = False
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Return what the model returns in inference, as a list."""
        return keras.tree.flatten(self.model(inputs, training=False))

    def get_config(self) -> dict[str, Any]:
        """Return the config of the model too."""
        return super().get_config() | {"model": keras.saving.serialize_keras_object(self.model)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Teacher":
        """Create the model first."""
        return cls(**{**config, "model": keras.saving.deserialize_keras_object(config["model"])})


def teacher_inputs(teacher: Graph, student: Graph) -> Tree:
    """Return the inputs of a student in the structure of a teacher's, by name or by order.

    Raises:
        GraphError: If they do not fit.
    """
    own = [ref for ref in leaves(teacher.inputs) if isinstance(ref, Ref)]
    known = [ref for ref in leaves(student.inputs) if isinstance(ref, Ref)]
    by_name = {ref.call: ref for ref in known}
    if all(ref.call in by_name for ref in own):
        pairs = {ref: by_name[ref.call] for ref in own}
    else:
        pairs = dict(zip(own, known, strict=False))
    if len(own) > len(known) or not all(
        _fits(_spec(teacher, ref), _spec(student, other)) for ref, other in pairs.items()
    ):
        shown = [
            ", ".join(f"{_spec(graph, ref).dtype}{_spec(graph, ref).shape}" for ref in refs)
            for graph, refs in ((teacher, own), (student, known))
        ]
        message = (
            f"teacher '{teacher.name}' and student '{student.name}' cannot share inputs: they take "
            f"{shown[0]} and {shown[1]}; change one of them by with_inputs"
        )
        raise GraphError(message)
    return map_tree(lambda ref: pairs[ref], teacher.inputs)


def _spec(graph: Graph, ref: Ref) -> Spec:
    return graph.calls[ref.call].outputs[ref.index]


def _fits(first: Spec, second: Spec) -> bool:
    return (
        first.dtype == second.dtype
        and len(first.shape) == len(second.shape)
        and all(
            a is None or b is None or a == b for a, b in zip(first.shape, second.shape, strict=True)
        )
    )

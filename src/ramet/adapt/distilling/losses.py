"""The layer that compares tapped tensors while a student is trained."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from ramet import keras_internals as internals


@keras.saving.register_keras_serializable("ramet")
class TapLoss(keras.layers.Layer):
    """Pass on the outputs of a student, and add the distances of tapped tensors to the loss.

    `taps` creates it. It has no weights, and is left out when the student is extracted.

    Examples:
        >>> loss = ramet.adapt.TapLoss(["mse"], [0.5], name="distance")
        >>> x = np.ones((1, 2), "float32")
        >>> bool((loss([x, x, 3 * x]) == x).all())
        True
        >>> float(loss.losses[0])  # half of the squared distance of 1 and 3
        2.0
    """

    def __init__(self, losses: Sequence[Any], weights: Sequence[float], **options: Any) -> None:
        """Create it.

        Args:
            losses: A loss for each pair: its name, or a loss of `keras.losses` or
                `keras.distillation`.
            weights: The weight of each.
            **options: As for any layer.
        """
        super().__init__(**options)
        self.tap_losses = [keras.saving.deserialize_keras_object(_written(loss)) for loss in losses]
        self.tap_weights = [float(weight) for weight in weights]

    def call(self, inputs: Any) -> Any:
        """Return the outputs of the student, which come first; then the pairs, flat."""
        count = 2 * len(self.tap_losses)
        outputs, pairs = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
        for number, (loss, weight) in enumerate(
            zip(self.tap_losses, self.tap_weights, strict=True)
        ):
            teacher, student = pairs[2 * number : 2 * number + 2]
            self.add_loss(weight * ops.mean(distance(loss, ops.stop_gradient(teacher), student)))
        return outputs[0] if len(outputs) == 1 else list(outputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        """Return the specs of the student's outputs."""
        outputs = inputs[: len(inputs) - 2 * len(self.tap_losses)]
        specs = [keras.KerasTensor(each.shape, each.dtype) for each in outputs]
        return specs[0] if len(specs) == 1 else specs

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        own = {"losses": [_written(loss) for loss in self.tap_losses], "weights": self.tap_weights}
        return super().get_config() | own


def _written(loss: Any) -> Any:
    if isinstance(loss, str):
        return internals.serialized(keras.losses.get(loss))
    return loss if isinstance(loss, dict) else internals.serialized(loss)


def distance(loss: Any, teacher: Any, student: Any) -> Any:
    """Return the distance of two tensors: by a loss of Keras, or one for distillation."""
    compare = getattr(loss, "compute_loss", None)
    dtype = student.dtype
    teacher = ops.cast(teacher, dtype)
    return loss(teacher, student) if compare is None else compare(teacher, student)

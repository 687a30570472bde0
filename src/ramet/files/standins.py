"""Stand-ins for classes and functions that a file names and nobody has.

Each is a class of its own with the name of what it stands for. What it knows is what the file
says: its config, its variables, and the tensors that other layers read from it. It computes
nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import keras

from ramet.errors import ModelError
from ramet.tracing.specs import unknown_tensor

Shape = tuple[int | None, ...]
Tensor = tuple[Shape, str]
"""Shape and dtype of a tensor."""


@dataclass(eq=False)
class Told:
    """What a file says of a layer."""

    kind: str
    """The name of its class."""
    config: dict[str, Any]
    """Its config, as plain data."""
    variables: list[tuple[str, Any, bool]] = field(default_factory=list[tuple[str, Any, bool]])
    """Name and values of its variables, and whether they are trained."""
    calls: "list[tuple[list[Tensor], dict[int, Tensor | None]]]" = field(
        default_factory=list[tuple[list[Tensor], dict[int, "Tensor | None"]]]
    )
    """For each call the tensors that it reads, and its outputs; `None` where nothing reads them."""

    def outputs(self, inputs: Sequence[Tensor]) -> tuple[dict[int, Tensor], Shape]:
        """Return the outputs of the calls on such inputs, and the batch size of the inputs."""
        known: dict[int, Tensor] = {}
        for reads, outputs in self.calls:
            fits = len(reads) == len(inputs) and all(map(_fits, reads, inputs))
            known |= {i: spec for i, spec in outputs.items() if fits and spec is not None}
        # Of other inputs, the file only says how many outputs there are.
        return known, next((shape[:1] for shape, _ in inputs), ())

    @property
    def count(self) -> int:
        """How many outputs it has at least."""
        return 1 + max((index for _, outputs in self.calls for index in outputs), default=0)


def _fits(told: Tensor, actual: Tensor) -> bool:
    shape, other = told[0], actual[0]
    sizes = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(a is None or a == b for a, b in sizes)


class StandIn(keras.layers.Layer):
    """A layer of a class that nobody has."""

    told: Told

    def __init__(self, *, name: str, trainable: bool = True) -> None:
        """Create the layer with the variables in the file, which needs no build."""
        super().__init__(name=name, trainable=trainable, autocast=False)  # pyright: ignore[reportUnknownMemberType] Keras has no types
        self.supports_masking = True
        for label, values, trains in self.told.variables:
            self.add_weight(
                shape=values.shape,
                dtype=str(values.dtype),
                initializer=_constant(values),
                trainable=trains,
                name=label,
            )
        self.built = True

    def call(self, *_args: Any, **_options: Any) -> NoReturn:
        """Refuse to compute anything."""
        message = f"layer '{self.name}' is a {self.told.kind}, which is not part of Keras"
        raise ModelError(f"{message}, and cannot be called; load the file with trust=True")

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs that the file tells of, and unknown ones for the rest."""
        leaves = keras.tree.flatten((args, kwargs))
        inputs = [
            (tuple(leaf.shape), str(leaf.dtype))
            for leaf in leaves
            if isinstance(leaf, keras.KerasTensor)
        ]
        known, batch = self.told.outputs(inputs)
        outputs: list[Any] = []
        for index in range(self.told.count):
            if index in known:
                shape, dtype = known[index]
                if shape[:1] == (None,):
                    shape = (*batch, *shape[1:])
                outputs.append(keras.KerasTensor(shape, dtype))
            else:
                outputs.append(unknown_tensor())
        return outputs[0] if len(outputs) == 1 else outputs

    def compute_mask(self, *_args: Any, **_options: Any) -> None:
        """Return no mask: whether the layer passes one on is not known."""

    def get_config(self) -> dict[str, Any]:
        """Return the config that is in the file."""
        return {**self.told.config, "name": self.name}

    def load_own_variables(self, _store: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] another name, of what is not used
        """Leave the variables, which have their values already."""


def _constant(values: Any) -> Callable[..., Any]:
    def constant(shape: Any, dtype: Any = None) -> Any:
        return keras.ops.convert_to_tensor(values.reshape(shape), dtype)

    return constant


class _Part:
    """An initializer, regularizer, constraint or the like, of a class that nobody has."""

    config: dict[str, Any]

    @classmethod
    def from_config(cls, _config: dict[str, Any]) -> "_Part":
        """Create it; the config is that of the class."""
        return cls()

    def get_config(self) -> dict[str, Any]:
        """Return the config that is in the file."""
        return {**self.config}

    def __call__(self, shape: Any, dtype: Any = None, **_options: Any) -> Any:
        """Return zeros, as an initializer: the values are in the file."""
        if not isinstance(shape, (tuple, list)):
            raise ModelError(f"'{type(self).__name__}' is not part of Keras, and computes nothing")
        return keras.ops.zeros(shape, dtype)


def layer_class(told: Told) -> type:
    """Return a class of layers that stand for one in a file."""
    return type(told.kind, (StandIn,), {"told": told, "__doc__": None})


def part_class(kind: str, config: dict[str, Any]) -> type:
    """Return a class of initializers and the like."""
    return type(kind, (_Part,), {"config": config, "__doc__": None})


def model_class(kind: str, *, is_sequential: bool) -> type:
    """Return a class of models whose graph is in the file."""
    return type(kind, (keras.Sequential if is_sequential else keras.Model,), {"__doc__": None})


def function(name: str) -> Callable[..., Any]:
    """Return a function of a name, such as an activation; on symbols, it changes nothing."""

    def standing(x: Any, *_args: Any, **_options: Any) -> Any:
        if isinstance(x, keras.KerasTensor):
            return x
        raise ModelError(f"function '{name}' is not part of Keras, and computes nothing")

    standing.__name__ = standing.__qualname__ = name
    return standing

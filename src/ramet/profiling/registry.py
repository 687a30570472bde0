"""How multiply-accumulates are counted: one rule for each class of layers or operations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import keras

from ramet import keras_internals as internals
from ramet._arguments import check_function, shown
from ramet.backends import is_of_keras
from ramet.errors import OptionError
from ramet.graph.tree import Tree, map_tree
from ramet.profiling.tensors import Tensor, tensor_of, tensors_in
from ramet.profiling.updates import class_of, macs_of_updates


class UncountedError(Exception):
    """The multiply-accumulates of a call are not known. A rule may raise it, with the reason."""


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a layer, as a rule sees it: the layer, and the shapes around it.

    Examples:
        >>> class Twice(layers.Dense):
        ...     def call(self, x):
        ...         return super().call(x) + super().call(x)
        >>> @ramet.profiling.counts(Twice)
        ... def macs_of_twice(called):
        ...     return 2 * called.outputs[0].size * called.inputs[0].shape[-1]
        >>> x = keras.Input((8,))
        >>> ramet.profile(keras.Model(x, Twice(4)(x))).macs
        64
    """

    layer: Any
    """The live layer or operation. A rule reads it and does not call it."""
    args: tuple[Tree, ...]
    """Positional arguments, with a `Tensor` for each tensor."""
    kwargs: dict[str, Tree]
    """Keyword arguments that the author wrote, in the same way."""
    outputs: tuple[Tensor, ...]
    """The outputs, in flattened order."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors among the arguments, in order."""
        return tuple(tensors_in((self.args, self.kwargs)))

    def argument(self, name: str, default: Any = None) -> Any:
        """Return an argument by its name in the signature of the layer's `call`."""
        named = internals.named_arguments(self.layer, self.args, self.kwargs)
        return named.get(name, default)

    def inside(self, layer: Any, *args: Tree, outputs: tuple[Tensor, ...] | None = None) -> int:
        """Return the multiply-accumulates of a layer inside this one.

        Args:
            layer: The layer inside.
            *args: What it is called on: a `Tensor`, or several.
            outputs: Its outputs; by default, what its own `compute_output_shape` says.

        Raises:
            UncountedError: If there is no rule for it.
        """
        outputs = outputs_inside(layer, args) if outputs is None else outputs
        return macs_of(Called(layer, args, {}, outputs))


Rule = Callable[[Called], int]
"""Returns the multiply-accumulates of a call."""
_AnyRule = TypeVar("_AnyRule", bound=Rule)

_LAYERS: dict[type, Rule] = {}
"""Rules by class of layer or operation, where `counts` registered them."""
_PRIVATE: dict[str, Rule] = {}
"""Rules for Keras's own operations, by the names of their classes, which are private, and for
layers that are."""


def counts(*classes: type) -> Callable[[_AnyRule], _AnyRule]:
    """Register a rule that counts the multiply-accumulates of a class of layers.

    The rule also holds for subclasses that do not write a `call` of their own. It receives a
    `Called`: the live layer, and the shapes of its inputs and outputs. It returns how many
    multiply-accumulates one call takes; for layers inside, use `called.inside(layer, tensor)`.

    Args:
        *classes: Classes of layers or operations.

    Returns:
        A decorator, which returns the rule as it is.

    Raises:
        OptionError: If an argument is not a class of layers or operations, or the rule is
            not a function.

    Examples:
        >>> class Scores(layers.Layer):
        ...     def call(self, x):
        ...         return keras.ops.matmul(x, keras.ops.swapaxes(x, 1, 2))
        >>> @ramet.profiling.counts(Scores)
        ... def macs_of_scores(called):
        ...     batch, rows, width = called.inputs[0].shape
        ...     return batch * rows * rows * width
        >>> x = keras.Input((5, 8))
        >>> ramet.profile(keras.Model(x, Scores()(x))).macs
        200
    """
    if not classes:
        raise OptionError("counts needs a class of layers; write @counts(MyLayer)")
    for cls in cast("tuple[Any, ...]", classes):
        if not isinstance(cls, type) or not issubclass(cls, keras.Operation):
            message = f"a rule counts a class of Keras layers or operations, got {shown(cls)}"
            raise OptionError(f"{message}; write @counts(MyLayer)")

    def registered(rule: _AnyRule) -> _AnyRule:
        check_function(rule, "the rule", 1, "a call of the layer")
        _LAYERS.update(dict.fromkeys(classes, rule))
        return rule

    return registered


def counts_layers(*names: str) -> Callable[[_AnyRule], _AnyRule]:
    """Register a rule for Keras's own layers by name, for those that the installed Keras has."""

    def registered(rule: _AnyRule) -> _AnyRule:
        classes = [getattr(keras.layers, name, None) for name in names]
        _LAYERS.update({cls: rule for cls in classes if cls is not None})
        return rule

    return registered


def counts_operations(*names: str) -> Callable[[_AnyRule], _AnyRule]:
    """Register a rule for Keras's own operations and private layers, by names of classes."""

    def registered(rule: _AnyRule) -> _AnyRule:
        _PRIVATE.update(dict.fromkeys(names, rule))
        return rule

    return registered


def rule_of(cls: type) -> Rule | None:
    """Return the rule for a class; `None` if there is none, or user code overrides `call`."""
    for base in cls.__mro__:
        rule = _LAYERS.get(base)
        if rule is None and is_of_keras(base):
            rule = _PRIVATE.get(base.__name__)
        if rule is not None:
            return rule
        if "call" in vars(base) and not is_of_keras(base):
            return None
    return None


def macs_of(called: Called) -> int:
    """Return the multiply-accumulates of a call.

    Raises:
        UncountedError: If there is no rule for its class, or it needs a size that is not known.
        OptionError: If a rule returns something that is not a number.
    """
    rule = rule_of(class_of(called.layer))
    if rule is None:
        raise UncountedError("there is no rule for it")
    if rule is nothing:
        return 0
    if not all(tensor.is_known for tensor in (*called.inputs, *called.outputs)):
        raise UncountedError("not all sizes are known")
    macs: Any = rule(called)
    if isinstance(macs, bool) or not isinstance(macs, int) or macs < 0:
        message = (
            f"the rule for {type(called.layer).__name__} must return how many multiply-accumulates "
            f"a call takes, got {shown(macs)}; return an int"
        )
        raise OptionError(message)
    more = macs_of_updates(called.layer, macs, sum(each.size for each in called.outputs))
    if more is None:
        raise UncountedError("quantized layers inside of it have adapters")
    return macs + more


def nothing(called: Called) -> int:
    """Count nothing: the rule for what neither convolves nor multiplies matrices."""
    del called
    return 0


def outputs_inside(layer: Any, args: tuple[Tree, ...]) -> tuple[Tensor, ...]:
    """Return the outputs of a layer inside another, from its own rule of shapes."""
    symbols = map_tree(_symbol, args)
    with internals.untouched_names():
        try:
            outputs = layer.compute_output_spec(*symbols)
        except Exception as error:
            raise UncountedError(f"the shape of '{layer.name}' inside is not known") from error
    return tuple(map(tensor_of, keras.tree.flatten(outputs)))


def _symbol(leaf: Any) -> Any:
    return keras.KerasTensor(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf

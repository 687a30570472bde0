"""`channel_rule`: how channels flow through layers of other classes than Keras's own."""

from collections.abc import Callable
from typing import Any

import keras

from ramet._arguments import check_function, shown
from ramet.backends import is_of_keras
from ramet.compress.channels.site import OWN_RULES, Rule
from ramet.errors import OptionError


def channel_rule(kind: type) -> Callable[[Rule], Rule]:
    """Register how channels flow through the layers of a class of your own.

    Without a rule, the channels of its inputs always stay. The rule is a
    function of a *site*: one call of such a layer. It returns the outputs, each a tuple of axes,
    and says with the methods of the site what the layer does:

    - `site.tensor()`: the axes of its input; `site.layer`: the live layer;
    - `site.make("", size)`: a new axis of channels; `site.configure(units=axis)`: a constructor
      argument that is the size of an axis;
    - `site.weight("kernel", (axis, "read"), (axis, "made"))`: what the axes of a variable are;
    - `site.tie(axis, axis)`: axes that share their channels;
    - `site.nonzero(axis)`: the axis after a function that is not zero at zero;
    - `site.lose(axis, why)` and `site.lock(axis, why)`: removing channels is not exact, or not
      possible.

    A class that derives from it and overrides `call` or `build` needs a rule of its own.

    Args:
        kind: The class.

    Returns:
        A decorator for the rule.

    Raises:
        OptionError: If `kind` is not a class of layers, or is one of Keras's own.

    Examples:
        >>> class Gate(layers.Layer):
        ...     def build(self, shape):
        ...         self.gate = self.add_weight(shape=(shape[-1],), name="gate")
        ...     def call(self, x):
        ...         return x * self.gate
        >>> @ramet.compress.channel_rule(Gate)
        ... def _(site):
        ...     seen = site.tensor()
        ...     site.weight("gate", (seen[-1], "carried"))
        ...     return [seen]
        >>> graph = ramet.trace(model).insert_after("conv", Gate(name="gate"))
        >>> [group.layers for group in ramet.compress.groups(graph).free]
        [('conv', 'gate', 'norm', 'head')]
    """
    known: Any = kind
    if not isinstance(known, type) or not issubclass(known, keras.Layer):
        raise OptionError(f"kind must be a class of layers, got {shown(kind)}")
    if is_of_keras(known):
        message = f"{known.__name__} is a class of Keras, which has a rule; derive from it"
        raise OptionError(message)

    def register(function: Rule) -> Rule:
        check_function(function, "a rule", 1, "a site")
        OWN_RULES[known] = function
        return function

    return register

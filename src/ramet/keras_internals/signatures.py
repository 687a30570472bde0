"""The arguments that a layer's `call` takes."""

import inspect
from typing import Any


def is_context_default(operation: Any, name: str, value: Any) -> bool:
    """Whether an argument that Keras passes on from outer calls has the default of `call`."""
    if name not in getattr(operation, "_call_context_args", ("training",)):
        return False
    signature = getattr(operation, "_call_signature", None)
    known = None if signature is None else signature.parameters.get(name)
    return known is not None and known.default is value


def accepts(operation: Any, argument: str) -> bool:
    """Whether a layer's `call` accepts a keyword argument."""
    signature = getattr(operation, "_call_signature", None)
    return signature is not None and argument in signature.parameters


def context_arguments(operation: Any) -> frozenset[str]:
    """Return the arguments of a layer that Keras passes on from outer calls: `training`."""
    names = getattr(operation, "_call_context_args", ())
    return frozenset(name for name in names if accepts(operation, name))


def call_signature(operation: Any) -> inspect.Signature:
    """Return the signature of an operation's `call`, to which Keras binds arguments."""
    return getattr(operation, "_call_signature", None) or inspect.signature(operation.call)


def named_arguments(operation: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, without those that have their defaults.

    Arguments that do not fit the signature are numbered.
    """
    signature = call_signature(operation)
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
    known = signature.parameters
    return {name: value for name, value in bound.items() if value is not known[name].default}

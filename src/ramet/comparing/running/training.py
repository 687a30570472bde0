"""How variables train, apart from what a call computes: flags, regularizers and constraints."""

from collections.abc import Iterator
from typing import Any

from ramet import keras_internals as internals
from ramet.comparing.state import VariablePair, Variables


def trained_otherwise(variables: Variables) -> Iterator[str]:
    """Yield the variables that two models train in another way, in words."""
    for both in variables.pairs:
        if both.noun == "variable":
            yield from _differences(both)


def _differences(both: VariablePair) -> Iterator[str]:
    for what, name in (("regularized", "regularizer"), ("constrained", "constraint")):
        rules = [_rule(getattr(each, name, None)) for each in (both.old, both.new)]
        if rules[0] != rules[1]:
            yield f"{both.where} is {what} in another way"
    flags = [bool(getattr(each, "trainable", False)) for each in (both.old, both.new)]
    if flags[0] != flags[1]:
        yield f"{both.where} is trained in one of the models only"


def _rule(value: Any) -> Any:
    """Return a regularizer or constraint in a form to be compared."""
    try:
        config = internals.serialized(value)
    except Exception:  # noqa: BLE001 a config fails in as many ways as there are authors
        return type(value).__name__
    return config

"""The variables of an optimizer."""

from typing import Any

import keras


def variable_key(optimizer: Any, variable: Any) -> Any:
    """Return the key by which an optimizer finds the slots of a variable."""
    return optimizer._var_key(variable)


OPTIMIZER_RECORDS = frozenset({"_variables", "_trainable_variables"})
"""Lists of variables in an optimizer: its own, and those that it trains."""

MOVING_AVERAGES = "_model_variables_moving_average"
"""The slots that hold averages of the variables themselves."""


def optimizer_targets(optimizer: Any) -> list[Any]:
    """Return the variables that an optimizer was built for."""
    return optimizer._trainable_variables


def trained_variables(model: Any) -> list[Any]:
    """Return the values that a step of training writes to: of weights, and the number of steps."""
    optimizer = vars(model).get("optimizer")
    steps = getattr(optimizer, "iterations", None)
    if not isinstance(steps, keras.Variable) or not getattr(optimizer, "built", False):
        return []
    return [steps, *optimizer_targets(optimizer)]

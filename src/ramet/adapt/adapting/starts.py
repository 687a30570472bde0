"""What the factors of a new adapter are at the start."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import keras
import numpy as np

from ramet._arguments import shown
from ramet.errors import OptionError
from ramet.layers import Target

Init: TypeAlias = Literal["uniform", "normal"]
"""How the first factor starts: `uniform` within 1 / sqrt(inputs), as in PEFT; `normal` with a
variance of 1 / rank. The second one is zero."""

INITS: tuple[str, ...] = get_args(Init)


def check_init(init: Any) -> None:
    """Check that something says how factors start.

    Raises:
        OptionError: If it does not.
    """
    is_class = isinstance(init, type)
    if (
        init not in INITS
        if isinstance(init, str)
        else is_class or not isinstance(init, keras.initializers.Initializer)
    ):
        words = ", ".join(f"'{word}'" for word in INITS)
        raise OptionError(f"init must be one of {words} or an initializer, got {shown(init)}")


def first_factor(init: Any, target: Target, random: np.random.Generator) -> np.ndarray:
    """Return the first factor of an adapter at the start."""
    shape = target.sizes[0], target.rank
    if not isinstance(init, str):
        return keras.ops.convert_to_numpy(init(shape, dtype="float32"))
    draw: dict[str, Callable[[], np.ndarray]] = {
        "uniform": lambda: random.uniform(-1, 1, shape) / np.sqrt(max(shape[0], 1)),
        "normal": lambda: random.normal(size=shape) / np.sqrt(target.rank),
    }
    return draw[init]().astype("float32")

"""Immutable objects, which copies share with their sources."""

import enum
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from ramet.copying.core import ATOMS
from ramet.copying.handlers import Registry

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()


@copies.exactly(*ATOMS, keras.dtype_policies.DTypePolicy)
@copies(type, enum.Enum, np.dtype, np.generic)
def keep(copier: "Copier", value: Any) -> Any:
    """Keep an object; from now on, the core keeps all objects of its class."""
    copier.atoms.add(type(value))
    return value

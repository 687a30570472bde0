"""Private fields that only an untested version of Keras has.

They are copied like any other attribute. That is exact, unless they hold ids of objects: a copy
would have those of its source, and Keras would look in vain, or find the wrong thing.
"""

import re
from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet.errors import CopyError

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

_DIGITS = re.compile(r"\d{6,}")
"""What may be an id inside a string."""

_LARGEST = 2**63


def check_unknown_fields(copier: "Copier") -> None:
    """Check that no unknown field of a copy holds the id of an object that was copied.

    Costs nothing on versions of Keras that ramet was tested with.

    Raises:
        CopyError: If one does.
    """
    unknown = internals.unknown_fields()
    if not unknown:
        return
    for twin in [*copier.memo.values()]:
        if not isinstance(twin, internals.base_classes()):
            continue
        fields = internals.live_attributes(twin)
        for name in unknown.keys() & fields.keys():
            if _holds_id(fields[name], copier):
                message = (
                    f"{unknown[name]} '{getattr(twin, 'name', type(twin).__name__)}' cannot be "
                    f"copied: its private field '{name}', which is new in Keras "
                    f"{keras.__version__}, holds the id of an object, and ramet does not know "
                    f"what for; {internals.version_advice()}"
                )
                raise CopyError(message)


def _holds_id(value: Any, copier: "Copier") -> bool:
    """Whether a value contains the id of a source, as a number or in a string."""
    if isinstance(value, str):
        return any(_holds_id(int(digits), copier) for digits in _DIGITS.findall(value))
    if isinstance(value, int):
        copy = copier.memo.get(value) if 0 < value < _LARGEST else None
        return copy is not None and id(copy) != value
    if isinstance(value, dict):
        return any(_holds_id(part, copier) for item in value.items() for part in item)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_holds_id(item, copier) for item in value)
    return False

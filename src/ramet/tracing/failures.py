"""Failures that come from what a model holds: deleted arrays, and things nested too deeply."""

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import keras

from ramet import backends
from ramet import keras_internals as internals
from ramet.errors import CopyError, DepthError, StateError


@contextlib.contextmanager
def explained(*subjects: Any) -> Generator[None]:
    """Explain what a backend or Python raises meanwhile because of what some models hold.

    Args:
        *subjects: Models, layers and graphs.

    Raises:
        StateError: If the array of a variable was deleted.
        CopyError: If user code needs more frames than Python allows.
    """
    try:
        yield
    except DepthError as error:
        names = " and ".join(f"'{subject.name}'" for subject in subjects)
        message = f"{names} or something that it holds is nested too deeply: {error}"
        named = DepthError(message)
        for note in getattr(error, "__notes__", ()):
            named.add_note(note)
        raise named from None
    except RecursionError as error:
        names = " and ".join(f"'{subject.name}'" for subject in subjects)
        message = (
            f"{names} or something that it holds is nested too deeply ({error}); flatten what its "
            "layers hold, or raise Python's limit with sys.setrecursionlimit"
        )
        raise CopyError(message) from error
    except RuntimeError as error:
        for variable in _variables(subjects):
            check_alive(variable, error)
        raise


def check_alive(variable: Any, cause: Exception | None = None) -> None:
    """Check that the array of a variable exists.

    Raises:
        StateError: If it was deleted.
    """
    if backends.current().is_deleted(variable):
        message = (
            f"the array of variable '{variable.path}' has been deleted, as JAX does with the "
            "arrays of a model that trains on the same ones; load the weights again, or copy the "
            "model before the other one trains"
        )
        raise StateError(message) from cause


def _variables(subjects: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the variables of models, layers and graphs, and those of optimizers."""
    for subject in subjects:
        layers = [subject]
        if not isinstance(subject, keras.Operation):  # a Graph, which a clone does not import
            layers = [r.origin for visit in subject.walk() for r in visit.graph.layers.values()]
        for layer in layers:
            for part in internals.all_layers(layer) if isinstance(layer, keras.Layer) else ():
                optimizer = getattr(part, "optimizer", None)
                yield from internals.layer_state(part) + getattr(optimizer, "variables", [])

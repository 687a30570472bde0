"""The class of a model whose graph was edited.

Keras saves a model whose class has a constructor of its own by the arguments of that
constructor, and loads it by calling it. That makes the graph as it was before the edits. So
such a model becomes one of Keras's own class, which is saved by its graph. If its class also
decides how the model runs or trains, it keeps its class, and refuses to be saved.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

from ramet import keras_internals as internals
from ramet.errors import FileError


@dataclass(frozen=True)
class Unsaved:
    """Stands for `get_config` of a model that Keras would not save as it is."""

    name: str
    """Name of the model."""
    class_name: str
    """Name of its class."""

    def __call__(self) -> NoReturn:
        """Refuse.

        Raises:
            FileError: Always.
        """
        message = (
            f"model '{self.name}' cannot be saved: its graph was edited, but {self.class_name} is "
            "saved by the arguments of its constructor, which makes the graph as it was before; "
            "save its weights with save_weights, or build graph.extract(), a plain Functional "
            f"model without the methods of {self.class_name}"
        )
        raise FileError(message)


def settle_class(model: Any) -> None:
    """Give a built model a class that is saved by its graph, or let it refuse to be saved."""
    if internals.is_saved_by_graph(model):
        return
    if internals.runs_own_code(model):
        vars(model)["get_config"] = Unsaved(model.name, type(model).__name__)
    else:
        internals.make_plain(model)


def remark_on_class(model: Any) -> str | None:
    """Say what becomes of the class of a model once its edited graph is built, if anything."""
    if internals.is_saved_by_graph(model):
        return None
    class_name, plain = type(model).__name__, internals.plain_class(model).__name__
    if internals.runs_own_code(model):
        return (
            f"'{model.name}' stays a {class_name}, and cannot be saved: {class_name} is saved by "
            "the arguments of its constructor, which makes the graph as it was before; extract() "
            "returns a model that can be saved"
        )
    return (
        f"'{model.name}' becomes a plain {plain} model: {class_name} would be saved by the "
        "arguments of its constructor, which makes the graph as it was before"
    )

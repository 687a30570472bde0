"""What the class of a model has to do with its graph: who can save it, who runs it."""

import inspect
from typing import Any

import keras
from keras.src.models.functional import Functional, functional_like_constructor

_RUN_BY_KERAS = frozenset(
    {
        "__call__",
        "call",
        "compile",
        "compute_loss",
        "compute_mask",
        "compute_metrics",
        "compute_output_spec",
        "evaluate",
        "fit",
        "make_predict_function",
        "make_test_function",
        "make_train_function",
        "predict",
        "predict_step",
        "stateless_call",
        "test_step",
        "train_step",
    }
)
"""Methods by which a class decides how a model runs and trains."""


def plain_class(model: Any) -> type:
    """Return the class of Keras's own that a model with a graph is of."""
    return keras.Sequential if isinstance(model, keras.Sequential) else Functional


def is_saved_by_graph(model: Any) -> bool:
    """Whether Keras saves a model by its layers and their calls, and loads the same.

    It saves a model whose class has a constructor of its own by the arguments of that, and
    then the constructor makes the graph, whatever was changed in it.
    """
    kind, plain = type(model), plain_class(model)
    if kind is plain:
        return True
    if kind.from_config.__func__ is not plain.from_config.__func__:
        return False
    if plain is keras.Sequential:
        names = [inspect.getfullargspec(each.__init__).args for each in (kind, plain)]
        is_like = names[0] == names[1] or _takes_anything(kind)
    else:
        is_like = functional_like_constructor(kind)
    return is_like and (kind.get_config is plain.get_config or "layers" in _config_keys(model))


def _takes_anything(kind: type) -> bool:
    spec = inspect.getfullargspec(kind.__init__)
    return spec.varargs is not None and spec.varkw is not None


def _config_keys(model: Any) -> set[str]:
    try:
        return {*model.get_config()}
    except Exception:  # noqa: BLE001 a config fails in as many ways as there are authors
        return set()


def runs_own_code(model: Any) -> bool:
    """Whether the class of a model decides how it runs or trains."""
    return any(
        _RUN_BY_KERAS & vars(kind).keys()
        for kind in type(model).__mro__
        if not kind.__module__.startswith(("keras.", "tensorflow.", "torch.", "builtins"))
    )


def make_plain(model: Any) -> None:
    """Let a model be of Keras's own class; its attributes stay."""
    model.__class__ = plain_class(model)

"""The class of a model: whether it can be saved by its graph, and runs Keras's own code."""

import inspect
from typing import Any

import keras
from keras.src.models.functional import Functional, functional_like_constructor

from ramet import backends
from ramet.keras_internals.serialization import live_config, serialized

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
"""Methods that decide how a model runs and trains."""


def plain_class(model: Any) -> type:
    """Return Keras's own class for a model with a graph."""
    return keras.Sequential if isinstance(model, keras.Sequential) else Functional


def is_saved_by_graph(model: Any) -> bool:
    """Whether Keras saves a model by its layers and their calls, and loads the same graph.

    A model whose class has a constructor of its own is saved by the constructor's arguments.
    On loading, the constructor creates the graph, without what was edited in it.
    """
    cls, plain = type(model), plain_class(model)
    if cls is plain:
        return True
    if cls.from_config.__func__ is not plain.from_config.__func__:
        return False
    if plain is keras.Sequential:
        names = [inspect.getfullargspec(each.__init__).args for each in (cls, plain)]
        is_like = names[0] == names[1] or _takes_anything(cls)
    else:
        is_like = functional_like_constructor(cls)
    return is_like and (cls.get_config is plain.get_config or "layers" in _config_keys(model))


def _takes_anything(cls: type) -> bool:
    spec = inspect.getfullargspec(cls.__init__)
    return spec.varargs is not None and spec.varkw is not None


def _config_keys(model: Any) -> set[str]:
    try:
        return {*live_config(model)}
    except Exception:  # noqa: BLE001 a config fails in as many ways as there are authors
        return set()


def runs_own_code(model: Any) -> bool:
    """Whether the class of a model overrides how it runs or trains."""
    return _overrides(model, _RUN_BY_KERAS)


def has_own_call(model: Any) -> bool:
    """Whether the class of a model overrides what a call does with its graph."""
    return _overrides(model, frozenset({"__call__", "call", "compute_mask"}))


def _overrides(model: Any, methods: frozenset[str]) -> bool:
    return any(
        methods & vars(cls).keys()
        for cls in type(model).__mro__
        if backends.package_of(cls) not in backends.LIBRARIES
    )


def make_plain(model: Any) -> None:
    """Set the class of a model to Keras's own; its attributes stay."""
    model.__class__ = plain_class(model)


def is_container(model: Any) -> bool:
    """Whether a model consists of its layers, so that it can be re-created from them."""
    return isinstance(model, (keras.Function, keras.Sequential))


def own_config(model: Any) -> dict[str, Any] | None:
    """Return the config of a Functional or Sequential model, without its layers.

    `None` for a model of another class. Keras's own config of a model contains those of all
    models inside it, in time quadratic in the levels of nesting.
    """
    if type(model) is Functional:
        return {"trainable": model.trainable}
    if type(model) is not keras.Sequential:
        return None
    policy = serialized(model.dtype_policy)
    return {"trainable": model.trainable, "dtype": policy, "build_input_shape": model.input_shape}

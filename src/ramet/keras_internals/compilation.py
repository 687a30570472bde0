"""How a model was compiled: the arguments, and which loss and metrics read which output."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras.src.backend import compute_output_spec
from keras.src.metrics.reduction_metrics import MeanMetricWrapper
from keras.src.trainers.compile_utils import CompileLoss, CompileMetrics

from ramet.backends import is_of_keras

Trainer: Any = next(
    cls for cls in reversed(keras.Model.__mro__) if is_of_keras(cls) and "compile" in vars(cls)
)
"""The base class of models that compiles and trains them. Its name differs between versions.

Modules of PyTorch have a method of that name too.
"""

Evaluated = tuple[str, str, Callable[..., Any], Any]
"""`loss` or `metric`, its name, the function of targets and outputs, and the output."""


def masked_evaluations(model: Any, outputs: Any) -> Iterator[Evaluated]:
    """Yield the losses and metrics that Keras applies the mask of an output to.

    `Loss.__call__` and `MeanMetricWrapper.update_state` read the mask on the output and
    weight the values of their function by it. Metrics and losses of other classes, or with
    these methods overridden, are left out, as is a model with a training step of its own.

    Args:
        model: A model.
        outputs: Symbolic tensors in the structure of its outputs.
    """
    arguments = compile_arguments(model)
    if arguments is None or not _inherits_from_keras(model, "train_step", "test_step"):
        return
    if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
        outputs = outputs[0]  # as the call of a Functional model returns it
    if arguments.get("loss") is not None and _inherits_from_keras(model, "compute_loss"):
        yield from _losses(model, arguments["loss"], outputs)
    if _inherits_from_keras(model, "compute_metrics"):
        yield from _metrics(model, arguments, outputs)


def _inherits_from_keras(model: Any, *names: str) -> bool:
    """Whether the class of a model leaves some methods as Keras defines them."""
    methods = (getattr(type(model), name) for name in names)
    return all(map(is_of_keras, methods))


def _losses(model: Any, loss: Any, outputs: Any) -> Iterator[Evaluated]:
    names = getattr(model, "output_names", None)
    compiled: Any = CompileLoss(loss, output_names=names)
    compiled.build(outputs, outputs)
    for path, each, *_ in compiled._flat_losses or ():
        if type(each).__call__ is keras.losses.Loss.__call__ and not _ignores(vars(each)):
            yield "loss", each.name, each.call, _at(path, outputs, names)


def _at(path: tuple[Any, ...], outputs: Any, names: list[str] | None) -> Any:
    """Return the output at a path; where losses are a dict, its steps are output names."""
    for key in path:
        if isinstance(outputs, (list, tuple)) and isinstance(key, str):
            outputs = outputs[(names or []).index(key)]
        elif isinstance(outputs, (list, tuple, dict)):
            outputs = outputs[key]
    return outputs


def _metrics(model: Any, arguments: dict[str, Any], outputs: Any) -> Iterator[Evaluated]:
    names = getattr(model, "output_names", None)
    plain, weighted = arguments.get("metrics"), arguments.get("weighted_metrics")
    compiled: Any = CompileMetrics(plain, weighted, output_names=names)
    compiled.build(outputs, outputs)
    flat = getattr(compiled, "_flatten_y", keras.tree.flatten)(outputs)
    # Where there are none, some versions of Keras leave the group empty.
    for group in filter(None, (compiled._flat_metrics, compiled._flat_weighted_metrics)):
        for metrics, output in zip(group, flat, strict=True):
            for metric in () if metrics is None else metrics.metrics:
                applied = type(metric).update_state is MeanMetricWrapper.update_state
                if applied and not _ignores(metric._fn_kwargs):
                    yield "metric", metric.name, _function_of(metric), output


def _ignores(options: dict[str, Any]) -> bool:
    """Whether steps are left out by their targets, so that no mask is needed."""
    return options.get("ignore_class") is not None


def _function_of(metric: Any) -> Callable[..., Any]:
    return lambda y_true, y_pred: metric._fn(y_true, y_pred, **metric._fn_kwargs)


def shape_of_values(function: Callable[..., Any], output: Any) -> tuple[int | None, ...] | None:
    """Return the shape of the values of a loss, before they are reduced.

    Nothing is computed. Targets are tried in the shape of the output, and as class indices.
    `None` if the loss accepts neither.
    """
    shape = tuple(output.shape)
    for targets in (shape, shape[:-1], (*shape[:-1], 1)):
        target = keras.KerasTensor(targets, output.dtype)
        with contextlib.suppress(Exception):  # targets of another shape may raise anything
            values: Any = compute_output_spec(function, target, output)
            return tuple(values.shape)
    return None


def reset_compile(model: Any) -> None:
    """Reset a model to the state before `compile`."""
    fields = vars(model)
    fields["compiled"] = False
    for name in ("loss", "_compile_loss", "_compile_metrics", "_loss_tracker"):
        fields[name] = None


def compile_arguments(model: Any) -> dict[str, Any] | None:
    """Return the arguments of `compile`; `None` if it was not called, or is overridden."""
    custom = type(model).compile is not Trainer.compile
    if not model.compiled or custom or not hasattr(model, "_compile_config"):
        return None
    return model._compile_config.config

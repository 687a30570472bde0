"""How a model was compiled: which loss and which metrics see which output."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras.src.backend import compute_output_spec
from keras.src.metrics.reduction_metrics import MeanMetricWrapper
from keras.src.trainers.compile_utils import CompileLoss, CompileMetrics

from ramet.bridge.internals.layers import compile_arguments

Evaluated = tuple[str, str, Callable[..., Any], Any]
"""`loss` or `metric`, its name, the function of targets and outputs, and the output."""


def masked_evaluations(model: Any, outputs: Any) -> Iterator[Evaluated]:
    """Yields the losses and metrics that Keras applies the mask of an output to.

    `Loss.__call__` and `MeanMetricWrapper.update_state` read the mask on the output and
    weight by it what their function returns. Other metrics, and classes that override
    these methods, do not, or nobody knows. Neither is anything known of a model whose
    author wrote how it is trained.

    Args:
        model: A model.
        outputs: Symbolic tensors like its outputs, in their structure.
    """
    arguments = compile_arguments(model)
    if arguments is None or not _is_kerass(model, "train_step", "test_step"):
        return
    if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
        outputs = outputs[0]  # as the call of a Functional model returns it
    if arguments.get("loss") is not None and _is_kerass(model, "compute_loss"):
        yield from _losses(model, arguments["loss"], outputs)
    if _is_kerass(model, "compute_metrics"):
        yield from _metrics(model, arguments, outputs)


def _is_kerass(model: Any, *methods: str) -> bool:
    """Returns True if the methods of a model are those of Keras."""
    found = (getattr(type(model), method) for method in methods)
    return all(method.__module__.partition(".")[0] == "keras" for method in found)


def _losses(model: Any, loss: Any, outputs: Any) -> Iterator[Evaluated]:
    names = getattr(model, "output_names", None)
    compiled: Any = CompileLoss(loss, output_names=names)
    compiled.build(outputs, outputs)
    for path, each, *_ in compiled._flat_losses or ():
        if type(each).__call__ is keras.losses.Loss.__call__ and not _ignores(vars(each)):
            yield "loss", each.name, each.call, _at(path, outputs, names)


def _at(path: tuple[Any, ...], outputs: Any, names: list[str] | None) -> Any:
    """Returns what a path leads to; Keras goes by names where losses are a dict of them."""
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
    flat = compiled._flatten_y(outputs)
    for group in (compiled._flat_metrics, compiled._flat_weighted_metrics):
        for found, output in zip(group, flat, strict=True):
            for metric in () if found is None else found.metrics:
                applied = type(metric).update_state is MeanMetricWrapper.update_state
                if applied and not _ignores(metric._fn_kwargs):
                    yield "metric", metric.name, _function_of(metric), output


def _ignores(options: dict[str, Any]) -> bool:
    """Returns True if steps are left out by their targets, so that no mask is needed."""
    return options.get("ignore_class") is not None


def _function_of(metric: Any) -> Callable[..., Any]:
    return lambda y_true, y_pred: metric._fn(y_true, y_pred, **metric._fn_kwargs)


def shape_of_values(function: Callable[..., Any], output: Any) -> tuple[int | None, ...] | None:
    """Returns the shape of what a loss makes of an output, before it is reduced.

    Nothing is computed. Targets are tried in the shape of the output, and as classes.
    `None` if that is not known.
    """
    shape = tuple(output.shape)
    for targets in (shape, shape[:-1], (*shape[:-1], 1)):
        target = keras.KerasTensor(targets, output.dtype)
        with contextlib.suppress(Exception):  # targets of another shape may raise anything
            values: Any = compute_output_spec(function, target, output)
            return tuple(values.shape)
    return None

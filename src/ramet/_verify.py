"""`verify`: whether two models are the same, and if not, where they diverge."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ramet import keras_internals as internals
from ramet.comparing.counterparts import pair
from ramet.comparing.objects.arrays import Tolerance
from ramet.comparing.options import (
    Aspect,
    check_inputs,
    check_seed,
    check_tolerances,
    checked_aspects,
)
from ramet.comparing.verification import Settings, Verification
from ramet.comparing.verification_of_edits import EditedVerification
from ramet.files import load
from ramet.graph import Graph
from ramet.results.report import Report
from ramet.tracing.options import check_model
from ramet.tracing.origin import is_edited


def verify(  # noqa: PLR0913 each is an option of its own
    first: Any,
    second: Any,
    *,
    only: Aspect | Sequence[Aspect] | None = None,
    inputs: Any = None,
    seed: int = 0,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Report:
    """Compare two models in structure, sharing, state and numbers, bit for bit.

    Layers are paired by class and inputs, and variables by layer and role, not by position
    or automatic name. So models can be compared however they were made:
    `verify(model, folded, only="outputs", rtol=1e-5).ok` asks whether they compute the same.

    Both are called on the same data, for inference and for training, without changing
    either. The name of a model is not compared. Takes four calls; where outputs differ, each
    model is run at least twice more to find the call where they diverge.

    Args:
        first: A Keras model, a Graph, or the path of a `.keras` file.
        second: The model to compare with, of any of these types. Graphs are built. If one
            was edited, what the edits change is reported as expected.
        only: The aspects to compare; all by default: `"structure"` (classes, names,
            arguments, attributes, connections), `"sharing"` (which layers, variables and
            other objects are one), `"state"` (variables, also of metrics and optimizer),
            `"outputs"` and `"training"` (what a call returns, updates and adds to the loss).
            If set, everything that an edited Graph changes counts as a difference.
        inputs: Data to call the models with, in the structure of their inputs. By default
            it is generated with the shapes and dtypes of the inputs, integers within the
            vocabularies that they index.
        seed: Seed of the generated data.
        rtol: Relative tolerance for outputs and updated variables.
        atol: Absolute tolerance. Without either, bits are compared.

    Returns:
        A report: `report.ok`, `report.first_divergence`, `print(report)`,
        `report.raise_if_different()`.

    Raises:
        ModelError: If either is not a Keras model.
        FileError: If a file does not hold a model that can be loaded safely.
        OptionError: If an option has an invalid value, or both models fail on the given
            inputs.

    Examples:
        >>> report = ramet.verify(model, ramet.clone(model))
        >>> report.ok
        True
        >>> other = ramet.clone(model, weights="fresh", seed=1)
        >>> print(ramet.verify(model, other).title)
        classifier and classifier: different
    """
    aspects = checked_aspects(only)
    check_seed(seed)
    check_tolerances(rtol=rtol, atol=atol)
    check_inputs(inputs)
    models = [_loaded(each) for each in (first, second)]
    edited = [side for side in (0, 1) if _is_edited(models[side])]
    graph: Any = models[edited[0]] if len(edited) == 1 and only is None else None
    built = [each.build() if isinstance(each, Graph) else each for each in models]
    settings = Settings(aspects, inputs, seed, Tolerance(rtol, atol).difference)
    with internals.room_for(*built):
        comparison = Verification(pair(*built), settings)
        if graph is None:
            return comparison.report()
        return EditedVerification(comparison, graph, edited[0]).report()


def _loaded(given: Any) -> Any:
    """Return a model or a Graph."""
    model = load(given) if isinstance(given, (str, Path)) else given
    if not isinstance(model, Graph):
        check_model(model)
    return model


def _is_edited(model: Any) -> bool:
    return isinstance(model, Graph) and is_edited(model)

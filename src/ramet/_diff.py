"""`diff`: what changed between two models, each change listed once, where it begins."""

from typing import Any

from ramet import keras_internals as internals
from ramet._arguments import check_flag
from ramet.comparing.differences import differences
from ramet.files.outline import readable
from ramet.results.diff import Diff
from ramet.tracing.failures import explained
from ramet.tracing.settled import settled


def diff(first: Any, second: Any, *, weights: bool = True) -> Diff:
    """Find what changed between two models.

    Layers are paired by their weights, by the names that the user chose and by structure, so
    that a renamed layer is listed as a rename, and an inlined model as one change. Automatic
    names such as `dense_3` do not count: two models built by the same code do not differ in
    them. A change is listed where it begins: if a layer has another output shape, the
    layers downstream are not listed again. How models are compiled, and objects that layers
    hold, are left to `ramet.verify`. Neither model is called or changed. Takes
    O(calls · log calls) unless the models have little in common, and reads every weight once.

    Args:
        first: A model that can be traced, a Graph, or the path of a file. A file with classes
            that are not part of Keras is compared as far as it says what it holds, without
            loading it.
        second: The model to compare with, of any of these types.
        weights: Whether to compare the values of variables.

    Returns:
        The changes: `len(changes)`, `changes.entries`, `print(changes)`.

    Raises:
        ModelError: If either is not a model, or has no graph.
        FileError: If a file does not hold a model, or is a broken or hostile one.

    Examples:
        >>> edited = ramet.trace(model).rename({"head": "logits"}).build()
        >>> print(ramet.diff(model, edited).title)
        classifier and classifier: 1 renamed
    """
    check_flag(weights, "weights")
    told = [readable(each) for each in (first, second)]
    graphs = [settled(model) for model, _ in told]
    with explained(*graphs), internals.room_for(*graphs):
        changes = tuple(differences(*graphs, weights=weights))
    notes = tuple(dict.fromkeys(note for _, note in told if note))
    return Diff(graphs[0].name, graphs[1].name, changes, notes)

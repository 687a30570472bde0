"""`profile`: what a model costs, call by call."""

from dataclasses import replace
from typing import Any

from ramet._arguments import check_batch, check_flag
from ramet.errors import OptionError
from ramet.files.outline import readable
from ramet.profiling.profile import profile_of
from ramet.results.profile import Profile
from ramet.tracing.settled import settled


def profile(model: Any, *, batch: int = 1, time: bool = False, shapes: Any = None) -> Profile:
    """Count what a model costs, per call and in total: MACs, weights and memory.

    The count includes the multiply-accumulates of convolutions, dense and recurrent layers,
    matrix products and attention, at inference. Biases, normalization, activations, pooling and
    resizing count as zero. FLOPs are twice the MACs. A shared layer counts its weights once
    and its MACs per call. Calls without a rule, such as those of your own layers, are listed, and
    the total is then a lower bound; `ramet.profiling.counts` registers a rule.

    The model is not called unless times are measured, and is never changed. An edited Graph
    is built first, on the weights of its model. Takes O(calls).

    Args:
        model: A model that can be traced, a Graph, or the path of a file. Of a file with classes
            that are not part of Keras, everything else is counted, without loading it.
        batch: How many examples are computed at once.
        time: Whether to measure the time of each call as well: the model is run on generated data,
            eagerly and call by call, and the median of several runs is taken. That includes the
            overhead of Python and the backend; a compiled model is faster.
        shapes: Sizes of the inputs that the model leaves open, without the batch axis: a tuple
            for a model with one input, or a dict by the names of inputs.

    Returns:
        The profile: `profile.macs`, `profile.params`, `profile.calls`, `print(profile)`.

    Raises:
        ModelError: If the argument is not a model, or has no graph.
        OptionError: If `batch` is not a positive integer, or `shapes` does not fit, or times are
            to be measured and a size is not known.
        GraphError: If `shapes` names an input that does not exist.
        FileError: If a file does not hold a model, or is a broken or hostile one.

    Examples:
        >>> profile = ramet.profile(model)
        >>> profile.macs, profile.params
        (6924, 143)
        >>> [call.path for call in profile.top(2)]
        ['conv', 'head']
        >>> images = keras.Input((None, None, 3), name="images")
        >>> network = keras.Model(images, layers.Conv2D(8, 3)(images))
        >>> ramet.profile(network, shapes=(34, 34, 3)).macs
        221184
    """
    check_batch(batch)
    check_flag(time, "time")
    model, note = readable(model)
    if note and time:
        raise OptionError(f"the time of layers cannot be measured where {note}")
    profile = profile_of(settled(model), batch=int(batch), shapes=shapes, time=time)
    return replace(profile, notes=(*profile.notes, note)) if note else profile

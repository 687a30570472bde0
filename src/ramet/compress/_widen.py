"""`widen`: more channels, and the same function."""

from typing import Any, cast

from ramet._arguments import check_text, check_word, did_you_mean, shown
from ramet.compress.channels.arrange import Arrangement, arrange
from ramet.compress.channels.follow import Channels, follow
from ramet.compress.channels.grown import sources_for
from ramet.compress.channels.resize import resized
from ramet.compress.widening.methods import METHODS, Method, Wish, way_to
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.data import Edit

_MOST = 1 << 24
"""Channels that a group may get."""


def widen(model: Any, at: str, size: int, *, method: Method | None = None) -> Graph:
    """Give layers more channels, so that the model computes the same and goes on learning.

    All layers that have the channels grow together: through residuals, norms and nested models.
    Nothing is executed before the graph is built. The old channels keep their optimizer slots.

    Args:
        model: A model that can be traced, or a Graph.
        at: The layer that makes the channels, or the name of a group.
        size: How many channels there are afterwards.
        method: With `"zeros"`, new channels start at random and are read with weights of zero.
            With `"averages"`, they start as the average of all old ones, so that a
            LayerNormalization sees the same mean, and a variance that is smaller by a known
            factor; its `gamma` and `epsilon` are scaled. (Layers that divide by a sum of squares
            need zeros, and get these.) With `"copies"`, they are copies of old ones, which share
            what reads them in unequal parts, so that they learn different things. By default,
            the first that is possible.

    Returns:
        A graph with wider layers, to edit further or to build.

    Raises:
        OptionError: If there is no such layer or group, the size is not larger than before, its
            channels always stay, or a layer computes something of all channels, such as a
            softmax, that would not be the same.
        GraphError: If the channels of the group are not in one piece everywhere.
        ModelError: If the argument is not a model, or has no graph.

    Examples:
        >>> wider = ramet.compress.widen(model, "conv", 6).build()
        >>> wider.get_layer("conv").filters
        6
        >>> ramet.verify(model, wider, only="outputs", rtol=1e-5, atol=1e-6).ok
        True
    """
    check_text(at, "at")
    if method is not None:
        check_word(method, "method", METHODS)
    if isinstance(cast("Any", size), bool) or not isinstance(cast("Any", size), int):
        raise OptionError(f"size must be a number of channels, got {shown(size)}")
    channels = follow(model)
    arrangement = arrange(channels)
    name = _group(channels, arrangement, at)
    group = arrangement.groups[name]
    if group.locked:
        message = (
            f"'{at}' cannot be widened: {group.locked[0]}; ramet.compress.groups lists what can be"
        )
        raise OptionError(message)
    if not group.size < size <= _MOST:
        remedy = "pass a larger number, or prune it" if size <= _MOST else f"{_MOST:,} are the most"
        message = (
            f"group '{name}' has {group.size} channels, and would have {shown(size)}; {remedy}"
        )
        raise OptionError(message)
    way = way_to(Wish(channels, arrangement, name, size), method)
    text = f"widen '{name}': {group.size} → {size} channels, {way.method}"
    sources = {name: sources_for(group.size, size, copies=way.method == "copies")}
    edit = Edit(text, promise=way.promise)
    return resized(channels, arrangement, sources, edit, growth=way.growth)


def _group(channels: Channels, arrangement: Arrangement, at: str) -> str:
    """Return the name of the group of a layer."""
    names = [group.name for group in arrangement.groups]
    if at in names:
        return at
    axis = arrangement.made.get(at)
    labels = () if axis is None else axis.label().tolist()
    basics = (basic for label in labels for basic in channels.atoms.basics(label))
    found = {arrangement.places[basic][0] for basic in basics if basic in arrangement.places}
    if len(found) == 1:
        return found.pop()
    known = [*arrangement.made, *names]
    inner = sorted({*found, *(each for each in known if each.startswith(f"{at}:"))})
    if inner:
        listed = ", ".join(f"'{each}'" for each in inner)
        raise OptionError(f"'{at}' makes several kinds of channels; name one: {listed}")
    hint = did_you_mean(at, known) or "; ramet.compress.groups lists the groups"
    raise OptionError(f"no layer '{at}' makes channels{hint}")

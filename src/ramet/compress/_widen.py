"""`widen`: more channels, and the same function."""

from typing import Any, cast

from ramet._arguments import check_text, check_word, did_you_mean, shown
from ramet.compress.channels.arrange import Arrangement, arrange
from ramet.compress.channels.follow import Channels, follow
from ramet.compress.channels.grown import Method, sources_for
from ramet.compress.channels.resize import resized
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.data import Edit

METHODS = ("zeros", "copies")
_MOST = 1 << 24
"""Channels that a group may get."""


def widen(model: Any, at: str, size: int, *, method: Method = "zeros") -> Graph:
    """Give layers more channels, so that the model computes the same and can keep learning.

    All layers that have the channels grow together: through residuals, norms of single channels
    and nested models. Nothing is executed before the graph is built. Optimizer slots of
    variables that grow start over.

    Args:
        model: A model that can be traced, or a Graph.
        at: The layer that makes the channels, or the name of a group.
        size: How many channels there are afterwards.
        method: With `"zeros"`, new channels start at random, and the weights that consume them at
            zero. With `"copies"`, they are copies of old ones, and the weights that consume them
            are split unequally, so that the copies learn different things.

    Returns:
        A graph with wider layers, to edit further or to build.

    Raises:
        OptionError: If there is no such layer or group, the size is not larger than before, its
            channels always stay, or a layer computes something of all channels, such as a
            LayerNormalization. With `"copies"`, that is allowed if every channel occurs
            equally often.
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
        message = (
            f"group '{name}' has {group.size} channels, and would have {shown(size)}; pass a "
            "larger number, or prune it"
        )
        raise OptionError(message)
    mixers = [
        reason
        for atom, (other, _) in arrangement.places.items()
        if other == name
        for reason in channels.atoms.mixers(atom)
    ]
    if mixers:
        _check_mixed(name, group.size, size, method, mixers[0])
    edit = Edit(f"widen '{name}': {group.size} → {size} channels, {method}", promise="equal")
    sources = {name: sources_for(group.size, size, method)}
    return resized(channels, arrangement, sources, edit, widens=True)


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


def _check_mixed(name: str, old: int, new: int, method: Method, reason: str) -> None:
    """Check that a layer which computes something of all channels sees the same of each."""
    averages = "computes statistics of all channels" in reason
    if not averages:
        raise OptionError(f"group '{name}' cannot be widened: {reason}; widen another group")
    if method == "copies" and new % old == 0:
        return
    message = (
        f"group '{name}' cannot be widened to {new}: {reason}; pass method='copies' and a multiple "
        f"of {old}, such as {old * 2}"
    )
    raise OptionError(message)

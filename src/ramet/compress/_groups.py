"""`groups`: which channels of which layers can only be removed together."""

from typing import Any

from ramet.compress.channels.arrange import arrange
from ramet.compress.channels.follow import follow
from ramet.results.groups import Groups


def groups(model: Any) -> Groups:
    """Find out which channels of which layers can only be removed together.

    Nothing is executed. Costs O(calls), where the calls of a nested model count once per use.

    Args:
        model: A model that can be traced, or a Graph.

    Returns:
        The groups: `groups.free` lists those whose channels can be removed, `print(groups)` is
        a table, and `groups["conv"]` is one of them.

    Raises:
        ModelError: If the argument is not a model, or has no graph.

    Examples:
        >>> found = ramet.compress.groups(model)
        >>> [group.name for group in found.free]
        ['conv']
        >>> found["head"].locked
        ("it reaches the output 'head' of the model",)
    """
    return arrange(follow(model)).groups
